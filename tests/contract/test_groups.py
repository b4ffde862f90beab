"""Consumer groups: offsets with and without members, states, deletion."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest

from causeway.cluster import Committed, transactions
from causeway.cluster.groups import commit_topics
from causeway.errors import BrokerError
from causeway.model import TopicPartition
from tests.contract.client import Client, refusal
from tests.contract.grouped import Group, Join
from tests.harness.waiting import await_until

PART = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition


@pytest.fixture
def at(client: Client) -> TopicPartition:
    return client.topic()


@pytest.fixture
def group(client: Client) -> Group:
    return Group(client)


# -- offsets without members -----------------------------------------------------------------------


def test_an_unknown_group(group: Group, at: TopicPartition) -> None:
    """It has no offsets, and that is no error."""
    assert group.committed() == {}
    assert group.committed([at]) == {at: (-1, -1, "")}
    assert group.listed() is None
    found = group.described()
    assert (refusal(found), found.group_state) == ("NONE", "Dead")
    assert group.delete() == "GROUP_ID_NOT_FOUND"


def test_offsets_are_kept(client: Client, group: Group) -> None:
    """With leader epoch and text. No matter whether the log has the offset."""
    first = client.topic(partitions=3)
    second = TopicPartition(first.topic, 1)
    offsets = {first: (5, 0, "text"), second: (2**40, -1, "")}
    assert group.commit(offsets) == ["NONE", "NONE"]
    assert group.committed() == offsets
    third = TopicPartition(first.topic, 2)
    assert group.committed([second, third]) == {second: (2**40, -1, ""), third: (-1, -1, "")}
    assert group.commit({first: (3, -1, "")}) == ["NONE"]
    assert group.committed() == {first: (3, -1, ""), second: (2**40, -1, "")}


def test_a_group_that_only_committed(group: Group, at: TopicPartition) -> None:
    group.commit({at: (1, -1, "")})
    assert group.listed() == ("Empty", "")
    assert group.listed(["Empty"]) == ("Empty", "")
    assert group.listed(["Stable"]) is None
    found = group.described()
    assert (found.group_state, found.protocol_type, list(found.members)) == ("Empty", "", [])


def test_several_groups_in_a_request(client: Client, group: Group, at: TopicPartition) -> None:
    other = Group(client, "other")
    group.commit({at: (1, -1, "")})
    other.commit({at: (2, -1, "")})
    found = client.cluster.committed_offsets_of([group.name, other.name, client.prefix + "no"])
    offsets = {
        name: [one.offset for one in parts.values()]
        for name, parts in found.items()
        if isinstance(parts, dict)
    }
    assert offsets == {group.name: [1], other.name: [2], client.prefix + "no": []}


def test_an_unknown_topic(client: Client, group: Group, at: TopicPartition) -> None:
    unknown = TopicPartition(client.prefix + "no", 0)
    assert group.commit({at: (1, -1, ""), unknown: (1, -1, "")}) == [
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert group.committed() == {at: (1, -1, "")}


def test_a_long_text(group: Group, at: TopicPartition) -> None:
    assert group.commit({at: (1, -1, "x" * 4096)}) == ["NONE"]
    assert group.commit({at: (2, -1, "x" * 4097)}) == ["OFFSET_METADATA_TOO_LARGE"]
    assert group.committed()[at][0] == 1


def test_a_member_of_a_group_without_members(group: Group, at: TopicPartition) -> None:
    assert group.commit({at: (1, -1, "")}, generation=3, member="m") == ["GROUP_ID_NOT_FOUND"]
    group.commit({at: (1, -1, "")})
    assert group.commit({at: (2, -1, "")}, generation=3, member="m") == ["UNKNOWN_MEMBER_ID"]
    assert group.committed() == {at: (1, -1, "")}


def test_the_offsets_of_a_deleted_topic_are_gone(
    client: Client, group: Group, at: TopicPartition
) -> None:
    other = client.topic()
    group.commit({at: (1, -1, ""), other: (2, -1, "")})
    client.delete(at.topic)
    await_until(lambda: group.committed() == {other: (2, -1, "")}, 30, "the offsets are gone")


def test_an_empty_group_is_deleted(group: Group, at: TopicPartition) -> None:
    group.commit({at: (4, -1, "")})
    assert group.delete() == "NONE"
    assert group.committed() == {}
    assert group.listed() is None


@pytest.mark.parametrize("version", range(2, 10))
def test_each_version_of_commits(group: Group, at: TopicPartition, version: int) -> None:
    """Leader epochs since version 6."""
    request = OffsetCommitRequest(
        group_id=group.name,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=-1,
        topics=commit_topics(PART, {at: Committed(offset=5, leader_epoch=2, metadata="t")}),
        min_version=version,
        max_version=version,
    )
    answer = group.ask(request, lambda answer: refusal(answer.topics[0].partitions[0]))
    assert refusal(answer.topics[0].partitions[0]) == "NONE"
    assert group.committed() == {at: (5, 2 if version >= 6 else -1, "t")}


@pytest.mark.parametrize("version", range(1, 9))
def test_each_version_of_questions_for_offsets(
    group: Group, at: TopicPartition, version: int
) -> None:
    group.commit({at: (5, 2, "t")})
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(
        group_id=group.name,
        topics=[(at.topic, [0])],
        groups=[wanted(group_id=group.name, topics=[(at.topic, [0])])],
        require_stable=False,
        min_version=version,
        max_version=version,
    )
    answer = group.ask(request, lambda _: "NONE")
    found = answer.groups[0] if version >= 8 else answer
    (part,) = found.topics[0].partitions
    assert (refusal(part), part.committed_offset, part.metadata) == ("NONE", 5, "t")


# -- offsets in transactions -----------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_of_a_transaction(
    client: Client, group: Group, at: TopicPartition, commit: bool
) -> None:
    """They count once it is committed. Until then, a reader of stable offsets is refused, if there
    are older ones."""
    group.commit({at: (1, -1, "")})
    transaction = transactions.begin(client.cluster, client.prefix + "txn", 60_000)
    offsets = {at: Committed(offset=7, leader_epoch=0, metadata="t")}
    transactions.commit_offsets(client.cluster, transaction, group.name, offsets)
    (refused,) = client.cluster.committed_offsets_of([group.name], 0.1).values()
    assert isinstance(refused, BrokerError)
    assert refused.name == "UNSTABLE_OFFSET_COMMIT"
    transactions.end(client.cluster, transaction, commit=commit)
    after = (7, 0, "t") if commit else (1, -1, "")

    def committed() -> bool:
        (found,) = client.cluster.committed_offsets_of([group.name]).values()
        return found == {at: Committed(offset=after[0], leader_epoch=after[1], metadata=after[2])}

    await_until(committed, 30, "the end of the transaction")


# -- members ---------------------------------------------------------------------------------------


def test_a_group_with_a_member(group: Group, join: Join) -> None:
    member = join(group)
    assert group.listed() == ("Stable", "consumer")
    found = group.described()
    assert (found.group_state, found.protocol_data) == ("Stable", "range")
    assert [one.member_id for one in found.members] == [member.id]


def test_others_do_not_commit_for_a_group_with_members(
    group: Group, at: TopicPartition, join: Join
) -> None:
    join(group)
    assert group.commit({at: (1, -1, "")}) == ["UNKNOWN_MEMBER_ID"]
    assert group.commit({at: (1, -1, "")}, generation=1, member="other") == ["UNKNOWN_MEMBER_ID"]
    assert group.committed() == {}
    assert group.delete() == "NON_EMPTY_GROUP"


def test_a_member_leaves(group: Group, at: TopicPartition, join: Join) -> None:
    group.commit({at: (4, -1, "")})
    member = join(group)
    assert group.committed() == {at: (4, -1, "")}
    member.leave()
    assert group.listed() == ("Empty", "consumer")
    assert group.commit({at: (9, -1, "")}) == ["NONE"]
    assert group.committed() == {at: (9, -1, "")}
