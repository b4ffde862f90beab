"""One topic on two clusters, written on both, mirrored both ways under the same name."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from psutil import NoSuchProcess

from causeway.relay.treatment import ORIGIN
from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing, Record
from tests.harness.running import PATIENCE_S, Running, mm2_file, status_of
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration

SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
PARTITIONS = 2
SKIPPED = "x-id"

Own = Mapping[int, Sequence[tuple[object, ...]]]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("kills", "still_s"), [(1, 5.0), pytest.param(6, 180.0, marks=pytest.mark.slow)]
)
def test_each_record_comes_to_the_other_side_once_and_no_further(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    kills: int,
    still_s: float,
) -> None:
    """Transactions are written on both sides while lanes and drivers are killed. In the end each
    side has, in every partition, its own records and the other's, each once, the other's in the
    order in which they were written there; and it stays so, for minutes in the long run: nothing
    goes round, while records of another topic go both ways, one after the other. What has the
    header of records that a program writes to both sides is not mirrored."""
    topic, ticks = prefix + "t", prefix + "ticks"
    # Both at once: each mirror would make the other's, and they are written to from the start.
    for tools in (source, target):
        tools.create_topic(topic, PARTITIONS)
        tools.create_topic(ticks)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        "B->A.enabled = true",
        f"topics = {prefix}.*",
        "replication.policy.class = IdentityReplicationPolicy",
        "causeway.provenance = header",
        f"causeway.skip.header = {SKIPPED}",
        "causeway.lease.ms = 5000",
    )
    chance = random.Random(SEED)
    both = [Outgoing(value=b"both", headers=[(SKIPPED, b"%d" % n)], partition=0) for n in range(9)]

    with (
        writing(source, topic, PARTITIONS, seed=SEED) as here,
        writing(target, topic, PARTITIONS, seed=SEED + 1) as there,
    ):
        source.produce(topic, both)
        target.produce(topic, both)
        for _ in range(kills):
            with Running("run", file, directory=tmp_path) as run:
                begun = _mirrored(source, topic, target)
                workers = await_until(
                    lambda run=run: (found := run.workers())[1:] and found,  # type: ignore[misc]
                    PATIENCE_S,
                    "it has lanes",
                )
                with suppress(NoSuchProcess):  # one that is idle may end by itself
                    chance.choice(workers).kill()
                await_until(
                    lambda begun=begun: all(  # type: ignore[misc]
                        now > then
                        for now, then in zip(_mirrored(source, topic, target), begun, strict=True)
                    ),
                    PATIENCE_S,
                    "both sides get more after a lane was killed",
                )
                run.kill()
        here.end()
        there.end()
        with Running("run", file, directory=tmp_path) as run:
            await_until(
                lambda: _left(source, topic, target) == 0, PATIENCE_S, "all is on both sides"
            )
            # Those before may have done all; this one is to go on with it.
            await_until(lambda: _stands_at_the_end(file), PATIENCE_S, "it stands at both ends")
            _assert_still((source, target), topic, ticks, still_s)
            assert run.stop() == 0

    seen = causeway("verify", file, "--json")
    assert seen.code == 0, seen.err
    # Other tests may have mirrored by a link of that name.
    compared = [one for one in json.loads(seen.out)["partitions"] if one["topic"] == topic]
    left = {why["why"] for one in compared for why in one["not_compared"]}
    assert left <= {"before-the-mirror", "written-by-others"}, seen.out
    assert sum(one["records"] for one in compared) == sum(
        len(records) for each in (source, target) for records in _own(each, topic).values()
    )
    assert here.written > 100
    assert there.written > 100
    _assert_each_once(source, "A", target, topic)
    _assert_each_once(target, "B", source, topic)


def _assert_still(
    sides: tuple[KafkaTools, KafkaTools], topic: str, ticks: str, still_s: float
) -> None:
    """No record more comes to `topic` on either side, for `still_s` at the least, of mirrors that
    are seen to be at work: what is written to `ticks` comes to the other side, and once."""

    def counts(topic: str) -> list[int]:
        return [sum(tools.offsets(topic).values()) for tools in sides]

    def arrived(written: int) -> bool:
        return min(counts(ticks)) >= written

    before, written = counts(topic), 0
    until = time.monotonic() + still_s
    while time.monotonic() < until:
        for tools in sides:
            tools.produce(ticks, [b"tick"])
        written += len(sides)
        await_until(partial(arrived, written), PATIENCE_S, f"{written} ticks on both sides")
        time.sleep(1.0)  # what goes round comes within milliseconds
        assert counts(ticks) == [written, written]
        assert counts(topic) == before


def _stands_at_the_end(file: Path) -> bool:
    known = [one for link in status_of(file).values() for one in link["partitions"]]
    return len(known) == 2 * (PARTITIONS + 1) and all(
        (one["state"], one["lag_records"]) == ("running", 0) for one in known
    )


def _own(tools: KafkaTools, topic: str) -> Own:
    """What was written there, by partition; without what is on both sides."""
    return {
        partition: [each.content for each in records if not _has(each, ORIGIN, SKIPPED)]
        for partition, records in tools.read(topic, read_committed=True).items()
    }


def _has(record: Record, *names: str) -> bool:
    return any(name in names for name, _ in record.headers)


def _others(tools: KafkaTools, topic: str, mark: tuple[str, bytes]) -> Own:
    """What a mirror has brought, as it was before it was marked."""
    return {
        partition: [
            (*each.content[:-1], tuple(one for one in each.headers if one != mark))
            for each in records
            if mark in each.headers
        ]
        for partition, records in tools.read(topic, read_committed=True).items()
    }


def _mirrored(source: KafkaTools, topic: str, target: KafkaTools) -> tuple[int, int]:
    """How many records lie on either side that came from the other."""
    counts = [
        sum(
            _has(each, ORIGIN)
            for records in tools.read(topic, read_committed=True).values()
            for each in records
        )
        for tools in (source, target)
    ]
    return counts[0], counts[1]


def _left(source: KafkaTools, topic: str, target: KafkaTools) -> int:
    """How many of the records written on one side are not on the other yet."""
    on_a, on_b = (sum(map(len, _own(each, topic).values())) for each in (source, target))
    from_b, from_a = _mirrored(source, topic, target)
    return on_a - from_a + on_b - from_b


def _assert_each_once(written: KafkaTools, alias: str, mirrored: KafkaTools, topic: str) -> None:
    mark = (ORIGIN, f"{alias}/{topic}".encode())
    assert _others(mirrored, topic, mark) == _own(written, topic)
    for records in mirrored.read(topic, read_committed=True).values():
        assert all(sum(name == ORIGIN for name, _ in each.headers) <= 1 for each in records)
        assert sum(_has(each, SKIPPED) for each in records) in (0, 9)
