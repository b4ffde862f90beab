"""Others write to the topics that a mirror writes to: no group gets an offset past a record that it
has not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.control import checkpoints
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S, Running, left_undone, mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

QUICK = (
    "replication.policy.class = IdentityReplicationPolicy",
    "causeway.sole.writer = false",
    "emit.checkpoints.interval.seconds = 1",
    "sync.group.offsets.enabled = true",
    "sync.group.offsets.interval.seconds = 1",
    "sync.topic.acls.enabled = false",
)


def values(text: str, count: int) -> list[bytes]:
    return [b"%s %d" % (text.encode(), number) for number in range(count)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_local_records_are_not_skipped(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    alias = prefix.partition("-")[0]  # a link of its own: begins on others' data
    link = f"{alias}->B"
    before, among = prefix + "before", prefix + "among"
    for topic in (before, among):
        for side in (source, target):
            side.create_topic(topic, 1)
        source.produce(topic, values("ours", 20))
    target.produce(before, values("local", 5))
    new, own = prefix + "new", prefix + "own"
    for group in (new, own):
        source.commit_group(group, {(before, 0): 20, (among, 0): 15})
    target.commit_group(own, {(before, 0): 5, (among, 0): 0})  # it has read the local ones
    file = mm2_file(
        tmp_path,
        {alias: source_cluster, "B": target_cluster},
        f"{link}.enabled = true",
        f"topics = {prefix}.*",
        f"groups = {prefix}.*",
        *QUICK,
    )
    planned = causeway("plan", file)
    assert f"{before} on B has records that {link} did not write" in planned.out, planned.out
    with Running("run", file, directory=tmp_path) as run:
        await_until(lambda: target.offsets(before) == {0: 25}, PATIENCE_S)
        await_until(lambda: target.offsets(among) == {0: 20}, PATIENCE_S)
        exact = {(before, 0): 25, (among, 0): 15}
        await_until(
            lambda: target.group_offsets(own) == exact, PATIENCE_S, "its own commit goes on"
        )
        await_until(
            lambda: target.group_offsets(new).get((among, 0)) == 15, PATIENCE_S, "nothing is unread"
        )
        assert target.group_offsets(new).get((before, 0), 0) == 0
        why = await_until(
            lambda: (left_undone(file, "groups", link) or {}).get(f"{new} on {before}-0"),
            PATIENCE_S,
            "held back",
        )
        assert "held back at offset 0" in why
        assert f"did not come from {alias}" in why

        target.produce(among, values("local", 3))
        source.produce(among, values("more", 10))
        await_until(lambda: target.offsets(among) == {0: 33}, PATIENCE_S)
        source.commit_group(new, {(among, 0): 30})
        await_until(
            lambda: target.group_offsets(new)[among, 0] == 20, PATIENCE_S, "before the local ones"
        )
        target.commit_group(new, {(among, 0): 23})  # it has read them by now
        await_until(lambda: target.group_offsets(new)[among, 0] == 33, PATIENCE_S, "and goes on")

        listed = causeway("groups", file, "--json").json["groups"]
        assert {one["name"]: one["code"] for one in listed}[new] == "held-back"
        explained = causeway("explain", file, new, "--group").out
        assert "held back" in explained
        assert run.stop() == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_of_two_sources_the_least_place_counts(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    first = prefix.partition("-")[0]  # links of their own: each begins on the other's data
    second = first + "-c"
    topic, both, one = prefix + "t", prefix + "both", prefix + "one"
    with LocalCluster("C") as third:
        other = KafkaTools(third.bootstrap)
        for side, name in ((source, "A"), (other, "C")):
            side.create_topic(topic, 1)
            side.produce(topic, values(name, 20))
        file = mm2_file(
            tmp_path,
            {first: source_cluster, second: third, "B": target_cluster},
            f"{first}->B.enabled = true",
            f"{second}->B.enabled = true",
            f"topics = {prefix}.*",
            f"groups = {prefix}.*",
            *QUICK,
        )
        with Running("run", file, directory=tmp_path) as run:
            await_until(lambda: topic in target.topics() and target.offsets(topic) == {0: 40}, 240)
            source.produce(topic, values("late", 5))  # behind all records of C
            await_until(lambda: target.offsets(topic) == {0: 45}, PATIENCE_S)
            where = {record.value: record.offset for record in target.read(topic)[0]}
            source.commit_group(both, {(topic, 0): 15})
            other.commit_group(both, {(topic, 0): 5})
            source.commit_group(one, {(topic, 0): 25})
            least = min(where[b"A 15"], where[b"C 5"])
            await_until(
                lambda: target.group_offsets(both).get((topic, 0)) == least,
                PATIENCE_S,
                "the least of its places",
            )
            await_until(
                lambda: (
                    f"{one} on {topic}-0" in (left_undone(file, "groups", f"{first}->B") or {})
                    and (one, (topic, 0)) in checkpoints(target, first)
                ),
                PATIENCE_S,
                "the group that reads one source only is held back",
            )
            assert target.group_offsets(one).get((topic, 0), 0) <= where[b"C 0"]
            source.commit_group(both, {(topic, 0): 25})
            other.commit_group(both, {(topic, 0): 20})
            await_until(
                lambda: target.group_offsets(both).get((topic, 0)) == 45, PATIENCE_S, "at the end"
            )
            assert run.stop() == 0
