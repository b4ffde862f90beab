"""causeway_producer on real brokers: an application is killed again and again, and so are the
brokers of both sides. In the end both sides have the same records, each once, in the same order in
the same partition. Each record that was reported as delivered is on both sides."""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from causeway_producer import ID_HEADER, DualProducer
from tests.harness.command import command_environment
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka.security import Security
from tests.harness.kafka_tools import KafkaTools, Outgoing, Record
from tests.harness.running import PATIENCE_S, Running, mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

ORDERS = Path(__file__).parents[2] / "examples" / "two-data-centres" / "orders.py"
PARTITIONS = 3
_SETTLE_S = 1.0

Logs = dict[int, list[Record]]


class Application:
    """The example, in a process of its own, on one spool."""

    def __init__(self, east: LocalCluster, west: LocalCluster, topic: str, directory: Path) -> None:
        self.topic = topic
        self.spool = directory / "spool"
        self._words = [east.bootstrap, west.bootstrap, topic, "--spool", str(self.spool)]
        self._reported = directory / "reported"
        self._reported.touch()
        self._said = directory / "said"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str, most_bytes_a_file: int | None = None) -> None:
        """`most_bytes_a_file`: a full disk, for one who writes."""
        limit = None
        if most_bytes_a_file is not None:
            sizes = (most_bytes_a_file, resource.RLIM_INFINITY)
            limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, sizes)
        with self._reported.open("ab") as out, self._said.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, ORDERS, *self._words, "--settle", str(_SETTLE_S), *words],
                env=command_environment(),
                stdout=out,
                stderr=said,
                preexec_fn=limit,
            )

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self._said.read_text()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self, count: int = 10) -> None:
        """One more life that catches up, and writes `count` more."""
        self.start("--count", str(count))
        assert self._process is not None
        assert self._process.wait(120) == 0, self._said.read_text()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def await_reported(self, more: int) -> None:
        wanted = len(self.reported()) + more
        await_until(lambda: len(self.reported()) >= wanted, poll_s=0.01)

    def said(self) -> str:
        return self._said.read_text()

    def reported(self) -> list[str]:
        """Lines cut short by a kill are left out."""
        return self._reported.read_text().split("\n")[:-1]


def assert_alike(
    application: Application, east: KafkaTools, west: KafkaTools, *, refused: bool = False
) -> Logs:
    """`refused`: there may be orders that the application was told are on neither side."""
    logs = east.read(application.topic)
    assert {p: [r.content for r in records] for p, records in logs.items()} == {
        p: [r.content for r in records] for p, records in west.read(application.topic).items()
    }
    ids = Counter(dict(r.headers)[ID_HEADER] for records in logs.values() for r in records)
    assert [each for each, count in ids.items() if count > 1] == []
    written = Counter((r.value or b"").decode() for records in logs.values() for r in records)
    assert set(written.values()) <= {1}
    assert set(application.reported()) <= set(written)
    by_life: dict[str, list[int]] = {}
    for records in logs.values():
        for life, number in ((r.value or b"").decode().split("-") for r in records):
            by_life.setdefault(life, []).append(int(number))
    # No hole either: of each life, all up to its last order.
    for numbers in () if refused else by_life.values():
        assert sorted(numbers) == list(range(len(numbers)))
    return logs


@pytest.fixture
def application(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> Iterator[Application]:
    for side in (source, target):
        side.create_topic(prefix + "orders", PARTITIONS)
    application = Application(source_cluster, target_cluster, prefix + "orders", tmp_path)
    yield application
    application.stop()


def test_an_application_that_is_killed_again_and_again(
    application: Application, source: KafkaTools, target: KafkaTools
) -> None:
    chance = random.Random(1)
    for _ in range(4):
        application.start("--rate", "5000")
        application.await_reported(chance.randint(1, 3000))
        application.kill()
    application.end()

    logs = assert_alike(application, source, target)
    assert set(logs) == set(range(PARTITIONS))


def told(errors: dict[int, object], number: int, error: object, _: object) -> None:
    errors[number] = error


def test_a_record_that_one_broker_refuses_does_not_lose_other_records(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Too large for the topic of one side; its neighbours were in one batch with it."""
    topic = prefix + "orders"
    source.create_topic(topic)
    target.create_topic(topic, config={"max.message.bytes": "5000"})
    errors: dict[int, object] = {}
    with DualProducer(
        {"bootstrap.servers": source_cluster.bootstrap, "linger.ms": 50},
        {"bootstrap.servers": target_cluster.bootstrap, "linger.ms": 50},
        spool=tmp_path / "spool",
        settle_s=0.1,
    ) as producer:
        for number in range(50):
            value = b"x" * 9000 if number == 20 else b"%d" % number
            producer.produce(topic, value, on_delivery=partial(told, errors, number))
        assert producer.flush(120) == 0
    assert {n: e for n, e in errors.items() if e is not None} == {
        20: KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    }
    assert sorted(errors) == list(range(50))
    (here,), (there,) = source.read(topic).values(), target.read(topic).values()
    assert len(here) == 50
    assert [r.content for r in there] == [r.content for r in here if len(r.value or b"") < 5000]


def test_an_application_whose_disk_is_full(
    application: Application, source: KafkaTools, target: KafkaTools
) -> None:
    """Exactly the orders that could not be written are reported. The application goes on when there
    is room again."""
    application.start("--rate", "5000", most_bytes_a_file=150_000)
    # More than fit in one file, and soon: the ledger's own file grows by a page each second.
    application.await_reported(2500)
    application.kill()
    application.end()

    assert_alike(application, source, target, refused=True)
    assert "cannot be written" in application.said()


def test_a_topic_that_one_side_has_lost_does_not_delay_other_topics(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
) -> None:
    lost, kept = prefix + "lost", prefix + "kept"
    for side in (source, target):
        for topic in (lost, kept):
            side.create_topic(topic)
        side.set_topic_config(lost, {"retention.ms": "-1"})
    heard: list[str] = []
    with DualProducer(
        {"bootstrap.servers": source_cluster.bootstrap, "log_level": 0},
        {
            "bootstrap.servers": target_cluster.bootstrap,
            "log_level": 0,
            "topic.metadata.propagation.max.ms": 1000,
            "topic.metadata.refresh.interval.ms": 1000,
            "error_cb": lambda error: heard.append(error.str()),
        },
        spool=tmp_path / "spool",
        policy="any",
        settle_s=0.5,
    ) as producer:

        def write(count: int) -> None:
            for number in range(count):
                for topic in (lost, kept):
                    producer.produce(topic, b"%d" % number)
            producer.flush()

        def so(condition: Callable[[], object]) -> None:
            def polled() -> object:
                producer.poll(0.05)
                return condition()

            await_until(polled, 90)

        write(10)
        so(lambda: target.offsets(lost) == {0: 10})
        target.delete_topic(lost)
        await_until(lambda: lost not in target.topics(), 60)
        write(20)
        so(lambda: list(producer.stats()["sides"]["west"]["waiting"]) == [lost])
        write(5)
        so(lambda: target.offsets(kept) == {0: 35})
        assert heard
        assert source.offsets(lost) == {0: 35}
        target.create_topic(lost)
        so(lambda: target.offsets(lost) == {0: 25})
        assert producer.stats()["sides"]["west"]["waiting"] == {}
    (here,), (there,) = source.read(lost).values(), target.read(lost).values()
    assert [r.content for r in there] == [r.content for r in here[10:]]


@pytest.mark.slow
def test_a_topic_without_the_right_to_write_does_not_delay_other_topics(
    source_cluster: LocalCluster, source: KafkaTools, prefix: str, tmp_path: Path
) -> None:
    """A real broker with ACLs: the right is removed during the writing, and given back."""
    denied, kept = prefix + "denied", prefix + "kept"
    security = Security(
        protocol="SASL_PLAINTEXT", mechanisms=("PLAIN",), users={"app": "pssst"}, acl=True
    )
    cluster = LocalCluster("west", security=security)
    try:
        start_all([cluster])
        target = KafkaTools(cluster.internal_bootstrap)
        for topic in (denied, kept):
            for side in (source, target):
                side.create_topic(topic, PARTITIONS)
            for operation in (AclOperation.READ, AclOperation.WRITE):
                target.allow("app", operation, ResourceType.TOPIC, topic)
        with DualProducer(
            {"bootstrap.servers": source_cluster.bootstrap, "log_level": 0},
            {
                "bootstrap.servers": cluster.bootstrap,
                "log_level": 0,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "app",
                "sasl.password": "pssst",
            },
            spool=tmp_path / "spool",
            policy="any",
            settle_s=0.5,
        ) as producer:
            number = 0

            def write_until(condition: Callable[[], object]) -> None:
                def written() -> object:
                    nonlocal number
                    for topic in (denied, kept):
                        producer.produce(topic, b"%d" % number, key=b"%d" % (number % 10))
                    number += 1
                    producer.poll(0.02)
                    return condition()

                await_until(written, 60, poll_s=0)

            def waiting() -> list[str]:
                return list(producer.stats()["sides"]["west"]["waiting"])

            def there(topic: str) -> int:
                return sum(target.offsets(topic).values())

            write_until(lambda: there(denied) >= 20)
            rule = AclBindingFilter(
                ResourceType.TOPIC,
                denied,
                ResourcePatternType.LITERAL,
                None,
                None,
                AclOperation.WRITE,
                AclPermissionType.ANY,
            )
            for deleted in target.admin.delete_acls([rule]).values():
                deleted.result()
            write_until(lambda: waiting() == [denied])
            before, so_far = there(denied), there(kept)
            write_until(lambda: there(kept) >= so_far + 20)
            assert waiting() == [denied]
            assert there(denied) == before
            target.allow("app", AclOperation.WRITE, ResourceType.TOPIC, denied)
            write_until(lambda: not waiting())
            assert producer.close(60)
        for topic in (denied, kept):
            logs = source.read(topic)
            assert sum(map(len, logs.values())) == number
            assert {p: [r.content for r in records] for p, records in logs.items()} == {
                p: [r.content for r in records] for p, records in target.read(topic).items()
            }
    finally:
        cluster.destroy()


def test_next_to_a_mirror_no_record_is_doubled(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
) -> None:
    """One application writes to both sides; another one on one side, and the mirror takes its
    records, and no others, across."""
    topic = prefix + "orders"
    for side in (source, target):
        side.create_topic(topic)
    file = mm2_file(
        tmp_path,
        {"west": source_cluster, "east": target_cluster},  # a link of no other test
        "west->east.enabled = true",
        f"west->east.topics = {topic}",
        "replication.policy.class = IdentityReplicationPolicy",
        f"west->east.causeway.skip.header = {ID_HEADER}",
    )
    with (
        Running("run", file, directory=tmp_path) as run,
        DualProducer(
            {"bootstrap.servers": source_cluster.bootstrap},
            {"bootstrap.servers": target_cluster.bootstrap},
            spool=tmp_path / "spool",
        ) as producer,
    ):
        for number in range(200):
            producer.produce(topic, b"both %d" % number)
            if number % 10 == 0:
                source.produce(topic, [Outgoing(value=b"one %d" % number)])
            producer.poll(0.005)
        assert producer.flush(60) == 0
        await_until(lambda: target.offsets(topic)[0] >= 220, PATIENCE_S)
        source.produce(topic, [Outgoing(value=b"one last")])  # all before it was looked at
        await_until(lambda: target.read(topic)[0][-1].value == b"one last", PATIENCE_S)
        assert run.stop() == 0
    here, there = (Counter(r.value for r in side.read(topic)[0]) for side in (source, target))
    assert set(there.values()) == {1}
    assert here == there


@pytest.mark.slow
def test_a_broker_s_death_makes_the_other_side_the_primary_one(tmp_path: Path) -> None:
    """Real brokers: orders are delivered on while the first side is dead; when it is back it gets
    what it lacks, and becomes the primary one again."""
    clusters = LocalCluster("east"), LocalCluster("west")
    swaps: list[tuple[str, str]] = []
    errors: list[object] = []
    try:
        start_all(clusters)
        east, west = (KafkaTools(cluster.bootstrap) for cluster in clusters)
        for side in (east, west):
            side.create_topic("orders", PARTITIONS)
        with DualProducer(
            {"bootstrap.servers": clusters[0].bootstrap, "log_level": 0},
            {"bootstrap.servers": clusters[1].bootstrap, "log_level": 0},
            spool=tmp_path / "spool",
            policy="primary",
            failover_after_s=3,
            settle_s=1,
            on_failover=lambda *who: swaps.append(who),
        ) as producer:

            def write(until: Callable[[], object]) -> None:
                def one() -> object:
                    producer.produce("orders", b"", on_delivery=lambda e, m: errors.append(e))
                    producer.poll(0.02)
                    return until()

                await_until(one, 90, poll_s=0)

            write(lambda: len(errors) > 20)
            clusters[0].kill()
            write(lambda: swaps == [("east", "west")])
            delivered = len(errors)
            write(lambda: len(errors) > delivered + 50)
            clusters[0].restart()
            write(lambda: swaps == [("east", "west"), ("west", "east")])
            assert producer.close(60)
        assert set(errors) == {None}
        logs = east.read("orders")
        assert sum(map(len, logs.values())) == len(errors)
        assert {p: [r.content for r in rs] for p, rs in logs.items()} == {
            p: [r.content for r in rs] for p, rs in west.read("orders").items()
        }
    finally:
        for cluster in clusters:
            cluster.destroy()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["both", "primary", "any"])
def test_brokers_and_application_are_killed(policy: str, tmp_path: Path) -> None:
    """A round: a side's broker is killed while the application writes; the application as well,
    before or after the broker is back, or not at all."""
    chance = random.Random(policy)
    clusters = LocalCluster("east"), LocalCluster("west")
    application = Application(*clusters, "orders", tmp_path)
    try:
        start_all(clusters)
        east, west = (KafkaTools(cluster.bootstrap) for cluster in clusters)
        for side in (east, west):
            side.create_topic("orders", PARTITIONS)
        words = ("--policy", policy, "--rate", "2000")
        application.start(*words)
        for number in range(8):
            application.await_reported(100)
            cluster = clusters[number % 2]
            cluster.kill()
            when = chance.choice(["before", "after", "never"])
            if when == "before":
                application.kill()
                application.start(*words)
            cluster.restart()
            if when == "after":
                application.kill()
                application.start(*words)
        application.kill()
        application.end()
        assert_alike(application, east, west)
    finally:
        application.stop()
        for cluster in clusters:
            cluster.destroy()
