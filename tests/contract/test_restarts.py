"""A broker after a restart, and what a broker does by itself when time has passed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from causeway.cluster import Cluster
from causeway.model import TopicPartition
from tests.contract.brokers import Brokers, settings
from tests.contract.client import Client, Writer, batch, fetch_request, now_ms, refusal
from tests.contract.conftest import OWN_BROKERS
from tests.contract.grouped import Group
from tests.contract.transactional import Transactional, marks, write_markers
from tests.harness.waiting import await_until

pytestmark = OWN_BROKERS

HOUR_MS = 60 * 60 * 1000
OLD_MS = 25 * HOUR_MS  # a broker forgets a producer after a day


@pytest.fixture
def cluster(hasty: Brokers) -> Iterator[Cluster]:
    with Cluster(settings(hasty.bootstrap)) as found:
        yield found


@pytest.fixture
def at(client: Client) -> TopicPartition:
    return client.topic(retention_ms="-1")


def restart(client: Client, brokers: Brokers, at: TopicPartition, *, clean: bool) -> None:
    (node,) = brokers.nodes
    brokers.stop(node, clean=clean)
    brokers.start(node)
    client.await_leader(at)


def aged(writer: Writer, sequence: int, age_ms: int) -> bytes:
    return batch("a", writer=writer, sequence=sequence, timestamp=now_ms() - age_ms)


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_keeps_all(
    client: Client, hasty: Brokers, at: TopicPartition, clean: bool
) -> None:
    """Logs, topics, offsets of groups; of each producer the last batch, as a snapshot has no
    others. The leader epoch rises. A kill loses starts of logs of the last minute."""
    writer, group = client.writer(), Group(client)
    topic_id, epoch = client.id_of(at.topic), client.cluster.leader(at).epoch
    for sequence in range(7):
        client.produce(at, writer.batch(sequence, f"{sequence}"))
    client.delete_below(at, 1)
    group.commit({at: (3, 0, "text")})
    known = client.producers(at)[writer.id]

    restart(client, hasty, at, clean=clean)

    assert client.id_of(at.topic) == topic_id
    assert client.cluster.leader(at).epoch > epoch
    start, *ends = client.ends(at)
    assert ends == [7, 7]
    assert start == 1 if clean else start in (0, 1)
    assert group.committed() == {at: (3, 0, "text")}
    found = client.producers(at)[writer.id]
    assert (found.last_sequence, found.producer_epoch) == (6, known.producer_epoch)
    assert found.last_timestamp == known.last_timestamp
    assert client.produce(at, writer.batch(6, "again")).base_offset == 6
    for sequence in (1, 5, 8):
        refused = client.produce(at, writer.batch(sequence, "x"))
        assert refusal(refused) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert client.produce(at, writer.batch(7, "7")).base_offset == 7
    assert client.log(at, 7)[0].leader_epoch == client.cluster.leader(at).epoch
    assert client.writer().id > writer.id


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_forgets_producers_by_the_time_of_their_last_batch(
    client: Client, hasty: Brokers, at: TopicPartition, clean: bool
) -> None:
    old, young = client.writer(), client.writer()
    for sequence, age_ms in enumerate((0, OLD_MS)):
        client.produce(at, aged(old, sequence, age_ms))
    for sequence, age_ms in enumerate((OLD_MS, 0)):
        client.produce(at, aged(young, sequence, age_ms))
    assert set(client.producers(at)) == {old.id, young.id}

    restart(client, hasty, at, clean=clean)

    assert set(client.producers(at)) == {young.id}
    refused = client.produce(at, young.batch(7, "x"))
    assert refusal(refused) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert refusal(client.produce(at, old.batch(7, "b"))) == "NONE"


def test_markers_keep_a_producer_of_old_records(
    client: Client, hasty: Brokers, at: TopicPartition
) -> None:
    writer = client.writer()
    client.produce(at, aged(writer, 0, OLD_MS))
    assert write_markers(client, at, marks(at, writer)) == ["NONE"]
    restart(client, hasty, at, clean=True)
    assert client.producers(at)[writer.id].last_sequence == 0


def test_a_restart_ends_fetch_sessions(client: Client, hasty: Brokers, at: TopicPartition) -> None:
    request = fetch_request([(at, 0)])
    request.session_epoch = 0
    session = client.ask(request, client.node_of(at)).session_id
    restart(client, hasty, at, clean=True)
    late = fetch_request([])
    late.session_id, late.session_epoch = session, 1
    assert refusal(client.ask(late, client.node_of(at))) == "FETCH_SESSION_ID_NOT_FOUND"


@pytest.mark.parametrize("clean", [True, False])
def test_an_open_transaction_stays_open(
    client: Client, hasty: Brokers, at: TopicPartition, clean: bool
) -> None:
    txn = Transactional(client)
    writer = txn.begin()
    client.write(at, "before")
    txn.write(at, writer, 0, "a")
    restart(client, hasty, at, clean=clean)
    assert client.ends(at) == (0, 1, 2)
    assert client.producers(at)[writer.id].current_txn_start_offset == 1
    found = await_until(lambda: txn.described() if refusal(txn.described()) == "NONE" else None, 30)
    assert found.transaction_state == "Ongoing"
    txn.finish(at, writer, commit=False)
    assert client.ends(at) == (0, 3, 3)
    shown = client.fetch(at, 0, read_committed=True)
    assert [(one.producer_id, one.first_offset) for one in shown.aborted_transactions] == [
        (writer.id, 1)
    ]
    assert txn.begin().id == writer.id


def test_a_transaction_takes_too_long(client: Client, at: TopicPartition) -> None:
    """The broker aborts it with the next epoch."""
    txn = Transactional(client)
    writer = txn.begin(timeout_ms=500)
    txn.write(at, writer, 0, "a")
    await_until(lambda: client.ends(at) == (0, 2, 2), 60, "the broker ends it")
    shown = client.fetch(at, 0, read_committed=True)
    assert [(one.producer_id, one.first_offset) for one in shown.aborted_transactions] == [
        (writer.id, 0)
    ]
    assert client.log(at, 1)[0].producer_epoch == writer.epoch + 1
    assert txn.end(writer, commit=True) == "PRODUCER_FENCED"
    assert refusal(txn.produce(at, writer, 1, "x")) == "INVALID_PRODUCER_EPOCH"


def test_retention_by_time(client: Client, at: TopicPartition) -> None:
    """It moves the start of the log, also to its end. Offsets go on."""
    kept = client.topic(retention_ms=str(HOUR_MS))
    for place in (at, kept):
        client.produce(place, batch("a", "b", timestamp=now_ms() - 2 * HOUR_MS))
    await_until(lambda: client.ends(kept) == (2, 2, 2), 60, "retention")
    assert client.ends(at) == (0, 2, 2)
    assert refusal(client.fetch(kept, 0)) == "OFFSET_OUT_OF_RANGE"
    assert client.write(kept, "c") == 2


def test_retention_by_size(client: Client) -> None:
    """It deletes whole segments, as long as the rest has that size."""
    size = 1 << 20
    at = client.topic(segment_bytes=str(size), retention_bytes=str(2 * size))
    for _ in range(9):
        client.write(at, "x" * 600_000)
    await_until(lambda: client.ends(at) == (5, 9, 9), 60, "retention")


def test_compaction(client: Client, hasty: Brokers) -> None:
    """It keeps the last record of each key with its offset; and the last batch of a producer."""
    at = client.topic(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100",
    )
    writer = client.writer()
    for sequence, (key, value) in enumerate([(b"a", "1"), (b"b", "2"), (b"a", "3"), (b"b", "4")]):
        client.produce(at, batch(value, key=key, writer=writer, sequence=sequence))
    client.produce(at, batch("5", "6", key=b"b"))

    def cleaned() -> bool:
        """New records close segments."""
        end = client.produce(at, batch("x", key=b"x")).base_offset
        hasty.clean(at)
        return [one for one in client.values(at) if one[1] != b"x"] == [
            (2, b"3"),
            (5, b"6"),
        ] and end > 5

    await_until(cleaned, 60, "compaction", 0.3)
    first, second, third, *_ = client.log(at)
    assert (first.base, first.last, first.records) == (2, 2, 1)
    assert (second.base, second.last, second.records) == (3, 3, 0)
    assert (second.producer_id, second.sequence) == (writer.id, 3)
    assert (third.base, third.last, third.records) == (4, 5, 1)
    assert client.ends(at)[0] == 0
    assert client.producers(at)[writer.id].last_sequence == 3
    assert client.fetch(at, 0).log_start_offset == 0
