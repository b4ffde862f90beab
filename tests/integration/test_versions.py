"""Each Kafka that is promised, mirrored to the newest and from it: what arrives is what was there.

One `causeway run` mirrors both ways between a cluster of the old version and one of the newest,
both with SASL and an authorizer. While transactions are written to both, a lane of it is killed,
then all of it; it is started again, and looked at. `make test` tries the oldest version,
`make test-versions` each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from causeway.dev import DEFAULT_VERSION, OLDEST, TESTED, kafka_version
from causeway.formats import load
from causeway.model import State, TopicPartition
from causeway.operate.cutover import Checklist, CutoverEnd, FirstMover, Look, Wishes, cutover, undo
from causeway.operate.failover import failover, promote
from causeway.operate.verify import verify
from tests.harness.control import Truth, checkpoints
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import Outgoing
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    left_undone,
    status_of,
)
from tests.harness.versions import SECURITY, Side, Way, both_ways_file, in_force, readers
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FOREVER = {"retention.ms": "-1"}
YEARS_AGO = 1_262_304_000_000  # 2010
ODD = [
    Outgoing(value=b"plain", key=b"key"),
    Outgoing(value=b"no key", key=None),
    Outgoing(value=None, key=b"tombstone"),
    Outgoing(value=b"", key=b""),
    Outgoing(value=b"old", timestamp=YEARS_AGO),
    Outgoing(value=b"headers", headers=[("b", b"1"), ("a", b""), ("b", None), ("é", b"\0\xff")]),
    *(Outgoing(value=b"%d " % i + b"compressible " * 20, key=b"%d" % (i % 7)) for i in range(300)),
]
PLAIN = [each for each in ODD if not each.headers]  # which old formats have not
DAY = "86400000"
CONFIGS = {**FOREVER, "cleanup.policy": "compact", "segment.bytes": "20000000"}
# Topic configs that only one of two versions knows: from which one on, until which one.
SINCE = {"compression.gzip.level": ("3", "3.8.0")}
UNTIL = {"message.downconversion.enable": ("false", "3.99.0")}
# On which mirrors are ended: with ZooKeeper, and with the first controllers of Kafka's own.
MOVED = {kafka_version("2.8"), kafka_version("3.3")}
# By message.format.version: what brokers before Kafka 3.0 write logs in.
OLD_FORMATS = {"0": "0.9.0", "1": "0.10.2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """What is there once Causeway was killed and has caught up; it still runs."""

    file: Path
    from_old: Way
    to_old: Way
    written: dict[str, int]  # to the topic of transactions, by link


@pytest.fixture(scope="module")
def newest() -> Iterator[LocalCluster]:
    with LocalCluster("new", security=SECURITY, version=kafka_version(DEFAULT_VERSION)) as cluster:
        yield cluster


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if release == OLDEST else pytest.mark.versions)
        for name, release in TESTED.items()
        if release != DEFAULT_VERSION
    ],
)
def mirrored(
    request: pytest.FixtureRequest,
    newest: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mirrored]:
    name = request.param.replace(".", "")
    directory = tmp_path_factory.mktemp(f"versions-{name}")
    cluster = LocalCluster(f"k{name}", security=SECURITY, version=kafka_version(request.param))
    try:
        start_all([cluster])
        old, new = Side(alias=f"k{name}", cluster=cluster), Side(alias="new", cluster=newest)
        ways = (
            Way(source=old, target=new, prefix=f"v{name}-from."),
            Way(source=new, target=old, prefix=f"v{name}-to."),
        )
        file = both_ways_file(directory, old, new, f"v{name}-.*")
        for way in ways:
            fill(way)
        written = killed_while_transactions_are_written(file, ways, directory)
        with Running("run", file, directory=directory) as run:
            for way in ways:
                for topic in sorted(each for each in way.source.tools.topics() if is_of(way, each)):
                    mirror = f"{way.source.alias}.{topic}"
                    await_copied(way.source.tools, topic, way.target.tools, mirror)
            yield Mirrored(file=file, from_old=ways[0], to_old=ways[1], written=written)
            assert run.stop() == 0, run.log
    finally:
        cluster.destroy()


def is_of(way: Way, topic: str) -> bool:
    return topic.startswith(way.prefix)


def fill(way: Way) -> None:
    """Everything but the transactions."""
    tools = way.source.tools
    tools.create_topics([way.topic(codec) for codec in CODECS], config=FOREVER)
    tools.create_topic(way.topic("transactions"), 2, config=FOREVER)
    for codec in CODECS:
        tools.produce(way.topic(codec), ODD, codec=codec)
        tools.produce(way.topic(codec), ODD, codec=codec, settings={"batch.num.messages": 1})
    tools.create_topic(way.topic("configured"), config={**CONFIGS, **only_here(way)})
    tools.produce(way.topic("configured"), [Outgoing(key=b"k", value=b"v")])
    tools.allow("ann", AclOperation.READ, ResourceType.TOPIC, way.topic("configured"))
    tools.create_topic(way.topic("anew"))
    tools.produce(way.topic("anew"), [b"before"] * 10)
    for each in OLD_FORMATS if writes_old_formats(way.source) else ():
        tools.create_topic(way.topic(f"format-{each}"), config=in_format(each))
        for codec in ("none", "gzip"):
            plain = {"enable.idempotence": False}
            tools.produce(way.topic(f"format-{each}"), PLAIN, codec=codec, settings=plain)
    for each in OLD_FORMATS if writes_old_formats(way.target) else ():
        tools.create_topic(way.topic(f"into-{each}"), config=FOREVER)
        tools.produce(way.topic(f"into-{each}"), ODD)
        way.target.tools.create_topic(way.mirror(f"into-{each}"), config=in_format(each))


def writes_old_formats(side: Side) -> bool:
    return side.version < kafka_version("3.0.0")


def in_format(number: str) -> dict[str, str]:
    return {**FOREVER, "message.format.version": OLD_FORMATS[number]}


def only_here(way: Way) -> dict[str, str]:
    """Configs of a topic that the target's version does not know."""
    source, target = way.source.version, way.target.version
    return {
        name: value
        for name, (value, since) in SINCE.items()
        if target < kafka_version(since) <= source
    } | {
        name: value
        for name, (value, until) in UNTIL.items()
        if source <= kafka_version(until) < target
    }


def killed_while_transactions_are_written(
    file: Path, ways: tuple[Way, Way], directory: Path
) -> dict[str, int]:
    """A quarter of the transactions are rolled back. How many records were written, by link."""
    one, other = ways
    topic = "transactions"
    with (
        writing(one.source.tools, one.topic(topic), 2, seed=1, pause_s=0.2) as first,
        writing(other.source.tools, other.topic(topic), 2, seed=2, pause_s=0.2) as second,
        Running("run", file, directory=directory) as run,
    ):

        def await_more() -> None:
            for way in ways:
                await_copied(
                    way.source.tools, way.topic(topic), way.target.tools, way.mirror(topic)
                )

        await_more()
        await_until(run.workers, PATIENCE_S, "lanes to kill")[0].kill()
        await_more()
        run.kill()
    return {one.link: first.written, other.link: second.written}


@pytest.fixture(params=["old to new", "new to old"])
def way(request: pytest.FixtureRequest, mirrored: Mirrored) -> Way:
    return mirrored.from_old if request.param == "old to new" else mirrored.to_old


@pytest.mark.parametrize("codec", CODECS)
def test_every_record_arrives_as_it_was(way: Way, codec: str) -> None:
    """Keys, values, headers, times and tombstones; large batches, which go as they are, and small
    ones, which are merged."""
    source, target = way.source.tools, way.target.tools
    assert_same(source, way.topic(codec), target, way.mirror(codec))
    assert len(target.read(way.mirror(codec))[0]) == 2 * len(ODD)


@pytest.mark.parametrize("number", OLD_FORMATS)
def test_logs_of_old_formats(way: Way, number: str) -> None:
    """A source's is read; a mirror whose topic is set to one is set to the new one."""
    if not (writes_old_formats(way.source) or writes_old_formats(way.target)):
        pytest.skip("neither side writes them")
    name = f"{'format' if writes_old_formats(way.source) else 'into'}-{number}"
    wanted = way.source.tools.read(way.topic(name))[0]
    found = way.target.tools.read(way.mirror(name))[0]
    assert len(wanted) == (2 * len(PLAIN) if writes_old_formats(way.source) else len(ODD))
    if name == "format-0":  # which has no times: librdkafka says 0 of such a log, Kafka -1
        assert [record.content[2:] for record in found] == [each.content[2:] for each in wanted]
        assert {record.timestamp for record in found} == {-1}
    else:
        assert [record.content for record in found] == [record.content for record in wanted]


def test_nothing_is_lost_or_doubled_by_a_kill(mirrored: Mirrored, way: Way) -> None:
    """What was committed is there once and in order, and nothing that was rolled back."""
    source, target = way.source.tools, way.target.tools
    topic, mirror = way.topic("transactions"), way.mirror("transactions")
    assert_same(source, topic, target, mirror)
    there = sum(map(len, target.read(mirror).values()))
    assert 0 < there < mirrored.written[way.link], "none was rolled back"
    # What progress, written once a second, does not name yet is not mirrored for it.
    settings = load(mirrored.file)
    await_until(lambda: verify(settings, topics=[topic]).agrees, PATIENCE_S, "verify agrees")


def test_groups_go_on_where_they_stood(way: Way) -> None:
    """Checkpoints and committed offsets name the very record that comes next."""
    source, target = way.source.tools, way.target.tools
    topic, mirror = way.topic("transactions"), way.mirror("transactions")
    truth = Truth.of(source, topic, target, mirror)
    ends = source.offsets(topic)
    for group, share in (("begins", 0), ("stands", 3), ("read-all", 1)):
        standing = {(topic, p): end // share if share else 0 for p, end in ends.items()}
        source.commit_group(way.topic(group), standing)
        wanted = {(mirror, p): truth.place(p, at) for (_, p), at in standing.items()}

        def is_there(group: str = way.topic(group), at: object = wanted) -> bool:
            return target.group_offsets(group) == at

        await_until(is_there, PATIENCE_S, f"{group} stands at {wanted}", poll_s=0.5)
        written = checkpoints(target, way.source.alias)
        for place, offset in wanted.items():
            assert written[way.topic(group), place].downstream == offset


def test_configs_follow(mirrored: Mirrored, way: Way) -> None:
    """What the other version does not know is said, and holds up nothing."""
    source, target = way.source.tools, way.target.tools
    topic, mirror = way.topic("configured"), way.mirror("configured")
    await_until(lambda: in_force(target, mirror, CONFIGS) == CONFIGS, PATIENCE_S, "configs")

    source.set_topic_config(topic, {"segment.ms": DAY})
    await_until(lambda: target.topic_config(mirror)["segment.ms"] == DAY, PATIENCE_S, "a change")
    assert len(target.read(mirror)[0]) == 1

    undone = await_until(
        lambda: (
            (found := left_undone(mirrored.file, "topic configs", way.link)) is not None and [found]
        ),
        PATIENCE_S,
        "configs are synced",
    )
    for name in only_here(way):
        assert f"{way.target.alias} has no such config" in str(undone), name
        assert name in str(undone)


def test_acls_follow(way: Way) -> None:
    source, target = way.source.tools, way.target.tools
    topic, mirror = way.topic("configured"), way.mirror("configured")
    await_until(lambda: readers(target, mirror) == {"User:ann"}, PATIENCE_S, "ann may read")

    source.allow("bob", AclOperation.READ, ResourceType.TOPIC, topic)
    both = {"User:ann", "User:bob"}
    await_until(lambda: readers(target, mirror) == both, PATIENCE_S, "bob may read")


def test_partitions_are_added(way: Way) -> None:
    source, target = way.source.tools, way.target.tools
    topic, mirror = way.topic("none"), way.mirror("none")
    source.add_partitions(topic, 3)
    source.produce(topic, [Outgoing(value=b"%d" % p, partition=p) for p in (1, 2)])
    await_until(lambda: target.partition_count(mirror) == 3, PATIENCE_S, "the mirror grows")
    await_copied(source, topic, target, mirror)
    assert_same(source, topic, target, mirror)


def test_nothing_is_amiss(mirrored: Mirrored, way: Way) -> None:
    """Every partition is mirrored, and every task of the control plane done."""

    def amiss() -> list[object]:
        link = status_of(mirrored.file)[way.link]
        tasks = [task for task in link["tasks"] if task["reason"] is not None]
        return tasks + [one for one in link["partitions"] if one["state"] != "running"]

    await_until(lambda: not amiss(), PATIENCE_S, "all is well", poll_s=0.5)


def test_a_topic_that_is_made_anew_stops_its_mirror(mirrored: Mirrored, way: Way) -> None:
    """Also one that has grown past where its mirror stood, at once."""
    source, target = way.source.tools, way.target.tools
    topic, mirror = way.topic("anew"), way.mirror("anew")
    source.recreate_topic(topic)
    source.produce(topic, [b"after"] * 30)

    def stopped() -> bool:
        link = status_of(mirrored.file)[way.link]
        (state,) = {one["state"] for one in link["partitions"] if one["topic"] == topic}
        return bool(state == "stopped")

    await_until(stopped, PATIENCE_S, "it is stopped", poll_s=0.5)
    assert {record.value for record in target.read(mirror)[0]} == {b"before"}


# -- the end of a mirror, for topics that nothing above speaks of ----------------------------------


@pytest.fixture
def moving(way: Way) -> Way:
    if min(way.source.version, way.target.version) not in MOVED:
        pytest.skip("tried with others")
    return way


def mirrored_topic(way: Way, name: str) -> tuple[str, str, str]:
    """With 50 records in each of two partitions, its mirror, and a group that has read some."""
    topic, mirror, group = way.topic(name), way.mirror(name), way.topic(f"{name}-readers")
    source = way.source.tools
    source.create_topic(topic, 2)
    source.produce(topic, [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(100)])
    await_copied(source, topic, way.target.tools, mirror)
    source.commit_group(group, {(topic, 0): 20})
    return topic, mirror, group


def cut_at(mirror: str, end: int) -> list[tuple[int, tuple[TopicPartition, int]]]:
    return [(end, (TopicPartition(mirror, partition), end)) for partition in (0, 1)]


def assert_ended(mirrored: Mirrored, way: Way, topic: str, state: State) -> None:
    """From now on both sides are written to, each for itself."""
    mirror = f"{way.source.alias}.{topic}"
    before = way.target.tools.offsets(mirror)
    way.source.tools.produce(topic, [Outgoing(value=b"too late", partition=0)])

    def ended() -> bool:
        link = status_of(mirrored.file)[way.link]
        found = [one for one in link["partitions"] if one["topic"] == topic]
        return len(found) == 2 and all(one["state"] == state for one in found)

    await_until(ended, PATIENCE_S, f"{topic} is {state}", poll_s=0.5)
    way.target.tools.produce(mirror, [Outgoing(value=b"of its own", partition=1)])
    assert way.target.tools.offsets(mirror) == {0: before[0], 1: before[1] + 1}


@pytest.mark.versions
def test_a_mirror_is_promoted(mirrored: Mirrored, moving: Way) -> None:
    topic, mirror, group = mirrored_topic(moving, "promoted")
    settings = load(mirrored.file)
    (found,) = promote(settings, link=moving.link, topic=topic, wait_s=PATIENCE_S)
    assert [(p.source, *p.targets) for p in found.cuts[topic].points] == cut_at(mirror, 50)
    assert moving.target.tools.group_offsets(group) == {(mirror, 0): 20}
    assert_ended(mirrored, moving, topic, State.PROMOTED)


@pytest.mark.versions
def test_a_mirror_is_failed_over(mirrored: Mirrored, moving: Way) -> None:
    topic, mirror, group = mirrored_topic(moving, "failed-over")
    target = moving.target.tools
    followed = {(mirror, 0): 20}
    await_until(lambda: target.group_offsets(group) == followed, PATIENCE_S, "its group follows")
    settings = load(mirrored.file)
    (found,) = failover(settings, yes=True, link=moving.link, topic=topic, wait_s=PATIENCE_S)
    assert [(p.source, *p.targets) for p in found.cuts[topic].points] == cut_at(mirror, 50)
    assert target.group_offsets(group) == followed
    assert_ended(mirrored, moving, topic, State.FAILED_OVER)


@pytest.mark.versions
def test_a_topic_is_cut_over_behind_a_fence(mirrored: Mirrored, moving: Way) -> None:
    """A transaction that is open as the fence comes is waited for. Who writes is named by its
    transactional id, where brokers tell of those."""
    topic, mirror, _ = mirrored_topic(moving, "cut-over")
    settings, wishes = (
        load(mirrored.file),
        Wishes(first=FirstMover.PRODUCERS, fence=True, settle_s=1.0),
    )
    with moving.source.tools.transactional(topic) as slow:
        slow.begin()
        slow.send(topic, *(Outgoing(value=b"late", partition=n) for n in (0, 1)))
        slow.flush()
        shown = cutover(settings, wishes, link=moving.link, topics=[topic])
        (who,) = [check.text for check in shown.look.checks if check.name == "producers"]
        assert (f"({topic})" in who) == (moving.source.version >= kafka_version("3.0.0")), who
        waited = False

        def told(checklist: Checklist, _: Look) -> None:
            nonlocal waited
            step = checklist.current
            if step is not None and "open transactions" in step.text and not waited:
                slow.commit()
                waited = True

        found = cutover(settings, wishes, link=moving.link, topics=[topic], act=True, on_look=told)
    assert found.end is CutoverEnd.DONE, found.checklist
    assert waited
    assert [record.value for record in moving.target.tools.read(mirror)[0]][-1] == b"late"
    assert_same(moving.source.tools, topic, moving.target.tools, mirror)
    assert undo(settings, link=moving.link, topics=[topic], act=True).ended == {topic}
    assert_ended(mirrored, moving, topic, State.PROMOTED)
