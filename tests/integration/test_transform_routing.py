"""One topic routed into three by event type, as data demands; and transforms that change."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from causeway.cluster import Cluster
from causeway.formats import load_mm2
from causeway.link_topics import PartitionProgress, ProgressTopic
from tests.harness.command import SOURCES, causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing, Record
from tests.harness.running import PATIENCE_S, Running, mm2_file, run_to_end, status_of
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

TYPES = ("created", "paid", "shipped")
# Kills the driver where it is about to enter a method of Outlets, the first time for each.
DEADLY = """
import os, signal, sys
from pathlib import Path

if any(Path(word).name == "causeway" for word in sys.orig_argv[:2]):
    from causeway.daemon.partitions.outlets import Outlets

    def deadly(name, enter):
        def entered(*given):
            try:
                (Path(__file__).parent / name).touch(exist_ok=False)
            except FileExistsError:
                return enter(*given)
            os.kill(os.getpid(), signal.SIGKILL)
        return entered

    for name in ("_claim", "_give_back"):
        setattr(Outlets, name, deadly(name, getattr(Outlets, name)))
"""


def events(numbers: Iterable[int], partitions: int) -> list[Outgoing]:
    return [
        Outgoing(
            value=json.dumps({"type": TYPES[number % 3], "n": number}).encode(),
            key=b"k%d" % number,
            partition=number % partitions,
        )
        for number in numbers
    ]


def of_type(records: list[Record], kind: str) -> list[tuple[object, ...]]:
    return [r.content for r in records if json.loads(r.value or b"")["type"] == kind]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_one_topic_into_three_though_the_driver_dies_at_each_step_of_a_claim(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """`paid` is a topic of the source too, mirrored as it is: two kinds of flows feed its mirror,
    and neither takes the other for a stranger."""
    topic, paid = f"{prefix}events", f"{prefix}paid"
    source.create_topic(topic, 2, config={"retention.ms": "777000000"})
    source.create_topic(paid, 1, config={"retention.ms": "888000000"})
    source.produce(paid, [Outgoing(value=b'{"type": "own", "n": %d}' % n) for n in range(50)])
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {topic}, {paid}",
        "causeway.lease.ms = 3000",
        "A->B.causeway.transforms = by-type",
        f"A->B.causeway.transform.by-type.topics = {topic}",
        "A->B.causeway.transform.by-type.value.format = json",
        "A->B.causeway.transform.by-type.sql = SELECT "
        f"concat('{prefix}', get_json_object(value, '$.type')) AS topic FROM records",
    )
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "sitecustomize.py").write_text(DEADLY)
    environment = {"PYTHONPATH": os.pathsep.join([str(trap), str(SOURCES)])}
    source.produce(topic, events(range(300), 2))

    for step in ("_claim", "_give_back"):
        with Running("run", file, directory=tmp_path, environment=environment) as run:
            await_until(lambda run=run: not run.alive, PATIENCE_S, f"death at {step}")  # type: ignore[misc]
            run.await_nothing_left()
        assert (trap / step).exists()
    # Claimed and never used: whoever comes next goes on with it.
    claimed = [o for p in progress_of(file) for o in p.outlets if o.routed is not None]
    assert claimed

    with Running("run", file, directory=tmp_path, environment=environment) as run:
        await_routed(source, topic, target, prefix)
        source.produce(topic, events(range(300, 600), 2))
        source.produce(paid, [Outgoing(value=b'{"type": "own", "n": %d}' % n) for n in range(9)])
        await_routed(source, topic, target, prefix)
        used = {o.producer_id for p in progress_of(file) for o in p.outlets}
        assert {o.producer_id for o in claimed} <= used
        assert run.stop() == 0, run.log

    (found,) = status_of(file).values()
    assert {p["state"] for p in found["partitions"]} == {"no running driver"}
    for read_committed in (False, True):
        for kind in TYPES:
            copies = target.read(f"A.{prefix}{kind}", read_committed=read_committed)
            for partition, records in source.read(topic).items():
                routed = of_type(copies[partition], kind)
                assert routed == of_type(records, kind), f"{kind}-{partition}"
        mirror = target.read(f"A.{paid}", read_committed=read_committed)
        own = [r.content for r in source.read(paid)[0]]
        assert of_type(mirror[0], "own") == own
    assert target.offsets(f"A.{topic}") == {0: 0, 1: 0}
    for kind, retention in (
        ("created", "777000000"),
        ("shipped", "777000000"),
        ("paid", "888000000"),
    ):
        assert target.partition_count(f"A.{prefix}{kind}") == 2
        assert target.topic_config(f"A.{prefix}{kind}")["retention.ms"] == retention


def shouting(number: int) -> str:
    sql = f"SELECT concat('v{number} ', value) AS value FROM records"
    return f"A->B.causeway.transform.loud.sql = {sql}"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_changed_transform_goes_on_behind_its_predecessor_or_stops(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Progress is written once a minute only, so what a killed driver has sent lies behind it."""
    topic = f"{prefix}talk"
    source.create_topic(topic)

    def version(number: int) -> Path:
        return mm2_file(
            tmp_path,
            {"A": source_cluster, "B": target_cluster},
            "A->B.enabled = true",
            f"topics = {topic}",
            "causeway.lease.ms = 2000",
            "causeway.progress.interval.ms = 60000",
            "A->B.causeway.transforms = loud",
            f"A->B.causeway.transform.loud.topics = {topic}",
            "A->B.causeway.transform.loud.value.format = string",
            shouting(number),
        )

    def say(words: str) -> None:
        source.produce(topic, [Outgoing(value=f"{words} {n}".encode()) for n in range(20)])

    def heard() -> list[str]:
        return [(record.value or b"").decode() for record in target.read(f"A.{topic}")[0]]

    def await_heard(count: int) -> None:
        await_until(
            lambda: (
                target.partition_count(f"A.{topic}") and target.offsets(f"A.{topic}")[0] >= count
            ),
            PATIENCE_S,
            f"{count} records",
        )

    say("one")
    with Running("run", version(1), directory=tmp_path) as run:
        await_heard(20)
        run.kill()
    expected = [f"v1 one {n}" for n in range(20)]
    assert heard() == expected

    ended = causeway("run", version(2), "--until-caught-up", timeout_s=PATIENCE_S)
    assert ended.code != 0
    assert "run once with the earlier one and --finish-in-flight" in ended.err
    assert heard() == expected, "nothing is lost, doubled or let through by it"

    say("two")
    ended = causeway("run", version(1), "--finish-in-flight", timeout_s=2 * PATIENCE_S)
    assert ended.code == 0, ended.err
    assert heard() == expected, "the earlier version treats no backlog"
    run_to_end(version(2))
    assert heard() == [*expected, *(f"v2 two {n}" for n in range(20))]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_topic_that_a_transform_led_to_and_that_is_deleted_stops_its_partitions(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Others go on. With --adopt it is made again once a record leads there."""
    topic, led = f"{prefix}words", f"A.{prefix}eu"
    source.create_topic(topic, 2)
    sql = f"SELECT IF(value LIKE 'eu%', '{prefix}eu', NULL) AS topic FROM records"
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {topic}",
        "refresh.topics.interval.seconds = 1",
        "A->B.causeway.transforms = led",
        f"A->B.causeway.transform.led.topics = {topic}",
        "A->B.causeway.transform.led.value.format = string",
        f"A->B.causeway.transform.led.sql = {sql}",
    )

    def say(*words: bytes, partition: int) -> None:
        source.produce(topic, [Outgoing(value=word, partition=partition) for word in words])

    def ends(name: str) -> dict[int, int]:
        return target.offsets(name) if target.partition_count(name) is not None else {}

    say(b"eu 1", b"us 1", partition=0)
    say(b"us 2", partition=1)
    with Running("run", file, directory=tmp_path) as run:
        await_until(lambda: ends(led).get(0) == 1, PATIENCE_S, "the led topic")
        await_until(lambda: ends(f"A.{topic}") == {0: 1, 1: 1}, PATIENCE_S, "the others")
        target.delete_topic(led)

        def stopped() -> str:
            found = status_of(file)["A->B"]["partitions"]
            return next((p["reason"] for p in found if p["state"] == "stopped"), "")

        reason = await_until(stopped, PATIENCE_S, "its partition stops")
        assert reason.startswith(f"{led}, to which its transform leads, was deleted")
        assert "--adopt" in reason
        say(b"us 3", partition=1)
        await_until(lambda: ends(f"A.{topic}") == {0: 1, 1: 2}, PATIENCE_S, "what is not concerned")
        assert run.stop() == 0, run.log
    say(b"eu 4", b"us 4", partition=0)
    run_to_end(file, "--adopt")
    assert [record.value for record in target.read(led)[0]] == [b"eu 4"]
    assert [record.value for record in target.read(f"A.{topic}")[0]] == [b"us 1", b"us 4"]


def await_routed(source: KafkaTools, topic: str, target: KafkaTools, prefix: str) -> None:
    """Until the target has, in all, as many records as the source."""
    names = [f"A.{prefix}{kind}" for kind in TYPES]
    wanted = sum(source.offsets(topic).values()) + sum(source.offsets(f"{prefix}paid").values())

    def there() -> bool:
        if any(target.partition_count(name) is None for name in names):
            return False
        return sum(sum(target.offsets(name).values()) for name in names) >= wanted

    await_until(there, PATIENCE_S, f"{wanted} records in {names}")


def progress_of(file: Path) -> list[PartitionProgress]:
    (link,) = load_mm2(file).links
    cluster = Cluster(link.target)
    try:
        return list(ProgressTopic(cluster, link.progress_topic).read().partitions.values())
    finally:
        cluster.close()
