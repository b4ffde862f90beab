"""Brokers that lack APIs, or versions of them, as some that are not Apache Kafka do.

A plan says what is missing before a run begins. Where recovery can do without an API, a mirror
comes out exact after kills. The brokers are real; proxies hide APIs (tests/harness/limited.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from causeway.cluster import LATEST, Cluster, offsets_at
from causeway.config import LinkSettings, RunSettings, Settings
from causeway.errors import BrokerError
from causeway.model import State, TopicPartition
from causeway.operate.plan import LinkPlan
from causeway.operate.plan import plan as plan_of
from causeway.wire import apis
from tests.harness.battle import FORGETS, battle, ground_of
from tests.harness.daemon import RunningDaemon, link
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import client
from tests.harness.limited import Limits
from tests.harness.proxy import Proxies
from tests.harness.waiting import await_until
from tests.harness.writers import YEARS_AGO

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 3, 10, 19, 22
OFFSET_FOR_LEADER_EPOCH, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS = 23, 35, 37
ALTER_CONFIGS, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS = 44, 61, 65
LIST_TRANSACTIONS, DESCRIBE_CLUSTER, LIST_GROUPS, DESCRIBE_ACLS = 66, 60, 16, 29

# What a link can do without.
OPTIONAL = (
    OFFSET_FOR_LEADER_EPOCH,
    DESCRIBE_LOG_DIRS,
    CREATE_PARTITIONS,
    ALTER_CONFIGS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    DESCRIBE_CLUSTER,
    LIST_GROUPS,
    DESCRIBE_ACLS,
)
REQUEST_TIMEOUT_MS = 6_000


class Pair:
    """Two clusters whose clients come through proxies that hide what `hide` says."""

    def __init__(self) -> None:
        self.limits = {"source": Limits(), "target": Limits()}
        self._proxies = {side: Proxies(limits) for side, limits in self.limits.items()}
        self.clusters = {
            side: LocalCluster(name, advertised=self._proxies[side])
            for side, name in (("source", "A"), ("target", "B"))
        }
        start_all(list(self.clusters.values()))
        self.source, self.target = (
            KafkaTools(cluster.internal_bootstrap) for cluster in self.clusters.values()
        )

    def hide(
        self,
        source: Mapping[int, int | None] | None = None,
        target: Mapping[int, int | None] | None = None,
    ) -> None:
        """For connections to come."""
        for side, highest in (("source", source), ("target", target)):
            self.limits[side].highest = dict(highest or {})
            self.limits[side].refused.clear()

    def link(self, topics: str, **more: object) -> LinkSettings:
        made = link(
            self.clusters["source"].bootstrap, self.clusters["target"].bootstrap, topics, more=more
        )
        a, b = (
            replace(client(alias, cluster.bootstrap), request_timeout_ms=REQUEST_TIMEOUT_MS)
            for alias, cluster in (
                ("A", self.clusters["source"]),
                ("B", self.clusters["target"]),
            )
        )
        return replace(made, source=a, target=b, source_admin=a, target_admin=b)

    def plan(self, topics: str, **more: object) -> LinkPlan:
        settings = Settings(links=(self.link(topics, **more),), run=RunSettings(), spark={})
        (planned,) = plan_of(settings).links
        return planned

    def destroy(self) -> None:
        for cluster in self.clusters.values():
            cluster.destroy()
        for proxies in self._proxies.values():
            proxies.close()


@pytest.fixture(scope="module")
def _pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.destroy()


@pytest.fixture
def pair(_pair: Pair) -> Iterator[Pair]:
    yield _pair
    _pair.hide()


def fill(pair: Pair, topic: str, count: int) -> None:
    pair.source.produce(
        topic, [Outgoing(value=b"%d" % n, key=b"%d" % (n % 7)) for n in range(count)]
    )


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        pytest.param({}, {PRODUCE: 7}, ("B", "Produce", "9", "to 7"), id="produce-7"),
        pytest.param({FETCH: 11}, {}, ("A", "Fetch", "12", "to 11"), id="fetch-11"),
        pytest.param({METADATA: 9}, {}, ("A", "Metadata", "10", "topic ids"), id="source-ids"),
        pytest.param({}, {METADATA: 9}, ("B", "Metadata", "10", "topic ids"), id="target-ids"),
        pytest.param({}, {INIT_PRODUCER_ID: None}, ("B", "InitProducerId"), id="idempotence"),
        pytest.param({}, {CREATE_TOPICS: 3}, ("B", "CreateTopics", "4"), id="create-topics"),
    ],
)
def test_a_plan_names_the_api_that_a_broker_lacks(
    pair: Pair,
    prefix: str,
    source: dict[int, int | None],
    target: dict[int, int | None],
    says: tuple[str, ...],
) -> None:
    topic = prefix + "t"
    pair.source.create_topic(topic)
    fill(pair, topic, 3)
    pair.hide(source, target)

    problems = " | ".join(str(problem.error) for problem in pair.plan(topic).problems)
    assert all(word in problems for word in says), problems
    assert "2.8 or newer" not in problems
    assert not pair.limits["source"].refused + pair.limits["target"].refused


@pytest.mark.parametrize("hidden", [PRODUCE, METADATA, INIT_PRODUCER_ID])
def test_a_run_names_it_and_does_not_begin(
    pair: Pair, prefix: str, monkeypatch: pytest.MonkeyPatch, hidden: int
) -> None:
    topic = prefix + "t"
    pair.source.create_topic(topic)
    pair.hide(target={hidden: 7 if hidden != INIT_PRODUCER_ID else None})

    with RunningDaemon(monkeypatch, pair.link(topic)) as run:
        await_until(lambda: run.result is not None, 120, "the run ends")

    assert isinstance(run.result, BrokerError), run.result
    assert run.result.name == "UNSUPPORTED_VERSION"
    assert " B" in str(run.result)
    assert f"A.{topic}" not in pair.target.topics()


def test_at_least_once_does_without_producer_ids(
    pair: Pair, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "t"
    pair.source.create_topic(topic)
    fill(pair, topic, 100)
    pair.hide(target=dict.fromkeys((*OPTIONAL, INIT_PRODUCER_ID, FIND_COORDINATOR)))
    more = {"delivery": "at-least-once"}

    assert not pair.plan(topic, **more).problems
    with RunningDaemon(monkeypatch, pair.link(topic, **more)) as run:
        run.await_state(topic, State.RUNNING)
        same(pair, topic)
    assert not pair.limits["target"].refused


@pytest.mark.slow
@pytest.mark.parametrize("sole_writer", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_kills_without_the_apis_that_recovery_would_like(
    pair: Pair, prefix: str, monkeypatch: pytest.MonkeyPatch, sole_writer: bool
) -> None:
    """Lanes are killed amid their work; each successor waits, and goes on where the log ends."""
    topic = prefix + "t"
    pair.source.create_topic(topic, 2)
    fill(pair, topic, 100)
    pair.hide(dict.fromkeys(OPTIONAL), dict.fromkeys(OPTIONAL))

    planned = pair.plan(topic, sole_writer=sole_writer)
    assert not planned.problems, planned.problems
    notes = " | ".join(planned.notes)
    for name in ("DescribeProducers", "OffsetForLeaderEpoch", "IncrementalAlterConfigs"):
        assert f"has no {name} " in notes, notes

    with RunningDaemon(monkeypatch, pair.link(topic, sole_writer=sole_writer)) as run:
        run.await_state(topic, State.RUNNING, 2)
        for number in range(2):
            fill(pair, topic, 3_000)
            await_more(pair, topic, 100 + number * 3_000)
            run.kill_lanes()
        same(pair, topic)
    refused = pair.limits["source"].refused + pair.limits["target"].refused
    assert not refused, "nothing is asked that a broker does not have"
    for limits in pair.limits.values():
        for key, versions in limits.asked.items():
            for version in versions:
                assert any(
                    api.key == key and api.lowest <= version <= api.highest for api in apis.ALL
                ), f"API {key} in version {version} is in no table"


@pytest.mark.slow
def test_what_a_killed_lane_has_sent_arrives_late(pair: Pair, prefix: str) -> None:
    """At a broker that forgets a producer of old records at once, so that no sequence keeps what
    comes twice out. The lane's bytes lie in the network for longer than a request may take. Its
    successor still waits for them, as the broker does not have DescribeProducers."""
    limits = Limits(dict.fromkeys(OPTIONAL))
    source, patience_s = pair.clusters["source"], 5.0
    with (
        ground_of(source, limits=limits, properties=FORGETS) as ground,
        battle(ground, prefix, lease_s=1, patience_s=patience_s) as it,
    ):
        it.create()
        it.written(100, timestamp=YEARS_AGO)
        it.claim()
        it.driver.start_lane(0)
        it.await_mirrored()
        proxy = ground.proxies[1]
        proxy.stall("up", client_ports=it.ports_of(0))
        it.written(50, timestamp=YEARS_AGO)
        await_until(lambda: proxy.held > 500, what="a batch is on its way")
        it.driver.kill(0)
        it.driver.start_lane(1)
        await_until(lambda: "DescribeProducers" in it.await_state(State.RECOVERING))
        threading.Event().wait(1.5 * patience_s)  # of twice that and 5 s
        proxy.release()
        it.written(50, timestamp=YEARS_AGO)

        it.await_mirrored()
        it.assert_same()
        it.driver.kill(1)
        it.driver.start_lane(2)
        it.written(50, timestamp=YEARS_AGO)
        it.await_mirrored()
        it.assert_same()
    assert not limits.refused


@pytest.mark.slow
def test_what_followers_lack_is_seen_without_offset_for_leader_epoch() -> None:
    """A follower waits for much before it copies anything: no reader sees what the leader holds."""
    limits = Limits()
    slow = {
        "replica.fetch.min.bytes": str(100_000_000),
        "replica.fetch.wait.max.ms": "25000",
        "replica.lag.time.max.ms": "120000",
    }
    proxies = Proxies(limits)
    with LocalCluster("B", brokers=2, advertised=proxies, properties=slow) as cluster:
        tools = KafkaTools(cluster.internal_bootstrap)
        tools.create_topic("t", replication_factor=2)
        tools.produce("t", [b"copied"])  # the follower's next request is held from now on
        tools.produce("t", [b"lacking"] * 5, settings={"enable.idempotence": False, "acks": "1"})
        place = TopicPartition("t", 0)
        for hidden in (None, OFFSET_FOR_LEADER_EPOCH):
            limits.highest = {} if hidden is None else {hidden: None}
            with Cluster(client("B", cluster.bootstrap)) as asked:
                shown, end = (
                    offsets_at(asked, [place], LATEST)[place],
                    asked.log_ends([place])[place],
                )
                assert (shown, end) == (1, 6 if hidden is None else 2)
        with Cluster(client("B", cluster.bootstrap)) as asked:
            await_until(lambda: asked.log_ends([place])[place] == 6, 120, "the follower has all")
            assert offsets_at(asked, [place], LATEST)[place] == 6
    assert not limits.refused
    proxies.close()


def await_more(pair: Pair, topic: str, than: int) -> None:
    def more() -> bool:
        return sum(pair.target.offsets(f"A.{topic}").values()) > than

    await_until(more, 120, f"more than {than} records are mirrored", poll_s=0.005)


def same(pair: Pair, topic: str) -> None:
    await_until(
        lambda: pair.source.digests(topic) == pair.target.digests(f"A.{topic}"),
        240,
        f"{topic} mirrored",
    )
