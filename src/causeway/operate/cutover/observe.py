"""One look at both clusters: everything that the list of steps follows from."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from causeway.cluster import AclFilter, Committed, Connect, Leader, OffsetAt
from causeway.config import LinkSettings, Settings, reverse_of
from causeway.control import Commits, Ends, TranslatedOffset, fences, groups, open_transactions
from causeway.errors import CausewayError
from causeway.link_topics import (
    BeginDirective,
    DirectiveLog,
    EndDirective,
    LinkDirectives,
    PartitionProgress,
    ProgressContents,
    ProgressTopic,
    Scope,
    recognise,
)
from causeway.model import ENDED, TopicPartition
from causeway.operate.ahead import Ahead
from causeway.operate.cutover.clock import DriverClock
from causeway.operate.cutover.link_choice import sharers_of
from causeway.operate.cutover.places import Places
from causeway.operate.cutover.values import (
    Check,
    Fence,
    Group,
    Look,
    Place,
    Producer,
    Stretch,
    Verified,
)
from causeway.operate.cutover.watch import Watch
from causeway.operate.cutover.writers import writers
from causeway.translation import UnreadRecords

_DENIALS: Final = AclFilter(resource_type="TOPIC", permission="DENY")
_IDLE = ("Empty", "Dead")
_GROUPS_S = 1.0  # so often groups are asked for
_LOOK_S = 10.0  # the time of a look through the records of others


class Observer:
    """Of one cutover. `topics`: by name on the source, that on the target. Not thread-safe."""

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
        self._reset = frozenset(reset_groups)
        self._placed: set[str] = set()  # groups that were seen at their exact places
        self._busy: set[str] = set()  # groups that were seen with members on the source
        self._ended_before: frozenset[str] | None = None  # topics, when this began
        self.topics = dict(topics)
        self.source = connect(link.source_admin)
        self.target = connect(link.target_admin)
        self._connect = connect
        self._progress = ProgressTopic(self.target, link.progress_topic)
        self._contents = ProgressContents()
        self._log = DirectiveLog(self.target, link.directives_topic)
        self._reverse = reverse_of(settings, link)
        self.sharers = sharers_of(settings, link, connect)
        self._back = (
            None
            if self._reverse is None
            else DirectiveLog(self.source, self._reverse.directives_topic)
        )
        self._clock = DriverClock()
        self._watch = Watch(self.source)
        self._places = Places(settings, link)
        self._unread = UnreadRecords(self.target, link)
        self._groups: tuple[Group, ...] = ()
        self._groups_at = 0.0
        self.commits: dict[str, dict[TopicPartition, Committed]] = {}  # to be made on the target
        self.verified: Verified | None = None
        self._late: dict[TopicPartition, Stretch] = {}
        self._late_writers: tuple[Producer, ...] = ()

    @property
    def standing(self) -> LinkDirectives:
        return self._log.directives

    def look(self, checks: tuple[Check, ...] = (), *, of_groups: bool = True) -> Look:
        """Asks again. Raises CausewayError where a cluster cannot be asked at all."""
        self._log.look()
        if self._contents.end or self._progress.exists():
            self._contents.update(self._progress.read(self._contents.end))
            recognise(self.link, self._connect, self._contents)
        self._clock.see(self._contents.leases, _now_ms())
        counts = self._counts()
        parts = [TopicPartition(name, n) for name, count in counts.items() for n in range(count)]
        ended = self._ended()
        if self._ended_before is None:
            self._ended_before = frozenset(ended)
        tails = self._tails(parts)
        readable, ends = self._ends(parts)
        found = self._fences(parts)
        held = bool(found) and all(each.everywhere for each in found.values())
        self._watch.see(ends, readable, tails, fenced=held)
        places = tuple(self._place(at, readable, ends, tails) for at in parts)
        if of_groups and time.monotonic() - self._groups_at >= _GROUPS_S:
            self._groups = self._look_at_groups(readable)
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
            unfinished=self._unfinished(ended),
            reverse=None if self._reverse is None else self._reverse.name,
            back=self._mirrored_back(ended),
            groups=self._groups,
            producers=self._watch.producers(),
            still_s=self._watch.still_s,
            appended=self._watch.appended,
            per_s=self._watch.per_s(sum(place.left or 0 for place in places)),
            verified=self.verified,
        )
        late = {
            place.at: each for place in places if (each := look.behind_the_cut(place)) is not None
        }
        if late != self._late:
            self._late, self._late_writers = late, writers(self.source, late)
        return replace(look, late=self._late_writers)

    def through_the_fence(self) -> tuple[Producer, ...]:
        """The producers that wrote while the fence held everywhere, as super users can."""
        return writers(self.source, self._watch.through)

    def driver_ms(self) -> int:
        """Now, by the clock of the driver that leads."""
        return _now_ms() + self._clock.ahead_ms

    @property
    def knows_clock(self) -> bool:
        """Whether `driver_ms` is exact but for the time that a look takes."""
        return self._clock.is_known

    def groups_changed(self) -> None:
        """They are asked for with the next look."""
        self._groups_at = 0.0

    def _counts(self) -> dict[str, int]:
        """Partitions by topic; it may grow meanwhile."""
        there = self.source.metadata(list(self.topics)).topics
        found = {}
        for name in self.topics:
            if (error := there[name].error) is not None:
                raise error
            found[name] = len(there[name].partitions)
        return found

    def _ended(self) -> dict[str, EndDirective]:
        """Those whose mirror has ended."""
        found = ((name, self.standing.end_of(Scope(name))) for name in self.topics)
        return {name: end for name, end in found if end is not None and end.how in ENDED}

    def _unfinished(self, ended: Mapping[str, EndDirective]) -> frozenset[str]:
        """Those that a promotion which was cut short has left half done."""
        whole = self.standing.get(EndDirective)
        if whole is not None and whole.done:
            return frozenset()
        return frozenset(name for name, end in ended.items() if not end.done)

    def _mirrored_back(self, ended: Mapping[str, EndDirective]) -> frozenset[str]:
        """The topics that the link the other way was told to mirror from this very end on."""
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

    def _tails(self, parts: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where leaders' logs end. Asked before high watermarks: one that has come as far shows all
        of it."""
        found = self.source.log_ends(parts)
        return {at: end for at, end in found.items() if isinstance(end, int)}

    def _ends(
        self, parts: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The ends for readers of the link, and high watermarks."""
        committed = self.link.fetch.read_committed
        stable, tops = open_transactions.both_ends(self.source, parts, read_committed=committed)
        return _offsets(stable), _offsets(tops)

    def _place(
        self,
        at: TopicPartition,
        readable: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        tails: Mapping[TopicPartition, int],
    ) -> Place:
        progress = self._contents.partitions.get(at)
        return Place(
            at=at,
            target=self.topics[at.topic],
            state="waiting" if progress is None else str(progress.state),
            reason=None if progress is None else progress.reason,
            readable=readable.get(at),
            end=ends.get(at),
            log_end=tails.get(at),
            had=self._watch.had(at),
            position=_reached(progress),
        )

    def _fences(self, parts: Collection[TopicPartition]) -> dict[str, Fence]:
        records = fences.fences(self._log.directives, self.topics)
        if not records:
            return {}
        over = fences.expired(self.standing, self.driver_ms())
        everywhere = self._denied({at for at in parts if at.topic in records})
        found = {}
        for topic, record in records.items():
            there, by_all, by_none = everywhere.get(topic, (False, False, False))
            found[topic] = Fence(
                record=record, there=there, everywhere=by_all, gone=by_none, over=record in over
            )
        return found

    def _denied(self, parts: Collection[TopicPartition]) -> dict[str, tuple[bool, bool, bool]]:
        """By topic: whether some leader of its partitions, whether each, and whether surely none
        goes by a denial. Each broker is asked for what it goes by itself: it hears of
        a new rule a moment later."""
        leaders = self.source.leaders(parts, refresh=True)
        nodes: defaultdict[str, set[int]] = defaultdict(set)
        for at, leader in leaders.items():
            nodes[at.topic].add(leader.node_id if isinstance(leader, Leader) else -1)
        acls = {
            node: self.source.describe_acls(_DENIALS, node)
            for node in {node for some in nodes.values() for node in some if node >= 0}
        }
        found = {}
        for topic, some in nodes.items():
            denied = [node >= 0 and fences.denies_writes(acls[node], topic) for node in some]
            found[topic] = any(denied), all(denied), not any(denied) and -1 not in some
        return found

    def _look_at_groups(self, readable: Mapping[TopicPartition, int]) -> tuple[Group, ...]:
        here = self.source.list_groups()
        chosen = groups.choose(here, self.link)
        followed = groups.follow(self.source.committed_offsets_of(chosen.groups), self.link)
        ours = {
            name: {at: each for at, each in commits.items() if at.topic in self.topics}
            for name, commits in followed.commits.items()
        }
        ours = {name: commits for name, commits in ours.items() if commits}
        there = self.target.list_groups()
        committed = self.target.committed_offsets_of(list(ours)) if ours else {}
        busy = {n for n in ours if (one := here.get(n)) is not None and one.state not in _IDLE}
        busy_there = {
            n for n in ours if (one := there.get(n)) is not None and one.state not in _IDLE
        }
        self._busy |= busy
        stands = self._places.of(
            {name: commits for name, commits in ours.items() if name not in busy}
        )
        bounds = self._bounds(ours, stands, committed)
        self.commits = {}
        found = []
        for name, commits in sorted(ours.items()):
            undone, reason, ahead = 0, None, 0
            if name in stands:
                wanted, reason = stands[name]
                wanted = wanted | bounds.get(name, {})
                own = committed.get(name, {})
                if isinstance(own, CausewayError):
                    wanted, reason = {}, str(own)
                late = {
                    at: each
                    for at, each in wanted.items()
                    if isinstance(own, CausewayError)
                    or at not in own
                    or (own[at].offset < each.offset and name not in busy_there)
                }
                beyond = self._beyond(name, wanted, own)
                ahead = self._skipped(commits, wanted, beyond)
                if not (late or ahead or reason or name in busy_there):
                    self._placed.add(name)
                if ahead and name in self._reset and name not in busy_there:
                    late |= {at: wanted[at] for at in beyond}
                undone = len(late)
                if name in busy_there:
                    # It goes on from places of its own, where it has any.
                    reason = str(own) if isinstance(own, CausewayError) else None
                elif late:
                    self.commits[name] = late
            known = [readable.get(at) for at in commits]
            behind = None
            if None not in known:
                behind = sum(max(0, readable[at] - each.offset) for at, each in commits.items())
            found.append(
                Group(
                    name=name,
                    busy_here=name in busy,
                    busy_there=name in busy_there,
                    behind=behind,
                    undone=undone,
                    reason=reason,
                    ahead=ahead,
                )
            )
        return tuple(found)

    def _beyond(self, name: str, wanted: Commits, own: Commits | CausewayError) -> Commits:
        """Places that the group has committed on the target beyond those it should have (`wanted`).
        None if the group may read on: this call has seen it at its places, or the mirror had ended
        before this call and this call has seen no members on the source."""
        if isinstance(own, CausewayError) or name in self._placed:
            return {}
        moved = (
            set()
            if name in self._busy
            else {self.topics[each] for each in self._ended_before or ()}
        )
        return {
            at: own[at]
            for at, each in wanted.items()
            if at in own and own[at].offset > each.offset and at.topic not in moved
        }

    def _skipped(self, commits: Commits, wanted: Commits, beyond: Commits) -> int:
        """How many records lie between the group's places and the places `beyond` them. If others
        write to the target as well, only the mirror's records count."""
        if self.link.sole_writer or not beyond:
            return sum(each.offset - wanted[at].offset for at, each in beyond.items())
        return Ahead(self._contents, commits).records(commits, beyond)

    def _bounds(
        self,
        followed: Mapping[str, Commits],
        stands: Mapping[str, tuple[Commits, str | None]],
        committed: Mapping[str, Commits | CausewayError],
    ) -> dict[str, dict[TopicPartition, Committed]]:
        """The offsets of unread records of others that lie before the groups' places on the target.
        They replace those places."""
        places = {
            group: {
                at: TranslatedOffset(0, each.offset, each.metadata) for at, each in wanted.items()
            }
            for group, (wanted, _) in stands.items()
        }
        unread = self._unread.look_by_progress(
            self._contents.partitions.values(),
            self._contents.maps,
            places,
            committed,
            followed,
            wait_s=_LOOK_S,
        )
        return {
            group: {
                at: Committed(offset=held.offset, metadata=places[group][at].metadata)
                for at, held in found.items()
            }
            for group, found in unread.items()
        }


def _offsets(found: Ends) -> dict[TopicPartition, int]:
    return {at: each.offset for at, each in found.items() if isinstance(each, OffsetAt)}


def _now_ms() -> int:
    return int(time.time() * 1000)


def _reached(progress: PartitionProgress | None) -> int | None:
    return progress.position if progress is not None and progress.position >= 0 else None
