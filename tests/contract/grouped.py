"""Requests about consumer groups, with their answers as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import (
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

from causeway.cluster import GROUP
from causeway.model import TopicPartition
from causeway.wire import apis
from tests.contract.client import Client, refusal
from tests.harness.waiting import await_until

_SETTLING = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
_PROTOCOL = "range"
# A consumer's subscription: version 0, no topics, no data. A broker that cannot read it never
# answers.
_SUBSCRIPTION = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"


class Group:
    """One group, at its coordinator. A coordinator that only begins its work is asked again."""

    def __init__(self, client: Client, name: str = "group") -> None:
        self.client = client
        self.name = client.prefix + name

    def ask(self, request: Any, result: Callable[[Any], str] = refusal) -> Any:
        def ready() -> Any:
            answer = self.client.cluster.call(request, coordinator_of=(GROUP, self.name))
            return None if result(answer) in _SETTLING else answer

        return await_until(ready, what="a coordinator that is ready", poll_s=0.01)

    def commit(
        self,
        offsets: Mapping[TopicPartition, tuple[int, int, str]],
        *,
        generation: int = -1,
        member: str = "",
    ) -> list[str]:
        """`offsets`: offset, leader epoch and text. The result for each partition."""
        kind = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition
        request = OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[
                (
                    at.topic,
                    [
                        kind(
                            partition_index=at.partition,
                            committed_offset=offset,
                            committed_leader_epoch=epoch,
                            committed_metadata=text,
                        )
                    ],
                )
                for at, (offset, epoch, text) in offsets.items()
            ],
            min_version=6,
            max_version=apis.OFFSET_COMMIT.highest,
        )

        def results(answer: Any) -> list[str]:
            found = {
                (topic.name, part.partition_index): refusal(part)
                for topic in answer.topics
                for part in topic.partitions
            }
            return [found[at] for at in offsets]

        return results(self.ask(request, lambda answer: results(answer)[0]))

    def committed(
        self, parts: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, tuple[int, int, str]]:
        """Offset, leader epoch and text of all partitions, or of those that are asked for."""
        kind = OffsetFetchRequest.OffsetFetchRequestGroup
        topics = None if parts is None else [(at.topic, [at.partition]) for at in parts]
        request = OffsetFetchRequest(
            groups=[kind(group_id=self.name, topics=topics)],
            require_stable=True,
            min_version=8,
            max_version=apis.OFFSET_FETCH.highest,
        )
        (found,) = self.ask(request, lambda answer: refusal(answer.groups[0])).groups
        assert refusal(found) == "NONE"
        assert found.group_id == self.name
        return {
            TopicPartition(topic.name, part.partition_index): (
                part.committed_offset,
                part.committed_leader_epoch,
                part.metadata,
            )
            for topic in found.topics
            for part in topic.partitions
        }

    def described(self) -> Any:
        request = DescribeGroupsRequest(
            groups=[self.name], include_authorized_operations=False, max_version=5
        )
        return self.ask(request, lambda answer: refusal(answer.groups[0])).groups[0]

    def delete(self) -> str:
        request = DeleteGroupsRequest(groups_names=[self.name])
        answer = self.ask(request, lambda answer: refusal(answer.results[0]))
        return refusal(answer.results[0])

    def listed(self, states: Sequence[str] = ()) -> tuple[str, str] | None:
        """State and type of protocol, if any broker lists the group."""
        request = ListGroupsRequest(
            states_filter=list(states), types_filter=[], min_version=apis.LIST_GROUPS.lowest
        )
        for node in self.client.cluster.metadata([]).brokers:
            answer = self.client.ask(request, node)
            assert refusal(answer) == "NONE"
            for group in answer.groups:
                if group.group_id == self.name:
                    return group.group_state, group.protocol_type
        return None

    def join(self, member: str = "") -> Any:
        request = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[(_PROTOCOL, _SUBSCRIPTION)],
            reason="",
            min_version=4,
        )
        return self.ask(request)

    def sync(self, member: str, generation: int) -> Any:
        request = SyncGroupRequest(
            group_id=self.name,
            generation_id=generation,
            member_id=member,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name=_PROTOCOL,
            assignments=[(member, b"assigned")],
            min_version=3,
        )
        return self.ask(request)

    def leave(self, member: str) -> Any:
        kind = LeaveGroupRequest.MemberIdentity
        request = LeaveGroupRequest(
            group_id=self.name,
            members=[kind(member_id=member, group_instance_id=None, reason="")],
            min_version=3,
        )
        return self.ask(request)


class Member(Protocol):
    """A member of a group, which has no others."""

    @property
    def id(self) -> str: ...

    def leave(self) -> None: ...


Join = Callable[[Group], Member]


class JoinedMember:
    """It joined by the requests of a consumer."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self.id = str(group.join().member_id)
        joined = group.join(self.id)
        assert refusal(joined) == "NONE"
        assert refusal(group.sync(self.id, joined.generation_id)) == "NONE"

    def leave(self) -> None:
        assert refusal(self._group.leave(self.id)) == "NONE"
