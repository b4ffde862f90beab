"""A broker answers fetches: from which batch, up to where, how long it waits, sessions, epochs."""

from __future__ import annotations

import threading
import time

import pytest

from causeway.model import TopicPartition
from causeway.wire import Connection, Fetched, FetchPosition, FetchSession
from tests.contract.client import (
    Client,
    fetch_request,
    headers,
    refusal,
)
from tests.harness.markers import receive_frame

ANY_ID = bytes(15) + b"\x7f"
LONG_S = 10.0


@pytest.fixture
def at(client: Client) -> TopicPartition:
    return client.topic()


# -- from where ------------------------------------------------------------------------------------


def test_a_whole_batch_comes_for_each_of_its_offsets(client: Client, at: TopicPartition) -> None:
    client.write(at, "a")
    client.write(at, "b", "c", "d")
    client.write(at, "e")
    for offset in (1, 2, 3):
        assert [found.base for found in client.log(at, offset)] == [1, 4]
    assert [found.base for found in client.log(at, 4)] == [4]


def test_the_end_of_the_log(client: Client, at: TopicPartition) -> None:
    client.write(at, "a", "b")
    found = client.fetch(at, 2)
    assert refusal(found) == "NONE"
    assert not found.records
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (2, 2, 0)


def test_an_empty_log(client: Client, at: TopicPartition) -> None:
    found = client.fetch(at, 0)
    assert not found.records
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (0, 0, 0)


def test_offsets_that_are_not_in_the_log(client: Client, at: TopicPartition) -> None:
    """The answer to a fetch beyond the end names no offsets; below the start, neither."""
    for value in "abc":
        client.write(at, value)
    client.delete_below(at, 2)
    for offset in (0, 1, 4, 100):
        found = client.fetch(at, offset)
        assert refusal(found) == "OFFSET_OUT_OF_RANGE"
        assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (
            -1,
            -1,
            -1,
        )
        assert not found.records
    assert client.fetch(at, 2).log_start_offset == 2


def test_an_unknown_topic_or_partition(client: Client, at: TopicPartition) -> None:
    for unknown in (TopicPartition(at.topic, 7), TopicPartition(client.prefix + "no", 0)):
        found = client.fetch(unknown, 0, node=client.node_of(at))
        assert refusal(found) == "UNKNOWN_TOPIC_OR_PARTITION"


# -- how much --------------------------------------------------------------------------------------


def test_the_first_batch_comes_whole_however_large(client: Client, at: TopicPartition) -> None:
    client.write(at, "x" * 5_000)
    client.write(at, "b")
    for limits in (
        {"max_bytes": 1},
        {"partition_max_bytes": 1},
        {"max_bytes": 5_100, "partition_max_bytes": 5_080},
    ):
        assert [found.base for found in client.log(at, 0, **limits)] == [0]
    assert [found.base for found in client.log(at, 0)] == [0, 1]


def test_no_more_bytes_than_a_partition_may_have(client: Client, at: TopicPartition) -> None:
    """The last batch may be cut off."""
    for _ in range(10):
        client.write(at, "x" * 500)
    records = bytes(client.fetch(at, 0, partition_max_bytes=2_000).records)
    assert len(records) <= 2_000
    assert [found.base for found in headers(records)] == [0, 1, 2]


def test_a_full_answer_leaves_out_the_other_partitions(client: Client) -> None:
    """They come with an answer, but without records."""
    parts = [client.topic() for _ in range(3)]
    for part in parts:
        client.write(part, "x" * 1_000)
    request = fetch_request([(part, 0) for part in parts], max_bytes=1_500)
    answer = client.ask(request, client.node_of(parts[0]))
    sizes = [len(topic.partitions[0].records or b"") for topic in answer.responses]
    assert [topic.topic for topic in answer.responses] == [part.topic for part in parts]
    assert sizes[0] > 1_000
    assert sum(sizes) <= 1_500
    assert [topic.partitions[0].high_watermark for topic in answer.responses] == [1, 1, 1]


def test_a_later_partition_gets_no_first_batch_that_is_too_large(client: Client) -> None:
    small, large = client.topic(), client.topic()
    client.write(small, "a")
    client.write(large, "x" * 5_000)
    request = fetch_request([(small, 0), (large, 0)], max_bytes=1_000, partition_max_bytes=1_000)
    answer = client.ask(request, client.node_of(small))
    found = {topic.topic: bytes(topic.partitions[0].records or b"") for topic in answer.responses}
    assert len(headers(found[small.topic])) == 1
    assert headers(found[large.topic]) == []


# -- how long --------------------------------------------------------------------------------------


def test_a_fetch_at_the_end_waits(client: Client, at: TopicPartition) -> None:
    begun = time.monotonic()
    found = client.fetch(at, 0, max_wait_ms=300)
    assert 0.25 < time.monotonic() - begun < LONG_S
    assert not found.records


def test_a_fetch_waits_for_the_least_number_of_bytes(client: Client, at: TopicPartition) -> None:
    client.write(at, "a")
    begun = time.monotonic()
    found = client.fetch(at, 0, max_wait_ms=300, min_bytes=10_000)
    assert 0.25 < time.monotonic() - begun < LONG_S
    assert len(headers(bytes(found.records))) == 1


def test_a_record_ends_the_wait(client: Client, at: TopicPartition) -> None:
    other = client.topic()
    timer = threading.Timer(0.2, client.write, (at, "a"))
    timer.start()
    begun = time.monotonic()
    request = fetch_request([(other, 0), (at, 0)], max_wait_ms=60_000)
    answer = client.ask(request, client.node_of(at))
    assert time.monotonic() - begun < LONG_S
    found = {topic.topic: bytes(topic.partitions[0].records or b"") for topic in answer.responses}
    assert len(headers(found[at.topic])) == 1
    timer.join()


def test_an_error_ends_the_wait(client: Client, at: TopicPartition) -> None:
    other = client.topic()
    begun = time.monotonic()
    request = fetch_request([(other, 0), (at, 5)], max_wait_ms=60_000)
    answer = client.ask(request, client.node_of(at))
    assert time.monotonic() - begun < LONG_S
    assert [refusal(topic.partitions[0]) for topic in answer.responses] == [
        "NONE",
        "OFFSET_OUT_OF_RANGE",
    ]


def test_requests_behind_a_waiting_fetch_wait_too(client: Client, at: TopicPartition) -> None:
    """A broker handles one request of a connection after the other."""
    with client.connect(at) as connection:
        begun = time.monotonic()
        slow, quick = connection.call_many(
            [fetch_request([(at, 0)], max_wait_ms=300), fetch_request([(at, 0)])]
        )
        assert time.monotonic() - begun > 0.25
    assert [refusal(answer) for answer in (slow, quick)] == ["NONE", "NONE"]


# -- leader epochs ---------------------------------------------------------------------------------


def test_a_fetch_names_the_leader_epoch(client: Client, at: TopicPartition) -> None:
    client.write(at, "a")
    epoch = client.cluster.leader(at).epoch
    assert refusal(client.fetch(at, 0, leader_epoch=epoch)) == "NONE"
    assert refusal(client.fetch(at, 0, leader_epoch=epoch + 1)) == "UNKNOWN_LEADER_EPOCH"


def test_a_fetch_names_the_epoch_of_the_record_before(client: Client, at: TopicPartition) -> None:
    client.write(at, "a", "b")
    epoch = client.cluster.leader(at).epoch
    for offset in (0, 1, 2):
        found = client.fetch(at, offset, last_epoch=epoch)
        assert refusal(found) == "NONE"
        assert found.diverging_epoch is None
    assert refusal(client.fetch(at, 2, last_epoch=epoch + 1)) == "OFFSET_OUT_OF_RANGE"


# -- sessions --------------------------------------------------------------------------------------


class Session:
    """A fetch session as a lane has it."""

    def __init__(self, connection: Connection, version: int, *, max_wait_ms: int = 0) -> None:
        self._connection = connection
        self._wait_ms = max_wait_ms
        self.session = FetchSession(
            version=version,
            client_id=b"contract",
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            read_committed=False,
        )
        self.error = ""

    def read(self, topic: bytes, partition: int, offset: int) -> None:
        self.session.read(FetchPosition(topic, partition, -1, offset, -1, 1 << 20))

    def fetch(self, wait_ms: int = 0) -> dict[tuple[bytes, int], Fetched]:
        request = self.session.build(self._connection.next_correlation_id(), wait_ms=wait_ms)
        return self.send(request)

    def send(self, request: bytes) -> dict[tuple[bytes, int], Fetched]:
        self._connection.queue([request])
        self._connection.flush()
        error, found = self.session.parse(receive_frame(self._connection))
        self.error = refusal(error)
        return {(one.topic, one.partition): one for one in found}


def topic_of(client: Client, at: TopicPartition, version: int) -> bytes:
    return client.id_of(at.topic) if version >= 13 else at.topic.encode()


@pytest.mark.parametrize("version", [12, 13])
def test_a_session_names_partitions_once(client: Client, at: TopicPartition, version: int) -> None:
    """Then it answers for those that have news."""
    other = client.topic(partitions=2)
    client.write(other, "a")
    one, two = topic_of(client, at, version), topic_of(client, other, version)
    with client.connect(at) as connection:
        session = Session(connection, version)
        for topic, partition in ((one, 0), (two, 0), (two, 1)):
            session.read(topic, partition, 0)
        found = session.fetch()
        assert set(found) == {(one, 0), (two, 0), (two, 1)}
        assert len(found[two, 0].records) > 0
        session.read(two, 0, 1)
        assert session.fetch() == {}
        client.write(at, "b")
        found = session.fetch()
        assert set(found) == {(one, 0)}
        assert found[one, 0].high_watermark == 1
        # The position has not moved: the same records come again.
        assert set(session.fetch()) == {(one, 0)}
        session.session.leave((one, 0))
        assert session.fetch() == {}
        session.read(one, 0, 0)
        assert set(session.fetch()) == {(one, 0)}


@pytest.mark.parametrize("version", [12, 13])
def test_an_error_comes_with_each_answer_of_a_session(
    client: Client, at: TopicPartition, version: int
) -> None:
    topic = topic_of(client, at, version)
    with client.connect(at) as connection:
        session = Session(connection, version)
        session.read(topic, 0, 9)
        for _ in range(3):
            assert refusal(session.fetch()[topic, 0].error) == "OFFSET_OUT_OF_RANGE"
        session.read(topic, 0, 0)
        assert set(session.fetch()) == {(topic, 0)}  # the error is gone
        assert session.fetch() == {}


def test_a_session_waits_for_news(client: Client, at: TopicPartition) -> None:
    topic = topic_of(client, at, 13)
    with client.connect(at) as connection:
        session = Session(connection, 13)
        session.read(topic, 0, 0)
        session.fetch()
        begun = time.monotonic()
        assert session.fetch(wait_ms=300) == {}
        assert 0.25 < time.monotonic() - begun < LONG_S
        timer = threading.Timer(0.2, client.write, (at, "a"))
        timer.start()
        assert set(session.fetch(wait_ms=60_000)) == {(topic, 0)}
        timer.join()


def test_a_session_knows_its_epoch(client: Client, at: TopicPartition) -> None:
    topic = topic_of(client, at, 13)
    with client.connect(at) as connection:
        session = Session(connection, 13)
        session.read(topic, 0, 0)
        first = session.session.build(1, wait_ms=0)
        session.send(first)
        second = session.session.build(2, wait_ms=0)
        session.send(second)
        assert session.error == "NONE"
        session.send(second)
        assert session.error == "INVALID_FETCH_SESSION_EPOCH"
        assert session.fetch() != {}  # a new session begins
        assert session.error == "NONE"


def test_an_unknown_session(client: Client, at: TopicPartition) -> None:
    request = fetch_request([(at, 0)])
    request.session_id, request.session_epoch = 12345, 1
    assert refusal(client.ask(request, client.node_of(at))) == "FETCH_SESSION_ID_NOT_FOUND"


def test_a_session_is_any_connections(client: Client, at: TopicPartition) -> None:
    topic = topic_of(client, at, 13)
    with client.connect(at) as one, client.connect(at) as two:
        session = Session(one, 13)
        session.read(topic, 0, 0)
        session.fetch()
        session._connection = two
        assert session.fetch() == {}
        assert session.error == "NONE"


def test_a_session_is_closed(client: Client, at: TopicPartition) -> None:
    request = fetch_request([(at, 0)])
    request.session_epoch = 0
    answer = client.ask(request, client.node_of(at))
    assert answer.session_id > 0
    closing = fetch_request([])
    closing.session_id, closing.session_epoch = answer.session_id, -1
    assert refusal(client.ask(closing, client.node_of(at))) == "NONE"
    late = fetch_request([])
    late.session_id, late.session_epoch = answer.session_id, 1
    assert refusal(client.ask(late, client.node_of(at))) == "FETCH_SESSION_ID_NOT_FOUND"


# -- topic ids -------------------------------------------------------------------------------------


def test_an_unknown_topic_id(client: Client, at: TopicPartition) -> None:
    topic = topic_of(client, at, 13)
    with client.connect(at) as connection:
        session = Session(connection, 13)
        session.read(topic, 0, 0)
        session.read(ANY_ID, 0, 0)
        for _ in range(2):
            found = session.fetch()
            assert session.error == "NONE"
            assert refusal(found[ANY_ID, 0].error) == "UNKNOWN_TOPIC_ID"


def test_a_recreated_topic_is_not_read_by_its_old_id(client: Client, at: TopicPartition) -> None:
    """Neither in a new session nor in one that has resolved the id to the name."""
    client.write(at, "a")
    old = topic_of(client, at, 13)
    with client.connect(at) as connection:
        known = Session(connection, 13)
        known.read(old, 0, 1)
        known.fetch()
        client.recreate(at)
        client.write(at, "b", "c")
        new = Session(connection, 13)
        new.read(old, 0, 0)
        for session, error in ((known, "INCONSISTENT_TOPIC_ID"), (new, "UNKNOWN_TOPIC_ID")):
            for _ in range(2):
                found = session.fetch()
                assert (session.error, refusal(found[old, 0].error)) == ("NONE", error)
                assert len(found[old, 0].records) == 0


def test_a_session_by_name_reads_the_recreated_topic(client: Client, at: TopicPartition) -> None:
    client.write(at, "a", "b")
    topic = at.topic.encode()
    with client.connect(at) as connection:
        session = Session(connection, 12)
        session.read(topic, 0, 2)
        session.fetch()
        client.recreate(at)
        assert refusal(session.fetch()[topic, 0].error) == "OFFSET_OUT_OF_RANGE"
        session.read(topic, 0, 0)
        client.write(at, "c")
        found = session.fetch()
        assert (refusal(found[topic, 0].error), found[topic, 0].high_watermark) == ("NONE", 1)


@pytest.mark.parametrize("version", [12, 13])
def test_a_deleted_topic_in_a_session(client: Client, at: TopicPartition, version: int) -> None:
    topic = topic_of(client, at, version)
    with client.connect(at) as connection:
        session = Session(connection, version)
        session.read(topic, 0, 0)
        session.fetch()
        client.delete(at.topic)
        found = session.fetch()
        assert session.error == "NONE"
        assert refusal(found[topic, 0].error) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_session_keeps_to_names_or_to_ids(client: Client, at: TopicPartition) -> None:
    with client.connect(at) as connection:
        session = Session(connection, 13)
        session.read(topic_of(client, at, 13), 0, 0)
        session.fetch()
        session.session.version = 12
        session.fetch()
        assert session.error == "FETCH_SESSION_TOPIC_ID_ERROR"


# -- transactions are in test_transactions.py ------------------------------------------------------


def test_read_committed_without_transactions(client: Client, at: TopicPartition) -> None:
    client.write(at, "a", "b")
    found = client.fetch(at, 0, read_committed=True)
    assert len(headers(bytes(found.records))) == 1
    assert not found.aborted_transactions
    assert client.fetch(at, 0).aborted_transactions is None
