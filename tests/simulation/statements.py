"""What the mirror says must be true at each moment, as soon as it is said.

progress        each pair of the progress topic, see causeway.model.Pair
offset syncs    no record of the target lies below a sync's target offset and comes from its source
                offset or later
checkpoints     the same
commits         a group of the target has skipped no record that the group has not read, of the
                source or of others
status          each source offset below `mirrored_to` is mirrored
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from causeway.control.mm2_topics import Checkpoint, OffsetSync
from causeway.link_topics import Outlet, PartitionProgress, decode_entry
from causeway.model import Pair
from causeway.records import Record
from causeway.status import PartitionStatus
from tests.simulation.cluster import KafkaCluster, records_in
from tests.simulation.scenario import IN_ORDER, SOURCE, TARGET, Content, TopicPlan
from tests.simulation.workload import OTHERS

if TYPE_CHECKING:
    from tests.simulation.checks import Checks, Place

PROGRESS: Final = f"__causeway.{SOURCE}.{TARGET}.progress"
_SEQUENCES: Final = 1 << 31


class InvariantError(AssertionError):
    """A promise is broken."""


class StuckError(AssertionError):
    """The mirror has not caught up though nothing fails any more."""


class Statements:
    """Of one link."""

    def __init__(self, checks: Checks) -> None:
        self.checks = checks
        self.source, self.target = checks.source, checks.target
        source, target = checks.aliases
        self._progress = f"__causeway.{source}.{target}.progress"
        self._syncs = f"mm2-offset-syncs.{target}.internal"  # on the source
        self._checkpoints = f"{source}.checkpoints.internal"
        self._plans = {plan.name: plan for plan in checks.topics}
        self._by_mirrored = {plan.mirrored: plan for plan in checks.topics}
        self._read: dict[str, int] = {}  # up to which offset, by topic
        self._claims: dict[tuple[Place, int], Pair] = {}  # by source partition and producer id

    def look(self) -> None:
        """Raises InvariantError."""
        for record in self._new_records(self.target, self._progress):
            if record.key is not None:
                entry = decode_entry(record.key, record.value)
                if isinstance(entry, PartitionProgress):
                    self._look_at_progress(entry)
        for record in self._new_records(self.source, self._syncs):
            if record.key is not None and record.value is not None:
                sync = OffsetSync.decode(record.key, record.value)
                place = sync.partition.topic, sync.partition.partition
                self._look_at_offsets("offset sync", place, sync.upstream, sync.downstream)
        for record in self._new_records(self.target, self._checkpoints):
            if record.key is not None and record.value is not None:
                self._look_at_checkpoint(Checkpoint.decode(record.key, record.value))
        for name in list(self.target.groups.groups):
            self._look_at_commits(name)

    def _new_records(self, cluster: KafkaCluster, topic: str) -> list[Record]:
        """Since the last look; all again if the topic has lost some."""
        if topic not in cluster.topics:
            return []
        try:
            replica = cluster.replica(topic, 0)
        except LookupError:
            return []
        end = replica.high_watermark
        start = self._read.get(topic, 0)
        start = start if start <= end else 0
        self._read[topic] = end
        found: list[Record] = []
        for batch in replica.log.from_offset(start, end):
            if not batch.is_control and batch.header.records:
                found += [each for each in records_in(batch.raw) if start <= each.offset < end]
        return found

    def _proves_offsets(self, plan: TopicPlan, place: Place) -> bool:
        """Whether a record keeps its offset on the target for good: lost records that are sent
        again may come behind those of others."""
        if place in self.checks.past:
            return False
        return plan.content is not Content.SHARED or place not in self.checks.lost

    # -- progress ---------------------------------------------------------------------------------

    def _look_at_progress(self, entry: PartitionProgress) -> None:
        plan = self._plans.get(entry.topic)
        if plan is None:
            return
        place = entry.topic, entry.partition
        for outlet in entry.outlets:
            self._look_at_pair(plan, place, outlet)

    def _look_at_pair(self, plan: TopicPlan, place: Place, outlet: Outlet) -> None:
        if place in self.checks.past:
            return
        pair, series = outlet.pair, self.checks.series.get(place, [])
        claim = self._claims.setdefault((place, outlet.producer_id), pair)
        first = bisect_left(series, pair.source)
        if plan.content is Content.PRESERVED:
            if pair.source != pair.target:
                raise InvariantError(f"{place}: {pair} of a partition with preserved offsets")
        elif plan.content not in IN_ORDER:
            count = first - bisect_left(series, claim.source)
            if (pair.sequence - claim.sequence) % _SEQUENCES != count:
                raise InvariantError(f"{place}: {pair}, but {count} records come after {claim}")
        if first < len(series) and self._proves_offsets(plan, place):
            mirrored = self.checks.mirrored.get(place)
            at = None if mirrored is None else mirrored.at.get(series[first])
            if at is not None and at < pair.target:
                raise InvariantError(f"{place}: {pair}, but {series[first]} lies at {at}")

    # -- offsets ----------------------------------------------------------------------------------

    def _look_at_checkpoint(self, said: Checkpoint) -> None:
        plan = self._by_mirrored.get(said.partition.topic)
        if plan is not None:
            place = plan.name, said.partition.partition
            what = f"checkpoint of {said.group}"
            self._look_at_offsets(what, place, said.upstream, said.downstream)

    def _look_at_commits(self, group: str) -> None:
        read = self.source.committed(group)
        for (topic, partition), offset in self.target.committed(group).items():
            plan = self._by_mirrored.get(topic)
            if plan is not None and (plan.name, partition) in read:
                place = plan.name, partition
                self._look_at_offsets(f"commit of {group}", place, read[place], offset)
                self._look_at_others(f"commit of {group}", plan, place, offset)

    def _look_at_offsets(self, what: str, place: Place, source: int, target: int) -> None:
        """Of a group that has read everything below `source`, nothing is skipped at `target`."""
        plan, mirrored = self._plans.get(place[0]), self.checks.mirrored.get(place)
        if plan is None or mirrored is None or not self._proves_offsets(plan, place):
            return
        highest = mirrored.highest_below(target)
        if highest >= source:
            raise InvariantError(
                f"{what}: {place} {source} is said to be {target} on the target, where the record"
                f" of {highest} comes before"
            )

    def _look_at_others(self, what: str, plan: TopicPlan, place: Place, offset: int) -> None:
        """A group that is not on the target has read no record of others there."""
        if plan.content is not Content.SHARED or not self._proves_offsets(plan, place):
            return
        try:
            batches = self.target.batches(plan.mirrored, place[1])
        except LookupError:
            return
        for batch in batches:
            if batch.base >= offset:
                return
            first = next(iter(records_in(batch.raw)), None)
            if first is not None and (first.value or b"").startswith(OTHERS):
                raise InvariantError(f"{what}: {place} is at {offset}, behind others' {batch.base}")

    # -- status -----------------------------------------------------------------------------------

    def look_at_status(self, partitions: Iterable[PartitionStatus]) -> None:
        """As a driver that leads has it, now or some time ago."""
        for each in partitions:
            plan, place = self._plans.get(each.topic), (each.topic, each.partition)
            if plan is None or plan.content in IN_ORDER or not self._proves_offsets(plan, place):
                continue
            if place in self.checks.lost:
                continue
            if each.mirrored_to is None or place not in self.checks.series:
                continue
            try:
                self.target.batches(plan.mirrored, place[1])
            except LookupError:
                continue  # without a leader, the checks have not seen the newest records
            due = self.checks.series[place]
            mirrored = self.checks.mirrored.get(place)
            held = {} if mirrored is None else mirrored.at
            for offset in due[: bisect_left(due, each.mirrored_to)]:
                if offset not in held:
                    raise InvariantError(
                        f"{place}: the status says that all is mirrored below"
                        f" {each.mirrored_to}, but {offset} is not"
                    )
