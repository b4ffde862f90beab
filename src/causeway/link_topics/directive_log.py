"""The directives topic of a link. It is read from an offset on, and written by one person at a
time.

`__causeway.<source>.<target>.directives` on the target has one partition, is compacted, and has
JSON. The first directive creates it. Only the leading driver writes to the progress topic. Several
people may give directives, so these have their own topic.

    write   take over the topic's transactional id ─► read to the end ─► decide ─► write, commit

A writer that takes over the id fences a writer that is between these steps. The fenced writer gets
an error, and none of its changes is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from causeway.cluster import EARLIEST, LATEST, Cluster, offsets_at, transactions, value_of
from causeway.config import LinkSettings
from causeway.errors import (
    AuthorizationError,
    BrokerError,
    CausewayError,
    ConflictError,
    ProtocolError,
)
from causeway.link_topics.directives import (
    Directive,
    DirectiveChange,
    DirectiveKey,
    DirectivePlan,
    LinkDirectives,
)
from causeway.link_topics.progress import TOPIC_CONFIGS, ProgressContents
from causeway.link_topics.records import decode_directive, encode_directive
from causeway.link_topics.topic_log import TopicLog, build
from causeway.model import NO_TOPIC_ID, TopicPartition, same_topic
from causeway.records import keep, records_of

REPLICAS = 3  # the same number as for the progress topic
WRITE_DIRECTIVES = "write directives"
_TRANSACTION_MS = 30_000
# INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED
_FENCED = frozenset({47, 48, 49, 90})
_OFFSET_OUT_OF_RANGE = 1
_READ_BYTES = 1 << 20
_SEEN_S = 10.0
_NAMED_S = 5.0  # how often to check whether the topic was recreated


class DirectiveLog:
    """Reads a link's directives repeatedly. Not thread-safe.

    `directives`: all directives that were read. `end`: the next offset to read in the topic with
    `topic_id`; -1 and NO_TOPIC_ID while there is no topic. `strange`: the number of records that
    Causeway did not write.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._at = TopicPartition(topic, 0)
        self.directives = LinkDirectives()
        self.end = -1
        self.topic_id = NO_TOPIC_ID
        self.strange = 0
        self._ask_at = 0.0

    @property
    def topic(self) -> str:
        return self._at.topic

    def look(self) -> list[tuple[int, Directive]]:
        """Returns the directives since the last look, up to the current end of the topic: the
        newest one of each key, with its offset. If the topic was recreated, returns all directives;
        if it does not exist, an empty list. Raises CausewayError."""
        if self.end >= 0 and not self._was_recreated():
            try:
                return self._read(self.directives, self.end, 0)
            except BrokerError as error:
                if error.code != _OFFSET_OUT_OF_RANGE:
                    raise
        return self._begin()

    def _was_recreated(self) -> bool:
        """Returns whether another topic has the name now. The new topic may be longer."""
        if (now := time.monotonic()) < self._ask_at:
            return False
        found = self._cluster.metadata([self.topic]).topics.get(self.topic)
        if found is not None and not same_topic(found.topic_id, self.topic_id):
            return True  # each look checks this until the new topic has been read
        self._ask_at = now + _NAMED_S
        return False

    def _begin(self) -> list[tuple[int, Directive]]:
        found = self._cluster.metadata([self.topic]).topics.get(self.topic)
        if found is None or not found.partitions:
            if found is not None and found.error is not None and not found.error.retriable:
                raise found.error
            return []
        end = value_of(offsets_at(self._cluster, [self._at], LATEST, read_committed=True)[self._at])
        start = value_of(offsets_at(self._cluster, [self._at], EARLIEST)[self._at])
        self.strange = 0
        newest = self._read(LinkDirectives(), start, end)
        self.topic_id = found.topic_id
        return newest

    def _read(self, before: LinkDirectives, position: int, end: int) -> list[tuple[int, Directive]]:
        """Reads from `position` to the log's end, at least to `end`. Adds the changes to
        `before`."""
        newest: dict[DirectiveKey, tuple[int, Directive]] = {}
        changes: list[DirectiveChange] = []
        while True:
            fetched = self._cluster.fetch(
                self._at, position, _READ_BYTES, read_committed=True, max_wait_ms=0
            )
            kept = keep(memoryview(fetched.records), position, fetched.aborted, str(self._at))
            for batch in kept.batches:
                for index, record in enumerate(records_of(batch)):
                    try:
                        key, directive = decode_directive(record.key, record.value)
                    except ProtocolError:
                        self.strange += 1
                        continue
                    changes.append((key, directive))
                    newest.pop(key, None)
                    if directive is not None:
                        newest[key] = batch.source_offset(index), directive
            if kept.position == position:
                break
            position = kept.position
        if position < end:
            cause = f"its leader shows it up to {position} only, though it ended at {end} before"
            raise CausewayError("read", str(self._at), cause, retriable=True)
        if changes or before is not self.directives:
            self.directives = before.with_all(changes)
        self.end = position
        return list(newest.values())


class ActiveDirectives(NamedTuple):
    """The directives of a link that hold. `reason`: why they cannot be read, or why the driver does
    not execute them."""

    directives: LinkDirectives
    reason: str | None = None


def active_directives(
    target: Cluster, link: LinkSettings, contents: ProgressContents
) -> ActiveDirectives:
    """Reads the directives that hold. Raises CausewayError if the target cannot be asked at all."""
    log = DirectiveLog(target, link.directives_topic)
    try:
        log.look()
    except AuthorizationError as error:
        return ActiveDirectives(LinkDirectives(), str(error))
    applied = contents.directives
    return ActiveDirectives(log.directives, None if applied is None else applied.reason)


class WrittenDirectives(NamedTuple):
    """`end`: the end of the topic with `topic_id` after the write."""

    plan: DirectivePlan
    end: int
    topic_id: str


def write_directives(
    cluster: Cluster, link: LinkSettings, decide: Callable[[LinkDirectives], DirectivePlan]
) -> WrittenDirectives:
    """Writes the changes that `decide` returns for all current directives, in one step.

    Raises ConflictError, and changes nothing, if another person wrote at the same time. Raises
    other CausewayErrors.
    """
    TopicLog(cluster, link.directives_topic).ensure(REPLICAS, configs=TOPIC_CONFIGS)
    at = TopicPartition(link.directives_topic, 0)
    try:
        own = transactions.begin(cluster, link.directives_id, _TRANSACTION_MS)
        # From now on earlier owners of the id can write nothing more.
        log = DirectiveLog(cluster, link.directives_topic)
        log.look()
        plan = decide(log.directives)
        if plan.changes:
            _commit(cluster, own, at, plan.changes)
    except BrokerError as error:
        if error.code not in _FENCED:
            raise
        raise ConflictError(
            WRITE_DIRECTIVES,
            link.name,
            "a concurrent administrative request was written later",
            remedy="nothing was changed; look at `causeway status`, and try again",
        ) from error
    # A broker answers a commit before readers see it.
    before, deadline = log.end, time.monotonic() + _SEEN_S
    while plan.changes and log.end <= before and time.monotonic() < deadline:
        time.sleep(0.02)
        log.look()
    return WrittenDirectives(plan, log.end, log.topic_id)


def _commit(
    cluster: Cluster,
    own: transactions.Transaction,
    at: TopicPartition,
    changes: Sequence[DirectiveChange],
) -> None:
    transactions.add_partitions(cluster, own, [at])
    for batch, _ in build(
        [encode_directive(change) for change in changes],
        now_ms=int(time.time() * 1000),
        producer_id=own.producer_id,
        producer_epoch=own.epoch,
        sequence=0,
        transactional=True,
    ):
        transactions.produce(cluster, own, at, batch)
    try:
        transactions.end(cluster, own, commit=True)
    except CausewayError as error:
        if error.retriable:
            error.remedy = "it may be written all the same: look at `causeway status`"
        raise
