"""A broker appends a batch, or refuses it: sequences, epochs, checks of the batch, answers."""

from __future__ import annotations

import pytest

from causeway.model import TopicPartition
from causeway.wire import produce as lanes
from causeway.wire import wait
from tests.contract.client import (
    Client,
    Writer,
    batch,
    now_ms,
    produce_request,
    refusal,
)
from tests.harness.raw_batches import Rec, damaged, raw_batch

LAST_SEQUENCE = 2**31 - 1
HOUR_MS = 60 * 60 * 1000
ANY_ID = bytes(15) + b"\x7f"


@pytest.fixture
def at(client: Client) -> TopicPartition:
    return client.topic()


@pytest.fixture
def writer(client: Client) -> Writer:
    return client.writer()


def appended(client: Client, at: TopicPartition, data: bytes) -> int:
    """The offset of the batch."""
    answer = client.produce(at, data)
    assert refusal(answer) == "NONE"
    return int(answer.base_offset)


# -- sequences -------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 7, LAST_SEQUENCE])
def test_an_unknown_producer_begins_with_any_sequence(
    client: Client, at: TopicPartition, writer: Writer, first: int
) -> None:
    assert appended(client, at, writer.batch(first, "a")) == 0
    assert client.producers(at)[writer.id].last_sequence == first


def test_the_next_sequence_is_appended(client: Client, at: TopicPartition, writer: Writer) -> None:
    assert appended(client, at, writer.batch(0, "a", "b")) == 0
    assert appended(client, at, writer.batch(2, "c")) == 2
    assert appended(client, at, writer.batch(3, "d")) == 3


def test_the_sequence_after_the_last_one_is_0(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    assert appended(client, at, writer.batch(LAST_SEQUENCE - 1, "a", "b")) == 0
    assert refusal(client.produce(at, writer.batch(1, "x"))) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert appended(client, at, writer.batch(0, "c")) == 2


def test_a_batch_over_the_last_sequence(client: Client, at: TopicPartition, writer: Writer) -> None:
    assert appended(client, at, writer.batch(LAST_SEQUENCE, "a", "b", "c")) == 0
    assert client.producers(at)[writer.id].last_sequence == 1
    assert appended(client, at, writer.batch(2, "d")) == 3


@pytest.mark.parametrize("sequence", [0, 1, 4, 100])
def test_a_gap_or_an_overlap_is_refused(
    client: Client, at: TopicPartition, writer: Writer, sequence: int
) -> None:
    assert appended(client, at, writer.batch(0, "a", "b", "c")) == 0
    refused = client.produce(at, writer.batch(sequence, "x", "y"))
    assert refusal(refused) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert refused.base_offset == -1
    assert client.ends(at) == (0, 3, 3)
    assert appended(client, at, writer.batch(3, "d")) == 3


def test_the_last_five_batches_are_duplicates(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    """The answer has the offset and the time of the batch in the log. Older ones are out of
    order."""
    written = now_ms() - 5_000
    batches = [
        batch("a", "b", writer=writer, sequence=2 * n, timestamp=written + n) for n in range(7)
    ]
    for one in batches:
        assert client.produce(at, one).log_append_time_ms == -1
    for number in (2, 3, 6, 4, 5):
        answer = client.produce(at, batches[number])
        assert refusal(answer) == "NONE"
        assert answer.base_offset == 2 * number
        assert answer.log_append_time_ms == written + number
    for old in (0, 1):
        assert refusal(client.produce(at, batches[old])) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert client.ends(at) == (0, 14, 14)


def test_a_duplicate_is_found_by_its_sequences_alone(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    assert appended(client, at, writer.batch(5, "a", "b")) == 0
    assert appended(client, at, writer.batch(7, "c")) == 2
    assert appended(client, at, writer.batch(5, "other", "content")) == 0
    assert client.values(at) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_sequences_are_those_of_a_partition(client: Client, writer: Writer) -> None:
    first = client.topic(partitions=2)
    second = TopicPartition(first.topic, 1)
    assert appended(client, first, writer.batch(0, "a")) == 0
    assert appended(client, second, writer.batch(50, "b")) == 0
    assert appended(client, first, writer.batch(1, "c")) == 1


def test_producers_do_not_disturb_each_other(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    other = client.writer()
    assert other.id != writer.id
    assert appended(client, at, writer.batch(0, "a")) == 0
    assert appended(client, at, other.batch(9, "b")) == 1
    assert client.write(at, "c") == 2
    assert appended(client, at, writer.batch(1, "d")) == 3
    assert {one: known.last_sequence for one, known in client.producers(at).items()} == {
        writer.id: 1,
        other.id: 9,
    }


# -- epochs ----------------------------------------------------------------------------------------


def test_a_new_epoch_begins_with_sequence_0(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    """Any client may raise the epoch of an idempotent producer."""
    assert appended(client, at, writer.batch(0, "a", "b")) == 0
    later = writer.later(3)
    for wrong in (1, 2):
        refused = client.produce(at, later.batch(wrong, "x"))
        assert refusal(refused) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert appended(client, at, later.batch(0, "c")) == 2
    assert client.producers(at)[writer.id].producer_epoch == later.epoch


def test_an_old_epoch_is_refused(client: Client, at: TopicPartition, writer: Writer) -> None:
    """Also a repetition of a batch that the broker has."""
    first = writer.batch(0, "a")
    assert appended(client, at, first) == 0
    assert appended(client, at, writer.later().batch(0, "b")) == 1
    for late in (first, writer.batch(1, "x")):
        assert refusal(client.produce(at, late)) == "INVALID_PRODUCER_EPOCH"
    assert client.ends(at) == (0, 2, 2)


def test_an_unknown_producer_begins_with_any_epoch(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    assert appended(client, at, writer.later(9).batch(4, "a")) == 0
    assert refusal(client.produce(at, writer.batch(0, "x"))) == "INVALID_PRODUCER_EPOCH"


# -- the batch -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (damaged(batch("a")), "CORRUPT_MESSAGE"),
        (raw_batch([Rec(offset=5)]), "INVALID_RECORD"),
        (raw_batch([Rec(offset=0), Rec(offset=2)]), "INVALID_RECORD"),
        (raw_batch([Rec(offset=0)], last=1), "INVALID_RECORD"),
        (raw_batch([], base=0, last=0), "INVALID_RECORD"),
        (raw_batch([Rec(offset=0, key=bytes(4))], control=True), "INVALID_RECORD"),
        (raw_batch([Rec(offset=0)], producer_id=7, epoch=0, sequence=-1), "INVALID_RECORD"),
        (batch("a") + batch("b"), "INVALID_RECORD"),
        (b"", "INVALID_RECORD"),
        (batch("a", timestamp=now_ms() + 3 * HOUR_MS), "INVALID_TIMESTAMP"),
        (batch("x" * 2_000), "MESSAGE_TOO_LARGE"),
    ],
    ids=[
        "wrong CRC",
        "base offset is not 0",
        "a gap between records",
        "a gap at the end",
        "no records",
        "control batch",
        "no sequence",
        "two batches",
        "nothing",
        "time in the future",
        "too large",
    ],
)
def test_a_wrong_batch_is_refused(client: Client, data: bytes, error: str) -> None:
    at = client.topic(max_message_bytes="1000")
    refused = client.produce(at, data)
    assert (refusal(refused), refused.base_offset) == (error, -1)
    assert client.ends(at) == (0, 0, 0)


def test_a_refused_batch_changes_nothing_of_its_producer(client: Client, writer: Writer) -> None:
    at = client.topic(max_message_bytes="1000")
    assert appended(client, at, writer.batch(0, "a")) == 0
    assert refusal(client.produce(at, writer.batch(1, "x" * 2_000))) == "MESSAGE_TOO_LARGE"
    assert refusal(client.produce(at, damaged(writer.batch(1, "x")))) == "CORRUPT_MESSAGE"
    assert appended(client, at, writer.batch(1, "b")) == 1


def test_a_compacted_topic_wants_keys(client: Client) -> None:
    at = client.topic(cleanup_policy="compact")
    refused = client.produce(at, batch("a", "b"))
    assert refusal(refused) == "INVALID_RECORD"
    assert [error.batch_index for error in refused.record_errors] == [0, 1]
    assert refusal(client.produce(at, batch("a", key=b"k"))) == "NONE"


def test_a_batch_lies_in_the_log_as_it_was_sent(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    """But for its offset and leader epoch, which are not part of the checksum."""
    client.write(at, "before")
    epoch = client.cluster.leader(at).epoch
    sent = raw_batch(
        [
            Rec(offset=n, timestamp=1_700_000_000_000 + n, key=b"k%d" % n, headers=[("h", b"1")])
            for n in range(3)
        ],
        compressed=True,
        producer_id=writer.id,
        epoch=writer.epoch,
        sequence=41,
        leader_epoch=-1,
    )
    assert appended(client, at, sent) == 1
    found = bytes(client.fetch(at, 1).records)
    assert found[:8] == (1).to_bytes(8)
    assert found[12:16] == epoch.to_bytes(4)
    assert found[8:12] + found[16:] == sent[8:12] + sent[16:]


def test_append_times(client: Client) -> None:
    """The answer names the time, and the batch has it too."""
    at = client.topic(message_timestamp_type="LogAppendTime")
    begun = now_ms()
    answer = client.produce(at, batch("a", timestamp=1_000))
    assert begun - 1 <= answer.log_append_time_ms <= now_ms() + 1
    (header,) = client.log(at)
    assert header.max_timestamp == answer.log_append_time_ms
    assert header.attributes & 8


def test_a_duplicate_has_its_first_append_time(client: Client, writer: Writer) -> None:
    at = client.topic(message_timestamp_type="LogAppendTime")
    first = client.produce(at, writer.batch(0, "a"))
    again = client.produce(at, writer.batch(0, "a"))
    assert (again.base_offset, again.log_append_time_ms) == (0, first.log_append_time_ms)


def test_the_answer_has_the_start_of_the_log(client: Client, at: TopicPartition) -> None:
    assert client.produce(at, batch("a")).log_start_offset == 0


# -- requests --------------------------------------------------------------------------------------


def test_an_unknown_topic_or_partition(client: Client, at: TopicPartition) -> None:
    for unknown in (TopicPartition(at.topic, 7), TopicPartition(client.prefix + "no", 0)):
        refused = client.produce(unknown, batch("x"), node=client.node_of(at))
        assert (refusal(refused), refused.base_offset) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)


def test_acks_that_do_not_exist(client: Client, at: TopicPartition) -> None:
    assert refusal(client.produce(at, batch("x"), acks=2)) == "INVALID_REQUIRED_ACKS"
    assert refusal(client.produce(at, batch("x"), acks=1)) == "NONE"


def test_each_partition_of_a_request_has_its_own_result(client: Client, writer: Writer) -> None:
    good, bad = client.topic(), client.topic()
    assert appended(client, bad, writer.batch(0, "a")) == 0
    parts = [(bad, writer.batch(5, "x")), (good, writer.batch(5, "b"))]
    answer = client.ask(produce_request(parts), client.node_of(good))
    results = {topic.name: topic.partition_responses[0] for topic in answer.responses}
    assert refusal(results[bad.topic]) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert refusal(results[good.topic]) == "NONE"
    assert results[good.topic].base_offset == 0


def test_a_partition_that_a_request_names_twice(client: Client, at: TopicPartition) -> None:
    """Only the last batch is appended, and no error says so."""
    answer = client.ask(produce_request([(at, batch("a")), (at, batch("b"))]), client.node_of(at))
    results = [part for topic in answer.responses for part in topic.partition_responses]
    assert {refusal(part) for part in results} == {"NONE"}
    assert client.values(at) == [(0, b"b")]


def by_lanes(
    client: Client, at: TopicPartition, topic: bytes, version: int, *data: bytes
) -> list[lanes.Response]:
    """Requests as lanes write them, sent without waiting: the answers in the order of arrival."""
    answers: list[lanes.Response] = []
    with client.connect(at) as connection:
        for number, one in enumerate(data):
            part = (topic, at.partition, one[:61], one[61:])
            connection.queue(*lanes.build(number, version, b"contract", 10_000, [part]))
        while len(answers) < len(data):
            connection.flush()
            wait(connection.socket, write=connection.wants_write, timeout_s=10)
            answers += [lanes.parse(frame, version) for frame in connection.receive()]
    return answers


def test_requests_of_a_connection_are_answered_in_order(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    data = [writer.batch(n, f"{n}") for n in range(20)]
    answers = by_lanes(client, at, at.topic.encode(), 9, *data)
    assert [answer.correlation_id for answer in answers] == list(range(20))
    found = [answer.results[at.topic.encode(), 0] for answer in answers]
    assert [(one.error, one.base_offset) for one in found] == [(0, n) for n in range(20)]


def test_a_refused_batch_refuses_those_in_flight_behind_it(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    data = [writer.batch(n, f"{n}") for n in (0, 1, 3, 4)]
    found = [
        answer.results[at.topic.encode(), 0]
        for answer in by_lanes(client, at, at.topic.encode(), 9, *data)
    ]
    assert [one.error for one in found] == [0, 0, 45, 45]
    assert client.ends(at) == (0, 2, 2)


def test_a_topic_by_its_id(client: Client, at: TopicPartition) -> None:
    topic = client.id_of(at.topic)
    (answer,) = by_lanes(client, at, topic, 13, batch("a", "b"))
    assert answer.results[topic, 0][:3] == (0, 0, -1)
    (answer,) = by_lanes(client, at, ANY_ID, 13, batch("x"))
    assert refusal(answer.results[ANY_ID, 0].error) == "UNKNOWN_TOPIC_ID"
    assert client.ends(at) == (0, 2, 2)


def test_a_recreated_topic_refuses_records_by_its_old_id(
    client: Client, at: TopicPartition
) -> None:
    old = client.id_of(at.topic)
    client.write(at, "a")
    client.recreate(at)
    (answer,) = by_lanes(client, at, old, 13, batch("x"))
    assert refusal(answer.results[old, 0].error) == "UNKNOWN_TOPIC_ID"
    assert client.ends(at) == (0, 0, 0)


def test_a_recreated_topic_has_forgotten_its_producers(
    client: Client, at: TopicPartition, writer: Writer
) -> None:
    assert appended(client, at, writer.batch(0, "a")) == 0
    client.recreate(at)
    assert appended(client, at, writer.batch(7, "b")) == 0
