"""`causeway run` with `causeway.offsets = preserve`: each record has its source's offset.

Both sides are read by an independent client, offset by offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import client
from tests.harness.mirror import by_offset
from tests.harness.running import PATIENCE_S, Running, assert_same, mm2_file, run_to_end, status_of
from tests.harness.same_offsets import assert_same_offsets, await_same_ends, begin_at
from tests.harness.waiting import await_until
from tests.harness.writers import write_transactions, writing

pytestmark = pytest.mark.integration

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
PRESERVE = "causeway.offsets = preserve"
QUICK = (
    "refresh.topics.interval.seconds = 1",
    "emit.checkpoints.interval.seconds = 1",
    "sync.group.offsets.enabled = true",
    "sync.group.offsets.interval.seconds = 1",
    "sync.topic.acls.enabled = false",
    "causeway.lanes = 1",
)
START = 1_000_437
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
}
HIGH_START = 30_000_437


def numbered(count: int, partitions: int, text: str = "") -> list[Outgoing]:
    return [
        Outgoing(
            value=f"{text} {n}".encode(),
            key=b"k%d" % n,
            headers=[("h", b"%d" % n)],
            partition=n % partitions,
        )
        for n in range(count)
    ]


def same_names(
    folder: Path,
    alias: str,
    source: LocalCluster,
    target: LocalCluster,
    topics: str,
    *lines: str,
) -> Path:
    """A file that mirrors `topics` with the same names and the same offsets."""
    flow = f"{alias}->B.enabled = true", f"topics = {topics}"
    return mm2_file(folder, {alias: source, "B": target}, *flow, PRESERVE, IDENTITY, *lines, *QUICK)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("policy", "way"),
    [("default", "markers"), pytest.param("identity", "transactions", marks=pytest.mark.slow)],
)
def test_every_record_has_its_offset(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    policy: str,
    way: str,
) -> None:
    """Of topics that exist, that are created and that grow during the run, across a kill of the
    driver while transactions are written."""
    alias = prefix.partition("-")[0]
    # Without the right CLUSTER_ACTION, empty transactions fill gaps.
    gaps = "auto" if way == "markers" else way
    begins = "" if policy == "identity" else f"{alias}."
    dense, torn, late, high, busy = topics = [
        prefix + name for name in ("dense", "torn", "late", "high", "busy")
    ]
    source.create_topics([dense, torn, busy], 2)
    source.create_topic(high)
    source.produce(dense, numbered(3_000, 2), codec="zstd")
    write_transactions(source, torn, 40, seed=1)
    begin_at(client(alias, source_cluster.bootstrap), high, START)
    source.produce(high, numbered(500, 1))
    group = prefix + "group"
    file = mm2_file(
        tmp_path,
        {alias: source_cluster, "B": target_cluster},
        f"{alias}->B.enabled = true",
        f"topics = {prefix}.*",
        f"groups = {prefix}.*",
        PRESERVE,
        f"causeway.offsets.gaps = {gaps}",
        *([IDENTITY] if policy == "identity" else []),
        *QUICK,
    )
    planned = causeway("plan", file)
    assert planned.code == 0, planned.err
    assert f"same offsets: {START:,} are filled first" in " ".join(planned.out.split())
    assert f"gaps of offsets are filled by {way}" in planned.out

    with writing(source, busy, 2, seed=2) as writer:
        with Running("run", file, directory=tmp_path) as run:
            await_same_ends(source, [dense, high], target, begins, PATIENCE_S)
            source.create_topic(late, 2)
            write_transactions(source, late, 20, seed=3)
            source.add_partitions(dense, 3)
            source.produce(dense, numbered(300, 3, "grown"))
            await_same_ends(source, [dense], target, begins, PATIENCE_S)
            run.kill_driver()
        with Running("run", file, directory=tmp_path) as run:
            source.produce(dense, numbered(300, 3, "after the kill"))
            write_transactions(source, torn, 20, seed=4)
            writer.end()
            for topic in topics:
                source.await_transactions(topic)
            await_same_ends(source, topics, target, begins, PATIENCE_S)
            places = {
                (topic, partition): end - 2
                for topic in (dense, torn)
                for partition, end in source.offsets(topic).items()
            }
            source.commit_group(group, places)
            wanted = {(begins + topic, p): offset for (topic, p), offset in places.items()}
            await_until(
                lambda: target.group_offsets(group) == wanted, PATIENCE_S, "the same offsets"
            )
            await_until(lambda: _states(file) == {"running"}, PATIENCE_S, "all are running")
            _status_says_so(file, high)
            assert run.stop() == 0, run.log
            assert "Traceback" not in run.log
    for topic in topics:
        assert assert_same_offsets(source, topic, target, begins + topic) > 50
    assert target.offsets(begins + high) == {0: START + 500}
    assert target.offsets(begins + high, "earliest") == {0: START}
    _translate_says_the_same(file, dense)


def _states(file: Path) -> set[str]:
    """Of all partitions of the file's only link."""
    (link,) = status_of(file).values()
    return {one["state"] for one in link["partitions"]}


def _status_says_so(file: Path, high: str) -> None:
    (link,) = status_of(file).values()
    found = {
        (one["topic"], one["partition"]): one["preserving"]["offsets_from"]
        for one in link["partitions"]
    }
    assert {offset for at, offset in found.items() if at != (high, 0)} == {0}
    assert found[high, 0] == START
    assert "running, preserving" in causeway("status", file).out


def _reasons(file: Path) -> str:
    (link,) = status_of(file).values()
    return "; ".join(filter(None, (one["reason"] for one in link["partitions"])))


def _translate_says_the_same(file: Path, topic: str) -> None:
    done = causeway(
        "translate", file, "--topic", topic, "--partition", "1", "--offset", "17", "--json"
    )
    assert done.code == 0, done.err
    (answer,) = done.json["answers"]
    assert [place["offset"] for place in answer["places"]] == [17], answer


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_command_is_killed_while_the_beginning_is_filled(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    alias = prefix.partition("-")[0]
    topic = prefix + "high"
    source.create_topic(topic)
    begin_at(client(alias, source_cluster.bootstrap), topic, HIGH_START)
    source.produce(topic, numbered(100, 1))
    file = same_names(tmp_path, alias, source_cluster, target_cluster, topic)
    seen = 0
    for _ in range(2):
        with Running("run", file, directory=tmp_path) as run:
            seen = await_until(
                partial(_end_beyond, target, topic, seen), PATIENCE_S, "it is filled", poll_s=0.02
            )
            run.kill()
        assert seen < HIGH_START, "killed too late"
    with Running("run", file, directory=tmp_path) as run:
        await_same_ends(source, [topic], target, "", PATIENCE_S)
        source.produce(topic, numbered(100, 1, "afterwards"))
        await_same_ends(source, [topic], target, "", PATIENCE_S)
        assert run.stop() == 0, run.log
    assert assert_same_offsets(source, topic, target, topic) == 200
    assert target.offsets(topic, "earliest") == {0: HIGH_START}


def _end_beyond(target: KafkaTools, topic: str, least: int) -> int:
    """Where partition 0 ends, once that is beyond `least`; before that 0."""
    end = target.offsets(topic)[0] if target.partition_count(topic) else 0
    return end if end > least else 0


@pytest.fixture(scope="module")
def forgetful() -> Iterator[LocalCluster]:
    """A source that looks for old segments every half second."""
    quick = {
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "log.segment.delete.delay.ms": "500",
    }
    with LocalCluster("forgetful", properties=quick) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_source_deletes_records(
    forgetful: LocalCluster,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """By retention and on request, while it is mirrored. What it deletes before that is lost stops
    the partition, and `restart --adopt` goes on: the lost offsets become a gap."""
    source = KafkaTools(forgetful.bootstrap)
    alias = prefix.partition("-")[0]
    short, cut = prefix + "short", prefix + "cut"
    source.create_topic(short, 2, config={"retention.ms": "15000", "segment.ms": "2000"})
    source.create_topic(cut)
    source.produce(cut, numbered(1_000, 1))
    file = same_names(tmp_path, alias, forgetful, target_cluster, f"{prefix}.*")
    with Running("run", file, directory=tmp_path) as run:
        with writing(source, short, 2, seed=5):
            await_same_ends(source, [cut], target, "", PATIENCE_S)
            source.delete_records(cut, 0, 700)
            source.produce(cut, numbered(300, 1, "after the deletion"))
            await_until(
                lambda: min(source.offsets(short, "earliest").values()) > 0,
                PATIENCE_S,
                "retention deletes",
                poll_s=0.5,
            )
        source.await_transactions(short)
        await_same_ends(source, [short, cut], target, "", PATIENCE_S)
        assert_same_offsets(source, short, target, short, same_start=False)
        assert assert_same_offsets(source, cut, target, cut, same_start=False) == 600
        assert run.stop() == 0, run.log

    source.produce(cut, numbered(500, 1, "lost and kept"))
    source.delete_records(cut, 0, 1_450)
    with Running("run", file, directory=tmp_path) as run:
        await_until(lambda: "stopped" in _states(file), PATIENCE_S, "the partition stops")
        assert "offsets 1300 to 1449" in _reasons(file)
        done = causeway("restart", file, "--topic", cut, "--adopt")
        assert done.code == 0, done.err
        await_same_ends(source, [cut], target, "", PATIENCE_S)
        source.produce(cut, numbered(50, 1, "life goes on"))
        await_same_ends(source, [cut], target, "", PATIENCE_S)
        assert run.stop() == 0, run.log
    assert assert_same_offsets(source, cut, target, cut, same_start=False) == 400


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_recreated_topic_stops_until_it_is_filled_again(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Its offsets begin at 0 again, and those of its mirror are taken."""
    alias = prefix.partition("-")[0]
    topic = prefix + "reborn"
    source.create_topic(topic)
    source.produce(topic, numbered(300, 1))
    file = same_names(tmp_path, alias, source_cluster, target_cluster, topic)
    with Running("run", file, directory=tmp_path) as run:
        await_same_ends(source, [topic], target, "", PATIENCE_S)
        source.recreate_topic(topic)
        source.produce(topic, numbered(400, 1, "not the same"))
        await_until(lambda: _states(file) == {"stopped"}, PATIENCE_S, "it stops")
        assert f"causeway restart --refill {topic}" in _reasons(file), _reasons(file)
        done = causeway("restart", file, "--topic", topic, "--adopt")
        assert done.code == 0, done.err
        assert _states(file) == {"stopped"}, "there is nothing to adopt"
        assert target.offsets(topic) == {0: 300}
        shown = causeway("restart", file, "--refill", topic)
        assert shown.code == 2
        done = causeway("restart", file, "--refill", topic, "--yes")
        assert done.code == 0, done.err
        await_same_ends(source, [topic], target, "", PATIENCE_S)
        assert run.stop() == 0, run.log
    assert assert_same_offsets(source, topic, target, topic) == 400


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("filler", ["allow", pytest.param("stop", marks=pytest.mark.slow)])
def test_a_compacted_topic(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    filler: str,
) -> None:
    """Readers of committed records see no filler in its large gaps. Without filler it stops."""
    alias = prefix.partition("-")[0]
    topic = prefix + "users"
    source.create_topic(topic, config=COMPACTED)
    source.produce(topic, [Outgoing(key=b"the gap is behind this one")])
    for turn in range(3):
        records = [Outgoing(key=b"%d" % (n % 50), value=b"%d %d" % (turn, n)) for n in range(600)]
        source.produce(topic, records, codec="zstd")
    await_until(partial(_cleaned, source, topic), PATIENCE_S, "the source is compacted", poll_s=0.3)
    source.rest_cleaner(topic)
    file = same_names(
        tmp_path,
        alias,
        source_cluster,
        target_cluster,
        topic,
        "causeway.offsets.filler.from = 200",
        f"causeway.offsets.filler = {filler}",
    )
    (plan,) = causeway("plan", file, "--json").json["links"]
    (planned,) = plan["mirrored"]
    sees_filler = planned["offsets"]["filler_visible_to_read_uncommitted"]
    assert sees_filler is (filler == "allow")
    with Running("run", file, directory=tmp_path) as run:
        if filler == "stop":
            await_until(lambda: _states(file) == {"stopped"}, PATIENCE_S, "it stops")
            assert "causeway.offsets.filler = allow" in _reasons(file), _reasons(file)
        else:
            await_same_ends(source, [topic], target, "", PATIENCE_S)
        assert run.stop() == 0, run.log
    if filler == "allow":
        (wanted,), (found,) = (
            tools.read(topic, read_committed=True).values() for tools in (source, target)
        )
        assert by_offset(found) == by_offset(wanted)


def _cleaned(source: KafkaTools, topic: str) -> bool:
    """Feeds the cleaner, which leaves the newest segment alone."""
    source.produce(topic, [Outgoing(key=b"feed")])
    return len(source.read(topic)[0]) < 200


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_only_the_topics_of_a_list(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    alias = prefix.partition("-")[0]
    kept, other = prefix + "kept", prefix + "other"
    source.create_topics([kept, other], 2)
    for topic in (kept, other):
        write_transactions(source, topic, 40, seed=6)
        source.await_transactions(topic)
    file = mm2_file(
        tmp_path,
        {alias: source_cluster, "B": target_cluster},
        f"{alias}->B.enabled = true",
        f"topics = {prefix}.*",
        f"causeway.offsets.preserve.topics = {kept}",
        *QUICK,
    )
    planned = causeway("plan", file, "--json")
    assert planned.code == 0, planned.err
    (plan,) = planned.json["links"]
    mirrored = {one["topic"]: one["keeps_offsets"] for one in plan["mirrored"]}
    assert mirrored == {kept: True, other: False}
    run_to_end(file)
    (link,) = status_of(file).values()
    assert {(one["topic"], one["preserving"] is not None) for one in link["partitions"]} == {
        (kept, True),
        (other, False),
    }
    assert assert_same_offsets(source, kept, target, f"{alias}.{kept}") > 100
    assert_same(source, other, target, f"{alias}.{other}")
    ends = source.offsets(other), target.offsets(f"{alias}.{other}")
    assert sum(ends[0].values()) > sum(ends[1].values()), "offsets of the other topic differ"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_treatment_that_is_removed_again(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """The newest records were left out. Later records keep their offsets, too."""
    alias, topic = prefix.partition("-")[0], prefix + "events"
    source.create_topic(topic)
    left_out = [
        Outgoing(value=b"left out", headers=[("internal", b"yes")], partition=0) for _ in range(3)
    ]
    for lines in ((), ("causeway.skip.header = internal",), ()):
        source.produce(topic, numbered(10, 1))
        source.produce(topic, left_out)
        run_to_end(same_names(tmp_path, alias, source_cluster, target_cluster, topic, *lines))
    everything, mirrored = source.read(topic)[0], target.read(topic)[0]
    skipped = range(23, 26)
    assert by_offset(mirrored) == by_offset([r for r in everything if r.offset not in skipped])
    assert target.offsets(topic) == source.offsets(topic)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_transforms_keep_offsets(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A changed record has its offset, a dropped one leaves a gap. A transform that makes several
    records of one, or chooses their topic, is refused with the reason."""
    alias = prefix.partition("-")[0]
    people, notes, lists, moved = (prefix + name for name in ("people", "notes", "lists", "moved"))
    source.create_topics([people, notes, lists, moved], 2)
    for topic in (people, notes, lists, moved):
        source.produce(
            topic,
            [
                Outgoing(
                    value=json.dumps({"n": n, "card": f"4000-1234-{n:04}"}).encode(),
                    key=b"%d" % n,
                    partition=n % 2,
                )
                for n in range(300)
            ],
        )
    write_json_transactions(source, people)
    file = mm2_file(
        tmp_path,
        {alias: source_cluster, "B": target_cluster},
        f"{alias}->B.enabled = true",
        f"topics = {prefix}.*",
        PRESERVE,
        *QUICK,
        "causeway.transforms = mask, drop, split, move",
        f"causeway.transform.mask.topics = {people}",
        "causeway.transform.mask.rules = mask value.$.card keep last 4",
        f"causeway.transform.drop.topics = {notes}",
        "causeway.transform.drop.value.format = json",
        "causeway.transform.drop.sql = "
        "SELECT * FROM records WHERE CAST(get_json_object(value, '$.n') AS INT) % 3 = 0",
        f"causeway.transform.split.topics = {lists}",
        "causeway.transform.split.value.format = string",
        "causeway.transform.split.sql = SELECT explode(split(value, ',')) AS value FROM records",
        f"causeway.transform.move.topics = {moved}",
        "causeway.transform.move.sql = SELECT 'elsewhere' AS topic FROM records",
    )
    planned = causeway("plan", file)
    assert planned.code != 0
    told = " ".join(planned.out.split())
    assert "split may make several records of one by explode()" in told
    assert "move chooses the topic of records" in told

    with Running("run", file, directory=tmp_path) as run:
        await_same_ends(source, [people, notes], target, f"{alias}.", PATIENCE_S)
        await_until(
            lambda: (
                {(lists, True), (moved, True)}
                <= {
                    (one["topic"], "keep the offsets" in one["reason"])
                    for one in status_of(file)[f"{alias}->B"]["problems"]
                }
            ),
            PATIENCE_S,
            "the refusals",
        )
        assert run.stop() == 0, run.log
    assert not {f"{alias}.{lists}", f"{alias}.{moved}", f"{alias}.elsewhere"} & target.topics()
    for partition, records in source.read(people, read_committed=True).items():
        wanted = [(r.offset, r.key, _masked(r.value)) for r in records]
        for level in (True, False):
            found = target.read(f"{alias}.{people}", read_committed=level)[partition]
            assert [(r.offset, r.key, json.loads(r.value or b"")) for r in found] == wanted
    for partition, records in source.read(notes).items():
        kept = [r for r in records if json.loads(r.value or b"")["n"] % 3 == 0]
        for level in (True, False):
            found = target.read(f"{alias}.{notes}", read_committed=level)[partition]
            assert by_offset(found) == by_offset(kept)
    for topic in (people, notes):
        assert target.offsets(f"{alias}.{topic}") == source.offsets(topic)


_FUNCTIONS = """
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType

@sf.udf(returnType=StringType())
def mask(card):
    return "****-****-" + card[-4:]

def masked(records: DataFrame) -> DataFrame:
    n, card = (sf.get_json_object("value", "$." + name) for name in ("n", "card"))
    struct = sf.struct(n.cast("int").alias("n"), mask(card).alias("card"))
    return records.where(n.cast("int") % 3 == 0).withColumn("value", sf.to_json(struct))

def split(records: DataFrame) -> DataFrame:
    several = sf.array(sf.lit("a"), sf.lit("b"))
    own = sf.array(sf.col("value"))
    n = sf.get_json_object("value", "$.n").cast("int")
    return records.withColumn("value", sf.explode(sf.when(n == 100, several).otherwise(own)))

def moved(records: DataFrame) -> DataFrame:
    return records.withColumn("topic", sf.lit("elsewhere"))
"""


@pytest.mark.slow
def test_python_functions_keep_offsets(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A function that makes one record of one, or none, keeps offsets. `plan` refuses others with
    the reason, and a run stops before the first record that would become several or go elsewhere.
    """
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "functions.py").write_text(_FUNCTIONS)
    alias = prefix.partition("-")[0]
    names = {name: prefix + name for name in ("masked", "split", "moved")}
    source.create_topics(list(names.values()), 1)
    for topic in names.values():
        values = [json.dumps({"n": n, "card": f"4000-1234-{n:04}"}) for n in range(300)]
        source.produce(topic, [Outgoing(value=value.encode()) for value in values])
    file = mm2_file(
        tmp_path,
        {alias: source_cluster, "B": target_cluster},
        f"{alias}->B.enabled = true",
        f"topics = {prefix}.*",
        PRESERVE,
        *QUICK,
        f"causeway.transforms = {', '.join(names)}",
        *(f"causeway.transform.{name}.topics = {topic}" for name, topic in names.items()),
        *(f"causeway.transform.{name}.value.format = string" for name in names),
        *(f"causeway.transform.{name}.python = functions:{name}" for name in names),
    )
    planned = causeway("plan", file)
    assert planned.code != 0
    told = " ".join(planned.out.split())
    assert "its transform split may make several records of one" in told
    assert "its transform moved chooses the topic of records" in told
    assert "its transform masked" not in told

    def reasons() -> dict[str, str]:
        rows = status_of(file)[f"{alias}->B"]["partitions"]
        return {row["topic"]: row["reason"] for row in rows if row["state"] == "stopped"}

    with Running("run", file, directory=tmp_path) as run:
        await_same_ends(source, [names["masked"]], target, f"{alias}.", PATIENCE_S)
        await_until(lambda: len(reasons()) == 2, PATIENCE_S, "the other two stop")
        found = reasons()
        assert run.stop() == 0, run.log
    assert "the record at offset 100: its transform makes several" in found[names["split"]]
    assert "leads records to other partitions" in found[names["moved"]]
    assert f"{alias}.elsewhere" not in target.topics()
    kept = [r for r in source.read(names["masked"])[0] if r.offset % 3 == 0]
    mirrored = target.read(f"{alias}.{names['masked']}")[0]
    assert [(r.offset, json.loads(r.value or b"")) for r in mirrored] == [
        (r.offset, _masked(r.value)) for r in kept
    ]
    before = target.read(f"{alias}.{names['split']}")[0]
    assert by_offset(before) == by_offset(source.read(names["split"])[0][: len(before)])
    assert len(before) <= 100


def write_json_transactions(source: KafkaTools, topic: str) -> None:
    """Twenty, every fourth of them aborted."""
    with source.transactional(topic) as transactions:
        for number in range(20):
            transactions.begin()
            for partition in (0, 1):
                value = json.dumps({"n": number, "card": f"5000-4321-{number:04}"}).encode()
                transactions.send(topic, Outgoing(value=value, partition=partition))
            if number % 4 == 3:
                transactions.abort()
            else:
                transactions.commit()
    source.await_transactions(topic)


def _masked(value: bytes | None) -> dict[str, object]:
    found: dict[str, object] = json.loads(value or b"")
    return found | {"card": f"****-****-{str(found['card'])[-4:]}"}
