"""`causeway verify`: a mirror that agrees is told from one that does not, whose flaws are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causeway.cluster import Cluster
from causeway.config import Settings
from causeway.formats import load
from causeway.operate.verify import Agreement, DifferenceKind, job, stretches, verify
from tests.harness import flawed
from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import WHOLE_BATCHES, KafkaTools, Outgoing
from tests.harness.running import mm2_file, run_to_end

pytestmark = pytest.mark.integration

FOREVER = {"retention.ms": "-1"}
RECORDS = 50_000  # a partition
FLIPPED, MISSING, DOUBLED, SWAPPED = 3_000, 10_000, 40_000, 25_000


@pytest.fixture(scope="module")
def with_flaws(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Settings:
    """Two partitions of 50,000 records; in the first one byte is flipped, one record missing and
    one doubled, in the second two are swapped."""
    file = mm2_file(
        tmp_path_factory.mktemp("flawed"),
        {"flawed": source_cluster, "there": target_cluster},
        "flawed->there.enabled = true",
        "flawed->there.topics = flawed-orders",
    )
    settings = load(file)
    source.create_topic("flawed-orders", 2, config=FOREVER)
    target.create_topic("flawed.flawed-orders", 2, config=FOREVER)
    source.produce(
        "flawed-orders",
        [
            Outgoing(
                value=b'{"order": %d, "text": "%d"}' % (n, n * n),
                key=b"%d" % (n % 1_000),
                partition=n % 2,
            )
            for n in range(2 * RECORDS)
        ],
    )
    (link,) = settings.links
    with Cluster(link.source) as one, Cluster(link.target) as other:
        ends = flawed.mirror(
            link,
            "flawed-orders",
            {
                (0, FLIPPED): flawed.flip,
                (0, MISSING): flawed.drop,
                (0, DOUBLED): flawed.double,
                (1, SWAPPED): flawed.swap,
            },
            2,
            source=one,
            target=other,
        )
    assert ends == {0: RECORDS, 1: RECORDS}
    return settings


@pytest.mark.parametrize("spark", [False, True])
def test_each_of_four_flaws_among_100_000_records_is_named(
    with_flaws: Settings, monkeypatch: pytest.MonkeyPatch, spark: bool
) -> None:
    """In ranges of 256 kB, all between the missing and the doubled record lie one place off."""
    monkeypatch.setattr(stretches, "RANGE_BYTES", 256 * 1024)
    if spark:
        monkeypatch.setattr(job, "HERE_BYTES", -1)

    report = verify(with_flaws, topics=["flawed-orders"])

    first, second = report.partitions
    assert (first.verdict, second.verdict) == (Agreement.DIFFERS, Agreement.DIFFERS)
    assert [(one.kind, one.source, one.target, one.records) for one in first.differences] == [
        (DifferenceKind.CHANGED, FLIPPED, FLIPPED, 1),
        (DifferenceKind.MISSING, MISSING, MISSING, 1),
        (DifferenceKind.DOUBLED, DOUBLED, DOUBLED, 1),
    ]
    assert str(first.differences[0].detail).startswith("1 of ")
    assert first.different == 3
    assert first.records == RECORDS - 2
    (swapped,) = second.differences
    assert swapped.kind is DifferenceKind.SWAPPED
    assert swapped.source in (SWAPPED, SWAPPED - 1)
    assert swapped.other == (swapped.source + 1, swapped.target + 1)
    assert second.records == RECORDS - 2


@pytest.mark.slow
def test_a_mirror_agrees_however_its_records_were_written(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
    prefix: str,
) -> None:
    """Large batches, also compressed, records one by one (which lanes merge), aborted transactions.
    A second call with the same state has nothing left to do but what came
    since."""
    plain, small, aborted, packed = (f"{prefix}{name}" for name in ("p", "s", "a", "z"))
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"A->B.topics = {prefix}.*",
    )
    source.create_topics([plain, small, aborted, packed], config=FOREVER)
    source.set_topic_config(packed, {"compression.type": "zstd"})
    values = [b"value %d" % n + bytes(100) for n in range(5_000)]
    source.produce(plain, values, settings=WHOLE_BATCHES)
    source.produce(packed, values, settings=WHOLE_BATCHES)
    with source.transactional(f"{prefix}writer") as transactions:
        for number, commits in enumerate([True, False, True]):
            transactions.begin()
            transactions.send(aborted, *(b"%d-%d" % (number, n) for n in range(500)))
            transactions.commit() if commits else transactions.abort()
    for number in range(20):
        source.produce(small, [b"%d" % number])
    source.await_transactions(aborted)
    run_to_end(file)

    state = tmp_path / "verified.json"
    found = causeway(
        "verify", file, "--json", "--state", state, *_topics(plain, small, aborted, packed)
    )
    assert found.code == 0, found.err
    report = json.loads(found.out)
    assert report["agrees"], report
    by_topic = {one["topic"]: one for one in report["partitions"]}
    assert {name: one["records"] for name, one in by_topic.items()} == {
        plain: 5_000,
        small: 20,
        aborted: 1_000,
        packed: 5_000,
    }
    assert by_topic[plain]["records_byte_by_byte"] == 5_000
    assert by_topic[packed]["records_byte_by_byte"] == 5_000

    source.produce(plain, [b"not yet there"])
    found = causeway("verify", file, "--state", state, "--strict", "--topic", plain)
    assert found.code == 14
    assert "source offsets 5000 to 5000 are not mirrored yet" in found.out
    run_to_end(file)
    again = verify(load(file), topics=[plain], state=state)
    assert again.agrees
    assert [(one.records, one.before) for one in again.partitions] == [(5_001, 5_000)]


def _topics(*names: str) -> list[str]:
    return [part for name in names for part in ("--topic", name)]
