from __future__ import annotations

from pathlib import Path

import pytest

from causeway.config import Settings
from causeway.errors import ConfigError
from causeway.formats import load_mm1

CONSUMER = "bootstrap.servers=a:1\ngroup.id=mm\n"
PRODUCER = "bootstrap.servers=b:2\n"


def load(
    tmp_path: Path,
    consumers: tuple[str, ...] = (CONSUMER,),
    producer: str = PRODUCER,
    include: str = "orders",
    num_streams: int | None = None,
    offset_commit_interval_ms: int | None = None,
) -> Settings:
    paths = []
    for number, text in enumerate(consumers):
        paths.append(tmp_path / f"c{number}.properties")
        paths[-1].write_text(text)
    (tmp_path / "p.properties").write_text(producer)
    return load_mm1(
        paths,
        tmp_path / "p.properties",
        include,
        num_streams=num_streams,
        offset_commit_interval_ms=offset_commit_interval_ms,
        environment={},
    )


def test_a_link_that_keeps_names_and_lets_the_key_decide(tmp_path: Path) -> None:
    (link,) = load(tmp_path, include="orders,pay.*").links
    assert link.name == "source-mm->target"
    assert link.progress_topic == "__causeway.source-mm.target.progress"
    assert link.source.bootstrap == (("a", 1),)
    assert link.target.bootstrap == (("b", 2),)
    assert link.partitioning == "by-key"
    assert not link.sole_writer
    assert link.group_id == "mm"
    assert link.replication_factor == -1
    assert link.refresh_topics_interval_s == 300
    for topic in ("orders", "payments"):
        assert link.decide_topic(topic).target_name == topic
    assert not link.decide_topic("other").mirrored


def test_nothing_but_records(tmp_path: Path) -> None:
    settings = load(tmp_path)
    control = settings.links[0].control
    assert settings.heartbeat_links == ()
    assert control.groups == ()
    assert not control.emit_checkpoints_enabled
    assert not control.sync_group_offsets_enabled
    assert not control.emit_offset_syncs_enabled
    assert not control.heartbeats.enabled
    assert not control.sync_topic_acls_enabled
    assert not control.mm2_offsets


def test_all_topics_but_kafkas_own(tmp_path: Path) -> None:
    (link,) = load(tmp_path, include="*").links
    assert link.decide_topic("x.internal").target_name == "x.internal"
    assert link.decide_topic("heartbeats").target_name == "heartbeats"
    assert not link.decide_topic("__consumer_offsets").mirrored
    assert not link.decide_topic(link.progress_topic).mirrored


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", "latest"),
        ("auto.offset.reset=earliest", "earliest"),
        ("auto.offset.reset=smallest", "earliest"),
        ("auto.offset.reset=largest", "latest"),
    ],
)
def test_where_it_starts(tmp_path: Path, text: str, start: str) -> None:
    assert load(tmp_path, (CONSUMER + text,)).links[0].fetch.start == start


def test_options(tmp_path: Path) -> None:
    settings = load(tmp_path, num_streams=3, offset_commit_interval_ms=5000)
    assert settings.run.lanes == 3
    assert settings.run.progress_interval_s == 5


def test_our_keys_stand_in_the_producers_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        (CONSUMER + "spark.x=1\n",),
        PRODUCER + "spark.master=local[2]\ncauseway.delivery=at-least-once\n",
    )
    assert settings.spark == {"spark.master": "local[2]"}
    assert settings.links[0].delivery == "at-least-once"
    assert "spark.x (line 3) (write it in the producer's file)" in settings.warnings[0]


def test_several_sources(tmp_path: Path) -> None:
    other = "bootstrap.servers=c:3\ngroup.id=other\n"
    links = load(tmp_path, (CONSUMER, other)).links
    assert [link.source.alias for link in links] == ["source-mm", "source-other"]
    links = load(tmp_path, (CONSUMER, CONSUMER.replace("a:1", "c:3"))).links
    assert [link.source.alias for link in links] == ["source1-mm", "source2-mm"]


def test_groups_whose_names_topics_cannot_hold_stay_apart(tmp_path: Path) -> None:
    aliases = {
        load(tmp_path, (CONSUMER + f"group.id={group}\n",)).links[0].source.alias
        for group in ("a b", "a_b", "a/b", "x" * 300)
    }
    assert len(aliases) == 4
    assert all(len(alias) < 180 for alias in aliases)


def test_warnings(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        (CONSUMER + "max.poll.records=5\n",),
        PRODUCER + "acks=1\ncompresion.type=gzip\nenable.idempotence=true\n",
    )
    text = "\n".join(settings.warnings)
    assert "p.properties: not acted on in this version: acks (line 2)" in text
    assert "compresion.type (line 3) (did you mean compression.type?)" in text
    assert "max.poll.records (line 3)" in text
    assert "idempotence" not in text


@pytest.mark.parametrize(
    ("consumer", "producer", "include", "message"),
    [
        ("bootstrap.servers=a:1\n", PRODUCER, "x", "has no group.id"),
        ("group.id=x\n", PRODUCER, "x", "has no bootstrap.servers"),
        ("zookeeper.connect=z:2181\ngroup.id=x\n", PRODUCER, "x", "ZooKeeper is gone"),
        (CONSUMER, "metadata.broker.list=b:1\n", "x", "old producer is gone"),
        (CONSUMER, PRODUCER, "(", "is not closed"),
        (CONSUMER, PRODUCER, "", "it is empty"),
        (CONSUMER + "metadata.max.age.ms=x\n", PRODUCER, "x", "a whole number"),
        (CONSUMER + "auto.offset.reset=never\n", PRODUCER, "x", "'earliest' or 'latest'"),
        (CONSUMER, PRODUCER + "causeway.lanes=0\n", "x", "a whole number of at least 1"),
    ],
)
def test_refusals_are_one_line(
    tmp_path: Path, consumer: str, producer: str, include: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        load(tmp_path, (consumer,), producer, include)
    assert "\n" not in str(raised.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_mm1([tmp_path / "c"], tmp_path / "p", "x")


def test_a_variable_that_is_not_set_hides_no_other_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, ("bootstrap.servers=${A}\ngroup.id=${B}\nfetch.min.bytes=x\n",))
    _, *lines = str(raised.value).splitlines()
    assert [line.split()[0] for line in lines] == [
        "bootstrap.servers",
        "group.id",
        "fetch.min.bytes",
    ]
