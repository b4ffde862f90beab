"""Consumer groups fail over: what is written for them is exact, whoever reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.harness.control import Truth, checkpoints, offset_syncs, spread_groups
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.members import Member
from tests.harness.running import (
    PATIENCE_S,
    Running,
    await_copied,
    left_undone,
    mm2_file,
    status_of,
)
from tests.harness.waiting import await_until
from tests.harness.writers import write_transactions

pytestmark = pytest.mark.integration

QUICK = (
    "emit.checkpoints.interval.seconds = 1",
    "sync.group.offsets.enabled = true",
    "sync.group.offsets.interval.seconds = 1",
    "sync.topic.acls.enabled = false",
)


@pytest.mark.timeout(900)
def test_every_offset_of_every_group_is_translated_exactly_across_restarts(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    plain, torn = prefix + "plain", prefix + "torn"
    source.create_topics([plain, torn], 2)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        f"groups = {prefix}.*",
        *QUICK,
    )
    for round_ in range(2):
        records = [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(3_000)]
        source.produce(plain, records, codec="zstd")
        write_transactions(source, torn, 120, seed=round_)
        groups = spread_groups(source, [plain, torn], prefix, seed=round_)
        with Running("run", file, directory=tmp_path) as run:
            for topic in (plain, torn):
                await_copied(source, topic, target, f"A.{topic}")
            truth = {t: Truth.of(source, t, target, f"A.{t}") for t in (plain, torn)}
            await_exact(target, groups, truth)
            if round_ == 0:
                await_syncs(source, truth)  # those that a kill prevents come with a next record
                run.kill()  # what it had not written down is looked up
            else:
                await_one_that_goes_back(source, target, f"{prefix}g5", plain, truth[plain])
                assert run.stop() == 0
    assert_readers_made_for_mirror_maker_skip_nothing(source, truth)
    tasks = {task["task"]: task for task in status_of(file)["A->B"]["tasks"]}
    assert {tasks[name]["reason"] for name in ("groups", "offset syncs")} == {None}
    assert not [item for item in tasks["groups"]["items"] if "exact" in item]


def await_exact(
    target: KafkaTools,
    groups: dict[str, dict[tuple[str, int], int]],
    truth: dict[str, Truth],
) -> None:
    """Checkpoints say exactly where each group goes on, and the target's groups stand there, or
    where they stood before if that is further on."""

    def wrong() -> list[object]:
        written = checkpoints(target)
        found: list[object] = []
        wanted: dict[str, dict[tuple[str, int], int]] = {}
        for group, standing in groups.items():
            for (topic, partition), offset in standing.items():
                place, exact = (f"A.{topic}", partition), truth[topic].place(partition, offset)
                wanted.setdefault(group, {})[place] = exact
                checkpoint = written.get((group, place))
                if checkpoint is None or checkpoint.upstream != offset:
                    found.append((group, place, offset, checkpoint))
                elif checkpoint.downstream != exact:
                    found.append((group, place, offset, checkpoint, exact))
        # To ask for commits costs a client for each group.
        for group, places in wanted.items() if not found else ():
            committed = target.group_offsets(group)
            found += [
                (group, place, committed.get(place), exact)
                for place, exact in places.items()
                if committed.get(place, -1) < exact
            ]
        return found

    last: list[object] = []

    def exact() -> bool:
        last[:] = wrong()
        return not last

    try:
        await_until(exact, PATIENCE_S, "exact checkpoints and commits", poll_s=0.5)
    except AssertionError as error:
        error.add_note(f"{len(last)} are wrong: {last[:5]}")
        raise


def await_one_that_goes_back(
    source: KafkaTools, target: KafkaTools, group: str, topic: str, truth: Truth
) -> None:
    source.commit_group(group, {(topic, 0): 7})
    place = f"A.{topic}", 0
    await_until(
        lambda: checkpoints(target)[group, place].downstream == truth.place(0, 7),
        PATIENCE_S,
        "a checkpoint follows a group that went back",
    )
    assert target.group_offsets(group)[place] > 7, "what is committed never goes back"


def await_syncs(source: KafkaTools, truth: dict[str, Truth]) -> None:
    """Of each partition that has records."""
    places = {
        (topic, partition)
        for topic, of in truth.items()
        for partition, offsets in of.source.items()
        if offsets
    }
    await_until(
        lambda: places <= offset_syncs(source, "B").keys(), PATIENCE_S, f"syncs of {places}"
    )


def assert_readers_made_for_mirror_maker_skip_nothing(
    source: KafkaTools, truth: dict[str, Truth]
) -> None:
    """They take the newest sync at or before an offset: there exactly, later one more."""
    syncs = offset_syncs(source, "B")
    for topic, true in truth.items():
        for partition, offsets in true.source.items():
            known = dict(syncs[topic, partition])
            for upstream, downstream in known.items():
                assert true.place(partition, upstream) == downstream
            for offset in range(offsets[-1] + 1):
                before = max((u for u in known if u <= offset), default=None)
                if before is not None:
                    translated = known[before] + (offset > before)
                    assert translated <= true.place(partition, offset), (topic, partition, offset)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_moves_over_and_is_left_alone_once_it_has_members_there(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    protocol: Literal["classic", "consumer"],
) -> None:
    topic, group = prefix + "t", prefix + "billing"
    mirror = f"A.{topic}"
    source.create_topic(topic)
    source.produce(topic, [b"%d" % number for number in range(100)])
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        f"groups = {prefix}.*",
        *QUICK,
    )
    here = Member(source, group, topic, protocol=protocol)
    here.read_more(30)
    here.commit()

    with Running("run", file, directory=tmp_path) as run:
        await_copied(source, topic, target, mirror)
        await_until(lambda: target.group_offsets(group) == {(mirror, 0): 30}, PATIENCE_S)
        here.read_more(10)
        here.commit()
        await_until(lambda: target.group_offsets(group) == {(mirror, 0): 40}, PATIENCE_S)

        there = Member(target, group, mirror, protocol=protocol)
        there.read_more(5)
        there.commit()
        here.read_more(50)
        here.commit()
        await_until(
            lambda: (
                (found := checkpoints(target).get((group, (mirror, 0)))) and found.upstream == 90
            ),
            PATIENCE_S,
            "a round that has seen it",
        )
        await_until(
            lambda: "it has members" in (left_undone(file, "groups") or {}).get(group, ""),
            PATIENCE_S,
        )
        assert target.group_offsets(group) == {(mirror, 0): 45}, "it commits for itself"
        there.close()
        await_until(lambda: target.group_offsets(group) == {(mirror, 0): 90}, PATIENCE_S)
        assert run.stop() == 0
    here.close()
    assert there.read == [b"%d" % number for number in range(40, 45)]
