"""The independent client sees what was written: it has to, before it may judge a mirror."""

from __future__ import annotations

import pytest

from tests.harness.kafka_tools import KafkaTools, Outgoing

pytestmark = pytest.mark.integration


def test_reads_back_what_it_wrote(source: KafkaTools, prefix: str) -> None:
    topic = prefix + "records"
    source.create_topic(topic, 2, config={"retention.ms": "-1"})
    headers = (("a", b"1"), ("a", None), ("b", b""))
    written = [
        Outgoing(value=b"v", key=b"k", headers=headers, timestamp=1_000, partition=0),
        Outgoing(value=None, key=b"k", timestamp=2_000, partition=0),
        Outgoing(value=b"", key=None, timestamp=3_000, partition=1),
    ]
    source.produce(topic, written, codec="zstd")

    read = source.read(topic)

    assert [(r.offset, *r.content) for r in read[0]] == [
        (0, 1_000, False, b"k", b"v", headers),
        (1, 2_000, False, b"k", None, ()),
    ]
    assert [(r.offset, *r.content) for r in read[1]] == [(0, 3_000, False, None, b"", ())]


def test_isolation_levels_differ_by_aborted_and_open_transactions(
    source: KafkaTools, prefix: str
) -> None:
    topic = prefix + "transactions"
    source.create_topic(topic)
    with source.transactional(prefix + "writer") as transactions:
        transactions.begin()
        transactions.send(topic, b"aborted")
        transactions.abort()
        transactions.begin()
        transactions.send(topic, b"committed")
        transactions.commit()
        transactions.begin()
        transactions.send(topic, b"open")
        transactions.flush()

        every = [record.value for record in source.read(topic)[0]]
        committed = [record.value for record in source.read(topic, read_committed=True)[0]]
        stable = source.offsets(topic, read_committed=True)
        transactions.commit()

    assert every == [b"aborted", b"committed", b"open"]
    assert committed == [b"committed"]
    assert stable == {0: 4}


def test_records_can_be_deleted_and_counted(target: KafkaTools, prefix: str) -> None:
    topic = prefix + "deleted"
    target.create_topic(topic)
    target.produce(topic, [b"a", b"b", b"c"])

    target.delete_records(topic, 0, 2)

    assert target.offsets(topic, "earliest") == {0: 2}
    assert [record.value for record in target.read(topic)[0]] == [b"c"]


def test_topics_configs_and_groups(target: KafkaTools, prefix: str) -> None:
    topic = prefix + "configs"
    target.create_topic(topic, config={"retention.ms": "1000"})
    target.set_topic_config(topic, {"retention.ms": None, "max.message.bytes": "2000000"})
    target.add_partitions(topic, 3)
    target.commit_group(prefix + "group", {(topic, 1): 7})

    config = target.topic_config(topic)

    assert (config["retention.ms"], config["max.message.bytes"]) == ("604800000", "2000000")
    assert target.partition_count(topic) == 3
    assert target.group_offsets(prefix + "group") == {(topic, 1): 7}
    target.delete_topic(topic)
    assert topic not in target.topics()
