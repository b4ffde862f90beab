"""Transactions: ids and fencing, markers, what readers see, what brokers tell about them."""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest
from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest
from kafka.record.memory_records import MemoryRecords

from causeway.model import TopicPartition
from causeway.records import CONTROL, TRANSACTIONAL
from causeway.wire import wait
from tests.contract.client import Client, Writer, batch, now_ms, refusal
from tests.contract.transactional import Transactional, marks, write_markers
from tests.harness.markers import send_markers
from tests.harness.waiting import await_until

ABORT, COMMIT = 0, 1
_CONTROL_KEY = Struct(">hh")  # version, kind
_CONTROL_VALUE = Struct(">hi")  # version, epoch of the coordinator


@pytest.fixture
def at(client: Client) -> TopicPartition:
    return client.topic()


@pytest.fixture
def txn(client: Client) -> Transactional:
    return Transactional(client)


# -- ids and epochs --------------------------------------------------------------------------------


def test_ids_without_a_transactional_id_are_all_new(client: Client) -> None:
    found = client.cluster.init_producer_ids(20)
    assert len({producer_id for producer_id, _ in found}) == 20
    assert {epoch for _, epoch in found} == {0}


def test_a_transactional_id_keeps_its_producer_id(txn: Transactional) -> None:
    """The epoch rises."""
    first = txn.begin()
    assert first.epoch == 0
    assert txn.begin() == first.later(1)
    assert txn.begin() == first.later(2)


def test_a_producer_raises_its_own_epoch(txn: Transactional) -> None:
    """A producer of an older epoch may not."""
    first = txn.begin()
    answer = txn.init(owner=first)
    assert (answer.producer_id, answer.producer_epoch) == (first.id, first.epoch + 1)
    txn.begin()
    refused = txn.init(owner=first)
    assert refusal(refused) == "PRODUCER_FENCED"
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)


def test_a_successor_fences(txn: Transactional, at: TopicPartition) -> None:
    """By its InitProducerId at the coordinator; at a partition by its first batch or marker."""
    old = txn.begin()
    assert txn.write(at, old, 0, "a") == 0
    new = txn.begin()
    assert new == old.later(2)  # the abort of the open transaction took one
    assert txn.add(old, at) == ["PRODUCER_FENCED"]
    assert txn.end(old, commit=True) == "PRODUCER_FENCED"
    assert refusal(txn.produce(at, old, 1, "x")) == "INVALID_PRODUCER_EPOCH"


def test_a_successor_aborts_the_open_transaction(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    """When the answer comes, the marker is in the log."""
    old = txn.begin()
    txn.write(at, old, 0, "a", "b")
    assert client.ends(at) == (0, 0, 2)
    new = txn.begin()
    assert client.ends(at) == (0, 3, 3)
    data, marker = client.log(at)
    assert (marker.producer_id, marker.producer_epoch) == (new.id, old.epoch + 1)
    assert control(client, at, 2) == (ABORT, 0)
    assert txn.write(at, new, 0, "c") == 3
    assert data.records == 2


def test_wrong_epochs_and_ids(txn: Transactional, at: TopicPartition) -> None:
    writer = txn.begin()
    assert txn.add(writer.later(), at) == ["PRODUCER_FENCED"]
    stranger = Writer(id=writer.id + 1_000_000, epoch=writer.epoch)
    assert txn.add(stranger, at) == ["INVALID_PRODUCER_ID_MAPPING"]
    assert txn.end(stranger, commit=True) == "INVALID_PRODUCER_ID_MAPPING"


def test_a_timeout_that_is_too_long_or_nothing(txn: Transactional) -> None:
    for timeout_ms in (0, -1, 24 * 60 * 60 * 1000):
        assert refusal(txn.init(timeout_ms)) == "INVALID_TRANSACTION_TIMEOUT"


def test_an_empty_transactional_id(client: Client) -> None:
    request = InitProducerIdRequest(
        transactional_id="",
        transaction_timeout_ms=1_000,
        producer_id=-1,
        producer_epoch=-1,
        max_version=5,
    )
    assert refusal(client.ask(request)) == "INVALID_REQUEST"


def test_coordinators_are_found(client: Client, txn: Transactional) -> None:
    names = [f"{client.prefix}{number}" for number in range(5)]
    nodes = client.cluster.metadata([]).brokers
    for kind in (0, 1):
        request = FindCoordinatorRequest(
            key="", key_type=kind, coordinator_keys=names, min_version=4, max_version=4
        )

        def found(request: Any = request) -> list[Any]:
            answers = list(client.ask(request).coordinators)
            return [] if any(answer.error_code for answer in answers) else answers

        answers = await_until(found, what="coordinators")
        assert [answer.key for answer in answers] == names
        assert all(nodes[answer.node_id] == (answer.host, answer.port) for answer in answers)


# -- transactions ----------------------------------------------------------------------------------


def test_a_batch_of_no_open_transaction_is_refused(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    """Before AddPartitionsToTxn and after EndTxn."""
    writer = txn.begin()
    assert refusal(txn.produce(at, writer, 0, "x")) == "TRANSACTION_ABORTABLE"
    assert txn.write(at, writer, 0, "a") == 0
    txn.finish(at, writer, commit=True)
    assert refusal(txn.produce(at, writer, 1, "x")) == "TRANSACTION_ABORTABLE"
    assert client.ends(at) == (0, 2, 2)


def test_a_transactional_batch_wants_the_transactional_id(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    writer = txn.begin()
    assert txn.add(writer, at) == ["NONE"]
    data = writer.batch(0, "x", transactional=True)
    assert refusal(client.produce(at, data)) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def test_other_data_of_a_producer_while_its_transaction_is_open(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    writer = txn.begin()
    txn.write(at, writer, 0, "a")
    assert refusal(client.produce(at, writer.batch(1, "x"))) == "INVALID_TXN_STATE"


def test_idempotent_data_with_the_producer_of_a_transactional_id(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    writer = txn.begin()
    assert client.produce(at, writer.batch(0, "a")).base_offset == 0
    assert client.produce(at, writer.batch(1, "b")).base_offset == 1
    assert client.ends(at) == (0, 2, 2)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction(
    client: Client, txn: Transactional, at: TopicPartition, commit: bool
) -> None:
    """An open one holds back the last stable offset; its end takes one offset."""
    writer = txn.begin()
    client.write(at, "before")
    assert txn.write(at, writer, 0, "a", "b") == 1
    client.write(at, "between")
    assert client.ends(at) == (0, 1, 4)
    open_now = client.producers(at)[writer.id]
    assert open_now.current_txn_start_offset == 1
    hidden = client.fetch(at, 0, read_committed=True)
    assert (hidden.high_watermark, hidden.last_stable_offset) == (4, 1)
    assert [one.base for one in client.log(at, 0, read_committed=True)] == [0]
    assert client.log(at, 1, read_committed=True) == []
    assert [one.base for one in client.log(at, 0)] == [0, 1, 3]

    txn.finish(at, writer, commit=commit)
    assert client.ends(at) == (0, 5, 5)
    shown = client.fetch(at, 0, read_committed=True)
    assert (shown.high_watermark, shown.last_stable_offset) == (5, 5)
    aborted = [(one.producer_id, one.first_offset) for one in shown.aborted_transactions or ()]
    assert aborted == ([] if commit else [(writer.id, 1)])
    assert client.fetch(at, 0).aborted_transactions is None
    assert client.log(at, 0, read_committed=True) == client.log(at, 0)
    _, data, _, marker = client.log(at)
    assert data.attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL
    assert marker.attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL | CONTROL
    assert (marker.base, marker.records, marker.sequence) == (4, 1, -1)
    assert (marker.producer_id, marker.producer_epoch) == (writer.id, writer.epoch)
    assert control(client, at, 4) == (COMMIT if commit else ABORT, 0)
    assert txn.write(at, writer, 2, "c") == 5


def test_the_producer_of_an_ended_transaction(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    """The marker changes the time and the epoch of its coordinator, not the sequence."""
    writer = txn.begin()
    begun = now_ms()
    old = batch("a", writer=writer, sequence=0, transactional=True, timestamp=begun - 5_000)
    assert txn.add(writer, at) == ["NONE"]
    assert refusal(client.produce(at, old, transactional_id=txn.id)) == "NONE"
    known = client.producers(at)[writer.id]
    assert (known.last_sequence, known.last_timestamp) == (0, begun - 5_000)
    assert (known.producer_epoch, known.coordinator_epoch) == (writer.epoch, -1)
    assert known.current_txn_start_offset == 0
    txn.finish(at, writer, commit=True)
    known = client.producers(at)[writer.id]
    assert (known.last_sequence, known.producer_epoch) == (0, writer.epoch)
    assert known.last_timestamp >= begun
    assert known.coordinator_epoch >= 0


def test_a_marker_in_each_partition_added(client: Client, txn: Transactional) -> None:
    """Also without records."""
    first = client.topic(partitions=3)
    parts = [TopicPartition(first.topic, partition) for partition in range(3)]
    writer = txn.begin()
    assert txn.add(writer, *parts[:2]) == ["NONE", "NONE"]
    assert txn.add(writer, parts[0]) == ["NONE"]
    assert txn.end(writer, commit=False) == "NONE"
    await_until(
        lambda: [client.ends(at)[2] for at in parts] == [1, 1, 0], what="markers", poll_s=0.01
    )
    assert control(client, first, 0) == (ABORT, 0)
    shown = client.fetch(first, 0, read_committed=True)
    assert not shown.aborted_transactions


def test_the_end_of_a_transaction_is_repeated(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    """A repetition is answered when the markers are in the log, and adds none."""
    writer = txn.begin()
    txn.write(at, writer, 0, "a")
    for _ in range(3):
        assert txn.end(writer, commit=True) == "NONE"
    assert client.ends(at) == (0, 2, 2)
    assert txn.end(writer, commit=False) == "INVALID_TXN_STATE"


def test_nothing_to_end(txn: Transactional) -> None:
    writer = txn.begin()
    assert txn.end(writer, commit=True) == "INVALID_TXN_STATE"


def test_an_unknown_partition_is_not_added(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    """Then none of the request is."""
    writer = txn.begin()
    unknown = TopicPartition(client.prefix + "no", 0)
    assert txn.add(writer, at, unknown) == [
        "OPERATION_NOT_ATTEMPTED",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert txn.described().transaction_state == "Empty"


def test_aborted_transactions_in_a_range(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    """Fetches name those that reach into their records."""
    other = Transactional(client, "other")
    one, two = txn.begin(), other.begin()
    txn.write(at, one, 0, "a")  # 0
    other.write(at, two, 0, "b")  # 1
    txn.finish(at, one, commit=False)  # 2
    txn.write(at, one, 1, "c")  # 3
    other.finish(at, two, commit=False)  # 4
    txn.finish(at, one, commit=True)  # 5
    txn.write(at, one, 2, "d")  # 6
    txn.finish(at, one, commit=False)  # 7

    def aborted(offset: int, **how: int) -> set[tuple[int, int]]:
        answer = client.fetch(at, offset, read_committed=True, **how)
        return {(each.producer_id, each.first_offset) for each in answer.aborted_transactions}

    assert aborted(0) == {(one.id, 0), (two.id, 1), (one.id, 6)}
    assert aborted(2) == {(one.id, 0), (two.id, 1), (one.id, 6)}
    assert aborted(3) == {(two.id, 1), (one.id, 6)}
    assert aborted(5) == {(one.id, 6)}
    assert aborted(8) == set()
    assert (one.id, 0) in aborted(0, partition_max_bytes=1)


def test_the_last_stable_offset_is_that_of_the_first_open_transaction(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    other = Transactional(client, "other")
    one, two = txn.begin(), other.begin()
    client.write(at, "a")
    txn.write(at, one, 0, "b")
    other.write(at, two, 0, "c")
    assert client.ends(at) == (0, 1, 3)
    other.finish(at, two, commit=True)
    assert client.ends(at) == (0, 1, 4)
    txn.finish(at, one, commit=True)
    assert client.ends(at) == (0, 5, 5)


# -- what brokers tell -----------------------------------------------------------------------------


def test_transactions_are_described(txn: Transactional, at: TopicPartition) -> None:
    assert refusal(txn.described()) == "TRANSACTIONAL_ID_NOT_FOUND"
    writer = txn.begin(40_000)
    found = txn.described()
    assert refusal(found) == "NONE"
    assert found.transactional_id == txn.id
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Empty", 40_000)
    assert (found.producer_id, found.producer_epoch) == (writer.id, writer.epoch)
    assert (found.transaction_start_time_ms, list(found.topics)) == (-1, [])
    begun = now_ms()
    txn.write(at, writer, 0, "a")
    found = txn.described()
    assert found.transaction_state == "Ongoing"
    assert begun - 1 <= found.transaction_start_time_ms <= now_ms() + 1
    assert [(topic.topic, list(topic.partitions)) for topic in found.topics] == [(at.topic, [0])]
    txn.finish(at, writer, commit=True)
    await_until(
        lambda: txn.described().transaction_state == "CompleteCommit", what="the end", poll_s=0.01
    )
    txn.write(at, writer, 1, "b")
    txn.finish(at, writer, commit=False)
    await_until(
        lambda: txn.described().transaction_state == "CompleteAbort", what="the end", poll_s=0.01
    )


def test_transactions_are_listed(client: Client, txn: Transactional, at: TopicPartition) -> None:
    writer = txn.begin()
    txn.write(at, writer, 0, "a")
    idle = Transactional(client, "idle").begin()

    def listed(states: list[str], ids: list[int]) -> list[tuple[str, int, str]]:
        request = ListTransactionsRequest(
            state_filters=states, producer_id_filters=ids, max_version=0
        )
        found = []
        for node in client.cluster.metadata([]).brokers:
            answer = client.ask(request, node)
            assert refusal(answer) == "NONE"
            found += [
                (one.transactional_id, one.producer_id, one.transaction_state)
                for one in answer.transaction_states
            ]
        return found

    assert listed([], [writer.id]) == [(txn.id, writer.id, "Ongoing")]
    assert listed(["Ongoing"], [writer.id, idle.id]) == [(txn.id, writer.id, "Ongoing")]
    assert (client.prefix + "idle", idle.id, "Empty") in listed(["Empty"], [])
    assert {(txn.id, writer.id, "Ongoing"), (client.prefix + "idle", idle.id, "Empty")} <= set(
        listed([], [])
    )
    assert listed([], [idle.id + 1_000_000]) == []


def test_producers_are_described(client: Client, at: TopicPartition) -> None:
    """The time is that of the newest record of the last batch."""
    assert client.producers(at) == {}
    writer = client.writer()
    for sequence, time in ((0, 9_000), (1, 4_000)):
        data = batch("a", writer=writer, sequence=sequence, timestamp=now_ms() - time)
        client.produce(at, data)
    client.write(at, "without a producer")
    (found,) = client.producers(at).values()
    assert (found.producer_id, found.producer_epoch) == (writer.id, writer.epoch)
    assert found.last_sequence == 1
    assert now_ms() - 9_000 < found.last_timestamp <= now_ms() - 4_000
    assert (found.coordinator_epoch, found.current_txn_start_offset) == (-1, -1)


def test_producers_of_an_unknown_partition(client: Client, at: TopicPartition) -> None:
    request = DescribeProducersRequest(topics=[(client.prefix + "no", [0])])
    answer = client.ask(request, client.node_of(at))
    assert refusal(answer.topics[0].partitions[0]) == "UNKNOWN_TOPIC_OR_PARTITION"


# -- WriteTxnMarkers -------------------------------------------------------------------------------


def test_markers_of_an_unknown_producer(client: Client, at: TopicPartition) -> None:
    """They make the producer known: then only sequence 0 is accepted."""
    writer = client.writer()
    assert write_markers(client, at, marks(at, writer, 3)) == ["NONE"]
    assert client.ends(at) == (0, 3, 3)
    assert control(client, at, 2) == (ABORT, 0)
    known = client.producers(at)[writer.id]
    assert (known.last_sequence, known.current_txn_start_offset) == (-1, -1)
    refused = client.produce(at, writer.batch(1, "x"))
    assert refusal(refused) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert client.produce(at, writer.batch(0, "a")).base_offset == 3


def test_markers_between_two_batches(client: Client, at: TopicPartition) -> None:
    writer = client.writer()
    client.produce(at, writer.batch(0, "a", "b"))
    assert write_markers(client, at, marks(at, writer, 100)) == ["NONE"]
    assert client.produce(at, writer.batch(2, "c")).base_offset == 102
    assert client.produce(at, writer.batch(0, "a", "b")).base_offset == 0  # a duplicate
    assert client.values(at) == [(0, b"a"), (1, b"b"), (102, b"c")]


def test_markers_of_an_old_epoch(client: Client, at: TopicPartition) -> None:
    writer = client.writer()
    assert write_markers(client, at, marks(at, writer.later())) == ["NONE"]
    assert write_markers(client, at, marks(at, writer)) == ["INVALID_PRODUCER_EPOCH"]
    assert refusal(client.produce(at, writer.batch(0, "x"))) == "INVALID_PRODUCER_EPOCH"
    assert client.ends(at) == (0, 1, 1)


def test_markers_of_a_new_epoch(client: Client, at: TopicPartition) -> None:
    """The next data has the new epoch and begins with sequence 0."""
    writer = client.writer()
    client.produce(at, writer.batch(0, "a"))
    new = writer.later()
    assert write_markers(client, at, marks(at, new)) == ["NONE"]
    known = client.producers(at)[writer.id]
    assert (known.producer_epoch, known.last_sequence) == (new.epoch, -1)
    assert refusal(client.produce(at, writer.batch(1, "x"))) == "INVALID_PRODUCER_EPOCH"
    assert refusal(client.produce(at, new.batch(1, "x"))) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert client.produce(at, new.batch(0, "b")).base_offset == 2


def test_one_answer_for_a_producer_and_partition(client: Client, at: TopicPartition) -> None:
    """The last marker's. Only the log's end shows that one was refused."""
    writer = client.writer()
    new, old = marks(at, writer.later()), marks(at, writer)
    assert write_markers(client, at, new, old, new) == ["NONE"]
    assert client.ends(at) == (0, 2, 2)
    assert write_markers(client, at, new, old) == ["INVALID_PRODUCER_EPOCH"]
    assert client.ends(at) == (0, 3, 3)


def test_markers_for_several_producers_and_partitions(client: Client) -> None:
    first = client.topic(partitions=2)
    second = TopicPartition(first.topic, 1)
    one, two = client.writer(), client.writer()
    wanted = [marks(first, one, 2), marks(second, one, 3), marks(first, two, 4)]
    assert write_markers(client, first, *wanted) == ["NONE"] * 3
    assert client.ends(first) == (0, 6, 6)
    assert client.ends(second) == (0, 3, 3)
    assert [each.producer_id for each in client.log(first)] == [one.id] * 2 + [two.id] * 4


def test_markers_for_an_unknown_partition(client: Client, at: TopicPartition) -> None:
    unknown = TopicPartition(at.topic, 7)
    wanted = marks(unknown, client.writer())
    assert write_markers(client, at, wanted) == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_markers_for_an_unknown_partition_behind_a_known_one(
    client: Client, at: TopicPartition
) -> None:
    """The request is never answered, though the marker of the known one is in the log."""
    writer = client.writer()
    with client.connect(at) as connection:
        wanted = [marks(at, writer), marks(TopicPartition(at.topic, 7), writer)]
        send_markers(connection, wanted)
        await_until(lambda: client.ends(at) == (0, 1, 1), what="the marker", poll_s=0.01)
        assert not wait(connection.socket, write=False, timeout_s=0.5)


def test_a_marker_ends_an_open_transaction(
    client: Client, txn: Transactional, at: TopicPartition
) -> None:
    """The coordinator does not notice."""
    writer = txn.begin()
    txn.write(at, writer, 0, "a")
    assert write_markers(client, at, marks(at, writer)) == ["NONE"]
    assert client.ends(at) == (0, 2, 2)
    shown = client.fetch(at, 0, read_committed=True)
    assert [(one.producer_id, one.first_offset) for one in shown.aborted_transactions] == [
        (writer.id, 0)
    ]
    assert txn.described().transaction_state == "Ongoing"


def control(client: Client, at: TopicPartition, offset: int) -> tuple[int, int]:
    """The kind of the marker at an offset, and the epoch of its coordinator."""
    found = MemoryRecords(bytes(client.fetch(at, offset).records))
    one = found.next_batch()
    assert one.is_control_batch
    (record,) = one
    version, kind = _CONTROL_KEY.unpack(record.key)
    assert version == 0
    version, epoch = _CONTROL_VALUE.unpack(record.value)
    assert version == 0
    return kind, epoch
