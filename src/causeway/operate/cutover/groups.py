"""Observes the consumer groups of a cutover, and finds the exact offsets at which they continue."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from causeway.cluster import Cluster, Committed
from causeway.config import LinkSettings, Settings
from causeway.control import Commits, TranslatedOffset, groups
from causeway.errors import CausewayError
from causeway.link_topics import ProgressContents
from causeway.model import TopicPartition
from causeway.operate.ahead import Ahead
from causeway.operate.cutover.values import MovingGroup
from causeway.translation import MappedOffset, Question, UnreadRecords, translate

_IDLE = ("Empty", "Dead")
_LOOK_S = 10.0  # the time of a look through the records of others

# By partition of the target, and the reason if an offset is not known.
_Wanted = tuple[Commits, str | None]


class GroupObserver:
    """The groups that have committed on `topics` (target topic by source topic). Not thread-safe.
    `commits`: the offsets to be committed on the target after the last look."""

    def __init__(
        self,
        settings: Settings,
        link: LinkSettings,
        topics: Mapping[str, str],
        source: Cluster,
        target: Cluster,
        reset_groups: Collection[str],
    ) -> None:
        """`reset_groups`: groups that are taken back to their exact offsets if they are ahead."""
        self._settings = settings
        self._link = link
        self._topics = topics
        self._source = source
        self._target = target
        self._reset = frozenset(reset_groups)
        self._placed: set[str] = set()  # groups that were seen at their exact offsets
        self._busy: set[str] = set()  # groups that were seen with members on the source
        self._unread = UnreadRecords(target, link)
        # Exact offsets stay exact: each is translated once.
        self._exact: dict[tuple[TopicPartition, int], tuple[MappedOffset, ...]] = {}
        self.commits: dict[str, Commits] = {}

    def look(
        self,
        contents: ProgressContents,
        readable: Mapping[TopicPartition, int],
        ended_before: Collection[str],
    ) -> tuple[MovingGroup, ...]:
        """Asks both clusters again. `contents`: of the progress topic; `readable`: the ends of the
        source; `ended_before`: topics whose mirror had ended before this call. Raises
        CausewayError."""
        here, there = self._source.list_groups(), self._target.list_groups()
        chosen = groups.choose(here, self._link)
        followed = groups.follow(self._source.committed_offsets_of(chosen.groups), self._link)
        ours: dict[str, Commits] = {}
        for name, commits in followed.commits.items():
            on_topics = {at: each for at, each in commits.items() if at.topic in self._topics}
            if on_topics:
                ours[name] = on_topics
        committed = self._target.committed_offsets_of(list(ours)) if ours else {}
        busy = {n for n in ours if n in here and here[n].state not in _IDLE}
        busy_there = {n for n in ours if n in there and there[n].state not in _IDLE}
        self._busy |= busy
        idle = {name: commits for name, commits in ours.items() if name not in busy}
        wanted = self._bounded(contents, ours, self._translated(idle), committed)
        self.commits = {}
        found = []
        for name, commits in sorted(ours.items()):
            undone, reason, ahead = 0, None, 0
            if name in wanted:
                own = committed.get(name, {})
                if isinstance(own, CausewayError):
                    undone, reason = 0, str(own)
                else:
                    undone, reason, ahead = self._compare(
                        name,
                        commits,
                        wanted[name],
                        own,
                        contents,
                        ended_before,
                        has_members=name in busy_there,
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
        name: str,
        commits: Commits,
        found: _Wanted,
        own: Commits,
        contents: ProgressContents,
        ended_before: Collection[str],
        *,
        has_members: bool,
    ) -> tuple[int, str | None, int]:
        """Compares the offsets that a group should have on the target with its commits there
        (`own`), and notes what is to be committed. Returns the values of MovingGroup: `undone`,
        `reason`, `ahead`."""
        wanted, reason = found
        late = {
            at: each
            for at, each in wanted.items()
            if at not in own or (own[at].offset < each.offset and not has_members)
        }
        beyond = self._beyond(name, wanted, own, ended_before)
        ahead = self._skipped(contents, commits, wanted, beyond)
        if not (late or ahead or reason or has_members):
            self._placed.add(name)
        if ahead and name in self._reset and not has_members:
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
        moved = set() if name in self._busy else {self._topics[each] for each in ended_before}
        return {
            at: own[at]
            for at, each in wanted.items()
            if at in own and own[at].offset > each.offset and at.topic not in moved
        }

    def _skipped(
        self, contents: ProgressContents, commits: Commits, wanted: Commits, beyond: Commits
    ) -> int:
        """The number of records between `wanted` and `beyond`. If others write to the target as
        well, only the mirror's records count."""
        if self._link.sole_writer or not beyond:
            return sum(each.offset - wanted[at].offset for at, each in beyond.items())
        return Ahead(contents, commits).records(commits, beyond)

    def _translated(self, groups_here: Mapping[str, Commits]) -> dict[str, _Wanted]:
        """The target offsets of each group's commits on the source. Raises CausewayError."""
        asked = {
            (at, each.offset) for commits in groups_here.values() for at, each in commits.items()
        }
        new = sorted(asked - self._exact.keys())
        questions = [Question(topic=at.topic, partition=at.partition, offset=o) for at, o in new]
        answers = translate(self._settings, questions, link=self._link.name) if new else ()
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
                    # The first record, from any of the source partitions, that it has not read.
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
        """`wanted`, lowered to the first unread record of others on the target."""
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
