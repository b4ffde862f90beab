"""A simulated Kafka cluster: brokers that speak Kafka's protocol, in the time and the chance of a
World. See the package's door for the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from causeway.records import Record
from tests.simulation.cluster.compaction import compact
from tests.simulation.cluster.controller import Controller
from tests.simulation.cluster.groups import ConsumerGroups, GroupOffset
from tests.simulation.cluster.log import LogBatch, records_in
from tests.simulation.cluster.node import BrokerNode
from tests.simulation.cluster.producing import append_batch
from tests.simulation.cluster.replica import Replica
from tests.simulation.cluster.settings import BrokerSettings
from tests.simulation.cluster.topic_states import NOBODY, TopicState
from tests.simulation.cluster.transactions import Place, Transactions
from tests.simulation.world import World


class KafkaCluster:
    """Brokers 0 to `nodes` - 1, all up. The methods below `node_at` are for tests and checkers:
    they act at once and need no connection."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        nodes: int,
        cluster_id: str,
        settings: BrokerSettings | None = None,
    ) -> None:
        self.world, self.name, self.cluster_id = world, name, cluster_id
        self.settings = settings or BrokerSettings()
        self.lacks: frozenset[int] = frozenset()  # keys of APIs that all brokers are without
        self.coordinators_loaded_at = 0.0
        self.controller = Controller(world, self.settings, range(nodes), self._published)
        self.groups = ConsumerGroups()
        self.transactions = Transactions(self)
        self._alive: tuple[int, ...] = tuple(range(nodes))
        self.nodes: Sequence[BrokerNode] = ()
        self.nodes = tuple(BrokerNode(self, number) for number in range(nodes))
        for node in self.nodes:
            node.apply_all()

    def __str__(self) -> str:
        return self.name

    def node_at(self, host: str, port: int) -> BrokerNode | None:
        """The broker at this address, up or not."""
        return next((each for each in self.nodes if (each.host, each.port) == (host, port)), None)

    def _published(self) -> None:
        """The controller has said something."""
        if self._alive != tuple(self.controller.alive):
            self._alive = tuple(self.controller.alive)
            load_s = self.world.random.uniform(*self.settings.coordinator_load_s)
            self.coordinators_loaded_at = self.world.now() + load_s
        for node in self.nodes:
            node.apply_soon()

    def settle(self) -> None:
        """All brokers that run know what the controller has said."""
        for node in self.nodes:
            node.apply_all()

    # -- topics -----------------------------------------------------------------------------------

    @property
    def topics(self) -> Mapping[str, TopicState]:
        return self.controller.topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> TopicState:
        """All brokers know it at once. Raises Refused."""
        topic = self.controller.new_topic(name, partitions, replication_factor, configs or {})
        self.controller.add(topic)
        self.settle()
        return topic

    def delete_topic(self, name: str) -> None:
        """Brokers learn of it one by one. Raises Refused."""
        self.controller.delete(name)
        self.groups.forget_topic(name)

    def add_partitions(self, name: str, count: int) -> None:
        """`count`: all partitions then. Raises Refused."""
        self.controller.add_partitions(name, count)

    def alter_configs(self, name: str, changes: Mapping[str, str | None]) -> None:
        """None: back to the default. Raises Refused."""
        self.controller.alter_configs(name, changes)

    # -- leaders ----------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int) -> BrokerNode | None:
        """As the controller has it."""
        state = self.controller.get(topic).partitions[partition]
        return None if state.leader == NOBODY else self.nodes[state.leader]

    def elect(self, topic: str, partition: int, node: int, *, unclean: bool = False) -> None:
        """`unclean`: also a broker that lacks records. The others then lose what it lacks."""
        self.controller.elect(topic, partition, node, unclean=unclean)

    def replica(self, topic: str, partition: int, node: int | None = None) -> Replica:
        """On `node`, or on the leader. Raises LookupError if there is none by now."""
        state = self.controller.get(topic)
        number = state.partitions[partition].leader if node is None else node
        found = self.nodes[number].replica_of(state.id, partition) if number >= 0 else None
        if found is None:
            raise LookupError(f"{topic}-{partition} of {self.name} has no replica on {number}")
        return found

    def cut(self, topic: str, partition: int, end: int) -> None:
        """All replicas lose the records from `end` on, acknowledged or not, as if all machines had
        lost their power. The leader goes on with the next leader epoch."""
        state = self.controller.get(topic).partitions[partition]
        for number in state.replicas:
            replica = self.replica(topic, partition, number)
            if replica.log.end > end:
                replica.step_down()
                replica.log.truncate(end, replica.new_producers())
                replica.high_watermark = min(replica.high_watermark, replica.log.end)
                replica.shown = min(replica.shown, replica.log.end)
        if state.leader != NOBODY:
            self.elect(topic, partition, state.leader)
            self.settle()

    # -- logs -------------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        partition: int,
        batch: bytes,
        *,
        transactional_id: str | None = None,
    ) -> int:
        """Appends on the leader as a Produce request would; returns the base offset. Does not wait
        for the other replicas. Raises Refused, LookupError."""
        replica = self.replica(topic, partition)
        replica.check_leads()
        replica.check_isr()
        return append_batch(replica, batch, transactional_id, 11).base

    def batches(self, topic: str, partition: int) -> list[LogBatch]:
        """The whole log of the leader, from its start to its end, replicated or not."""
        log = self.replica(topic, partition).log
        return list(log.from_offset(log.start))

    def records(self, topic: str, partition: int, *, committed: bool = True) -> list[Record]:
        """The records that a reader sees or has seen, with their offsets: a new leader may begin
        with a lower high watermark than the leader before it."""
        replica = self.replica(topic, partition)
        state = self.controller.get(topic)
        replicas = [self.nodes[n].replica_of(state.id, partition) for n in replica.state.replicas]
        seen = max(max(each.shown, each.high_watermark) for each in replicas if each is not None)
        end = min(seen, replica.log.end)
        if committed:
            first = replica.log.producers.first_unstable(end)
            end = end if first is None else min(first, end)
        aborted = replica.log.aborted if committed else []
        found: list[Record] = []
        for batch in replica.log.from_offset(replica.log.start, end):
            left_out = any(
                each.producer_id == batch.header.producer_id
                and each.first <= batch.base < each.last
                and batch.header.attributes & 0x10
                for each in aborted
            )
            if not batch.is_control and batch.header.records and not left_out:
                found += records_in(batch.raw)
        return [each for each in found if replica.log.start <= each.offset < end]

    def log_range(self, topic: str, partition: int) -> tuple[int, int]:
        """Where the leader's log starts and ends."""
        log = self.replica(topic, partition).log
        return log.start, log.end

    def delete_records(self, topic: str, partition: int, offset: int) -> None:
        self.replica(topic, partition).delete_records(offset)

    def compact(self, topic: str, partition: int, *, below: int | None = None) -> int:
        """Cleans the log of each replica now; returns how many records the leader's one lost."""
        removed = 0
        state = self.controller.get(topic)
        for number in state.partitions[partition].replicas:
            replica = self.nodes[number].replica_of(state.id, partition)
            if replica is not None:
                found = compact(replica, below=below)
                removed = found if replica.leads else removed
        return removed

    def apply_retention(self, topic: str, partition: int) -> None:
        """Now, instead of at the next check. The active segment is closed before."""
        self.replica(topic, partition).aging.apply()

    def expire_producers(self) -> None:
        """As the check in an interval does, in all logs, by the clocks of their brokers."""
        for node in self.nodes:
            for replica in node.replicas.values():
                replica.log.producers.expire_at(node.now_ms())

    # -- groups -----------------------------------------------------------------------------------

    def commit(self, group: str, offsets: Mapping[Place, int]) -> None:
        self.groups.commit(
            group, {place: GroupOffset(offset=offset) for place, offset in offsets.items()}
        )

    def committed(self, group: str) -> dict[Place, int]:
        found = self.groups.groups.get(group)
        return {} if found is None else {p: each.offset for p, each in found.offsets.items()}
