"""Supplies the outlets of transforms on demand. A lane uses an outlet only after its topic exists
and its claim is durable.

a lane waits with records for a target partition that has no outlet
  ─► its topic is prepared on the target ─► the lane lets go of the source partition
  ─► the claim gets one more outlet, from the wanted offset on, durably ─► assigned again

If another flow feeds that target partition already, that flow is no longer alone there. So before
the new outlet is used, the other flow is taken from its lane too. It is assigned again with outlets
that are not `exclusive` (see routing.led_to).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from causeway.cluster import LATEST, OffsetAt
from causeway.config import LinkSettings, RouteError
from causeway.control import MirroredTopic, RoutedTopic, RouteNeed, claim_checks, routed_topics
from causeway.daemon.clients import Sides
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions import claims, routing
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.rows import Row
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import Entry, Outlet, PartitionProgress
from causeway.model import Pair, State, TopicPartition
from causeway.relay import OutletWanted

_log = logging.getLogger("causeway.link")
# For each source partition. Names in records must not flood the target, nor the progress topic: one
# record there has all outlets of a partition.
MOST_OUTLETS = 5000
_EMPTY = OffsetAt(offset=0, timestamp=-1, leader_epoch=-1)  # the end of a topic that is new
# Takes partitions from their lanes. Returns the partitions that no lane has any more, each with
# whether its lane had no unanswered batch.
Recall = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, bool]]
Assign = Callable[[Sequence[Row], Mapping[TopicPartition, bool]], None]


def led_topics(registry: Registry) -> list[MirroredTopic]:
    """Returns the target topics to which transforms lead and that mirror no topic themselves. Each
    is given as a mirror of the source topic whose configs and ACLs it gets."""
    found: dict[str, MirroredTopic] = {}
    mirrors = {topic.target for topic in registry.topics().values()}
    for row in sorted(registry.live(), key=lambda row: row.progress.source):
        for outlet in row.progress.outlets:
            if outlet.routed is not None and outlet.topic not in mirrors | found.keys():
                found[outlet.topic] = replace(
                    row.topic, target=outlet.topic, target_id=outlet.topic_id
                )
    return list(found.values())


def why_without_target(progress: PartitionProgress, lost: Collection[str]) -> str | None:
    """Returns the reason to stop a partition whose transform leads to one of the `lost` target
    topics; None if it leads to none of them."""
    for outlet in progress.outlets:
        if outlet.routed is not None and outlet.topic in lost:
            what = f"{outlet.topic}, to which its transform leads,"
            return f"{what} was deleted on the target ({claim_checks.ACT})"
    return None


@dataclass(slots=True)
class Outlets:
    """The outlets of one link. Not thread-safe. `on_created`: called after topics were created."""

    link: LinkSettings
    sides: Sides
    registry: Registry
    leadership: Leadership
    recall: Recall
    revoke: Callable[[Iterable[TopicPartition]], object]
    assign: Assign
    on_created: Callable[[], None]
    _recalled: set[TopicPartition] = field(default_factory=set)  # that are not assigned again yet

    def follow(self, before: Outlets) -> None:
        """Continues the work that `before` has begun."""
        self._recalled = before._recalled

    def supply(self) -> bool:
        """Gives each partition the outlets that it wants. Returns False if another attempt is
        needed. Raises CausewayError; LeadershipLostError if another driver leads."""
        wanting = self.registry.wanting()
        if not wanting and not self._recalled:
            return True
        cause = f"its transform leads it to more than {MOST_OUTLETS} target partitions"
        self._refuse(
            {
                (at := row.progress.source): str(
                    RouteError("lead on", str(at), cause, remedy="correct the transform")
                )
                for row in wanting
                if len(row.progress.outlets) + len(row.wants) > MOST_OUTLETS
            }
        )
        keeps = "its transform leads records to other partitions, and it keeps its offsets"
        self._refuse(
            {
                (at := row.progress.source): str(
                    RouteError("lead on", str(at), keeps, remedy="correct the transform")
                )
                for row in wanting
                if row.progress.preserves
            }
        )
        wants = {
            row.progress.source: row.wants
            for row in wanting
            if row.progress.state is not State.STOPPED
        }
        ready, created = self._make_ready(wants)
        able, complete = self._sort_out(wants, ready)
        places = {TopicPartition(o.topic, o.partition) for new in able.values() for o in new}
        led_to = routing.led_to(self.registry.known().values()) | places
        alone = {  # their lanes assume that they are alone at one of these places
            row.progress.source
            for row in self.registry.live()
            if row.progress.state is not State.DONE
            and routing.among_others(row.progress, led_to) is not row.progress
        }
        live = {row.progress.source for row in self.registry.live()}
        # Includes partitions that a lane released late: they stay held until the next assignment.
        self._recalled = (self._recalled & live) | able.keys() | alone
        settled = self.recall(self._recalled)
        if not alone <= settled.keys():
            return False  # otherwise its lane would take our records for foreign ones
        self._claim({at: able[at] for at in able.keys() & settled.keys()}, led_to)
        self._give_back(led_to, settled)
        if created:
            self.on_created()
        return complete and self._recalled.isdisjoint(live - settled.keys())

    def _make_ready(
        self, wants: Mapping[TopicPartition, Sequence[OutletWanted]]
    ) -> tuple[dict[tuple[str, int], Outlet | CausewayError], bool]:
        """Returns for each wanted topic and partition an outlet without producer and source offset,
        or the error. Also returns whether topics were created."""
        partitions: dict[str, set[int]] = {}
        fed_by: dict[str, set[str]] = {}
        for progress in self.registry.known().values():
            for outlet in progress.outlets:
                if outlet.routed is not None:
                    fed_by.setdefault(outlet.routed, set()).add(progress.topic)
        for at, wanted in wants.items():
            for want in wanted:
                fed_by.setdefault(want.topic, set()).add(at.topic)
                partitions.setdefault(want.topic, set()).add(want.partition)
        needs = {
            topic: RouteNeed(base=min(fed_by[topic]), partitions=frozenset(numbers))
            for topic, numbers in partitions.items()
        }
        link, sides = self.registry.with_chosen(self.link), self.sides
        found = routed_topics.make_ready(needs, sides.source_admin, sides.target_admin, link)
        known = [topic for topic in found.values() if isinstance(topic, RoutedTopic)]
        asked = [
            TopicPartition(topic.target, number)
            for name, topic in found.items()
            if isinstance(topic, RoutedTopic) and not topic.created
            for number in partitions[name]
        ]
        answers = self.sides.target.list_offsets(asked, LATEST) if asked else {}
        ready: dict[tuple[str, int], Outlet | CausewayError] = {}
        for name, topic in found.items():
            for number in partitions[name]:
                if isinstance(topic, CausewayError):
                    ready[name, number] = topic
                    continue
                answer = answers.get(TopicPartition(topic.target, number), _EMPTY)
                ready[name, number] = (
                    answer
                    if isinstance(answer, CausewayError)
                    else Outlet(
                        topic=topic.target,
                        partition=number,
                        topic_id=topic.topic_id,
                        producer_id=-1,
                        producer_epoch=-1,
                        pair=Pair(source=-1, target=answer.offset, sequence=0),
                        exclusive=False,
                        routed=name,
                        claimed_at=answer.offset,
                    )
                )
        return ready, any(topic.created for topic in known)

    def _sort_out(
        self,
        wants: Mapping[TopicPartition, Sequence[OutletWanted]],
        ready: Mapping[tuple[str, int], Outlet | CausewayError],
    ) -> tuple[dict[TopicPartition, list[Outlet]], bool]:
        """Returns the new outlets of each partition whose outlets are all possible. An outlet
        begins at the wanted offset, because no earlier record goes there. Also returns whether all
        other partitions were stopped."""
        able: dict[TopicPartition, list[Outlet]] = {}
        refused: dict[TopicPartition, str] = {}
        lacking: dict[TopicPartition, str] = {}
        for at, wanted in wants.items():
            found = [(want, ready[want.topic, want.partition]) for want in wanted]
            errors = [each for _, each in found if isinstance(each, CausewayError)]
            if not errors:
                able[at] = [
                    outlet.replace(pair=outlet.pair._replace(source=want.offset))
                    for want, outlet in found
                    if isinstance(outlet, Outlet)
                ]
            elif refusals := [str(each) for each in errors if isinstance(each, RouteError)]:
                refused[at] = refusals[-1]
            else:
                lacking[at] = _lack(errors[0])
        self._refuse(refused)
        self.registry.note_lack(lacking)
        return able, not lacking

    def _refuse(self, refused: Mapping[TopicPartition, str]) -> None:
        """Stops partitions, each with its reason."""
        self.revoke(refused)
        self.registry.stop(refused)

    def _claim(
        self, able: Mapping[TopicPartition, Sequence[Outlet]], led_to: Collection[TopicPartition]
    ) -> None:
        """Adds the outlets to the claims of partitions, durably."""
        wider = [
            (row, [each for each in able[row.progress.source] if not _has(row.progress, each)])
            for row in self.registry.get(able)
            if row.progress.state is not State.STOPPED
        ]
        if not wider:
            return
        producers = claims.producers(
            self.link, self.sides.target, sum(len(new) for _, new in wider)
        )
        claimed: list[PartitionProgress] = []
        entries: list[Entry] = []
        for row, new in wider:
            outlets = [
                each.replace(producer_id=number, producer_epoch=epoch)
                for each, (number, epoch) in zip(new, producers, strict=False)
            ]
            progress = row.progress.replace(
                outlets=(*row.progress.outlets, *outlets), state=State.WAITING, reason=None
            )
            progress = routing.among_others(progress, led_to)
            # The row itself changes only once this is durable.
            entries += replace(row).grow(progress)
            claimed.append(progress)
        with self.registry.writing:
            self.leadership.write(entries)
            self.registry.claim(claimed)
        for progress in claimed:
            about = {"partition": str(progress.source), "outlets": len(progress.outlets)}
            _log.info("lead on", extra={"link": self.link.name, **about})

    def _give_back(
        self, led_to: Collection[TopicPartition], settled: Mapping[TopicPartition, bool]
    ) -> None:
        """Assigns recalled partitions again if they want no more outlets."""
        rows = [
            row
            for row in self.registry.get(settled)
            if not row.wants and row.progress.state is not State.STOPPED
        ]
        with self.registry.writing:
            self.registry.claim(routing.among_others(row.progress, led_to) for row in rows)
        self.assign(rows, settled)
        wanting = {row.progress.source for row in self.registry.wanting()}
        self._recalled -= settled.keys() - wanting


def _lack(error: CausewayError) -> str:
    """The reason has no topic name: the name comes from a record and may be secret."""
    name = f": {error.name}" if isinstance(error, BrokerError) else ""
    return (
        f"waits for a target partition that its transform leads to: {error.operation}{name} "
        "(its name comes from a record and is not shown: look at the records with `causeway try`)"
    )


def _has(progress: PartitionProgress, outlet: Outlet) -> bool:
    return any(
        (each.routed, each.partition) == (outlet.routed, outlet.partition)
        for each in progress.outlets
    )
