"""What goes wrong in a run that is made for one guard, at the moment at which the guard matters.

Each script passes with an unmodified mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from causeway.cluster import Cluster
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions import routing
from causeway.link_topics import Entry, Outlet, PartitionProgress
from causeway.records import SEQUENCE_SPACE
from causeway.wire import apis, produce
from tests.simulation import threads
from tests.simulation.cluster import (
    BrokerSession,
    ClusterProducer,
    KafkaCluster,
    LogBatch,
    Refused,
    records_in,
)
from tests.simulation.kernel import SimulatedProcess
from tests.simulation.statements import PROGRESS, InvariantError
from tests.simulation.workload import OTHERS

if TYPE_CHECKING:
    from tests.simulation.run import Run

_LEASE_S: Final = 10.0  # causeway.lease.seconds, by default
_START_S: Final = 12.0  # a driver leads, and lanes relay
_STEP_S: Final = 0.005
_MOST_S: Final = 60.0


def _until(run: Run, so: Callable[[], bool]) -> None:
    end = run.kernel.elapsed + _MOST_S
    while not so() and run.kernel.elapsed < end:
        run.kernel.run_for(_STEP_S)


def _start_all(run: Run) -> None:
    for mirror in run.mirrors:
        if not mirror.alive:
            mirror.start()


def _crash_all(run: Run) -> None:
    for mirror in run.mirrors:
        mirror.crash()


def _mirrored(run: Run) -> list[LogBatch]:
    """What the target has of the only topic."""
    (plan,) = run.scenario.topics
    try:
        found = run.target.batches(plan.mirrored, 0)
    except (LookupError, Refused):
        return []  # the topic does not exist, or has no leader now
    values = ((each, records_in(each.raw)[0].value or b"") for each in found)
    return [each for each, value in values if not value.startswith(OTHERS)]


def _write(cluster: KafkaCluster, topic: str, count: int, what: bytes) -> None:
    records: list[tuple[bytes | None, bytes | None]] = [
        (b"k", b"%s %d " % (what, number)) for number in range(count)
    ]
    ClusterProducer(cluster).write(topic, 0, records)


# -- the clusters ---------------------------------------------------------------------------------


def another_target(run: Run) -> None:
    """The target's addresses lead to another cluster for a while."""
    _lead_elsewhere(run, run.target, topics=False)


def another_source(run: Run) -> None:
    """The source's addresses lead to another cluster, which has a topic of the same name."""
    _lead_elsewhere(run, run.source, topics=True)


def _lead_elsewhere(run: Run, cluster: KafkaCluster, *, topics: bool) -> None:
    run.live(_START_S + 5 * run.kernel.random.random())
    other = KafkaCluster(
        run.kernel,
        cluster.name,
        nodes=run.scenario.nodes,
        cluster_id="another cluster",
        settings=cluster.settings,
    )
    created = [plan.name for plan in run.scenario.topics if topics]
    for name in created:
        other.create_topic(name, 1, run.scenario.replication)
        _write(other, name, 5, b"of another cluster")
    right = run.network.server_at

    def found(host: str, port: int) -> Any:
        return other.node_at(host, port) or right(host, port)

    run.network.server_at = found
    for node in cluster.nodes:
        node.close_connections()
    run.live(25.0)
    if list(other.topics) != created:
        raise InvariantError(f"another cluster has got the topics {list(other.topics)}")
    run.network.server_at = right
    for node in other.nodes:
        node.close_connections()


def truncated_source(run: Run) -> None:
    """The source loses records that are mirrored, and gets others at their offsets."""
    run.live(_START_S)
    (plan,) = run.scenario.topics
    _until(run, lambda: bool(_mirrored(run)) and run.faults.is_calm(run.source))
    run.look()
    batches = run.source.batches(plan.name, 0)
    run.checks.replaced(plan.name)
    last = batches[-min(3, len(batches))]
    run.source.cut(plan.name, 0, last.base)
    _write(run.source, plan.name, 300, b"after the loss")
    run.live(20.0)


def deleted_source(run: Run) -> None:
    """The source deletes records that are not mirrored."""
    run.live(_START_S)
    (plan,) = run.scenario.topics
    _crash_all(run)
    _write(run.source, plan.name, 20, b"deleted soon")
    run.kernel.run_for(1.0)
    run.look()
    run.checks.replaced(plan.name)
    run.source.delete_records(plan.name, 0, run.source.log_range(plan.name, 0)[1] - 5)
    _start_all(run)
    run.live(30.0)


def recreated_source(run: Run) -> None:
    """A topic is recreated while no driver is there, and gets more records than the earlier one."""
    run.live(_START_S)
    (plan,) = run.scenario.topics
    for mirror in run.mirrors:
        mirror.stop()
    _until(run, lambda: not any(mirror.alive for mirror in run.mirrors))
    run.look()
    end = run.source.log_range(plan.name, 0)[1]
    run.checks.replaced(plan.name)
    run.source.delete_topic(plan.name)
    run.kernel.run_for(2.0)
    run.create(plan)
    _write(run.source, plan.name, end + 20, b"of the new topic")
    _start_all(run)
    run.live(30.0)


def without_an_api(run: Run) -> None:
    """The target's brokers learn an API late that the link needs."""
    run.target.lacks = frozenset({apis.INIT_PRODUCER_ID.key})
    run.live(20.0)
    if run.target.topics:
        raise InvariantError(f"without a required API, the link made {list(run.target.topics)}")
    run.target.lacks = frozenset()
    for node in run.target.nodes:
        node.close_connections()
    _start_all(run)


# -- records of the target -------------------------------------------------------------------------


def crashes(run: Run) -> None:
    """The mirror's machine loses its power before it can say what the target has got."""
    run.live(_START_S)
    for _ in range(3):
        before = len(_mirrored(run))
        _until(run, lambda before=before: len(_mirrored(run)) > before)  # type: ignore[misc]
        _crash_all(run)
        run.live(1.0)
        _start_all(run)
        run.live(15.0)


def lost_tail(run: Run) -> None:
    """The target loses acknowledged records."""
    run.live(_START_S)
    (plan,) = run.scenario.topics
    for _ in range(2):
        _until(run, lambda: bool(_mirrored(run)) and run.faults.is_calm(run.target))
        run.look()
        batches = run.target.batches(plan.mirrored, 0)
        count = min(run.kernel.random.randint(1, 4), len(batches) - 2)
        if count > 0:
            run.checks.lost[plan.name, 0] = None
            run.target.cut(plan.mirrored, 0, batches[-count].base)
        run.live(10.0)


def compacted_behind_a_request(run: Run) -> None:
    """A lane dies, and the target appends its last request after the next lane has recovered.
    Meanwhile compaction has removed records of the request from the source, so that the next lane
    sends other records with the same sequences."""
    run.live(_START_S)
    for application in run.applications:
        application.stop()
    run.live(8.0)
    (plan,) = run.scenario.topics
    topic_id = run.target.topics[plan.mirrored].id.bytes
    serve = BrokerSession._serve
    held: list[tuple[BrokerSession, bytes]] = []
    first = [True]

    def serves(session: BrokerSession) -> None:
        frame = session._frames[0] if session._frames else b""
        if int.from_bytes(frame[4:6]) == produce.API_KEY and topic_id in frame:
            if first:
                first.clear()
                held.append((session, session._frames.popleft()))
                return
            while held:
                of_dead_lane, late = held.pop()
                of_dead_lane._frames.appendleft(late)
                serve(of_dead_lane)
        serve(session)

    run.patch.setattr(BrokerSession, "_serve", serves)
    producer = ClusterProducer(run.source)
    producer.write(plan.name, 0, [(b"a", b"late 1 "), (b"b", b"late 2 "), (b"b", b"late 3 ")])
    _until(run, lambda: bool(held))
    run.look()
    for mirror in run.mirrors:
        for lane in mirror.lanes():
            lane.kill("killed")
    producer.write(plan.name, 0, [(b"b", b"late 4 ")])
    producer.write(plan.name, 0, [(b"c", b"late 5 ")])
    run.kernel.run_for(0.5)
    run.look()
    run.source.compact(plan.name, 0)
    run.live(20.0)


def hole(run: Run) -> None:
    """The target loses all records, and with them the producer: it accepts the next batch."""
    run.live(_START_S)
    (plan,) = run.scenario.topics
    _until(run, lambda: bool(_mirrored(run)) and run.faults.is_calm(run.target))
    run.target.cut(plan.mirrored, 0, 0)
    run.kernel.run_for(20.0)
    if (plan.name, 0) not in run.stopped():
        raise InvariantError(f"{plan.name} goes on over a hole in the log of its mirror")


def last_sequence(run: Run) -> None:
    """Sequences begin so high that they soon go on at 0. Then the machine loses its power."""
    claimed = routing.new_outlet

    def begins_high(*given: Any) -> Outlet:
        outlet = claimed(*given)
        sequence = SEQUENCE_SPACE - run.kernel.random.randint(20, 60)
        return outlet.replace(pair=outlet.pair._replace(sequence=sequence))

    run.patch.setattr(routing, "new_outlet", begins_high)
    _until(run, lambda: any(each.header.following < 1 << 30 for each in _mirrored(run)))
    _crash_all(run)
    run.live(1.0)
    _start_all(run)
    run.live(14.0)


def long_life(run: Run) -> None:
    """Nothing goes wrong."""
    run.live(40.0)


# -- drivers ---------------------------------------------------------------------------------------


def _freeze_before_claim(run: Run, then: Callable[[SimulatedProcess], None]) -> None:
    """The first driver that is about to write a claim is frozen."""
    write = Leadership.write
    frozen: list[SimulatedProcess] = []

    def writes(leadership: Leadership, entries: Sequence[Entry]) -> None:
        if not frozen and any(isinstance(each, PartitionProgress) for each in entries):
            process = threads.kernel().here().process
            frozen.append(process)
            process.freeze()
            then(process)
            threads.kernel().give_way()
        write(leadership, entries)

    run.patch.setattr(Leadership, "write", writes)


def frozen_before_a_claim(run: Run) -> None:
    """A driver is frozen before it writes a claim, until another driver has claimed and led."""
    _freeze_before_claim(run, lambda process: run.kernel.later(3 * _LEASE_S, process.thaw))
    run.live(6 * _LEASE_S)


def thawed_before_the_fence(run: Run) -> None:
    """The same, but it is thawed right before another driver takes the lead from it."""
    frozen: list[SimulatedProcess] = []
    _freeze_before_claim(run, frozen.append)
    take_over = Cluster.init_transactional_id

    def takes_over(*given: Any) -> Any:
        if frozen:
            frozen.pop().thaw()
            threads.kernel().wait(1.0)
        return take_over(*given)

    run.patch.setattr(Cluster, "init_transactional_id", takes_over)
    run.live(6 * _LEASE_S)


def crash_at_the_first_record(run: Run) -> None:
    """The machine loses its power as soon as the target has a record."""
    _until(run, lambda: bool(_mirrored(run)))
    _crash_all(run)
    run.live(2.0)
    _start_all(run)
    run.live(2 * _LEASE_S)


def lost_progress(run: Run) -> None:
    """The progress topic loses all its records while no driver is there."""
    run.live(_START_S)
    _until(run, lambda: bool(_mirrored(run)))
    _crash_all(run)
    run.live(1.0)
    run.checks.replaced(run.scenario.topics[0].name)
    run.target.cut(PROGRESS, 0, 0)
    _start_all(run)
    run.live(3 * _LEASE_S)


def lost_progress_of_a_leader(run: Run) -> None:
    """The progress topic loses all its records under a driver that mirrors nothing new."""
    for application in run.applications:
        application.stop()
    run.live(_START_S)
    for application in run.applications:
        application.stopped = False
        application.start()
    _until(run, lambda: bool(_mirrored(run)))
    for application in run.applications:
        application.stop()
    run.live(8.0)
    run.checks.replaced(run.scenario.topics[0].name)
    run.target.cut(PROGRESS, 0, 0)
    run.live(8.0)
    _crash_all(run)
    run.live(1.0)
    _start_all(run)
    run.live(3 * _LEASE_S)
