"""`causeway run --until-caught-up`, where it begins, and where it refuses to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, assert_same, mm2_file, run_to_end, status_of

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
FOREVER = {"retention.ms": "-1"}


def values(tools: KafkaTools, topic: str) -> list[bytes | None]:
    return [record.value for record in tools.read(topic)[0]]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_runs_one_after_the_other(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """The first run copies all, or nothing of what asks for the latest; a second one nothing, but
    of a new topic what is younger than --from; a third refuses a target that holds data already
    and copies the rest; a fourth adopts it, and goes on after what it holds."""
    all_of_it, latest = f"{prefix}all", f"latest-{prefix}t"
    source.create_topics([all_of_it, latest])
    with source.transactional(f"{prefix}writer") as transactions:
        for number, commits in enumerate([True, False, True]):
            transactions.begin()
            transactions.send(all_of_it, *(b"%d-%d" % (number, n) for n in range(50)))
            transactions.commit() if commits else transactions.abort()
    source.await_transactions(all_of_it)
    source.produce(latest, [b"before"])
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster, "C": target_cluster},
        "A->B.enabled = true",
        f"A->B.topics = {prefix}.*",
        "A->C.enabled = true",
        f"A->C.topics = latest-{prefix}.*",
        "A->C.consumer.auto.offset.reset = latest",
    )

    run_to_end(file)

    assert_same(source, all_of_it, target, f"A.{all_of_it}")
    assert values(target, f"A.{latest}") == []

    since = f"{prefix}since"
    source.create_topic(since, config=FOREVER)
    now = 1_700_000_000_000
    source.produce(
        since, [Outgoing(value=b"%d" % n, timestamp=now + n * HOUR_MS) for n in range(10)]
    )
    source.produce(latest, [b"after"])
    run_to_end(file, "--from", "2023-11-15T03:43:20Z")  # now + 5.5 hours

    assert_same(source, all_of_it, target, f"A.{all_of_it}")
    assert values(target, f"A.{since}") == [b"6", b"7", b"8", b"9"]
    assert values(target, f"A.{latest}") == [b"after"]

    taken = f"{prefix}taken"
    records = [Outgoing(value=b"%d" % n, timestamp=now + n) for n in range(5)]
    source.create_topic(taken, config=FOREVER)
    target.create_topic(f"A.{taken}", config=FOREVER)
    source.produce(taken, records)
    source.produce(all_of_it, [b"more"])
    target.produce(f"A.{taken}", records[:3])  # by another tool, until yesterday
    refused = causeway("run", file, "--until-caught-up", timeout_s=4 * PATIENCE_S)

    assert refused.code == 7, refused.err
    assert "Traceback" not in refused.err
    assert f"A.{taken} has data already" in refused.err
    assert "--adopt" in refused.err
    assert values(target, f"A.{taken}") == [b"0", b"1", b"2"]
    assert_same(source, all_of_it, target, f"A.{all_of_it}")

    run_to_end(file, "--adopt")

    assert_same(source, taken, target, f"A.{taken}")
    assert_same(source, all_of_it, target, f"A.{all_of_it}")
    assert values(target, f"A.{since}") == [b"6", b"7", b"8", b"9"]
    assert values(target, f"A.{latest}") == [b"after"]


@pytest.mark.timeout(600)
def test_how_a_shared_topic_keeps_its_records_is_left_to_its_owners(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Its time type and its compression are not set back, and both `plan` and `status` say what
    that means. What its records need to be taken in is set, and `plan` says so before."""
    topic = f"{prefix}shared"
    own = {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"}
    source.create_topic(topic)
    target.create_topic(topic, config={**own, "max.message.bytes": "500000"})
    target.produce(topic, [b"of others"])
    source.produce(topic, [Outgoing(value=b"%d" % n, key=b"k") for n in range(50)])
    # A link of its own: A->B has mirrored here before, and its progress topic went with that.
    file = mm2_file(
        tmp_path,
        {"C": source_cluster, "D": target_cluster},
        "C->D.enabled = true",
        f"topics = {prefix}.*",
        "replication.policy.class = IdentityReplicationPolicy",
        "causeway.sole.writer = false",
        "sync.topic.configs.enabled = false",
    )

    planned = causeway("plan", file, "--json").json["links"][0]
    assert [change["configs"] for change in planned["changes"]] == [
        {"max.message.bytes": "1048588", "message.timestamp.after.max.ms": str(2**63 - 1)}
    ]
    (mirrored,) = planned["mirrored"]
    run_to_end(file)
    found = target.topic_config(topic)
    assert {name: found[name] for name in own} == own
    copied = [b"of others", *(b"%d" % n for n in range(50))]
    assert values(target, topic) == copied
    notes = [note["note"] for note in status_of(file)["C->D"]["notes"]]
    assert notes == mirrored["notes"]
    assert {note.partition(" ")[0] for note in notes} == {f"{n}={v}" for n, v in own.items()}
