"""A broker of a simulated cluster: its process, its clock, its connections, its replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused
from tests.simulation.cluster.fetch_sessions import FetchSessions
from tests.simulation.cluster.quotas import Quotas
from tests.simulation.cluster.replica import Replica
from tests.simulation.cluster.session import BrokerSession
from tests.simulation.cluster.topic_states import Image, TopicChange, TopicState

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import KafkaCluster

PORT: Final = 9092


class BrokerNode:
    """`up`: its process exists, frozen or not. `clock_ahead_s`: how far its clock is wrong; set it
    to let the clock jump. `slow_s`: each request takes that much longer, by chance. `late_s`: how
    long requests of a connection that the client has closed may take longer, by chance."""

    def __init__(self, cluster: KafkaCluster, node_id: int) -> None:
        self.cluster, self.node_id, self.world = cluster, node_id, cluster.world
        self.host, self.port = f"{cluster.name}-{node_id}.sim", PORT
        self.up, self.frozen, self.ready = True, False, True
        self.clock_ahead_s = self.slow_s = self.late_s = 0.0
        self.disk_is_full = False
        self.image = Image()
        self.quotas = Quotas(self)
        self.fetch_sessions = FetchSessions(self)
        self.replicas: dict[tuple[UUID, int], Replica] = {}
        self._sessions: dict[BrokerSession, None] = {}
        self._life = 0  # counts starts and stops: what was planned in an earlier life is void
        self._freezes = 0
        self._deferred: list[Callable[[], object]] = []
        self._applies = False

    def __str__(self) -> str:
        return f"broker {self.cluster.name}-{self.node_id}"

    # -- time and chance --------------------------------------------------------------------------

    @property
    def runs(self) -> bool:
        """Its process exists and is not frozen."""
        return self.up and not self.frozen

    def now_ms(self) -> int:
        return int((self.world.now() + self.clock_ahead_s) * 1000)

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        """As World.later. Nothing happens if the process ends; if it is frozen, `act` waits."""
        life = self._life

        def run() -> None:
            if life != self._life:
                return
            if self.frozen:
                self._deferred.append(act)
            else:
                act()

        self.world.later(delay_s, run)

    def chance_of(self, seconds: tuple[float, float]) -> float:
        return self.world.random.uniform(*seconds)

    def replication_delay(self) -> float:
        return self.chance_of(self.cluster.settings.replication_s)

    def request_delay(self) -> float:
        delay = self.chance_of(self.cluster.settings.request_s)
        return delay + self.world.random.uniform(0, self.slow_s) if self.slow_s else delay

    # -- connections ------------------------------------------------------------------------------

    def connect(
        self, send: Callable[[bytes], None], close: Callable[[], None], peer: str
    ) -> BrokerSession | None:
        """A connection; None: it is refused. A frozen broker takes connections, as its kernel
        does."""
        if not self.up or not self.ready:
            return None
        session = BrokerSession(self, send, close, peer)
        self._sessions[session] = None
        return session

    def forget(self, session: BrokerSession) -> None:
        self._sessions.pop(session, None)

    def close_connections(self) -> None:
        """As a broker does with idle ones (connections.max.idle.ms)."""
        for session in list(self._sessions):
            session.close()

    # -- the process ------------------------------------------------------------------------------

    def stop(self, *, clean: bool = True) -> None:
        """SIGTERM, or kill -9: then the controller notices later, when heartbeats are missing."""
        if not self.up:
            return
        self.world.trace(f"{self}: {'stops' if clean else 'is killed'}")
        if clean and not self.frozen:
            self.cluster.controller.fence(self.node_id)
        self.up = self.ready = self.frozen = False
        self._life += 1
        self._deferred.clear()
        for replica in self.replicas.values():
            replica.restart(clean=clean)
        self.fetch_sessions.clear()
        self.close_connections()
        self._miss_heartbeats()

    def start(self) -> None:
        """Its log is recovered; then it catches up with the controller, and takes connections."""
        if self.up:
            return
        self.world.trace(f"{self}: starts")
        self.up, self.frozen = True, False
        self.image = Image()
        self._life += 1
        self.later(self.chance_of(self.cluster.settings.start_s), self._register)

    def _register(self) -> None:
        if self.node_id in self.cluster.controller.alive:
            # The controller refuses a second registration until it has missed heartbeats.
            self.later(0.5, self._register)
            return
        self.ready = True
        self._apply_changes()
        self._unfence_soon()

    def _unfence_soon(self) -> None:
        delay_s = self.chance_of(self.cluster.settings.metadata_s)
        self.later(delay_s, lambda: self.cluster.controller.unfence(self.node_id))

    def freeze(self) -> None:
        """SIGSTOP: it takes bytes and connections, and answers nothing."""
        if self.up and not self.frozen:
            self.world.trace(f"{self}: is frozen")
            self.frozen = True
            self._freezes += 1
            self._miss_heartbeats()

    def thaw(self) -> None:
        """SIGCONT: it goes on where it was, and takes itself for the leader of what it led."""
        if not self.frozen:
            return
        self.world.trace(f"{self}: goes on")
        self.frozen = False
        self._freezes += 1
        acts, self._deferred = self._deferred, []
        for act in acts:
            self.later(self.chance_of((0.0, 0.01)), act)
        for session in list(self._sessions):
            session.go_on()
        self.apply_soon()
        for replica in list(self.replicas.values()):
            replica.wake_followers() if replica.leads else replica.fetch_soon()
        if self.ready and self.node_id not in self.cluster.controller.alive:
            self._unfence_soon()

    def _miss_heartbeats(self) -> None:
        life, freezes = self._life, self._freezes
        timeout_s = self.cluster.settings.broker_session_timeout_ms / 1000

        def missed() -> None:
            if (freezes == self._freezes and self.frozen) or (
                not self.ready and life <= self._life
            ):
                self.cluster.controller.fence(self.node_id)

        self.world.later(self.world.random.uniform(0.8, 1.1) * timeout_s, missed)

    def fill_disk(self) -> None:
        """The next append fails with KAFKA_STORAGE_ERROR, and the broker stops."""
        self.disk_is_full = True

    def free_disk(self) -> None:
        self.disk_is_full = False

    def halt_soon(self) -> None:
        """As a broker whose only directory of logs is offline. Its answers still leave."""
        self.later(0.05, lambda: self.stop(clean=False))

    # -- what the controller says -----------------------------------------------------------------

    def apply_soon(self) -> None:
        if self._applies or not self.ready:
            return
        self._applies = True
        settings = self.cluster.settings
        is_slow = self.world.random.random() < settings.slow_metadata_share
        delay_s = self.chance_of(settings.slow_metadata_s if is_slow else settings.metadata_s)
        life = self._life

        def apply() -> None:
            self._applies = False
            if life == self._life and self.runs:
                self._apply_changes()

        self.world.later(delay_s, apply)

    def apply_all(self) -> None:
        """At once, as a broker does that is up to date when it has to be."""
        if self.runs and self.ready:
            self._apply_changes()

    def _apply_changes(self) -> None:
        changes = self.cluster.controller.changes
        touched: dict[UUID, TopicState | None] = {}
        image, alive = self.image, self.image.alive
        for change in changes[image.applied :]:
            image.apply(change)
            if isinstance(change, TopicChange):
                touched[change.id] = change.state
        for topic_id, topic in touched.items():
            if topic is None:
                self._delete(topic_id)
            else:
                self._apply_topic(topic)
        if image.alive != alive:
            for replica in self.replicas.values():
                replica.look_at_isr()

    def _apply_topic(self, topic: TopicState) -> None:
        for index, state in enumerate(topic.partitions):
            if self.node_id not in state.replicas:
                continue
            replica = self.replicas.get((topic.id, index))
            if replica is None:
                replica = self.replicas[topic.id, index] = Replica(self, topic, index)
            if replica.state is state and replica.epoch == state.epoch:
                replica.topic = topic
                replica.aging.watch()
            else:
                replica.apply(topic)

    def _delete(self, topic_id: UUID) -> None:
        for key in [each for each in self.replicas if each[0] == topic_id]:
            self.replicas.pop(key).delete()

    def replica_of(self, topic_id: UUID, index: int) -> Replica | None:
        return self.replicas.get((topic_id, index))

    def find(self, name: str, index: int) -> Replica:
        """The replica of a partition that this broker hosts. Raises Refused."""
        topic = self.image.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise Refused(errors.UNKNOWN_TOPIC_OR_PARTITION)
        return self.find_in(topic, index)

    def find_by_id(self, topic_id: UUID, index: int) -> Replica:
        """The same."""
        topic = self.image.by_id.get(topic_id)
        if topic is None:
            raise Refused(errors.UNKNOWN_TOPIC_ID)
        if not 0 <= index < len(topic.partitions):
            raise Refused(errors.UNKNOWN_TOPIC_OR_PARTITION)
        return self.find_in(topic, index)

    def find_in(self, topic: TopicState, index: int) -> Replica:
        """The same."""
        replica = self.replicas.get((topic.id, index))
        if replica is None:
            raise Refused(errors.NOT_LEADER_OR_FOLLOWER)
        return replica

    def check_coordinates(self, key: str) -> None:
        """Of a group or a transactional id. Raises Refused."""
        if not self.is_coordinator(key):
            raise Refused(errors.NOT_COORDINATOR)
        if self.world.now() < self.cluster.coordinators_loaded_at:
            raise Refused(errors.COORDINATOR_LOAD_IN_PROGRESS)

    def is_coordinator(self, key: str) -> bool:
        return self.cluster.controller.coordinator(key) == self.node_id
