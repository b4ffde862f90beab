"""Observes the consumer groups of a cutover, finds the exact offsets at which they continue, and
decides what has to be done about groups that have stopped on the source.

group's place on the target           action
none, or an earlier one               commit the exact place
a later one, and no members there     a person decides by --reset-group or --leave-group, because
                                      the group would skip records
a later one, and members there        show it: the group is at work there, and Causeway cannot know
                                      which records it has read
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from causeway.cluster import Cluster, Committed
from causeway.config import LinkSettings, Settings
from causeway.control import Commits, TranslatedOffset, groups
from causeway.errors import CausewayError
from causeway.link_topics import ProgressContents
from causeway.model import TopicPartition
from causeway.operate.ahead import Ahead
from causeway.operate.cutover.report import count, shortened
from causeway.operate.cutover.values import Act, CutoverStep, MovingGroup, Wishes
from causeway.translation import MappedOffset, Question, UnreadRecords, translate

_IDLE = ("Empty", "Dead")
_LOOK_S = 10.0  # for a search through the records of others

# Offsets by partition of the target, and the reason if an offset is not known.
_Wanted = tuple[Commits, str | None]


@dataclass
class GroupObserver:
    """The groups that have committed on `topics` (target topic by source topic). Not thread-safe.
    `reset`: groups that are taken back to their exact offsets if they are ahead. `commits`: the
    offsets to commit on the target, by the last look."""

    settings: Settings
    link: LinkSettings
    topics: Mapping[str, str]
    source: Cluster
    target: Cluster
    reset: Collection[str]
    commits: dict[str, Commits] = field(default_factory=dict)
    _placed: set[str] = field(default_factory=set)  # groups that were seen at their exact offsets
    _busy: set[str] = field(default_factory=set)  # groups that were seen with members on the source
    # Exact offsets stay exact, so each is translated only once.
    _exact: dict[tuple[TopicPartition, int], tuple[MappedOffset, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._unread = UnreadRecords(self.target, self.link)

    def look(
        self,
        contents: ProgressContents,
        readable: Mapping[TopicPartition, int],
        ended_before: Collection[str],
    ) -> tuple[MovingGroup, ...]:
        """Asks both clusters again. `contents`: of the progress topic. `readable`: the ends of the
        source. `ended_before`: topics whose mirror had ended before this call. Raises
        CausewayError."""
        here, there = self.source.list_groups(), self.target.list_groups()
        chosen = groups.choose(here, self.link)
        followed = groups.follow(self.source.committed_offsets_of(chosen.groups), self.link)
        ours: dict[str, Commits] = {}
        for name, commits in followed.commits.items():
            on_topics = {at: each for at, each in commits.items() if at.topic in self.topics}
            if on_topics:
                ours[name] = on_topics
        committed = self.target.committed_offsets_of(list(ours)) if ours else {}
        busy = {n for n in ours if n in here and here[n].state not in _IDLE}
        busy_there = {n for n in ours if n in there and there[n].state not in _IDLE}
        self._busy |= busy
        idle = {name: commits for name, commits in ours.items() if name not in busy}
        wanted = self._bounded(contents, ours, self._translated(idle), committed)
        self.commits = {}
        found = []
        for name, commits in sorted(ours.items()):
            undone, reason, ahead = 0, None, 0
            own = committed.get(name, {})
            if isinstance(own, CausewayError):
                reason = str(own) if name in wanted else None
            elif name in wanted:
                beyond = self._beyond(name, wanted[name][0], own, ended_before)
                undone, reason, ahead = self._compare(
                    contents, name, commits, wanted[name], own, beyond, name in busy_there
                )
            known = [readable.get(at) for at in commits]
            behind = None
            if None not in known:
                behind = sum(max(0, readable[at] - each.offset) for at, each in commits.items())
            found.append(
                MovingGroup(
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

    def _compare(
        self,
        contents: ProgressContents,
        name: str,
        commits: Commits,
        found: _Wanted,
        own: Commits,
        beyond: Commits,
        has_members: bool,
    ) -> tuple[int, str | None, int]:
        """Compares the offsets that a group should have on the target with its commits there
        (`own`, of which some are `beyond`), and notes the offsets to commit. Returns three values
        of MovingGroup: `undone`, `reason`, `ahead`."""
        wanted, reason = found
        late = {
            at: each
            for at, each in wanted.items()
            if at not in own or (own[at].offset < each.offset and not has_members)
        }
        if self.link.sole_writer or not beyond:
            ahead = sum(each.offset - wanted[at].offset for at, each in beyond.items())
        else:  # records of others do not count
            ahead = Ahead(contents, commits).records(commits, beyond)
        if not (late or ahead or reason or has_members):
            self._placed.add(name)
        if ahead and name in self.reset and not has_members:
            late |= {at: wanted[at] for at in beyond}
        if has_members:
            reason = None  # it continues from its own commits
        elif late:
            self.commits[name] = late
        return len(late), reason, ahead

    def _beyond(
        self, name: str, wanted: Commits, own: Commits, ended_before: Collection[str]
    ) -> Commits:
        """Commits of the group on the target beyond those that it should have (`wanted`). None if
        the group may read on: this call has seen it at its exact offsets, or the mirror had ended
        before this call and this call has seen no members on the source."""
        if name in self._placed:
            return {}
        moved = set() if name in self._busy else {self.topics[each] for each in ended_before}
        return {
            at: own[at]
            for at, each in wanted.items()
            if at in own and own[at].offset > each.offset and at.topic not in moved
        }

    def _translated(self, groups_here: Mapping[str, Commits]) -> dict[str, _Wanted]:
        """Returns the target offsets of each group's commits on the source. Raises
        CausewayError."""
        asked = {
            (at, each.offset) for commits in groups_here.values() for at, each in commits.items()
        }
        new = sorted(asked - self._exact.keys())
        questions = [Question(topic=at.topic, partition=at.partition, offset=o) for at, o in new]
        answers = translate(self.settings, questions, link=self.link.name) if new else ()
        reasons: dict[tuple[TopicPartition, int], str] = {}
        for answer in answers:
            assert answer.question.offset is not None
            key = answer.question.at, answer.question.offset
            if answer.exact:
                self._exact[key] = answer.places
            else:
                notes = [answer.note, *(place.note for place in answer.places)]
                unknown = "its offset is not known exactly"
                reasons[key] = f"{key[0]}: " + next((note for note in notes if note), unknown)
        found: dict[str, _Wanted] = {}
        for name, commits in groups_here.items():
            wanted: dict[TopicPartition, Committed] = {}
            reason = None
            for at, each in commits.items():
                reason = reason or reasons.get((at, each.offset))
                for place in self._exact.get((at, each.offset), ()):
                    before = wanted.get(place.at)
                    # With several source partitions: the first record that it has not read.
                    if place.offset is not None and (
                        before is None or place.offset < before.offset
                    ):
                        wanted[place.at] = Committed(offset=place.offset, metadata=each.metadata)
            found[name] = wanted, reason
        return found

    def _bounded(
        self,
        contents: ProgressContents,
        followed: Mapping[str, Commits],
        wanted: Mapping[str, _Wanted],
        committed: Mapping[str, Commits | CausewayError],
    ) -> dict[str, _Wanted]:
        """Returns `wanted`, lowered to the first unread record of others on the target."""
        places = {
            group: {at: TranslatedOffset(0, each.offset, each.metadata) for at, each in of.items()}
            for group, (of, _) in wanted.items()
        }
        unread = self._unread.look_by_progress(
            contents.partitions.values(), contents.maps, places, committed, followed, wait_s=_LOOK_S
        )
        found: dict[str, _Wanted] = {}
        for group, (of, reason) in wanted.items():
            lowered = {
                at: Committed(offset=held.offset, metadata=of[at].metadata)
                for at, held in unread.get(group, {}).items()
            }
            found[group] = {**of, **lowered}, reason
        return found


def placing(groups: Collection[MovingGroup], wishes: Wishes) -> CutoverStep | None:
    """Returns the next act for groups without a place on the target; None if all have one."""
    found = undecided(groups, wishes)
    if found is not None:
        return found
    back = [g for g in groups if g.ahead and g.busy_there and g.name in wishes.reset_groups]
    if back:
        lines = shortened(
            f"{group.name} has members there, {count(group.ahead, 'record')} beyond its place; if "
            f"it has read these records, call this without --reset-group {group.name}"
            for group in back
        )
        what = f"stop {count(len(back), 'group')} on the target, to take it back to its place"
        return CutoverStep(what, Act.PERSON, lines)
    unplaced = [group for group in groups if not group.placed]
    unknown = [group for group in unplaced if group.reason is not None]
    if unknown:
        lines = shortened(f"{group.name}: {group.reason}" for group in unknown)
        what = f"the place of {count(len(unknown), 'group')} on the target is not known"
        return CutoverStep(what, Act.STOP, lines)
    busy = [group for group in unplaced if group.busy_there]
    if busy:
        lines = shortened(
            f"{group.name} has members there, and no place in {count(group.undone, 'partition')}"
            for group in busy
        )
        what = f"stop {count(len(busy), 'group')} on the target for a moment"
        return CutoverStep(
            f"{what}: brokers take no offsets while it has members", Act.PERSON, lines
        )
    if unplaced:
        many = sum(group.undone for group in unplaced)
        what = f"{count(len(unplaced), 'group')} {'gets' if len(unplaced) == 1 else 'get'}"
        return CutoverStep(f"{what} the exact offsets of {count(many, 'partition')}", Act.GROUPS)
    return None


def further(groups: Iterable[MovingGroup]) -> tuple[str, ...]:
    """Returns a line for each group at work on the target that is beyond its place."""
    return shortened(
        f"{group.name} has members there, {count(group.ahead, 'record')} beyond its place on the "
        "source: it has read them on the target, or skips them"
        for group in groups
        if group.busy_there and group.ahead
    )


def undecided(groups: Collection[MovingGroup], wishes: Wishes) -> CutoverStep | None:
    """Returns the step about groups that would skip records and that no option names."""
    ahead = [
        group
        for group in groups
        if group.ahead and not group.busy_there and group.name not in wishes.reset_groups
    ]
    if not ahead:
        return None
    lines = shortened(
        f"{group.name} would skip {count(group.ahead, 'record')}: --reset-group {group.name} "
        f"takes it back to its place, --leave-group {group.name} leaves it where it is"
        for group in ahead
    )
    what = "group is" if len(ahead) == 1 else "groups are"
    text = f"{len(ahead):,} {what} further on the target than on the source"
    return CutoverStep(text, Act.STOP, lines)
