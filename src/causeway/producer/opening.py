"""The topics of one side: each is looked at before it is written to, and again now and then."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from causeway.errors import ConfigError
from causeway.producer.hub import Hub
from causeway.producer.ledger import Place
from causeway.producer.topics import NOBODY, TIMEOUT_S, ends, look

if TYPE_CHECKING:
    from causeway.producer.side import Side

_COUNT_AGAIN_S = 60.0
_LOOK_S = 0.005


class Opening:
    """`unopened`: topics of which it is not known where they end on this side; nothing is written
    to them. `counts`: partitions, as seen last."""

    def __init__(self, side: str, index: int, reader: Mapping[str, Any], hub: Hub) -> None:
        self.unopened: set[str] = set()
        self.counts: dict[str, int] = {}
        self._side = side
        self._index = index
        self._reader = reader
        self._hub = hub
        self._counted = 0.0
        self._known = False  # this is the cluster that it was

    def open_all(self, producer: Any) -> None:
        """Where do its partitions end? So far a look back need not go."""
        with self._hub.lock:
            wanted = sorted(self.unopened)
        for topic in wanted:
            self._look(producer, topic)
            with self._hub.lock:
                lanes = self._hub.lanes_of[topic]
            if self.counts[topic] < len(lanes):
                raise ConfigError(
                    "produce to",
                    f"{topic} on {self._side}",
                    f"it has {self.counts[topic]} partitions there; {len(lanes)} are written to",
                    remedy="add partitions there",
                )
            found = ends(self._reader, topic, len(lanes))
            with self._hub.lock:
                new = [lane for lane in lanes if not lane.on[self._index].open]
                self._hub.ledger.begin(
                    self._side,
                    [
                        (lane.number, Place(position=0, offset=found[lane.partition]))
                        for lane in new
                    ],
                )
                for lane in new:
                    on = lane.on[self._index]
                    on.offset, on.open = found[lane.partition], True
                if len(self._hub.lanes_of[topic]) == len(lanes):
                    self.unopened.discard(topic)

    def count_again(self, producer: Any) -> None:
        """Partitions may be added to a topic at any time. Raises until it is known that this is the
        cluster that it was: nothing is written to another one."""
        if self._known and time.monotonic() - self._counted < _COUNT_AGAIN_S:
            return
        with self._hub.lock:
            topics = list(self._hub.lanes_of)
        failed: KafkaException | None = None
        for topic in topics:
            try:
                self._look(producer, topic, unknown_s=0)
            except KafkaException as error:  # one that was deleted holds up no others
                failed = error
                if error.args[0].code() in NOBODY:
                    break
        if failed is not None and not self._known:
            raise failed
        self._counted = time.monotonic()

    def _look(self, producer: Any, topic: str, **patience: float) -> None:
        """At a topic, and at whether this is the cluster that it was."""
        seen = look(producer, topic, **patience)
        key = f"cluster {self._side}"
        with self._hub.lock:
            known = self._hub.ledger.about(key)
            self._known = known is None or seen.cluster_id in ("", known)
            if not self._known:
                raise ConfigError(
                    "produce to",
                    self._side,
                    f"it is cluster {seen.cluster_id}, and the spool is for {known}",
                    remedy="give this pair of clusters a spool of its own",
                )
            if twins := self._hub.ledger.keys_of(seen.cluster_id) - {key, "name", "identity"}:
                self._known = False
                raise ConfigError(
                    "produce to",
                    self._side,
                    f"it is the same cluster as {min(twins).removeprefix('cluster ')},"
                    f" {seen.cluster_id}",
                )
            if known is None and seen.cluster_id:
                self._hub.ledger.note(key, seen.cluster_id)
            self.counts[topic] = seen.partitions
            self._hub.grown(topic)


def client_of(side: Side) -> Any:
    """Waits for it while it is replaced: the side is there, and its word counts. None where that
    takes long."""
    until = time.monotonic() + TIMEOUT_S
    while (client := side.producer) is None and time.monotonic() < until:
        time.sleep(_LOOK_S)
    return client
