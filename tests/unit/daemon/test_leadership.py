"""Two drivers and one link, on a log in memory that fences as a broker does."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from causeway.cluster import (
    LATEST,
    ClusterMetadata,
    FetchedPartition,
    OffsetAt,
    PartitionMetadata,
    TopicMetadata,
)
from causeway.config import ClientSettings
from causeway.daemon import processes
from causeway.daemon.leadership import Leadership
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import (
    LeadershipLostError,
    LeaseRecord,
    PartitionProgress,
    ProgressContents,
)
from causeway.model import State, TopicPartition
from tests.builders.settings import LINK

LEASE_S = 3.0  # more than a busy machine lets anybody wait


class Broker:
    """One partition, with the producers' epochs and sequences that a broker checks."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.epochs: dict[int, int] = {}
        self.producer_id = 7
        self.lock = threading.Lock()
        self._next: dict[tuple[int, int], int] = {}
        self._epoch = -1

    settings = ClientSettings(alias="B", bootstrap=(("b", 1),), cluster_id="the target")

    def metadata(self, topics: list[str] | None) -> ClusterMetadata:
        partition = PartitionMetadata(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
        return ClusterMetadata(
            cluster_id=None,
            brokers={1: ("b", 1)},
            controller=1,
            topics={
                name: TopicMetadata(name=name, topic_id="aa" * 16, partitions={0: partition})
                for name in topics or ()
            },
        )

    def describe_configs(self, topics: list[str], _: object) -> dict[str, dict[str, object]]:
        return {name: {} for name in topics}

    def init_transactional_id(self, name: str) -> tuple[int, int]:
        with self.lock:
            self._epoch += 1
            return self.producer_id, self._epoch

    def knows_transactional_id(self, name: str) -> bool | None:
        return self._epoch >= 0

    def forget_producer(self) -> None:
        """As Kafka does when a transactional id was not used for long."""
        self.producer_id, self._epoch = self.producer_id + 1, -1

    def lose_topic(self) -> None:
        """Deleted and recreated; a log takes any first sequence of a producer that it lacks."""
        self.batches, self.end, self._next, self.epochs = [], 0, {}, {}

    def produce_batch(self, at: TopicPartition, batch: bytes, **_: bool) -> int:
        producer, epoch, sequence, count = struct.unpack_from(">qhii", batch, 43)
        with self.lock:
            if epoch < self.epochs.get(producer, -1):
                raise BrokerError("produce", code=47, name="INVALID_PRODUCER_EPOCH")
            first = 0 if producer in self.epochs else sequence
            if producer >= 0 and sequence != self._next.get((producer, epoch), first):
                raise BrokerError("produce", code=45, name="OUT_OF_ORDER_SEQUENCE_NUMBER")
            self.epochs[producer] = epoch
            self._next[producer, epoch] = sequence + count
            self.batches.append(struct.pack(">q", self.end) + batch[8:])
            self.end += count
            return self.end - int(count)

    def fetch(
        self,
        at: TopicPartition,
        offset: int,
        max_bytes: int,
        *,
        read_committed: bool,
        max_wait_ms: int,
    ) -> FetchedPartition:
        with self.lock:
            found = b"".join(
                batch
                for batch in self.batches
                if struct.unpack_from(">q", batch)[0] + struct.unpack_from(">i", batch, 23)[0]
                >= offset
            )
            return FetchedPartition(
                high_watermark=self.end,
                last_stable=self.end,
                log_start=0,
                aborted=(),
                records=found,
            )

    def list_offsets(
        self, at: list[TopicPartition], when: int, *, read_committed: bool
    ) -> dict[TopicPartition, OffsetAt]:
        offset = self.end if when == LATEST else 0
        return {at[0]: OffsetAt(offset=offset, timestamp=-1, leader_epoch=-1)}


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def driver(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Leadership]:
    def make(name: str) -> Leadership:
        monkeypatch.setattr(processes, "fingerprint", lambda: f"elsewhere/1/{name}")
        cluster = cast(Any, broker)
        return Leadership(cluster, cluster, LINK, LEASE_S)

    return make


def acquire(leader: Leadership) -> ProgressContents:
    contents = leader.acquire(threading.Event(), lambda _: None)
    assert contents is not None
    return contents


def standing(position: int) -> PartitionProgress:
    return PartitionProgress(
        topic="orders",
        partition=0,
        topic_id="aa" * 16,
        leader_epoch=0,
        position=position,
        outlets=(),
        state=State.RUNNING,
    )


def test_a_first_driver_leads_at_once_and_its_successor_reads_all(
    driver: Callable[[str], Leadership],
) -> None:
    one = driver("one")
    assert acquire(one).partitions == {}
    one.write([standing(5)])
    one.release()
    began = time.monotonic()
    contents = acquire(driver("two"))
    assert time.monotonic() - began < LEASE_S
    assert [p.position for p in contents.partitions.values()] == [5]


def test_a_standby_waits_while_the_leader_renews(driver: Callable[[str], Leadership]) -> None:
    one, two = driver("one"), driver("two")
    acquire(one)
    seen: list[LeaseRecord] = []
    done = threading.Event()

    def stand_by() -> None:
        two.acquire(threading.Event(), seen.append)
        done.set()

    threading.Thread(target=stand_by, daemon=True).start()
    for _ in range(15):
        one.renew()
        assert not done.wait(LEASE_S / 10)
    assert seen
    assert done.wait(60)  # it renews no more
    with pytest.raises(LeadershipLostError):
        one.write([standing(9)])


def test_a_leader_that_comes_back_is_refused(
    driver: Callable[[str], Leadership], broker: Broker
) -> None:
    one, two = driver("one"), driver("two")
    acquire(one)
    time.sleep(LEASE_S)
    acquire(two)
    end = broker.end
    with pytest.raises(LeadershipLostError):
        one.write([standing(1)])
    assert broker.end == end
    two.write([standing(2)])


def test_also_where_kafka_gave_out_another_producer_id(
    driver: Callable[[str], Leadership], broker: Broker
) -> None:
    one, two = driver("one"), driver("two")
    acquire(one)
    broker.forget_producer()
    acquire(two)
    with pytest.raises(LeadershipLostError):
        one.write([standing(1)])
    two.write([standing(2)])


def test_the_same_process_does_not_wait_for_itself(driver: Callable[[str], Leadership]) -> None:
    one = driver("one")
    acquire(one)
    one.lose()
    began = time.monotonic()
    acquire(one)
    assert time.monotonic() - began < LEASE_S


def test_a_standby_can_be_stopped(driver: Callable[[str], Leadership]) -> None:
    acquire(driver("one"))
    stop = threading.Event()
    stop.set()
    assert driver("two").acquire(stop, lambda _: None) is None


def test_who_is_fenced_or_lets_go_leads_no_more_at_once(
    driver: Callable[[str], Leadership], broker: Broker
) -> None:
    """Its lease would last for seconds still, and tasks under way ask before they write."""
    one, two = driver("one"), driver("two")
    assert one.term is None
    acquire(one)
    assert one.term == 1
    one.release()
    assert one.term is None

    acquire(two)
    two.lose()
    assert two.term is None
    acquire(two)
    assert two.term == 2, "not the same as before it was lost"

    broker.epochs[broker.producer_id] += 1  # somebody has taken over
    with pytest.raises(LeadershipLostError):
        two.write([])
    assert two.term is None


def test_a_link_that_has_been_led_before_knows_that_its_progress_was_lost(
    driver: Callable[[str], Leadership], broker: Broker
) -> None:
    one, two = driver("one"), driver("two")
    acquire(one)
    one.release()
    acquire(two)
    assert not one.progress_lost
    assert not two.progress_lost
    two.release()
    broker.lose_topic()
    for name in ("three", "four"):  # the loss is remembered
        leader = driver(name)
        acquire(leader)
        assert leader.progress_lost
        leader.release()


def test_of_two_that_start_at_once_one_leads_and_nothing_seems_lost(
    driver: Callable[[str], Leadership], broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has read the topic while it was empty."""
    one, two = driver("one"), driver("two")
    produce = broker.produce_batch

    def first_one(at: TopicPartition, batch: bytes, **_: bool) -> int:
        monkeypatch.setattr(broker, "produce_batch", produce)
        acquire(one)
        return produce(at, batch)

    monkeypatch.setattr(broker, "produce_batch", first_one)
    waited_for: list[LeaseRecord] = []
    stop = threading.Event()

    def on_standby(lease: LeaseRecord) -> None:
        waited_for.append(lease)
        stop.set()

    assert two.acquire(stop, on_standby) is None
    assert "one" in waited_for[0].process
    one.write([standing(1)])
    assert not one.progress_lost


def test_a_first_lease_that_could_not_be_written_makes_no_loss(
    driver: Callable[[str], Leadership], broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = driver("one")
    produce = broker.produce_batch
    gone = BrokerError("produce", code=19, name="NOT_ENOUGH_REPLICAS", retriable=True)

    def announcements_only(at: TopicPartition, batch: bytes, **_: bool) -> int:
        if broker.end:
            raise gone
        return produce(at, batch)

    monkeypatch.setattr(broker, "produce_batch", announcements_only)
    with pytest.raises(BrokerError):
        acquire(one)
    monkeypatch.setattr(broker, "produce_batch", produce)
    acquire(one)
    assert not one.progress_lost


def test_a_topic_recreated_under_a_running_driver_is_known_to_be_lost(
    driver: Callable[[str], Leadership], broker: Broker
) -> None:
    """Also if the driver ends right after its first write there: no write of it has failed."""
    one = driver("one")
    acquire(one)
    one.write([standing(5)])
    assert (one.losses, one.progress_lost) == (0, False)
    broker.lose_topic()
    one.write([standing(6)])
    assert (one.losses, one.progress_lost) == (1, True)
    one.lose()

    two = driver("two")
    acquire(two)
    assert two.progress_lost
    assert two.losses == 0, "it knows what the topic holds now"
    two.write([standing(7)])
    two.release()
    three = driver("three")
    acquire(three)
    assert three.progress_lost


def test_a_standby_that_waited_for_its_lead_sees_no_loss(
    driver: Callable[[str], Leadership], broker: Broker
) -> None:
    """It reads the topic in parts, none of which but the first begins at offset 0."""
    one, two = driver("one"), driver("two")
    acquire(one)
    turns = iter((one.renew, one.renew, one.release))

    assert two.acquire(threading.Event(), lambda _: next(turns)()) is not None
    assert not two.progress_lost


def test_a_standby_reads_a_recreated_topic_from_its_start(
    driver: Callable[[str], Leadership], broker: Broker
) -> None:
    one, two = driver("one"), driver("two")
    acquire(one)
    one.write([standing(5)] * 9)

    def on_standby(lease: LeaseRecord) -> None:
        broker.lose_topic()
        one.write([standing(6)])

    with pytest.raises(CausewayError, match="recreated") as caught:
        two.acquire(threading.Event(), on_standby)
    assert caught.value.retriable
    assert [p.position for p in acquire(two).partitions.values()] == [6]
    assert two.progress_lost


@pytest.mark.parametrize("tells", [True, False])
def test_a_first_epoch_whose_answer_was_lost_makes_no_loss_where_the_broker_tells(
    driver: Callable[[str], Leadership],
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    tells: bool,
) -> None:
    """Where it does not, the doubt stops rather than doubles."""
    init = broker.init_transactional_id

    def asked_twice(name: str) -> tuple[int, int]:
        init(name)
        return init(name)

    monkeypatch.setattr(broker, "init_transactional_id", asked_twice)
    if not tells:
        monkeypatch.setattr(broker, "knows_transactional_id", lambda name: None)
    for name in ("one", "two"):
        leader = driver(name)
        acquire(leader)
        assert leader.progress_lost is not tells
        leader.release()
