"""Transactional ids of a cluster, as their coordinators know them (Kafka's TransactionCoordinator).

The state is one for the cluster, as in its log of transactions; only the coordinator of an id
answers for it. Markers are written to each partition some time after the answer to EndTxn.

    Empty ─► Ongoing ─► PrepareCommit ─► CompleteCommit ─► Ongoing …
                   └──► PrepareAbort ──► CompleteAbort ──┘
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused
from tests.simulation.cluster.producing import MARKER_TIMEOUT_S, Acknowledgement, append_marker

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import KafkaCluster

EMPTY, ONGOING = "Empty", "Ongoing"
PREPARE_COMMIT, PREPARE_ABORT = "PrepareCommit", "PrepareAbort"
COMPLETE_COMMIT, COMPLETE_ABORT = "CompleteCommit", "CompleteAbort"

_FIRST_PRODUCER_ID: Final = 1_000
_LAST_EPOCH: Final = (1 << 15) - 2
_COORDINATOR_EPOCH: Final = 0

Place = tuple[str, int]
"""Topic and partition."""
Producer = tuple[int, int]
"""Producer id and epoch."""


@dataclass(slots=True)
class TransactionalId:
    """`places` and `groups`: what the open transaction has. `left`: where its markers have still
    to be written. `number` counts transactions."""

    id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: str = EMPTY
    places: dict[Place, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)
    left: dict[Place, None] = field(default_factory=dict)
    started_ms: int = -1
    number: int = 0

    @property
    def producer(self) -> Producer:
        return self.producer_id, self.epoch


class Transactions:
    def __init__(self, cluster: KafkaCluster) -> None:
        self.ids: dict[str, TransactionalId] = {}
        self._cluster, self._world = cluster, cluster.world
        self._next_producer_id = _FIRST_PRODUCER_ID

    def new_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # -- requests ---------------------------------------------------------------------------------

    def begin(self, key: str, timeout_ms: int, known: Producer = (-1, -1)) -> Producer:
        """InitProducerId. `known`: the producer that the client has been. Raises Refused."""
        if not 0 < timeout_ms <= self._cluster.settings.transaction_max_timeout_ms:
            raise Refused(errors.INVALID_TRANSACTION_TIMEOUT)
        one = self.ids.get(key)
        if one is None:
            one = TransactionalId(key, self.new_producer_id(), -1, timeout_ms)
            self.ids[key] = one
        elif known[0] >= 0 and known != one.producer:
            raise Refused(errors.PRODUCER_FENCED)
        if one.state in (PREPARE_COMMIT, PREPARE_ABORT):
            raise Refused(errors.CONCURRENT_TRANSACTIONS)
        if one.state == ONGOING:
            one.epoch += 1  # no producer has this epoch: the old one is fenced
            self._prepare(one, commits=False)
            raise Refused(errors.CONCURRENT_TRANSACTIONS)
        if one.epoch >= _LAST_EPOCH:
            one.producer_id, one.epoch = self.new_producer_id(), -1
        one.epoch += 1
        one.timeout_ms = timeout_ms
        one.state = EMPTY
        self._world.trace(f"{key} is producer {one.producer_id}, epoch {one.epoch}")
        return one.producer

    def _checked(self, key: str, producer: Producer) -> TransactionalId:
        """Raises Refused."""
        one = self.ids.get(key)
        if one is None or one.producer_id != producer[0]:
            raise Refused(errors.INVALID_PRODUCER_ID_MAPPING)
        if one.epoch != producer[1]:
            raise Refused(errors.PRODUCER_FENCED)
        return one

    def add(
        self, key: str, producer: Producer, places: Iterable[Place] = (), group: str | None = None
    ) -> None:
        """AddPartitionsToTxn, AddOffsetsToTxn. Raises Refused."""
        one = self._checked(key, producer)
        if one.state in (PREPARE_COMMIT, PREPARE_ABORT):
            raise Refused(errors.CONCURRENT_TRANSACTIONS)
        if one.state != ONGOING:
            one.state, one.number = ONGOING, one.number + 1
            one.started_ms = int(self._world.now() * 1000)
            one.places, one.groups = {}, {}
            self._watch(one)
        one.places.update(dict.fromkeys(places))
        if group is not None:
            one.groups[group] = None

    def check_has_group(self, key: str, producer: Producer, group: str) -> None:
        """Raises Refused unless the producer's open transaction has the group's offsets."""
        one = self._checked(key, producer)
        if one.state != ONGOING or group not in one.groups:
            raise Refused(errors.INVALID_TXN_STATE)

    def verify(self, key: str, producer: Producer, place: Place, *, adds: bool) -> int:
        """The error code for a batch of that producer; 0: the place is in its transaction."""
        try:
            if adds:
                self.add(key, producer, [place])
                return 0
            one = self._checked(key, producer)
        except Refused as refused:
            return refused.code
        if one.state in (PREPARE_COMMIT, PREPARE_ABORT):
            return errors.CONCURRENT_TRANSACTIONS
        is_in = one.state == ONGOING and place in one.places
        return 0 if is_in else errors.INVALID_TXN_STATE

    def end(self, key: str, producer: Producer, *, commits: bool) -> None:
        """EndTxn. Raises Refused."""
        one = self._checked(key, producer)
        prepared = PREPARE_COMMIT if commits else PREPARE_ABORT
        complete = COMPLETE_COMMIT if commits else COMPLETE_ABORT
        if one.state == complete:
            return
        if one.state == prepared:
            raise Refused(errors.CONCURRENT_TRANSACTIONS)
        if one.state != ONGOING:
            raise Refused(errors.INVALID_TXN_STATE)
        self._prepare(one, commits=commits)

    # -- markers ----------------------------------------------------------------------------------

    def _prepare(self, one: TransactionalId, *, commits: bool) -> None:
        one.state = PREPARE_COMMIT if commits else PREPARE_ABORT
        one.left = dict(one.places)
        self._world.trace(f"{one.id}: {one.state} of {len(one.left)} partitions")
        for place in list(one.left):
            self._mark_soon(one, place)
        if not one.left:
            self._world.later(self._delay_s(), lambda: self._complete(one))

    def _delay_s(self) -> float:
        return self._world.random.uniform(*self._cluster.settings.marker_s)

    def _mark_soon(self, one: TransactionalId, place: Place, pause_s: float = 0.0) -> None:
        number = one.number
        self._world.later(pause_s + self._delay_s(), lambda: self._mark(one, place, number))

    def _mark(self, one: TransactionalId, place: Place, number: int) -> None:
        """By a request of the coordinator to the leader, again and again until it is done."""
        if number != one.number or place not in one.left:
            return
        name, index = place
        topic = self._cluster.controller.topics.get(name)
        if topic is None:
            self._done(one, place, number)
            return
        leader = topic.partitions[index].leader
        node = self._cluster.nodes[leader] if leader >= 0 else None
        coordinator = self._cluster.controller.coordinator(one.id)
        is_up = coordinator >= 0 and self._cluster.nodes[coordinator].runs
        if node is None or not node.runs or not is_up:
            self._mark_soon(one, place, 0.1)
            return
        commits = one.state == PREPARE_COMMIT
        try:
            replica = node.find_in(topic, index)
            replica.check_leads()
            replica.check_isr()
            result = append_marker(replica, one.producer, _COORDINATOR_EPOCH, commits=commits)
        except Refused as refused:
            if refused.code == errors.INVALID_PRODUCER_EPOCH:
                # Another one has written with a higher epoch: Kafka gives the marker up.
                self._done(one, place, number)
            else:
                self._mark_soon(one, place, 0.02)
            return

        def acknowledged() -> None:
            if result.code:
                self._mark_soon(one, place, 0.02)
            else:
                self._done(one, place, number)

        Acknowledgement(node, {place: (replica, result)}, MARKER_TIMEOUT_S, acknowledged)

    def _done(self, one: TransactionalId, place: Place, number: int) -> None:
        if number == one.number and place in one.left:
            del one.left[place]
            if not one.left:
                self._complete(one)

    def _complete(self, one: TransactionalId) -> None:
        if one.state not in (PREPARE_COMMIT, PREPARE_ABORT):
            return
        commits = one.state == PREPARE_COMMIT
        for group in one.groups:
            self._cluster.groups.end_transaction(group, one.producer_id, commits=commits)
        one.state = COMPLETE_COMMIT if commits else COMPLETE_ABORT
        one.places, one.groups = {}, {}

    # -- time -------------------------------------------------------------------------------------

    def _watch(self, one: TransactionalId) -> None:
        """Rolls back what is open for too long, at a check in an interval."""
        interval_ms = (
            self._cluster.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        )
        number = one.number

        def look() -> None:
            if one.state == ONGOING and one.number == number:
                self._world.trace(f"{one.id}: its transaction has timed out")
                if one.epoch <= _LAST_EPOCH:
                    one.epoch += 1
                self._prepare(one, commits=False)

        wait_s = (one.timeout_ms + self._world.random.uniform(0, interval_ms)) / 1000
        self._world.later(wait_s, look)
