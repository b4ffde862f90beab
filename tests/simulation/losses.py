"""Faults of machines: lost power, lost records, full disks, clocks that jump, quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from causeway.link_topics import PartitionProgress, decode_entry
from tests.simulation.cluster import DAY_MS, KafkaCluster, LogBatch, Refused, records_in
from tests.simulation.kernel import SimulatedProcess
from tests.simulation.scenario import IN_ORDER, Content
from tests.simulation.statements import PROGRESS

if TYPE_CHECKING:
    from tests.simulation.faults import Faults

_KNOWN_MS: Final = DAY_MS / 2  # brokers keep a producer for a day; clocks are hours ahead
# The source has deleted records that the target may lose, or the target forgets the producer: then
# it accepts any sequence, so that records are missing in its log, and the partition stops.
_CANNOT_BE_SENT_AGAIN = IN_ORDER | {Content.DELETED, Content.REPLACED, Content.OLD}


class Losses:
    """Of one run. The source keeps all acknowledged records; the target may lose some."""

    def __init__(self, faults: Faults) -> None:
        self.faults, self.run = faults, faults.run
        self.kernel, self.network = faults.kernel, faults.network
        self._chance = faults.kernel.random
        self._ended = False  # all is healed: nothing that was planned begins

    def weighted(self) -> Iterator[tuple[Callable[[], None], float]]:
        yield self._crash_machine, 2
        yield self._freeze_drivers_in_turn, 1
        yield self._lose_tail, 2
        yield self._lose_progress, 1
        yield self._elect_unclean, 2
        yield self._forget_producers, 2
        yield self._jump_clock_of_broker, 1
        yield self._jump_clock_of_mirror, 1
        yield self._set_quota, 2
        yield self._fill_disk, 1

    def heal(self) -> None:
        self._ended = True
        self.kernel.skews.clear()
        for cluster in self._clusters:
            for node in cluster.nodes:
                node.free_disk()
                node.quotas.producer_byte_rate = node.quotas.consumer_byte_rate = None

    @property
    def _clusters(self) -> tuple[KafkaCluster, KafkaCluster]:
        return self.run.source, self.run.target

    # -- machines ---------------------------------------------------------------------------------

    def _crash_machine(self) -> None:
        number = self._chance.randrange(len(self.run.mirrors))
        self.run.mirrors[number].crash()
        delay = self.faults.lasts(5.0, 20.0, 60.0)
        self.run.later(delay, lambda: self.faults.later_started(number))

    def _freeze_drivers_in_turn(self) -> None:
        """Each one until its lease is over, so that the lead moves."""
        for number, mirror in enumerate(self.run.mirrors):
            if mirror.process is not None and mirror.alive:
                process = mirror.process
                begin = number * self.faults.lasts(5.0, 20.0, 30.0)
                self.run.later(begin, lambda process=process: self._freeze(process))  # type: ignore[misc]
                self.run.later(begin + self.faults.lasts(8.0, 40.0), process.thaw)

    def _freeze(self, process: SimulatedProcess) -> None:
        if not self._ended:
            process.freeze()

    def _jump_clock_of_broker(self) -> None:
        """A broker refuses records that are an hour ahead of its clock, and keeps producers for a
        day."""
        node = self._chance.choice(self._chance.choice(self._clusters).nodes)
        node.clock_ahead_s = self._chance.choice((-7200.0, -60.0, 60.0, 7200.0, 21_600.0))
        self.kernel.trace(f"{node}: its clock is {node.clock_ahead_s} s ahead")
        self._put_right(lambda: setattr(node, "clock_ahead_s", 0.0))

    def _jump_clock_of_mirror(self) -> None:
        host = self._chance.choice(self.run.mirrors).host
        self.kernel.skews[host] = self._chance.choice((-7200.0, -30.0, 30.0, 7200.0))
        self.kernel.trace(f"{host}: its clock is {self.kernel.skews[host]} s ahead")
        self._put_right(lambda: self.kernel.skews.pop(host, None))

    def _put_right(self, clock: Callable[[], object]) -> None:
        self.run.later(self.faults.lasts(20.0, 60.0, 120.0), clock)

    def _set_quota(self) -> None:
        quotas = self._chance.choice(self._chance.choice(self._clusters).nodes).quotas
        quotas.producer_byte_rate = self._chance.choice((None, 2_000.0, 50_000.0))
        quotas.consumer_byte_rate = self._chance.choice((None, 2_000.0, 50_000.0))

    def _fill_disk(self) -> None:
        node = self.faults.calm_node()
        if node is not None:
            self.kernel.trace(f"{node}: its disk is full")
            node.fill_disk()

            def repair() -> None:
                node.free_disk()
                node.start()

            self.run.later(self.faults.lasts(2.0, 15.0, 30.0), repair)

    # -- the target's logs ------------------------------------------------------------------------

    def _mirrored_place(self) -> tuple[str, int] | None:
        """A partition of the target whose records the source still has."""
        plan, partition = self._chance.choice(self.faults.places)
        topic = self.run.target.topics.get(plan.mirrored)
        if plan.content in _CANNOT_BE_SENT_AGAIN or topic is None:
            return None
        if partition >= len(topic.partitions):
            return None
        self.run.checks.look()
        self.run.checks.lost[plan.name, partition] = None
        return plan.mirrored, partition

    def _lose_tail(self) -> None:
        """All replicas lose the newest batches, acknowledged or not."""
        target = self.run.target
        if not self.faults.is_calm(target) or (place := self._mirrored_place()) is None:
            return
        try:
            batches = target.batches(*place)
            count = self._chance.randint(1, 5)
            if self._know_a_producer(batches[:-count]):
                last = batches[-count]
                self.kernel.trace(f"{place} of the target loses its records from {last.base} on")
                target.cut(*place, last.base)
        except (LookupError, Refused):
            pass

    def _lose_progress(self) -> None:
        """The progress topic goes back to an earlier state, in which each partition is claimed."""
        target = self.run.target
        if PROGRESS not in target.topics or not self.faults.is_calm(target):
            return
        claimed: dict[object, int] = {}
        batches = target.batches(PROGRESS, 0)
        for batch in batches:
            for record in records_in(batch.raw):
                entry = None if record.key is None else decode_entry(record.key, record.value)
                if isinstance(entry, PartitionProgress):
                    producers = tuple(outlet.producer_id for outlet in entry.outlets)
                    claimed.setdefault((entry.source, producers), record.offset)
        lost = batches[-self._chance.randint(1, 8) :]
        if claimed and lost and lost[0].base > max(claimed.values()):
            self.kernel.trace(f"the progress topic loses its records from {lost[0].base} on")
            target.cut(PROGRESS, 0, lost[0].base)

    def _elect_unclean(self) -> None:
        """A replica leads that lacks acknowledged records."""
        target = self.run.target
        if (place := self._mirrored_place()) is None:
            return
        state = target.topics[place[0]].partitions[place[1]]
        behind = [
            each
            for each in state.replicas
            if each not in state.isr
            and each in target.controller.alive
            and self._know_a_producer(target.replica(*place, each).log.batches)
        ]
        if behind:
            target.elect(*place, self._chance.choice(behind), unclean=True)

    def _forget_producers(self) -> None:
        """Old records make brokers forget their producer."""
        self._chance.choice(self._clusters).expire_producers()

    def _know_a_producer(self, batches: Sequence[LogBatch]) -> bool:
        """Whether a broker with this log knows the producer of the mirror, also if its clock is
        wrong. A broker that does not would accept the next batch of a lane although batches before
        it are lost."""
        oldest_ms = self.kernel.now() * 1000 - _KNOWN_MS
        return any(
            each.header.producer_id >= 0
            and not each.is_control
            and each.header.max_timestamp > oldest_ms
            for each in batches
        )
