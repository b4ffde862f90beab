"""Offsets of a real broker's log are filled: by markers, by empty transactions, by filler.

librdkafka reads what readers see; the log's ends say what was filled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException

from causeway import records
from causeway.cluster import Cluster, Transaction, filling, transactions
from causeway.config import ClientSettings
from causeway.errors import BrokerError, DivergedError
from causeway.model import TopicPartition
from causeway.wire import Marker, markers
from tests.harness.batches import make_batch
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.markers import ends, receive_frame, seen, send_markers, write_markers

pytestmark = pytest.mark.integration

TIMEOUT_MS = 60_000
INVALID_PRODUCER_EPOCH = 47


@pytest.fixture(scope="module")
def cluster(target_cluster: LocalCluster) -> Iterator[Cluster]:
    host, _, port = target_cluster.bootstrap.partition(":")
    with Cluster(ClientSettings(alias="B", bootstrap=((host, int(port)),))) as running:
        yield running


@pytest.fixture
def at(target: KafkaTools, prefix: str) -> TopicPartition:
    topic = prefix + "filled"
    target.create_topic(topic, config={"retention.ms": "-1"})
    return TopicPartition(topic, 0)


@pytest.fixture
def transaction(cluster: Cluster, prefix: str) -> Transaction:
    return transactions.begin(cluster, prefix + "fill", TIMEOUT_MS)


def fill(
    cluster: Cluster,
    transaction: Transaction,
    at: TopicPartition,
    start: int,
    stop: int,
    *,
    keyed: bool = False,
    delete: bool = False,
) -> int:
    return filling.fill(
        cluster, transaction, at, start, stop, keyed=keyed, delete=delete, on_step=lambda _: True
    )


# -- markers ---------------------------------------------------------------------------------------


def test_markers_between_two_batches_of_one_producer(
    cluster: Cluster, target: KafkaTools, at: TopicPartition
) -> None:
    """The next sequence is still accepted, and no reader sees them."""
    ((producer_id, epoch),) = cluster.init_producer_ids(1)
    first = make_batch([b"0", b"1"], producer=(producer_id, epoch, 0))
    assert cluster.produce_batch(at, first) == 0
    assert write_markers(cluster, at, producer_id, epoch, 1_000) == 0
    second = make_batch([b"1002"], producer=(producer_id, epoch, 2))
    assert cluster.produce_batch(at, second) == 1_002

    wanted = [(0, b"0"), (1, b"1"), (1_002, b"1002")]
    assert seen(target, at, read_committed=False) == wanted
    assert seen(target, at, read_committed=True) == wanted
    assert ends(target, at) == (0, 1_003, 1_003)


def test_markers_with_a_higher_epoch_fence_the_lower_one(
    cluster: Cluster, target: KafkaTools, at: TopicPartition
) -> None:
    """Data and markers; and the next data begins at sequence 0."""
    ((producer_id, epoch),) = cluster.init_producer_ids(1)
    cluster.produce_batch(at, make_batch([b"0"], producer=(producer_id, epoch, 0)))
    assert write_markers(cluster, at, producer_id, epoch + 1, 1) == 0
    assert write_markers(cluster, at, producer_id, epoch, 1) == INVALID_PRODUCER_EPOCH
    for late in (make_batch([b"late"], producer=(producer_id, epoch, n)) for n in (0, 1)):
        with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
            cluster.produce_batch(at, late)
    with pytest.raises(BrokerError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        cluster.produce_batch(at, make_batch([b"x"], producer=(producer_id, epoch + 1, 1)))
    cluster.produce_batch(at, make_batch([b"2"], producer=(producer_id, epoch + 1, 0)))
    assert seen(target, at, read_committed=True) == [(0, b"0"), (2, b"2")]


def test_markers_of_an_epoch_from_a_transactional_id(
    cluster: Cluster, target: KafkaTools, at: TopicPartition, prefix: str
) -> None:
    """Its data is idempotent, not transactional."""
    one = transactions.begin(cluster, prefix + "data", TIMEOUT_MS)
    assert write_markers(cluster, at, one.producer_id, one.epoch, 3) == 0
    batch = make_batch([b"3"], producer=(one.producer_id, one.epoch, 0))
    assert cluster.produce_batch(at, batch) == 3
    other = transactions.begin(cluster, prefix + "data", TIMEOUT_MS)
    assert other.epoch > one.epoch
    assert write_markers(cluster, at, other.producer_id, other.epoch, 2) == 0
    assert write_markers(cluster, at, one.producer_id, one.epoch, 1) == INVALID_PRODUCER_EPOCH
    batch = make_batch([b"6"], producer=(other.producer_id, other.epoch, 0))
    assert cluster.produce_batch(at, batch) == 6
    assert seen(target, at, read_committed=True) == [(3, b"3"), (6, b"6")]


def test_an_error_is_hidden_by_a_later_marker(
    cluster: Cluster, target: KafkaTools, at: TopicPartition
) -> None:
    """The log's end shows it."""
    ((producer_id, epoch),) = cluster.init_producer_ids(1)
    topic = at.topic.encode()
    wanted = [Marker(producer_id, epoch + number, topic, at.partition, 1) for number in (1, 0, 1)]
    with cluster.open_connection(cluster.leader(at).node_id) as connection:
        send_markers(connection, wanted)
        _, answered = markers.parse(receive_frame(connection))
    assert answered == {(producer_id, topic, at.partition): 0}
    assert ends(target, at) == (0, 2, 2)


def test_empty_transactions(
    cluster: Cluster, target: KafkaTools, at: TopicPartition, transaction: Transaction
) -> None:
    """Among data of another producer; the markers are there when the call returns."""
    cluster.produce_batch(at, make_batch([b"0"]))
    filling.fill_with_markers(cluster, transaction, at, 0)
    assert ends(target, at) == (0, 1, 1)
    filling.fill_with_markers(cluster, transaction, at, 1)
    assert ends(target, at) == (0, 2, 2)
    filling.fill_with_markers(cluster, transaction, at, 20)
    assert ends(target, at) == (0, 22, 22)
    assert cluster.produce_batch(at, make_batch([b"22"])) == 22
    for read_committed in (False, True):
        assert seen(target, at, read_committed=read_committed) == [(0, b"0"), (22, b"22")]


def test_who_took_the_transactional_id_over_fences(
    cluster: Cluster, target: KafkaTools, at: TopicPartition, transaction: Transaction
) -> None:
    filling.fill_with_markers(cluster, transaction, at, 1)
    transactions.begin(cluster, transaction.id, TIMEOUT_MS)
    with pytest.raises(BrokerError):
        filling.fill_with_markers(cluster, transaction, at, 1)
    with pytest.raises(BrokerError):
        fill(cluster, transaction, at, 1, 10)
    assert ends(target, at) == (0, 1, 1)


# -- filler ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0, 1, 2, 3, 100_000, 100_001, 100_002, 100_003, 1_000_001])
def test_the_end_is_exact(
    cluster: Cluster,
    target: KafkaTools,
    at: TopicPartition,
    transaction: Transaction,
    stop: int,
) -> None:
    assert fill(cluster, transaction, at, 0, stop) == stop
    assert ends(target, at) == (0, stop, stop)
    assert cluster.produce_batch(at, make_batch([b"data"])) == stop
    assert seen(target, at, read_committed=True) == [(stop, b"data")]


def test_ten_million_offsets_with_deletion(
    cluster: Cluster, target: KafkaTools, at: TopicPartition, transaction: Transaction
) -> None:
    """Readers of committed records see nothing meanwhile, and then the log starts at its end."""
    stop, steps = 10_000_000, list[int]()
    done = threading.Event()
    visible: list[tuple[int, bytes]] = []

    def read() -> None:
        while not done.is_set():
            # The log's start moves on while it reads.
            with suppress(KafkaException):
                visible.extend(seen(target, at, read_committed=True))

    reader = threading.Thread(target=read)
    reader.start()

    def on_step(end: int) -> bool:
        steps.append(end)
        return True

    try:
        end = filling.fill(
            cluster, transaction, at, 0, stop, keyed=False, delete=True, on_step=on_step
        )
    finally:
        done.set()
        reader.join()
    assert end == stop
    assert ends(target, at) == (stop, stop, stop)
    assert steps == [*range(1_000_001, stop, 1_000_001), stop]
    assert visible == []
    assert cluster.produce_batch(at, make_batch([b"data"])) == stop
    assert seen(target, at, read_committed=False) == [(stop, b"data")]


def test_it_stops_early_if_it_has_to(
    cluster: Cluster, target: KafkaTools, at: TopicPartition, transaction: Transaction
) -> None:
    end = filling.fill(
        cluster,
        transaction,
        at,
        0,
        3_000_000,
        keyed=False,
        delete=True,
        on_step=lambda end: end < 2_000_000,
    )
    assert ends(target, at) == (end, end, end) == (2_000_002,) * 3


def test_a_restart_deletes_the_filler_that_is_left(
    cluster: Cluster, target: KafkaTools, at: TopicPartition, transaction: Transaction
) -> None:
    fill(cluster, transaction, at, 0, 1_000)
    assert fill(cluster, transaction, at, 1_000, 1_000, delete=True) == 1_000
    assert ends(target, at) == (1_000, 1_000, 1_000)


def test_it_goes_on_after_a_kill_amid_a_transaction(
    cluster: Cluster, target: KafkaTools, at: TopicPartition, transaction: Transaction
) -> None:
    """Whatever was sent last: taking the id ends it, and refuses what comes late."""
    stop = 500_000
    transactions.add_partitions(cluster, transaction, [at])
    late = []
    for sequence in (0, 1_000, 2_000):
        batch = records.filler(1_000, False, int(time.time() * 1000))
        header = records.header(
            batch, transaction.producer_id, transaction.epoch, sequence, transactional=True
        )
        late.append(header + batch.payload)
    for each in late[:2]:
        transactions.produce(cluster, transaction, at, each)

    successor = transactions.begin(cluster, transaction.id, TIMEOUT_MS)
    assert ends(target, at) == (0, 2_001, 2_001)
    assert fill(cluster, successor, at, 2_001, stop) == stop
    with pytest.raises(BrokerError):
        transactions.produce(cluster, transaction, at, late[2])
    with pytest.raises(BrokerError):
        transactions.add_partitions(cluster, transaction, [at])
    with pytest.raises(BrokerError):
        transactions.end(cluster, transaction, commit=False)
    assert ends(target, at) == (0, stop, stop)


def test_a_log_that_another_program_writes_to(
    cluster: Cluster, target: KafkaTools, at: TopicPartition, transaction: Transaction
) -> None:
    """Nothing more is appended; neither at the start nor after a step."""

    def on_step(_: int) -> bool:
        cluster.produce_batch(at, make_batch([b"foreign"]))
        return True

    with pytest.raises(DivergedError, match="ends at offset 2000003 instead of 2000002"):
        filling.fill(
            cluster, transaction, at, 0, 5_000_000, keyed=False, delete=False, on_step=on_step
        )
    end = ends(target, at)
    with pytest.raises(DivergedError, match=f"offset {end[2]} instead of 7"):
        fill(cluster, transaction, at, 7, 1_000)
    assert ends(target, at) == end


def test_a_compacted_topic(
    cluster: Cluster, target: KafkaTools, prefix: str, transaction: Transaction
) -> None:
    """It takes records with keys alone. An empty transaction takes none."""
    at = TopicPartition(prefix + "compacted", 0)
    target.create_topic(at.topic, config={"cleanup.policy": "compact"})
    with pytest.raises(BrokerError, match="INVALID_RECORD"):
        fill(cluster, transaction, at, 0, 10)
    transaction = transactions.begin(cluster, transaction.id, TIMEOUT_MS)
    (_, _, end) = ends(target, at)
    assert fill(cluster, transaction, at, end, 250_000, keyed=True) == 250_000
    assert ends(target, at)[1:] == (250_000, 250_000)
    assert seen(target, at, read_committed=True) == []
    with pytest.raises(BrokerError, match="POLICY_VIOLATION"):
        fill(cluster, transaction, at, 250_000, 250_000, delete=True)


@pytest.mark.parametrize(
    ("config", "stop"),
    [
        ({"max.message.bytes": "10000"}, 200_000),
        ({"max.message.bytes": "100"}, 200),
        ({"message.timestamp.type": "LogAppendTime"}, 200_000),
        ({"compression.type": "gzip"}, 200_000),
    ],
)
def test_a_topic_with_limits(
    cluster: Cluster,
    target: KafkaTools,
    prefix: str,
    transaction: Transaction,
    config: dict[str, str],
    stop: int,
) -> None:
    at = TopicPartition(prefix + "limited", 0)
    target.create_topic(at.topic, config=config)
    assert fill(cluster, transaction, at, 0, stop, delete=True) == stop
    assert ends(target, at) == (stop, stop, stop)


# -- many ------------------------------------------------------------------------------------------


def test_records_are_deleted_in_bulk(cluster: Cluster, target: KafkaTools, prefix: str) -> None:
    topic, missing = prefix + "deleted", TopicPartition(prefix + "missing", 0)
    target.create_topic(topic, 3)
    for partition in range(3):
        cluster.produce_batch(TopicPartition(topic, partition), make_batch([b"x"] * 5))
    found = filling.delete_records(
        cluster,
        {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 5, TopicPartition(topic, 2): 6}
        | {missing: 1},
    )
    assert [found[TopicPartition(topic, partition)] for partition in (0, 1)] == [3, 5]
    assert "OFFSET_OUT_OF_RANGE" in str(found[TopicPartition(topic, 2)])
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(found[missing])
    assert target.offsets(topic, "earliest") == {0: 3, 1: 5, 2: 0}
