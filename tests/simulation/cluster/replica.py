"""A replica of a partition: it leads, or follows the leader.

leader ── append ─► wakes followers ── delay ─► follower copies ── delay ─► leader notes the end
                                                                            │
                  answers that wait ◄── check ── high watermark rises ◄─────┘
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from causeway.records import BatchHeader
from tests.simulation.cluster import errors
from tests.simulation.cluster.aging import Aging
from tests.simulation.cluster.errors import Refused
from tests.simulation.cluster.log import LogBatch, ReplicaLog, placed
from tests.simulation.cluster.producers import ProducerStates
from tests.simulation.cluster.topic_states import TopicState

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

_FETCH_WAIT_S = 0.5  # replica.fetch.wait.max.ms
_COPIED_BYTES = 1 << 20  # in one fetch of a follower


@dataclass(slots=True)
class _Follower:
    """`end`: of its log as the leader knows it, -1 before its first fetch. `caught_up_at`: when it
    last had all."""

    end: int
    caught_up_at: float


class Replica:
    """Of partition `index` of `topic`, on `node`. `waiting`: what looks again when the high
    watermark, the last stable offset or the leader changes. `waiting_for_starts`: when followers
    have fetched."""

    def __init__(self, node: BrokerNode, topic: TopicState, index: int) -> None:
        self.node, self.topic, self.index = node, topic, index
        self.state = topic.partitions[index]
        self.epoch = -1  # of the leader that this replica has applied
        self.leads = False
        self.high_watermark = 0
        self.shown = 0  # the highest one that readers may have seen; a kill does not lower it
        self.log = ReplicaLog(self.new_producers())
        self.aging = Aging(self)
        self.waiting: dict[Callable[[], object], None] = {}
        self.waiting_for_starts: dict[Callable[[], object], None] = {}
        self._followers: dict[int, _Follower] = {}
        self._hears = False
        self._idle = True  # waits for its leader to append
        self._watches_isr = False
        self._asks_for_isr = False

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.index} on {self.node}"

    def new_producers(self) -> ProducerStates:
        settings = self.node.cluster.settings
        interval_ms = settings.producer_id_expiration_check_interval_ms
        phase_ms = self.node.world.random.randrange(interval_ms)
        return ProducerStates(settings.producer_id_expiration_ms, interval_ms, phase_ms)

    # -- what readers see -------------------------------------------------------------------------

    @property
    def last_stable(self) -> int:
        first = self.log.producers.first_unstable(self.high_watermark)
        return self.high_watermark if first is None else min(first, self.high_watermark)

    @property
    def epoch_start(self) -> int:
        """Where the epoch of this leader begins."""
        entries = self.log.epochs.entries
        if entries and entries[-1].epoch == self.epoch:
            return entries[-1].start
        return self.log.end

    def check_epoch(self, epoch: int) -> None:
        """Raises Refused if it knows another leader epoch than a client names (-1: any)."""
        if epoch >= 0 and epoch != self.state.epoch:
            older = epoch < self.state.epoch
            raise Refused(errors.FENCED_LEADER_EPOCH if older else errors.UNKNOWN_LEADER_EPOCH)

    def check_leads(self, epoch: int = -1) -> None:
        """Raises Refused unless it leads, by the leader epoch that a client names."""
        self.check_epoch(epoch)
        if not self.leads:
            raise Refused(errors.NOT_LEADER_OR_FOLLOWER)

    # -- roles ------------------------------------------------------------------------------------

    def apply(self, topic: TopicState) -> None:
        """A change of the controller."""
        self.topic, self.state = topic, topic.partitions[self.index]
        if self.state.epoch != self.epoch:
            self.epoch = self.state.epoch
            if self.state.leader == self.node.node_id:
                self._lead()
            else:
                self.step_down()
                self.fetch_soon()
        elif self.leads:
            self._asks_for_isr = False
            self._advance()
            self.look_at_isr()
        self.aging.watch()

    def _lead(self) -> None:
        node = self.node
        self.step_down()
        self.leads = True
        self.log.epochs.assign(self.epoch, self.log.end)
        now = node.world.now()
        self._followers = {
            each: _Follower(-1, now) for each in self.state.replicas if each != node.node_id
        }
        self._watches_isr = False
        self._asks_for_isr = False
        node.world.trace(f"{self}: leads by epoch {self.epoch} from offset {self.log.end} on")
        self._advance()
        self.look_at_isr()
        self.wake_followers()

    def step_down(self) -> None:
        """What waits is answered that this replica no longer leads."""
        self.leads = False
        self._idle = True
        self._check_waiting()

    def delete(self) -> None:
        """Its topic is deleted."""
        self.epoch = -1
        self.step_down()

    def _check_waiting(self) -> None:
        for check in (*self.waiting, *self.waiting_for_starts):
            check()

    # -- appending --------------------------------------------------------------------------------

    def append(self, raw: bytes | memoryview) -> LogBatch:
        """A checked batch, on the leader. Readers see it when the high watermark has passed it."""
        now = self.node.world.now()
        for follower in self._followers.values():
            if follower.end == self.log.end:
                follower.caught_up_at = now
        batch = LogBatch.of(placed(raw, self.log.end, self.epoch))
        self.log.append(batch, self.topic.number("segment.bytes"))
        self._advance()
        if self._followers:
            self.wake_followers()
            self.look_at_isr()
        self.aging.watch()
        return batch

    def min_isr(self) -> int:
        return min(self.topic.number("min.insync.replicas"), len(self.state.replicas))

    def check_isr(self) -> None:
        """Raises Refused if fewer replicas are in sync than an append needs."""
        if len(self.state.isr) < self.min_isr():
            raise Refused(
                errors.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR is insufficient to satisfy the min.isr requirement "
                f"of {self.min_isr()} for partition {self.topic.name}-{self.index}",
            )

    def delete_records(self, offset: int) -> None:
        self.log.advance_start(offset)
        self.high_watermark = max(self.high_watermark, self.log.start)
        self.wake_followers()
        self._check_waiting()

    def low_watermark(self) -> int:
        """The lowest beginning of the logs of replicas that are alive."""
        nodes = self.node.cluster.nodes
        alive = [each for each in self.state.replicas if each in self.node.image.alive]
        logs = [nodes[each].replica_of(self.topic.id, self.index) for each in alive]
        return min((each.log.start for each in logs if each is not None), default=self.log.start)

    # -- the leader's view of its followers -------------------------------------------------------

    def wake_followers(self) -> None:
        for each in self._followers:
            replica = self.node.cluster.nodes[each].replica_of(self.topic.id, self.index)
            if replica is not None:
                replica.fetch_soon()

    def note_end(self, follower: int, end: int, epoch: int) -> None:
        """By a follower's fetch, which also says that it has all below `end`."""
        known = self._followers.get(follower)
        if known is None or not self.leads or epoch != self.epoch:
            return
        known.end = end
        if end >= self.log.end:
            known.caught_up_at = self.node.world.now()
        self._advance()
        self.look_at_isr()
        for check in list(self.waiting_for_starts):
            check()

    def _advance(self) -> None:
        """Moves the high watermark up to what all replicas in sync have."""
        isr = self.state.isr
        if len(isr) < self.min_isr():
            return
        me = self.node.node_id
        ends = [self._followers[each].end for each in isr if each != me]
        new = min([self.log.end, *ends])
        if new > self.high_watermark:
            self.high_watermark = self.shown = new
            self.log.producers.replicated(new)
            for each in self._followers:
                follower = self.node.cluster.nodes[each].replica_of(self.topic.id, self.index)
                if follower is not None:
                    follower.hear_soon()
            self._check_waiting()

    def look_at_isr(self) -> None:
        """Asks the controller for followers that have caught up, and watches those that lag."""
        if not self.leads or not self._followers or self._asks_for_isr:
            return
        isr, alive = self.state.isr, self.node.image.alive
        back = [
            each
            for each, known in self._followers.items()
            if each not in isr
            and each in alive
            and known.end >= max(self.high_watermark, self.epoch_start)
        ]
        if back:
            self._ask_for_isr((*isr, *back))
        elif not self._watches_isr and any(
            known.end < self.log.end for each, known in self._followers.items() if each in isr
        ):
            self._watches_isr = True
            lag_s = self.node.cluster.settings.replica_lag_time_max_ms / 1000
            epoch = self.epoch
            self.node.later(lag_s / 2, lambda: self._check_lag(epoch))

    def _check_lag(self, epoch: int) -> None:
        if not self.leads or epoch != self.epoch:
            return
        self._watches_isr = False
        oldest = self.node.world.now() - self.node.cluster.settings.replica_lag_time_max_ms / 1000
        lagging = [
            each
            for each, known in self._followers.items()
            if each in self.state.isr and known.end < self.log.end and known.caught_up_at < oldest
        ]
        if lagging and not self._asks_for_isr:
            self._ask_for_isr(tuple(each for each in self.state.isr if each not in lagging))
        else:
            self.look_at_isr()

    def _ask_for_isr(self, isr: tuple[int, ...]) -> None:
        self._asks_for_isr = True
        state, topic_id = self.state, self.topic.id
        node = self.node

        def ask() -> None:
            if not node.cluster.controller.alter_isr(topic_id, self.index, state, isr):
                self._asks_for_isr = False

        node.later(node.chance_of(node.cluster.settings.metadata_s), ask)

    # -- following --------------------------------------------------------------------------------

    def fetch_soon(self) -> None:
        """Copies from the leader after a moment, if it does not do so already."""
        if self._idle and not self.leads and self.node.runs:
            self._idle = False
            node, epoch = self.node, self.epoch
            node.later(node.replication_delay(), lambda: self._fetch(epoch))

    def _leader(self) -> Replica | None:
        """The leader that this replica follows, if both know of each other and it answers."""
        if self.leads or self.state.leader < 0:
            return None
        node = self.node.cluster.nodes[self.state.leader]
        found = node.replica_of(self.topic.id, self.index)
        answers = node.runs and found is not None and found.leads and found.epoch == self.epoch
        return found if answers else None

    def _fetch(self, epoch: int) -> None:
        if epoch != self.epoch:
            return
        leader = self._leader()
        if leader is None:
            self._idle = True  # the leader, or the next change of the controller, wakes it
            return
        self._truncate_to(leader)
        read = 0
        for batch in leader.log.from_offset(self.log.end):
            if read and read + len(batch.raw) > _COPIED_BYTES:
                break
            self.log.append(batch, self.topic.number("segment.bytes"))
            read += len(batch.raw)
        if read:
            self.aging.watch()
        self.log.advance_start(leader.log.start)
        self._follow_high_watermark(leader)
        node, end = self.node, self.log.end

        def next_fetch() -> None:
            """It says how far this one came."""
            if epoch != self.epoch:
                return
            self._idle = True
            leader = self._leader()
            if leader is not None:
                leader.note_end(node.node_id, end, epoch)
                if leader.log.end > self.log.end or leader.log.start > self.log.start:
                    self.fetch_soon()

        node.later(node.replication_delay(), next_fetch)

    def hear_soon(self) -> None:
        """Learns its leader's high watermark at the latest with the next empty fetch."""
        if self._hears or not self.node.runs:
            return
        self._hears = True

        def hear() -> None:
            self._hears = False
            leader = self._leader()
            if leader is not None:
                self._follow_high_watermark(leader)

        self.node.later(self.node.chance_of((0.0, _FETCH_WAIT_S)), hear)

    def _follow_high_watermark(self, leader: Replica) -> None:
        new = min(self.log.end, leader.high_watermark)
        if new != self.high_watermark:
            self.high_watermark = new
            self._check_waiting()

    def _truncate_to(self, leader: Replica) -> None:
        """Cuts off what the leader does not have, by leader epochs (KIP-101, KIP-279)."""
        log = self.log
        while log.epochs.entries:
            latest = log.epochs.latest
            epoch, end = leader.log.epochs.end_of(latest, leader.log.end)
            if end < 0 or (epoch == latest and end >= log.end):
                break
            own_end = log.epochs.end_of(epoch, log.end)[1] if epoch != latest else log.end
            cut = min(end, own_end) if own_end >= 0 else end
            if cut >= log.end:
                break
            self.node.world.trace(f"{self}: cuts its log from {log.end} to {cut}")
            log.truncate(cut, self.new_producers())
            self.shown = min(self.shown, cut)
            log.producers.expire(self.node.now_ms())
        if log.end < leader.log.start or log.end > leader.log.end:
            log.reset(leader.log.start, self.new_producers())

    # -- restarts ---------------------------------------------------------------------------------

    def restart(self, *, clean: bool) -> None:
        """The broker has stopped: its log remains. After a kill the high watermark is one of the
        last seconds, and producers are known from the log alone."""
        self.step_down()
        self.waiting.clear()
        self.waiting_for_starts.clear()
        self.epoch = -1
        self._watches_isr = self._hears = False
        self.aging = Aging(self)
        random = self.node.world.random
        if not clean:
            low = max(self.log.start, self.high_watermark - random.randrange(3))
            batches = list(self.log.from_offset(low, self.high_watermark))
            self.high_watermark = batches[0].base if batches else self.high_watermark
            self.high_watermark = max(self.high_watermark, self.log.start)
            self.log.reload(self.new_producers())
        self.log.producers.restart(self.node.now_ms())

    def known(self, header: BatchHeader) -> None:
        """For a batch of a producer: forgets producers that have expired."""
        if header.producer_id >= 0:
            self.log.producers.expire(self.node.now_ms())
