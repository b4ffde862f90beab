"""The topics of one side. Each topic is examined before its first record, and from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException

from causeway_producer.client import SideClient
from causeway_producer.cluster import CREATION_S, describe, ends, writable
from causeway_producer.errors import NO_ANSWER, SettingsError, code_of
from causeway_producer.hub import DualPartition, Hub
from causeway_producer.spool import Place

_COUNT_AGAIN_S = 60.0
# Between two looks at a topic that waits. The pause grows each time the topic fails again, because
# each failure costs the whole side a client.
_MIN_PAUSE_S = 0.5
_MAX_PAUSE_S = 300.0


@dataclass(slots=True)
class _Wait:
    """`unread`: the side's logs of the topic could not be read, so it is not known which records
    they have. `due`: the time of the next look."""

    reason: str = ""
    due: float = 0.0
    pause_s: float = 0.0
    unread: bool = False


class SideTopics:
    """`resume` is called, with the lock, when records that waited may be sent. Its argument is True
    if the side's logs have to be read first. `complain` is called with the reason of a new
    problem."""

    def __init__(
        self,
        index: int,
        reader: Mapping[str, Any],
        hub: Hub,
        resume: Callable[[bool], None],
        complain: Callable[[str], None],
    ) -> None:
        self._index = index
        self._name = hub.names[index]
        self._reader = reader
        self._hub = hub
        self._resume = resume
        self._complain = complain
        self._held: dict[str, _Wait] = {}
        self._pauses: dict[str, float] = {}
        self._counted = 0.0
        self._identified = False  # the cluster is the same one as before

    def any_wait(self) -> bool:
        return bool(self._hub.unopened[self._index] or self._held)

    def waits(self, partition: DualPartition) -> bool:
        """Returns whether nothing may be sent to the partition yet. Call it with the lock."""
        return not partition.copies[self._index].open or partition.topic in self._held

    def reasons(self) -> dict[str, str]:
        return {topic: wait.reason for topic, wait in self._held.items()}

    def hold(self, topic: str, why: str, *, unread: bool = False) -> None:
        """Makes a topic wait: the side takes no record of it, but records of other topics. Call it
        with the lock."""
        pause_s = min(2 * self._pauses.get(topic, _MIN_PAUSE_S / 2), _MAX_PAUSE_S)
        self._pauses[topic] = pause_s
        before = self._held.get(topic)
        unread |= before is not None and before.unread
        self._held[topic] = _Wait(why, time.monotonic() + pause_s, pause_s, unread)

    def look_after(self, client: SideClient) -> None:
        """Opens new topics, and waiting topics that can be written to again. Raises if the side
        does not answer, or if it is another cluster than before."""
        now = time.monotonic()
        with self._hub.lock:
            new = self._hub.unopened[self._index]
            due = [
                topic
                for topic in sorted(new | self._held.keys())
                if topic not in self._held or self._held[topic].due <= now
            ]
        for topic in due:
            try:
                self._open(client, topic)
            except KafkaException as error:
                if code_of(error) in NO_ANSWER:
                    raise
                self._put_off(topic, error.args[0].str())
            except SettingsError as error:
                if not self._identified:
                    raise
                self._put_off(topic, str(error))

    def count_again(self, client: SideClient) -> None:
        """Counts partitions, because some may be added at any time. Raises until the cluster is
        known to be the same one as before: no other cluster gets a record."""
        if self._identified and time.monotonic() - self._counted < _COUNT_AGAIN_S:
            return
        with self._hub.lock:
            topics = list(self._hub.topics)
        failed: KafkaException | None = None
        for topic in topics:
            try:
                self._count(client, topic, creation_s=0)
            except KafkaException as error:  # a deleted topic does not stop the others
                failed = error
                if code_of(error) in NO_ANSWER:
                    break
        if failed is not None and not self._identified:
            raise failed
        self._counted = time.monotonic()

    def _open(self, client: SideClient, topic: str) -> None:
        """Finds the ends of the new partitions: later, nothing before these need be read."""
        held = self._held.get(topic)
        count = self._count(client, topic, creation_s=CREATION_S if held is None else 0)
        with self._hub.lock:
            partitions = self._hub.topics[topic]
            new = [each for each in partitions if not each.copies[self._index].open]
        if count < len(partitions):
            raise SettingsError(
                f"produce to {topic} on {self._name}",
                f"it has {count} partitions there, and {len(partitions)} are written to",
                "add partitions there",
            )
        if held is not None and not new and not writable(self._reader, topic):
            held.due = time.monotonic() + held.pause_s
            return
        # The client lives until its answers have come.
        admin = confluent_kafka.admin.AdminClient(dict(self._reader))
        found = ends(admin, [(topic, each.partition) for each in new])
        with self._hub.lock:
            places = {each.number: Place(0, found[topic, each.partition]) for each in new}
            self._hub.spool.ledger.begin(self._name, places)
            for each in new:
                copy = each.copies[self._index]
                copy.offset, copy.open = places[each.number].offset, True
            if len(self._hub.topics[topic]) == len(partitions):  # none was added meanwhile
                self._hub.unopened[self._index].discard(topic)
            unread = held is not None and held.unread
            self._held.pop(topic, None)
            self._resume(unread)

    def _put_off(self, topic: str, why: str) -> None:
        with self._hub.lock:
            wait = self._held.setdefault(topic, _Wait())
            if wait.reason != why:
                self._complain(f"{topic} on {self._name}: {why}; its records wait, others go on")
            wait.reason = why
            wait.due = time.monotonic() + max(_MIN_PAUSE_S, wait.pause_s)

    def _count(self, client: SideClient, topic: str, *, creation_s: float) -> int:
        """Returns the number of partitions. Also checks that the cluster is the same as before."""
        seen = describe(client, topic, creation_s=creation_s)
        with self._hub.lock:
            if seen.cluster_id:
                self._identified = False
                self._hub.spool.ledger.check_cluster(self._name, seen.cluster_id)
            self._identified = True
            self._hub.counted(self._index, topic, seen.partitions)
        return seen.partitions
