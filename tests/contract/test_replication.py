"""Three brokers: leaders and their epochs, replicas in sync, what survives an election."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.wire import Deadline
from tests.contract.brokers import Brokers, settings
from tests.contract.client import Client, batch, refusal
from tests.contract.conftest import OWN_BROKERS
from tests.contract.grouped import Group
from tests.contract.transactional import Transactional, marks, write_markers
from tests.harness.waiting import await_until

pytestmark = OWN_BROKERS


@pytest.fixture
def cluster(three: Brokers) -> Iterator[Cluster]:
    # A frozen broker takes half of the time of a request.
    with Cluster(settings(three.bootstrap, timeout_ms=6_000)) as found:
        yield found
    for node in three.nodes:
        three.thaw(node)


@pytest.fixture
def at(client: Client) -> TopicPartition:
    found = client.topic(replicas=3)
    await_isr(client, found, 3)
    return found


def nodes(client: Client) -> set[int]:
    return set(client.cluster.metadata([]).brokers)


def others(client: Client, at: TopicPartition) -> set[int]:
    return nodes(client) - {client.node_of(at)}


def await_isr(client: Client, at: TopicPartition, count: int) -> None:
    def in_sync() -> bool:
        topic = client.cluster.metadata([at.topic]).topics[at.topic]
        part = topic.partitions.get(at.partition)  # a broker may learn it a moment later
        return part is not None and len(part.isr) == count

    await_until(in_sync, 60, f"{count} replicas in sync")


def await_other_leader(client: Client, at: TopicPartition, old: int) -> None:
    def other() -> bool:
        client.cluster.forget([at.topic])
        try:
            return client.node_of(at) != old and refusal(client.offset_at(at, -1)) == "NONE"
        except CausewayError:
            return False

    await_until(other, 60, f"another leader than broker {old}")


def elect_another(client: Client, three: Brokers, at: TopicPartition, *, clean: bool) -> int:
    """The leader stops, and starts again when another one leads. The old leader."""
    old = client.node_of(at)
    three.stop(old, clean=clean)
    await_other_leader(client, at, old)
    three.start(old)
    await_isr(client, at, 3)
    return old


def test_a_follower_refuses_what_a_leader_does(client: Client, at: TopicPartition) -> None:
    client.write(at, "a")
    for node in others(client, at):
        assert refusal(client.produce(at, batch("x"), node=node)) == "NOT_LEADER_OR_FOLLOWER"
        for spec in (-1, -2, 0):
            assert refusal(client.offset_at(at, spec, node=node)) == "NOT_LEADER_OR_FOLLOWER"
        assert refusal(client.epoch_end(at, 0, node=node)) == "NOT_LEADER_OR_FOLLOWER"
    assert client.ends(at) == (0, 1, 1)


def test_a_follower_answers_fetches(client: Client, at: TopicPartition) -> None:
    """Up to the high watermark that it knows (KIP-392)."""
    client.write(at, "a")
    for node in others(client, at):
        await_until(partial(has_copy, client, at, node), what="a copy")


def has_copy(client: Client, at: TopicPartition, node: int) -> bool:
    return bool(client.fetch(at, 0, node=node).high_watermark == 1)


def test_a_partition_whose_only_replica_is_down(client: Client, three: Brokers) -> None:
    at = client.topic(replicas=1)
    client.write(at, "a")
    node = client.node_of(at)
    three.stop(node, clean=True)
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=at.topic)],
        allow_auto_topic_creation=False,
        min_version=10,
        max_version=12,
    )

    def described() -> Any:
        (topic,) = client.ask(request).topics
        assert refusal(topic) == "NONE"
        return topic.partitions[0] if topic.partitions[0].error_code else None

    part = await_until(described, 30, "the partition has no leader")
    assert (refusal(part), part.leader_id) == ("LEADER_NOT_AVAILABLE", -1)
    assert list(part.replica_nodes) == list(part.offline_replicas) == [node]
    three.start(node)
    client.await_leader(at)
    assert client.ends(at) == (0, 1, 1)


def test_another_broker_than_the_coordinator(
    client: Client, three: Brokers, at: TopicPartition
) -> None:
    group, txn = Group(client), Transactional(client)
    group.commit({at: (5, 0, "text")})
    txn.begin()
    homes = {
        kind: client.cluster.coordinators(kind, [name], Deadline(30))[name]
        for kind, name in ((0, group.name), (1, txn.id))
    }
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    fetch = OffsetFetchRequest(
        groups=[kind(group_id=group.name, topics=None)], require_stable=True, max_version=8
    )
    begin = InitProducerIdRequest(
        transactional_id=txn.id,
        transaction_timeout_ms=1_000,
        producer_id=-1,
        producer_epoch=-1,
        max_version=5,
    )
    describe = DescribeTransactionsRequest(transactional_ids=[txn.id])
    for node in three.nodes:
        if node != homes[0]:
            assert refusal(client.ask(fetch, node).groups[0]) == "NOT_COORDINATOR"
        if node != homes[1]:
            assert refusal(client.ask(begin, node)) == "NOT_COORDINATOR"
            assert refusal(client.ask(describe, node).transaction_states[0]) == "NOT_COORDINATOR"


def test_a_broker_without_the_partition(client: Client) -> None:
    at = client.topic(replicas=1)
    (other, *_) = others(client, at)
    assert refusal(client.produce(at, batch("x"), node=other)) == "NOT_LEADER_OR_FOLLOWER"
    assert refusal(client.fetch(at, 0, node=other)) == "NOT_LEADER_OR_FOLLOWER"
    assert refusal(client.offset_at(at, -1, node=other)) == "NOT_LEADER_OR_FOLLOWER"


def test_replicas(client: Client, three: Brokers, at: TopicPartition) -> None:
    metadata = client.cluster.metadata([at.topic])
    assert set(metadata.brokers) == set(three.nodes)
    part = metadata.topics[at.topic].partitions[0]
    assert set(part.replicas) == set(part.isr) == set(three.nodes)
    assert (part.leader, part.leader_epoch) == (client.node_of(at), 0)


@pytest.mark.parametrize("clean", [True, False])
def test_another_leader(client: Client, three: Brokers, at: TopicPartition, clean: bool) -> None:
    """The epoch rises. Records, producers with their last five batches and log starts remain."""
    writer = client.writer()
    for sequence in range(7):
        assert client.produce(at, writer.batch(sequence, f"{sequence}")).base_offset == sequence
    client.delete_below(at, 1)
    old_epoch = client.cluster.leader(at).epoch
    elect_another(client, three, at, clean=clean)

    epoch = client.cluster.leader(at).epoch
    assert epoch > old_epoch
    assert client.ends(at) == (1, 7, 7)
    found = client.producers(at)[writer.id]
    assert (found.last_sequence, found.producer_epoch) == (6, writer.epoch)
    for sequence in (2, 6):
        assert client.produce(at, writer.batch(sequence, "again")).base_offset == sequence
    for sequence in (1, 8):
        refused = client.produce(at, writer.batch(sequence, "x"))
        assert refusal(refused) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert client.produce(at, writer.batch(7, "7")).base_offset == 7
    assert [one.leader_epoch for one in client.log(at, 6)] == [old_epoch, epoch]

    # The epochs in questions and answers.
    assert refusal(client.fetch(at, 7, leader_epoch=epoch)) == "NONE"
    for wrong, error in ((old_epoch, "FENCED_LEADER_EPOCH"), (epoch + 1, "UNKNOWN_LEADER_EPOCH")):
        assert refusal(client.fetch(at, 7, leader_epoch=wrong)) == error
        assert refusal(client.offset_at(at, -1, leader_epoch=wrong)) == error
        assert refusal(client.epoch_end(at, 0, current_leader_epoch=wrong)) == error
    ended = client.epoch_end(at, old_epoch)
    assert (ended.leader_epoch, ended.end_offset) == (old_epoch, 7)
    ended = client.epoch_end(at, epoch)
    assert (ended.leader_epoch, ended.end_offset) == (epoch, 8)
    assert client.offset_at(at, -2).leader_epoch == old_epoch
    assert client.offset_at(at, -1).leader_epoch == epoch

    # A log that has another end of an epoch than the reader's.
    assert client.fetch(at, 7, last_epoch=old_epoch).diverging_epoch is None
    assert client.fetch(at, 8, last_epoch=epoch).diverging_epoch is None
    diverging = client.fetch(at, 8, last_epoch=old_epoch).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (old_epoch, 7)


def test_an_open_transaction_goes_on(client: Client, three: Brokers, at: TopicPartition) -> None:
    txn = Transactional(client)
    writer = txn.begin()
    client.write(at, "before")
    txn.write(at, writer, 0, "a")
    elect_another(client, three, at, clean=True)
    assert client.ends(at) == (0, 1, 2)
    assert refusal(txn.produce(at, writer, 1, "b")) == "NONE"
    txn.finish(at, writer, commit=True)
    await_until(lambda: client.ends(at) == (0, 4, 4), 30, "all replicas have the marker")


def test_markers_on_another_leader(client: Client, three: Brokers, at: TopicPartition) -> None:
    writer = client.writer()
    client.produce(at, writer.batch(0, "a"))
    assert write_markers(client, at, marks(at, writer.later())) == ["NONE"]
    elect_another(client, three, at, clean=True)
    assert write_markers(client, at, marks(at, writer)) == ["INVALID_PRODUCER_EPOCH"]
    assert client.produce(at, writer.later().batch(0, "b")).base_offset == 2


def test_groups_and_transactions_have_another_coordinator(
    client: Client, three: Brokers, at: TopicPartition
) -> None:
    group, txn = Group(client), Transactional(client)
    group.commit({at: (5, 0, "text")})
    writer = txn.begin()
    for kind, name in ((0, group.name), (1, txn.id)):
        (node,) = client.cluster.coordinators(kind, [name], Deadline(30)).values()
        assert isinstance(node, int)
        three.stop(node, clean=True)
        assert group.committed() == {at: (5, 0, "text")}
        assert txn.begin().id == writer.id
        three.start(node)


def test_too_few_replicas_in_sync(client: Client, three: Brokers) -> None:
    """acks=all is refused before the append; acks=1 is not."""
    at = client.topic(replicas=3, min_insync_replicas="3")
    await_isr(client, at, 3)
    writer = client.writer()
    assert refusal(client.produce(at, writer.batch(0, "a"))) == "NONE"
    (other, *_) = others(client, at)
    three.stop(other, clean=True)
    await_isr(client, at, 2)
    refused = client.produce(at, writer.batch(1, "x"))
    assert (refusal(refused), refused.base_offset) == ("NOT_ENOUGH_REPLICAS", -1)
    assert client.epoch_end(at, client.cluster.leader(at).epoch).end_offset == 1
    three.start(other)
    await_isr(client, at, 3)
    answer = client.produce(at, writer.batch(1, "b"))
    assert (refusal(answer), answer.base_offset) == ("NONE", 1)


def test_a_follower_that_is_frozen(client: Client, three: Brokers, at: TopicPartition) -> None:
    """The request times out, but the batch is in the log. Readers see it when all replicas in sync
    have it."""
    writer = client.writer()
    assert refusal(client.produce(at, writer.batch(0, "a"))) == "NONE"
    epoch = client.cluster.leader(at).epoch
    (other, *_) = others(client, at)
    three.freeze(other)
    late = client.produce(at, writer.batch(1, "b"), timeout_ms=200)
    assert (refusal(late), late.base_offset) == ("REQUEST_TIMED_OUT", 1)
    assert client.epoch_end(at, epoch).end_offset == 2
    assert client.offset_at(at, -1).offset == 1
    beyond = client.fetch(at, 1)
    assert (refusal(beyond), beyond.records or b"", beyond.high_watermark) == ("NONE", b"", 1)
    assert refusal(client.fetch(at, 2)) == "NONE"
    assert refusal(client.fetch(at, 3)) == "OFFSET_OUT_OF_RANGE"
    three.thaw(other)
    await_until(lambda: client.ends(at) == (0, 2, 2), 60, "the high watermark moves")
    again = client.produce(at, writer.batch(1, "b"))
    assert (refusal(again), again.base_offset) == ("NONE", 1)
    await_isr(client, at, 3)


def test_a_leader_that_was_frozen(client: Client, three: Brokers, at: TopicPartition) -> None:
    """It has lost the lead, and learns it."""
    client.write(at, "a")
    old = client.node_of(at)
    three.freeze(old)
    await_other_leader(client, at, old)
    assert client.write(at, "b") == 1
    three.thaw(old)

    def refused() -> bool:
        answer = client.produce(at, batch("x"), node=old, timeout_ms=500)
        assert refusal(answer) in ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "NONE")
        return refusal(answer) == "NOT_LEADER_OR_FOLLOWER"

    await_until(refused, 30, "the old leader learns it")
    await_isr(client, at, 3)
    assert client.values(at)[:2] == [(0, b"a"), (1, b"b")]


def test_an_unclean_election(client: Client, three: Brokers) -> None:
    """The new leader lacks acknowledged records and their producers' sequences. The old leader cuts
    its log when it is back."""
    at = client.topic(replicas=2, min_insync_replicas="1")
    await_isr(client, at, 2)
    writer = client.writer()
    assert refusal(client.produce(at, writer.batch(0, "a"))) == "NONE"
    old, epoch = client.node_of(at), client.cluster.leader(at).epoch
    part = client.cluster.metadata([at.topic]).topics[at.topic].partitions[0]
    (behind,) = set(part.replicas) - {old}
    three.stop(behind, clean=True)
    await_isr(client, at, 1)
    for sequence in (1, 2):
        assert refusal(client.produce(at, writer.batch(sequence, "lost"))) == "NONE"
    three.stop(old, clean=False)
    three.start(behind)
    three.elect_unclean(at, behind)
    await_other_leader(client, at, old)

    assert client.node_of(at) == behind
    new_epoch = client.cluster.leader(at).epoch
    assert new_epoch > epoch
    assert client.ends(at) == (0, 1, 1)
    assert client.producers(at)[writer.id].last_sequence == 0
    assert refusal(client.fetch(at, 3)) == "OFFSET_OUT_OF_RANGE"
    diverging = client.fetch(at, 3, last_epoch=epoch).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (epoch, 1)
    assert refusal(client.produce(at, writer.batch(3, "x"))) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert client.produce(at, writer.batch(1, "b")).base_offset == 1

    three.start(old)
    await_isr(client, at, 2)
    three.stop(behind, clean=True)
    await_other_leader(client, at, behind)
    assert client.values(at) == [(0, b"a"), (1, b"b")]
    three.start(behind)
