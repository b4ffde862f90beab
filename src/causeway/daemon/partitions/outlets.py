"""Supplies the outlets of transforms on demand: created, claimed durably, and only then used.

a lane waits with records for a target partition that has no outlet
  ─► its topic is prepared on the target ─► the lane lets go of the source partition
  ─► the claim gets one more outlet, from the wanted offset on, durably ─► assigned again

If another flow feeds that target partition already, that flow is no longer alone there. Before the
new outlet is used, the other flow is taken from its lane as well, and assigned again with outlets
that are not `exclusive` (see routing.led_to).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from causeway.cluster import LATEST, OffsetAt
from causeway.config import LinkSettings, RouteError
from causeway.control import MirroredTopic, RoutedTopic, RouteNeed, claim_checks, routed_topics
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions import claims, routing
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.rows import Row
from causeway.daemon.sides import Sides
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import Entry, Outlet, PartitionProgress
from causeway.model import Pair, State, TopicPartition
from causeway.relay import OutletWanted

_log = logging.getLogger("causeway.link")
# Of one source partition. Names in records must not flood the target, nor the progress topic, which
# has all outlets of a partition in one record.
MOST_OUTLETS = 5000
# Takes partitions from their lanes. Returns those that no lane has any more, and whether the lane
# had no unanswered batch.
Recall = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, bool]]
Assign = Callable[[Sequence[Row], Mapping[TopicPartition, bool]], None]


def led_topics(registry: Registry) -> list[MirroredTopic]:
    """The target topics to which transforms lead and that mirror no topic themselves, each as a
    mirror of the source topic whose configs and ACLs it gets."""
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
    """The reason to stop a partition whose transform leads to one of the `lost` target topics; None
    if it does not."""
    for outlet in progress.outlets:
        if outlet.routed is not None and outlet.topic in lost:
            what = f"{outlet.topic}, to which its transform leads,"
            return f"{what} was deleted on the target ({claim_checks.ACT})"
    return None


class Outlets:
    """The outlets of one link. Not thread-safe. `on_created`: called after topics were created."""

    def __init__(
        self,
        link: LinkSettings,
        sides: Sides,
        registry: Registry,
        leadership: Leadership,
        *,
        recall: Recall,
        revoke: Callable[[Iterable[TopicPartition]], object],
        assign: Assign,
        on_created: Callable[[], None],
    ) -> None:
        self._link = link
        self._sides = sides
        self._registry = registry
        self._leadership = leadership
        self._writing = registry.writing
        self._recall, self._revoke = recall, revoke
        self._assign = assign
        self._on_created = on_created
        self._recalled: set[TopicPartition] = set()  # and not assigned again yet

    def supply(self) -> bool:
        """Gives each partition the outlets that it wants. Returns False if another attempt is
        needed. Raises CausewayError; LeadershipLostError if another driver leads."""
        rows = {row.progress.source: row for row in self._registry.wanting()}
        if not rows and not self._recalled:
            return True
        self._refuse({at: _too_many(at) for at, row in rows.items() if _wants_too_many(row)})
        rows = {at: row for at, row in rows.items() if row.progress.state is not State.STOPPED}
        wants = {at: row.wants for at, row in rows.items()}
        ready = self._make_ready(wants)
        ends = self._ends(wants, ready)
        able, complete = self._sort_out(rows, wants, ready, ends)
        places = {
            TopicPartition(found.target, want.partition)
            for at in able
            for want in wants[at]
            if isinstance(found := ready[want.topic], RoutedTopic)
        }
        led_to = routing.led_to(self._registry.known().values()) | places
        alone = self._alone_at(led_to)
        live = {row.progress.source for row in self._registry.live()}
        # Includes those that a lane released late: they stay held until they are assigned again.
        self._recalled = (self._recalled & live) | able | alone
        settled = self._recall(self._recalled)
        if not alone <= settled.keys():
            return False  # otherwise its lane would take our records for foreign ones
        now = self._registry.get(able & settled.keys())
        self._claim([(row, wants[row.progress.source]) for row in now], ready, ends, led_to)
        self._give_back(led_to, settled)
        if any(isinstance(found, RoutedTopic) and found.created for found in ready.values()):
            self._on_created()
        return complete and self._recalled.isdisjoint(live - settled.keys())

    def _make_ready(
        self, wants: Mapping[TopicPartition, Sequence[OutletWanted]]
    ) -> Mapping[str, RoutedTopic | CausewayError]:
        partitions: dict[str, set[int]] = {}
        fed_by: dict[str, set[str]] = {}
        for progress in self._registry.known().values():
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
        link, sides = self._registry.with_chosen(self._link), self._sides
        return routed_topics.make_ready(needs, sides.source_admin, sides.target_admin, link)

    def _ends(
        self,
        wants: Mapping[TopicPartition, Sequence[OutletWanted]],
        ready: Mapping[str, RoutedTopic | CausewayError],
    ) -> dict[TopicPartition, int | CausewayError]:
        """The current ends of the wanted target partitions."""
        ends: dict[TopicPartition, int | CausewayError] = {}
        asked = []
        for want in (want for each in wants.values() for want in each):
            found = ready[want.topic]
            if isinstance(found, RoutedTopic):
                at = TopicPartition(found.target, want.partition)
                if found.created:
                    ends[at] = 0
                else:
                    asked.append(at)
        if not asked:
            return ends
        answers = self._sides.target.list_offsets(list(dict.fromkeys(asked)), LATEST)
        for at, answer in answers.items():
            ends[at] = answer.offset if isinstance(answer, OffsetAt) else answer
        return ends

    def _sort_out(
        self,
        rows: Mapping[TopicPartition, Row],
        wants: Mapping[TopicPartition, Sequence[OutletWanted]],
        ready: Mapping[str, RoutedTopic | CausewayError],
        ends: Mapping[TopicPartition, int | CausewayError],
    ) -> tuple[set[TopicPartition], bool]:
        """The partitions whose outlets are all possible, and whether all others were stopped."""
        able: set[TopicPartition] = set()
        refused: dict[TopicPartition, str] = {}
        lacking: dict[TopicPartition, str] = {}
        for at in rows:
            errors = [
                error
                for want in wants[at]
                if (error := _error(want, ready[want.topic], ends)) is not None
            ]
            for error in errors:
                if isinstance(error, RouteError):
                    refused[at] = str(error)
            if not errors:
                able.add(at)
            elif at not in refused:
                lacking[at] = _lack(errors[0])
        self._refuse(refused)
        self._registry.note_lack(lacking)
        return able, not lacking

    def _refuse(self, refused: Mapping[TopicPartition, str]) -> None:
        """Stops partitions, each with its reason."""
        self._revoke(refused)
        self._registry.stop(
            {
                row.progress.source: claims.stopped(
                    row.topic, row.progress.partition, row.progress, refused[row.progress.source]
                )
                for row in self._registry.get(refused)
            }
        )

    def _alone_at(self, places: Collection[TopicPartition]) -> set[TopicPartition]:
        """The partitions whose lane assumes that it is alone at one of `places`."""
        return {
            row.progress.source
            for row in self._registry.live()
            if row.progress.state is not State.DONE
            and routing.among_others(row.progress, places) is not row.progress
        }

    def _claim(
        self,
        wanting: Sequence[tuple[Row, Sequence[OutletWanted]]],
        ready: Mapping[str, RoutedTopic | CausewayError],
        ends: Mapping[TopicPartition, int | CausewayError],
        led_to: Collection[TopicPartition],
    ) -> None:
        """Adds the outlets to the claims of partitions, durably."""
        wider = [
            (row, [want for want in wants if not _has(row.progress, want)])
            for row, wants in wanting
            if row.progress.state is not State.STOPPED
        ]
        producers = iter(self._producers(sum(len(new) for _, new in wider)))
        claimed: list[PartitionProgress] = []
        entries: list[Entry] = []
        for row, new in wider:
            outlets = [_outlet(want, ready, ends, next(producers)) for want in new]
            progress = row.progress.replace(
                outlets=(*row.progress.outlets, *outlets),
                state=State.WAITING,
                reason=None,
            )
            progress = routing.among_others(progress, led_to)
            # The row itself changes once this is durable.
            entries += replace(row).grow(progress)
            claimed.append(progress)
        if not claimed:
            return
        with self._writing:
            self._leadership.write(entries)
            self._registry.claim(claimed)
        for progress in claimed:
            about = {"partition": str(progress.source), "outlets": len(progress.outlets)}
            _log.info("lead on", extra={"link": self._link.name, **about})

    def _give_back(
        self, led_to: Collection[TopicPartition], settled: Mapping[TopicPartition, bool]
    ) -> None:
        """Assigns recalled partitions again if they want no more outlets."""
        rows = [
            row
            for row in self._registry.get(settled)
            if not row.wants and row.progress.state is not State.STOPPED
        ]
        with self._writing:
            self._registry.claim(routing.among_others(row.progress, led_to) for row in rows)
        self._assign(rows, settled)
        wanting = {row.progress.source for row in self._registry.wanting()}
        self._recalled -= settled.keys() - wanting

    def _producers(self, count: int) -> Sequence[tuple[int, int]]:
        if self._link.delivery == "exactly-once" and count:
            return self._sides.target.init_producer_ids(count)
        return [(-1, -1)] * count


def _error(
    want: OutletWanted,
    found: RoutedTopic | CausewayError,
    ends: Mapping[TopicPartition, int | CausewayError],
) -> CausewayError | None:
    if isinstance(found, CausewayError):
        return found
    end = ends[TopicPartition(found.target, want.partition)]
    return end if isinstance(end, CausewayError) else None


def _lack(error: CausewayError) -> str:
    """The reason, without the topic's name: it comes from a record and may be secret."""
    name = f": {error.name}" if isinstance(error, BrokerError) else ""
    return (
        f"waits for a target partition that its transform leads to: {error.operation}{name} "
        "(its name comes from a record and is not shown: look at the records with `causeway try`)"
    )


def _wants_too_many(row: Row) -> bool:
    return len(row.progress.outlets) + len(row.wants) > MOST_OUTLETS


def _too_many(at: TopicPartition) -> str:
    cause = f"its transform leads it to more than {MOST_OUTLETS} target partitions"
    return str(RouteError("lead on", str(at), cause, remedy="correct the transform"))


def _has(progress: PartitionProgress, want: OutletWanted) -> bool:
    return any(
        (outlet.routed, outlet.partition) == (want.topic, want.partition)
        for outlet in progress.outlets
    )


def _outlet(
    want: OutletWanted,
    ready: Mapping[str, RoutedTopic | CausewayError],
    ends: Mapping[TopicPartition, int | CausewayError],
    producer: tuple[int, int],
) -> Outlet:
    """The outlet from the wanted offset on; no earlier record goes there."""
    found = ready[want.topic]
    assert isinstance(found, RoutedTopic)
    end = ends[TopicPartition(found.target, want.partition)]
    assert isinstance(end, int)
    return Outlet(
        topic=found.target,
        partition=want.partition,
        topic_id=found.topic_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        pair=Pair(source=want.offset, target=end, sequence=0),
        exclusive=False,
        routed=want.topic,
        claimed_at=end,
    )
