"""ListOffsets, OffsetForLeaderEpoch, and what moves the start of a log."""

from __future__ import annotations

import pytest

from causeway.model import TopicPartition
from tests.contract.client import Client, batch, refusal
from tests.harness.raw_batches import Rec, raw_batch

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
TIME = 1_700_000_000_000


@pytest.fixture
def at(client: Client) -> TopicPartition:
    return client.topic()


@pytest.fixture
def log(client: Client) -> TopicPartition:
    """Records 0 to 5 in three batches, whose times go up and down."""
    at = client.topic(retention_ms="-1")
    for times in ((0, 10), (30, 20), (25, 40)):
        client.produce(at, stamped(*(TIME + time for time in times)))
    return at


def stamped(*times: int) -> bytes:
    records = [Rec(offset=place, timestamp=time) for place, time in enumerate(times)]
    return raw_batch(records)


def found(client: Client, at: TopicPartition, spec: int) -> tuple[int, int]:
    """Offset and time."""
    answer = client.offset_at(at, spec)
    assert refusal(answer) == "NONE"
    return answer.offset, answer.timestamp


def test_an_empty_log(client: Client, at: TopicPartition) -> None:
    assert found(client, at, LATEST) == (0, -1)
    assert found(client, at, EARLIEST) == (0, -1)
    assert found(client, at, NEWEST) == (-1, -1)
    assert found(client, at, TIME) == (-1, -1)


def test_the_ends_of_a_log(client: Client, log: TopicPartition) -> None:
    assert found(client, log, LATEST) == (6, -1)
    assert found(client, log, EARLIEST) == (0, -1)
    assert client.delete_below(log, 3).low_watermark == 3
    assert found(client, log, EARLIEST) == (3, -1)
    assert found(client, log, EARLIEST_LOCAL) == (3, -1)
    assert found(client, log, LATEST_TIERED) == (-1, -1)
    assert client.ends(log) == (3, 6, 6)


def test_the_newest_record(client: Client, log: TopicPartition) -> None:
    assert found(client, log, NEWEST) == (5, TIME + 40)


@pytest.mark.parametrize(
    ("time", "offset", "its_time"),
    [(-10, 0, 0), (0, 0, 0), (1, 1, 10), (10, 1, 10), (11, 2, 30), (25, 2, 30), (31, 5, 40)],
)
def test_the_first_record_at_a_time_or_later(
    client: Client, log: TopicPartition, time: int, offset: int, its_time: int
) -> None:
    """In the order of offsets, not of times."""
    assert found(client, log, TIME + time) == (offset, TIME + its_time)


def test_no_record_at_a_time_or_later(client: Client, log: TopicPartition) -> None:
    assert found(client, log, TIME + 41) == (-1, -1)


def test_deleted_records_are_not_found_by_their_time(client: Client, log: TopicPartition) -> None:
    client.delete_below(log, 3)
    assert found(client, log, TIME) == (3, TIME + 20)


def test_the_answer_has_the_leader_epoch(client: Client, log: TopicPartition) -> None:
    epoch = client.cluster.leader(log).epoch
    for spec in (LATEST, EARLIEST, NEWEST, TIME):
        assert client.offset_at(log, spec).leader_epoch == epoch


def test_a_question_names_the_leader_epoch(client: Client, at: TopicPartition) -> None:
    epoch = client.cluster.leader(at).epoch
    answer = client.offset_at(at, LATEST, leader_epoch=epoch + 1)
    assert (refusal(answer), answer.offset) == ("UNKNOWN_LEADER_EPOCH", -1)
    assert refusal(client.offset_at(at, LATEST, leader_epoch=epoch)) == "NONE"
    answer = client.epoch_end(at, 0, current_leader_epoch=epoch + 1)
    assert (refusal(answer), answer.end_offset) == ("UNKNOWN_LEADER_EPOCH", -1)
    assert refusal(client.epoch_end(at, 0, current_leader_epoch=epoch)) == "NONE"


def test_an_unknown_topic_or_partition(client: Client, at: TopicPartition) -> None:
    node = client.node_of(at)
    for unknown in (TopicPartition(at.topic, 7), TopicPartition(client.prefix + "no", 0)):
        answer = client.offset_at(unknown, LATEST, node=node)
        assert (refusal(answer), answer.offset) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
        answer = client.epoch_end(unknown, 0, node=node)
        assert (refusal(answer), answer.end_offset) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)


def test_the_end_of_a_leader_epoch(client: Client, at: TopicPartition) -> None:
    epoch = client.cluster.leader(at).epoch

    def end(of: int) -> tuple[int, int]:
        answer = client.epoch_end(at, of)
        assert refusal(answer) == "NONE"
        return answer.leader_epoch, answer.end_offset

    assert end(epoch) == (epoch, 0)
    client.write(at, "a", "b")
    assert end(epoch) == (epoch, 2)
    assert end(epoch + 1) == (-1, -1)


# -- DeleteRecords ---------------------------------------------------------------------------------


def test_records_are_deleted_below_an_offset(client: Client, log: TopicPartition) -> None:
    answer = client.delete_below(log, 3)
    assert (refusal(answer), answer.low_watermark) == ("NONE", 3)
    assert [header.base for header in client.log(log, 3)] == [2, 4]
    answer = client.delete_below(log, 1)
    assert (refusal(answer), answer.low_watermark) == ("NONE", 3)


def test_records_are_deleted_up_to_the_end(client: Client, log: TopicPartition) -> None:
    assert client.delete_below(log, -1).low_watermark == 6
    assert client.ends(log) == (6, 6, 6)
    assert client.produce(log, batch("a")).base_offset == 6


def test_no_record_is_deleted_beyond_the_end(client: Client, log: TopicPartition) -> None:
    answer = client.delete_below(log, 7)
    assert (refusal(answer), answer.low_watermark) == ("OFFSET_OUT_OF_RANGE", -1)
    assert client.ends(log) == (0, 6, 6)


def test_a_compacted_topic_keeps_its_records(client: Client) -> None:
    kept, both = (
        client.topic(cleanup_policy="compact"),
        client.topic(cleanup_policy="compact,delete"),
    )
    for at in (kept, both):
        client.produce(at, batch("a", key=b"k"))
    assert refusal(client.delete_below(kept, 1)) == "POLICY_VIOLATION"
    assert refusal(client.delete_below(both, 1)) == "NONE"


def test_producers_are_known_without_their_records(client: Client, at: TopicPartition) -> None:
    writer = client.writer()
    client.produce(at, writer.batch(0, "a"))
    client.delete_below(at, -1)
    assert client.producers(at)[writer.id].last_sequence == 0
    assert refusal(client.produce(at, writer.batch(5, "x"))) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert refusal(client.produce(at, writer.batch(1, "b"))) == "NONE"
