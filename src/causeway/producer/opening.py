"""The topics of one side: each is looked at before it is written to, and again now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from causeway.errors import ConfigError
from causeway.producer.hub import Hub
from causeway.producer.lanes import Lane
from causeway.producer.ledger import Place
from causeway.producer.topics import NOBODY, TIMEOUT_S, UNKNOWN_S, ends, look, writable

if TYPE_CHECKING:
    from causeway.producer.side import Side

_COUNT_AGAIN_S = 60.0
_LOOK_S = 0.005
# Between two looks at a topic that is held up. Each time that it turns out to be so again costs the
# whole side a client, so the pause grows.
_LEAST_PAUSE_S = 2.0
_MOST_PAUSE_S = 300.0


class Opening:
    """`unopened`: topics of which it is not known where they end on this side; nothing is written
    to them. `held`: topics that the side will not have, and why. `counts`: partitions, as seen
    last. `resume` is called, with the lock, where what waited may be written: with True where its
    logs have to be read first. `complain` is told."""

    def __init__(
        self,
        side: str,
        index: int,
        reader: Mapping[str, Any],
        hub: Hub,
        resume: Callable[[bool], None],
        complain: Callable[[str], None],
    ) -> None:
        self.unopened: set[str] = set()
        self.held: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self._side = side
        self._index = index
        self._reader = reader
        self._hub = hub
        self._resume = resume
        self._complain = complain
        self._due: dict[str, float] = {}  # when to look again
        self._pauses: dict[str, float] = {}
        self._unseen: set[str] = set()
        self._counted = 0.0
        self._known = False  # this is the cluster that it was

    def waits(self, lane: Lane) -> bool:
        """With the lock. Whether nothing may be written to it yet."""
        return not lane.on[self._index].open or lane.topic in self.held

    def waiting(self) -> bool:
        return bool(self.unopened or self.held)

    def hold(self, topic: str, why: str, *, unseen: bool = False) -> None:
        """With the lock. This side will have no record of it; others go on. `unseen`: how far it
        has come is not known."""
        if unseen:
            self._unseen.add(topic)
        pause_s = min(2 * self._pauses.get(topic, _LEAST_PAUSE_S / 2), _MOST_PAUSE_S)
        self._pauses[topic] = pause_s
        self._due[topic] = time.monotonic() + pause_s
        self.held[topic] = why

    def look_after(self, producer: Any) -> None:
        """Opens what is due, and what was held where it may be written to again."""
        now = time.monotonic()
        with self._hub.lock:
            unopened = sorted(each for each in self.unopened if self._due.get(each, 0) <= now)
            held = sorted(set(self.held) - self.unopened)
        for topic in unopened:
            known = topic in self._due
            try:
                self._open(producer, topic, unknown_s=0 if known else UNKNOWN_S)
            except KafkaException as error:
                if error.args[0].code() in NOBODY:
                    raise
                self._put_off(topic, error.args[0].str())
            except ConfigError as error:
                if not self._known:
                    raise
                self._put_off(topic, str(error))
        for topic in held:
            if self._due[topic] > now:
                continue
            try:
                may = writable(self._reader, topic)
            except KafkaException as error:
                if error.args[0].code() in NOBODY:
                    raise
                may = False
            if may:
                self._go_on(topic)
            else:
                self._due[topic] = time.monotonic() + self._pauses[topic]

    def _put_off(self, topic: str, why: str) -> None:
        with self._hub.lock:
            if self.held.get(topic) != why:
                self._complain(f"{topic} on {self._side}: {why}; its records wait, others go on")
            self.held[topic] = why
            self._due[topic] = time.monotonic() + _LEAST_PAUSE_S

    def _go_on(self, topic: str) -> None:
        with self._hub.lock:
            self.held.pop(topic, None)
            self._due.pop(topic, None)
            unseen = topic in self._unseen
            self._unseen.discard(topic)
            self._resume(unseen)

    def _open(self, producer: Any, topic: str, unknown_s: float) -> None:
        """Where do its partitions end? So far a look back need not go."""
        self._look(producer, topic, unknown_s=unknown_s)
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
                [(lane.number, Place(position=0, offset=found[lane.partition])) for lane in new],
            )
            for lane in new:
                on = lane.on[self._index]
                on.offset, on.open = found[lane.partition], True
            if len(self._hub.lanes_of[topic]) == len(lanes):
                self.unopened.discard(topic)
            self._go_on(topic)

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
