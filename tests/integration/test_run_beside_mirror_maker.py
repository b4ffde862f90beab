"""Taking over from the real MirrorMaker 2, going back to it, and never being behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.model import State
from tests.harness.control import Truth, checkpoints, spread_groups
from tests.harness.daemon import RunningDaemon, link
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.mirror_maker import MirrorMaker2, write_properties
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    run_to_end,
)
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration


def properties(source: LocalCluster, target: LocalCluster, prefix: str) -> dict[str, str]:
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": source.bootstrap,
        "B.bootstrap.servers": target.bootstrap,
        "A->B.enabled": "true",
        "topics": f"{prefix}.*",
        "groups": f"{prefix}.*",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.flush.interval.ms": "1000",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "A.consumer.isolation.level": "read_committed",
    }


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_taken_over_and_given_back(prefix: str, tmp_path: Path) -> None:
    """Records are written all the while. Nothing is lost and nothing is there twice, whoever
    mirrors; and where a group stands, MirrorMaker 2's checkpoints are never ahead of the truth,
    nor of ours."""
    with LocalCluster("A") as source_cluster, LocalCluster("B") as target_cluster:
        source, target = KafkaTools(source_cluster.bootstrap), KafkaTools(target_cluster.bootstrap)
        topic = prefix + "t"
        mirror = f"A.{topic}"
        source.create_topic(topic, 2)
        source.commit_group(f"{prefix}g", {(topic, 0): 0})
        settings = properties(source_cluster, target_cluster, prefix)
        theirs = MirrorMaker2(settings, tmp_path / "first")
        theirs.start()
        with writing(source, topic, 2, seed=1) as writer:
            await_until(lambda: writer.written > 500, 60, "records to mirror")
            await_copied(source, topic, target, mirror)
            stand = {(topic, p): end // 2 for p, end in source.offsets(topic).items()}
            source.commit_group(f"{prefix}g", stand)
            places = [((f"{prefix}g", (mirror, p)), stand[topic, p]) for p in (0, 1)]
            await_until(
                lambda: all(
                    (found := checkpoints(target).get(key)) and found.upstream == offset
                    for key, offset in places
                ),
                PATIENCE_S,
                "MirrorMaker 2's checkpoints",
            )
            before = checkpoints(target)
            theirs.stop(PATIENCE_S)

            file = tmp_path / "first" / "mm2.properties"
            with Running("run", file, directory=tmp_path) as run:
                await_copied(source, topic, target, mirror)
                # A group that stands where this mirror has not been is MirrorMaker 2's affair.
                ends = source.offsets(topic)
                source.commit_group(f"{prefix}h", {(topic, p): end for p, end in ends.items()})
                ours = [(f"{prefix}h", (mirror, p)) for p in (0, 1)]
                await_until(
                    lambda: all(key in checkpoints(target) for key in ours),
                    PATIENCE_S,
                    "our checkpoints",
                )
                await_copied(source, topic, target, mirror)
                assert run.stop() == 0
            truth = Truth.of(source, topic, target, mirror)
            after = checkpoints(target)
            for key, offset in places:
                exact = truth.place(key[1][1], offset)
                assert before[key].downstream <= after[key].downstream <= exact
            for key in ours:
                found = after[key]
                assert found.downstream <= truth.place(key[1][1], found.upstream)

            again = MirrorMaker2(settings, tmp_path / "again")
            again.start()
            writer.end()
            await_copied(source, topic, target, mirror)
            again.stop(PATIENCE_S)
        run_to_end(file)
        assert_same(source, topic, target, mirror)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_mirror_maker_has_copied_more_than_its_book_says(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its default it copies uncommitted records as well: the last of its own were rolled back,
    or belong to a transaction that is open still. All that it has copied is there once."""
    with LocalCluster("A") as source_cluster, LocalCluster("B") as target_cluster:
        source, target = KafkaTools(source_cluster.bootstrap), KafkaTools(target_cluster.bootstrap)
        topic = prefix + "t"
        mirror = f"A.{topic}"
        source.create_topic(topic, 1)
        settings = properties(source_cluster, target_cluster, prefix)
        del settings["A.consumer.isolation.level"]
        theirs = MirrorMaker2(
            {**settings, "offset.flush.interval.ms": "20000"}, tmp_path / "theirs"
        )

        def values(start: int, end: int) -> list[bytes]:
            return [b"%d" % n for n in range(start, end)]

        def mirrored(count: int) -> None:
            await_until(
                lambda: mirror in target.topics() and target.offsets(mirror) == {0: count},
                PATIENCE_S,
                f"{count} records are mirrored",
            )

        def noted() -> bool:
            book = target.read("mm2-offsets.A.internal").values()
            return any(topic.encode() in (entry.key or b"") for part in book for entry in part)

        with (
            source.transactional(f"{prefix}one") as one,
            source.transactional(f"{prefix}open") as left_open,
        ):
            one.begin()
            one.send(topic, *values(0, 20))
            one.commit()
            theirs.start()
            mirrored(20)
            await_until(noted, PATIENCE_S, "MirrorMaker 2's book")
            one.begin()
            one.send(topic, *values(20, 30))
            one.commit()
            one.begin()
            one.send(topic, *values(30, 35))
            one.flush()
            one.abort()
            left_open.begin()
            left_open.send(topic, *values(35, 38))
            left_open.flush()
            mirrored(38)
            theirs.kill()

            with RunningDaemon(monkeypatch, link(source.bootstrap, target.bootstrap, topic)) as run:
                run.await_state(topic, State.RUNNING)
                left_open.commit()
                one.begin()
                one.send(topic, *values(38, 48))
                one.commit()
                mirrored(48)
        assert [record.value for record in target.read(mirror)[0]] == values(0, 48)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_mirror_maker_is_never_ahead_of_us_nor_we_of_the_truth(prefix: str, tmp_path: Path) -> None:
    """Both mirror the same transactions to a cluster each, so their targets hold the same records
    at the same offsets. For groups at the same places, its checkpoints are ours or behind them.
    And both mirror the same topics."""
    with (
        LocalCluster("A") as source_cluster,
        LocalCluster("B") as theirs_cluster,
        LocalCluster("C") as ours_cluster,
    ):
        source = KafkaTools(source_cluster.bootstrap)
        theirs, ours = KafkaTools(theirs_cluster.bootstrap), KafkaTools(ours_cluster.bootstrap)
        topic = prefix + "t"
        mirror = f"A.{topic}"
        source.create_topic(topic, 2)
        source.commit_group(f"{prefix}g0", {(topic, 0): 0})
        for name in (f"{prefix}x.internal", f"{prefix}x-internal", f"{prefix}x.replica"):
            source.create_topic(name, 1)  # by Kafka 3's rule, the first two were internal
        settings = properties(source_cluster, theirs_cluster, prefix)
        peer = MirrorMaker2(settings, tmp_path / "theirs")
        peer.start()
        file = tmp_path / "ours.properties"
        write_properties(file, {**settings, "B.bootstrap.servers": ours_cluster.bootstrap})
        with Running("run", file, directory=tmp_path):
            with writing(source, topic, 2, seed=2) as writer:
                await_until(lambda: writer.written > 2_000, 60, "records to mirror")
            for target in (theirs, ours):
                await_copied(source, topic, target, mirror)
            groups = spread_groups(source, [topic], prefix, seed=3)
            truth = Truth.of(source, topic, ours, mirror)
            assert truth == Truth.of(source, topic, theirs, mirror)
            wanted = {
                (group, (mirror, partition)): offset
                for group, standing in groups.items()
                for (_, partition), offset in standing.items()
            }

            def there() -> bool:
                found = checkpoints(ours)
                return all(k in found and found[k].upstream == o for k, o in wanted.items())

            await_until(there, PATIENCE_S, "our checkpoints")
            at_theirs = f"{prefix}g1"
            await_until(
                lambda: any(group == at_theirs for group, _ in checkpoints(theirs)),
                PATIENCE_S,
                "MirrorMaker 2's checkpoints",
            )
            mine, peers = checkpoints(ours), checkpoints(theirs)
            mirrors = {f"A.{prefix}{name}" for name in ("t", "x.internal", "x-internal")}
            for target in (theirs, ours):
                assert {name for name in target.topics() if name.startswith("A.mm")} == set()
                found = {name for name in target.topics() if name.startswith(f"A.{prefix}")}
                assert found == mirrors
        peer.stop(PATIENCE_S)
        for key, offset in wanted.items():
            assert mine[key].downstream == truth.place(key[1][1], offset)
        compared = [key for key in wanted if key in peers and peers[key].upstream == wanted[key]]
        assert compared
        for key in compared:
            assert peers[key].downstream <= mine[key].downstream, key
