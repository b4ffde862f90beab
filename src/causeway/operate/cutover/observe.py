"""Observes both clusters: all facts that the checklist depends on."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from causeway.cluster import AclFilter, Cluster, Connect, Leader, OffsetAt
from causeway.config import LinkSettings, Settings, reverse_of
from causeway.control import Ends, fences, open_transactions
from causeway.link_topics import (
    BeginDirective,
    DirectiveLog,
    EndDirective,
    LeaseRecord,
    LinkDirectives,
    Scope,
    recognise,
)
from causeway.model import ENDED, TopicPartition
from causeway.operate.cutover.groups import GroupObserver
from causeway.operate.cutover.values import (
    Check,
    Fence,
    Look,
    MovingGroup,
    MovingPartition,
    OffsetRange,
    Producer,
    Verified,
)
from causeway.operate.cutover.watch import SourceWatch, writers
from causeway.operate.directives import LinkRequests, sharers_of
from causeway.status import DriverStatus, driver_of

_DENIALS: Final = AclFilter(resource_type="TOPIC", permission="DENY")
_GROUPS_S = 1.0  # between two requests for groups


class Observer:
    """Observes for one cutover. `topics`: the names on the target by the names on the source. Not
    thread-safe."""

    def __init__(
        self,
        settings: Settings,
        link: LinkSettings,
        topics: Mapping[str, str],
        connect: Connect,
        reset_groups: Collection[str] = (),
    ) -> None:
        """`reset_groups`: groups that are taken back to their places if they are ahead."""
        self.link = link
        self._ended_before: frozenset[str] | None = None  # topics, when this began
        self.topics = dict(topics)
        self.source = connect(link.source_admin)
        self.target = connect(link.target_admin)
        self._connect = connect
        self._progress = LinkRequests(link, connect)
        self._log = DirectiveLog(self.target, link.directives_topic)
        self._reverse = reverse = reverse_of(settings, link)
        self.sharers = sharers_of(settings, link, connect)
        self._back = DirectiveLog(self.source, reverse.directives_topic) if reverse else None
        self._clock = DriverClock()
        self._watch = SourceWatch(self.source)
        self.groups = GroupObserver(
            settings, link, self.topics, self.source, self.target, reset_groups
        )
        self._groups: tuple[MovingGroup, ...] = ()
        self._groups_at = 0.0
        self.verified: Verified | None = None
        self._late: dict[TopicPartition, OffsetRange] = {}
        self._late_writers: tuple[Producer, ...] = ()

    @property
    def directives(self) -> LinkDirectives:
        return self._log.directives

    def look(self, checks: tuple[Check, ...] = ()) -> Look:
        """Asks again. Raises CausewayError if a cluster does not answer at all."""
        self._log.look()
        self._progress.read_on()
        contents = recognise(self.link, self._connect, self._progress.contents)
        self._clock.see(contents.leases, _now_ms())
        counts = self._counts()
        parts = [TopicPartition(name, n) for name, count in counts.items() for n in range(count)]
        ends_of = {name: self.directives.end_of(Scope(name)) for name in self.topics}
        ended = {n: end for n, end in ends_of.items() if end is not None and end.how in ENDED}
        # A promotion of the link that was interrupted may have left some topics half done.
        whole = self.directives.get(EndDirective)
        is_done = whole is not None and whole.done
        if self._ended_before is None:
            self._ended_before = frozenset(ended)
        # Ends of leaders' logs, asked for before the high watermarks. If a high watermark is as
        # high, readers see the whole log.
        logs = self.source.log_ends(parts)
        tails = {at: end for at, end in logs.items() if isinstance(end, int)}
        committed = self.link.fetch.read_committed
        stable, tops = open_transactions.both_ends(self.source, parts, read_committed=committed)
        readable, ends = _offsets(stable), _offsets(tops)
        found = self._fences(parts)
        held = bool(found) and all(each.everywhere for each in found.values())
        self._watch.see(ends, readable, tails, fenced=held)
        places = tuple(
            MovingPartition(
                at=at,
                state="waiting" if progress is None else str(progress.state),
                reason=None if progress is None else progress.reason,
                readable=readable.get(at),
                end=ends.get(at),
                log_end=tails.get(at),
                had=self._watch.had(at),
                position=progress.position
                if progress is not None and progress.position >= 0
                else None,
            )
            for at in parts
            for progress in [contents.partitions.get(at)]
        )
        if time.monotonic() - self._groups_at >= _GROUPS_S:
            self._groups = self.groups.look(contents, readable, self._ended_before)
            self._groups_at = time.monotonic()
        driver = self._clock.driver
        look = Look(
            at_ms=_now_ms(),
            ahead_ms=self._clock.ahead_ms,
            topics=self.topics,
            checks=checks,
            places=places,
            driver=driver.owner if driver is not None and driver.running else None,
            fences=found,
            ended=ended,
            unfinished=frozenset(n for n, end in ended.items() if not (is_done or end.done)),
            reverse=None if self._reverse is None else self._reverse.name,
            back=self._mirrored_back(ended),
            groups=self._groups,
            producers=self._watch.producers(),
            still_s=self._watch.still_s,
            appended=self._watch.appended,
            per_s=self._watch.per_s(sum(place.left or 0 for place in places)),
            verified=self.verified,
        )
        late = look.behind_the_cut
        if late != self._late:
            self._late, self._late_writers = late, writers(self.source, late)
        return replace(look, late=self._late_writers)

    def through_the_fence(self) -> tuple[Producer, ...]:
        """Returns the producers that wrote while the fence held everywhere: super users can."""
        return writers(self.source, self._watch.through)

    def driver_ms(self) -> int:
        """Returns the present time by the clock of the leading driver."""
        return _now_ms() + self._clock.ahead_ms

    @property
    def knows_clock(self) -> bool:
        """Whether `driver_ms` is exact, apart from the time that a look takes."""
        return self._clock.is_known

    def groups_changed(self) -> None:
        """Has the next look ask for the groups."""
        self._groups_at = 0.0

    def _counts(self) -> dict[str, int]:
        """Returns the numbers of partitions by topic. They may grow meanwhile."""
        there = self.source.metadata(list(self.topics)).topics
        found = {}
        for name in self.topics:
            if (error := there[name].error) is not None:
                raise error
            found[name] = len(there[name].partitions)
        return found

    def _mirrored_back(self, ended: Mapping[str, EndDirective]) -> frozenset[str]:
        """Returns the topics that the reverse link has to mirror from this end on."""
        if self._back is None or not ended:
            return frozenset()
        self._back.look()
        begun = self._back.directives
        return frozenset(
            name
            for name, end in ended.items()
            if end.cut is not None
            and (begin := begun.get(BeginDirective, Scope(end.cut.target))) is not None
            and begin.at == end.at
        )

    def _fences(self, parts: Collection[TopicPartition]) -> dict[str, Fence]:
        records = fences.fences(self._log.directives, self.topics)
        if not records:
            return {}
        over = fences.expired(self.directives, self.driver_ms())
        everywhere = denied_writes(self.source, {at for at in parts if at.topic in records})
        return {
            topic: Fence(
                record=record, there=there, everywhere=by_all, gone=by_none, over=record in over
            )
            for topic, record in records.items()
            for there, by_all, by_none in [everywhere.get(topic, (False, False, False))]
        }


def denied_writes(
    source: Cluster, parts: Collection[TopicPartition]
) -> dict[str, tuple[bool, bool, bool]]:
    """Returns three values by topic: whether at least one leader of its partitions denies writes,
    whether each does, and whether surely none does. Each broker is asked for its own rules, because
    it gets a new rule a moment later."""
    leaders = source.leaders(parts, refresh=True)
    nodes: defaultdict[str, set[int]] = defaultdict(set)
    for at, leader in leaders.items():
        nodes[at.topic].add(leader.node_id if isinstance(leader, Leader) else -1)
    acls = {
        node: source.describe_acls(_DENIALS, node)
        for node in {node for some in nodes.values() for node in some if node >= 0}
    }
    found = {}
    for topic, some in nodes.items():
        denied = [node >= 0 and fences.denies_writes(acls[node], topic) for node in some]
        found[topic] = any(denied), all(denied), not any(denied) and -1 not in some
    return found


def _offsets(found: Ends) -> dict[TopicPartition, int]:
    return {at: each.offset for at, each in found.items() if isinstance(each, OffsetAt)}


def _now_ms() -> int:
    return int(time.time() * 1000)


_RENEWALS: Final = 3  # only the newest renewals count, so a corrected clock counts soon


class DriverClock:
    """The clock of the leading driver of one link. `driver`: the leader at the last look, by that
    clock. Not thread-safe."""

    def __init__(self) -> None:
        self._seen: LeaseRecord | None = None
        self._ahead: deque[int] = deque(maxlen=_RENEWALS)
        self.is_known = False  # true after the arrival of a renewal was seen
        self.driver: DriverStatus | None = None

    def see(self, leases: list[LeaseRecord], now_ms: int) -> None:
        """`leases`: all leases, the newest last, as read at `now_ms` of this machine."""
        self._note(leases, now_ms)
        known = max(self._ahead, default=0)
        self.driver = driver_of(leases, now_ms + known)

    def _note(self, leases: Sequence[LeaseRecord], now_ms: int) -> None:
        newest, before = leases[-1] if leases else None, self._seen
        self._seen = newest
        if newest is None or before is None or newest.owner != before.owner:
            self._ahead.clear()
            self.is_known = False
        if newest is None or newest == before:
            return
        renewed = before is not None and newest.owner == before.owner
        self.is_known |= renewed
        fresh = driver_of([newest], now_ms)
        if renewed or (fresh is not None and fresh.running):
            self._ahead.append(newest.written_at - now_ms)

    @property
    def ahead_ms(self) -> int:
        """How far the clock is ahead of this machine's; 0 if no driver runs."""
        running = self.driver is not None and self.driver.running
        return max(self._ahead, default=0) if running else 0
