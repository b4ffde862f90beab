"""The directives topic of a link: read from where one was, written to by one person at a time.

`__causeway.<source>.<target>.directives` on the target: one partition, compacted, JSON, made when
somebody first asks for something. It is not the progress topic, which only the leading driver
writes: these are the words of people, who may be several.

    write   take over the topic's transactional id ─► read to the end ─► decide ─► write, commit

Whoever takes over the id fences those who are amid that: what they have read is not what stands any
more, so they are told, and nothing of theirs is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from causeway.cluster import EARLIEST, LATEST, Cluster, transactions
from causeway.config import LinkSettings
from causeway.errors import (
    AuthorizationError,
    BrokerError,
    CausewayError,
    ConflictError,
    ProtocolError,
)
from causeway.link_topics import topic_log
from causeway.link_topics.directive_json import decode, encode
from causeway.link_topics.directives import Change, Directive, Key, Plan, Standing
from causeway.link_topics.progress import TOPIC_CONFIGS, Contents
from causeway.link_topics.topic_log import TopicLog
from causeway.model import NO_TOPIC_ID, TopicPartition, same_topic
from causeway.records import records_of
from causeway.relay.log_reader import offsets_at, value_of
from causeway.relay.source import keep

REPLICAS = 3  # as the progress topic has
WRITE = "write directives"  # what fails where two do so at the same time
_TRANSACTION_MS = 30_000
# INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED
_FENCED = frozenset({47, 48, 49, 90})
_OFFSET_OUT_OF_RANGE = 1
_READ_BYTES = 1 << 20
_SEEN_S = 10.0
_NAMED_S = 5.0  # so often it is asked which topic has the name


class DirectiveLog:
    """Reads a link's directives, on and on. Not thread-safe.

    `standing`: what has been read; `end`: the offset to go on at, `topic_id` of which topic; -1 and
    NO_TOPIC_ID while there is none. `strange`: how many records were none of ours.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._at = TopicPartition(topic, 0)
        self.standing = Standing()
        self.end = -1
        self.topic_id = NO_TOPIC_ID
        self.strange = 0
        self._ask_at = 0.0

    @property
    def topic(self) -> str:
        return self._at.topic

    def look(self) -> list[tuple[int, Directive]]:
        """What has come since the last look, to the topic's end by now, with the offset of each:
        the newest of each key. Where there is no such topic, nothing has; where it was made anew,
        all that is there counts. Raises CausewayError."""
        if self.end >= 0 and not self._made_anew():
            try:
                return self._read(self.standing, self.end, 0)
            except BrokerError as error:
                if error.code != _OFFSET_OUT_OF_RANGE:
                    raise
        return self._begin()

    def _made_anew(self) -> bool:
        """Whether another topic has the name by now, which may reach beyond where we were."""
        if (now := time.monotonic()) < self._ask_at:
            return False
        found = self._cluster.metadata([self.topic]).topics.get(self.topic)
        if found is not None and not same_topic(found.topic_id, self.topic_id):
            return True  # and so it is until that is read
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
        come = self._read(Standing(), start, end)
        self.topic_id = found.topic_id
        return come

    def _read(self, standing: Standing, position: int, end: int) -> list[tuple[int, Directive]]:
        """From `position` to where the log ends, at `end` at the least; that is added to what is
        `standing`."""
        come: dict[Key, tuple[int, Directive]] = {}
        changes: list[Change] = []
        while True:
            fetched = self._cluster.fetch(
                self._at, position, _READ_BYTES, read_committed=True, max_wait_ms=0
            )
            kept = keep(memoryview(fetched.records), position, fetched.aborted, str(self._at))
            for batch in kept.batches:
                for index, record in enumerate(records_of(batch)):
                    try:
                        key, directive = decode(record.key, record.value)
                    except ProtocolError:
                        self.strange += 1
                        continue
                    changes.append((key, directive))
                    come.pop(key, None)
                    if directive is not None:
                        come[key] = batch.source_offset(index), directive
            if kept.position == position:
                break
            position = kept.position
        if position < end:
            cause = f"its leader shows it up to {position} only, though it ended at {end} before"
            raise CausewayError("read", str(self._at), cause, retriable=True)
        if changes or standing is not self.standing:
            self.standing = standing.with_all(changes)
        self.end = position
        return list(come.values())


class Written(NamedTuple):
    """`end`: the offset that the topic with `topic_id` has come to."""

    plan: Plan
    end: int
    topic_id: str


def write(cluster: Cluster, link: LinkSettings, decide: Callable[[Standing], Plan]) -> Written:
    """Has what `decide` makes of all that stands written, in one step.

    Raises ConflictError where somebody else did the same at the same time, and then nothing of ours
    is written; CausewayError.
    """
    TopicLog(cluster, link.directives_topic).ensure(REPLICAS, configs=TOPIC_CONFIGS)
    at = TopicPartition(link.directives_topic, 0)
    try:
        own = transactions.begin(cluster, link.directives_id, _TRANSACTION_MS)
        # By now nothing more can come of those who had the id before.
        log = DirectiveLog(cluster, link.directives_topic)
        log.look()
        plan = decide(log.standing)
        if plan.changes:
            _commit(cluster, own, at, plan.changes)
    except BrokerError as error:
        if error.code not in _FENCED:
            raise
        raise ConflictError(
            WRITE,
            link.name,
            "somebody else gave directives at the same time, and theirs came last",
            remedy="nothing was changed; look at `causeway status`, and try again",
        ) from error
    if plan.changes:
        _await(log)
    return Written(plan, log.end, log.topic_id)


def _await(log: DirectiveLog) -> None:
    """Until readers see what was committed: a broker answers before they do."""
    before, deadline = log.end, time.monotonic() + _SEEN_S
    while log.end <= before and time.monotonic() < deadline:
        time.sleep(0.02)
        log.look()


def _commit(
    cluster: Cluster,
    own: transactions.Transaction,
    at: TopicPartition,
    changes: Sequence[Change],
) -> None:
    transactions.add_partitions(cluster, own, [at])
    records = [encode(change) for change in changes]
    for batch, _ in topic_log.build(
        records,
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
            error.remedy = "it may stand all the same: look at `causeway status`"
        raise


class ActiveDirectives(NamedTuple):
    """The directives of a link that hold. `reason`: why they cannot be read, or why the driver does
    not carry them out."""

    directives: tuple[Directive, ...] = ()
    reason: str | None = None


def active_directives(target: Cluster, link: LinkSettings, contents: Contents) -> ActiveDirectives:
    """Raises CausewayError if the target cannot be asked at all."""
    log = DirectiveLog(target, link.directives_topic)
    try:
        log.look()
    except AuthorizationError as error:
        return ActiveDirectives(reason=str(error))
    applied = contents.directives
    return ActiveDirectives(tuple(log.standing), None if applied is None else applied.reason)
