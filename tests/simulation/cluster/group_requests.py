"""Requests about consumer groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.admin import DeleteGroupsResponse, DescribeGroupsResponse, ListGroupsResponse
from kafka.protocol.consumer import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from kafka.protocol.producer import TxnOffsetCommitResponse

from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused, refuse
from tests.simulation.cluster.groups import ConsumerGroup, GroupOffset
from tests.simulation.cluster.transactions import Place

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

Respond = Callable[[Any], None]

_LONGEST_TEXT: Final = 4_096  # offset.metadata.max.bytes


def list_groups(node: BrokerNode, request: Any, respond: Respond) -> None:
    version = request.API_VERSION
    kind = ListGroupsResponse.ListedGroup
    states = [each.lower() for each in request.states_filter or ()] if version >= 4 else []
    types = [each.lower() for each in request.types_filter or ()] if version >= 5 else []
    groups = [
        kind(
            group_id=group.name,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type="classic",
        )
        for group in node.cluster.groups.groups.values()
        if node.is_coordinator(group.name)
        and (not states or group.state.lower() in states)
        and (not types or "classic" in types)
    ]
    respond(ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=groups))


def describe_groups(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = DescribeGroupsResponse.DescribedGroup
    groups = []
    for name in request.groups:
        group, code, state = node.cluster.groups.groups.get(name), 0, "Dead"
        try:
            node.check_coordinates(name)
            state = group.state if group is not None else state
        except Refused as refused:
            group, code, state = None, refused.code, ""
        groups.append(
            kind(
                error_code=code,
                group_id=name,
                group_state=state,
                protocol_type=group.protocol_type if group is not None else "",
                protocol_data="range" if group is not None and group.members else "",
                members=[
                    kind.DescribedGroupMember(
                        member_id=member,
                        group_instance_id=None,
                        client_id=member,
                        client_host="/10.0.0.1",
                        member_metadata=b"",
                        member_assignment=b"",
                    )
                    for member in (group.members if group is not None else ())
                ],
            )
        )
    respond(DescribeGroupsResponse(throttle_time_ms=0, groups=groups))


def delete_groups(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = DeleteGroupsResponse.DeletableGroupResult
    results = []
    for name in request.groups_names:
        code = 0
        try:
            node.check_coordinates(name)
            group = node.cluster.groups.groups.get(name)
            if group is None:
                refuse(errors.GROUP_ID_NOT_FOUND)
            if group.members:
                refuse(errors.NON_EMPTY_GROUP)
            del node.cluster.groups.groups[name]
        except Refused as refused:
            code = refused.code
        results.append(kind(group_id=name, error_code=code))
    respond(DeleteGroupsResponse(throttle_time_ms=0, results=results))


# -- offsets ------------------------------------------------------------------------------------


def fetch_offsets(node: BrokerNode, request: Any, respond: Respond) -> None:
    if request.API_VERSION < 8:
        wanted = None if request.topics is None else _wanted(request.topics)
        kind: Any = OffsetFetchResponse.OffsetFetchResponseTopic
        part = kind.OffsetFetchResponsePartition
        topics, code = _offsets(node, request, request.group_id, wanted, kind, part)
        respond(OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=code))
        return
    group_kind = OffsetFetchResponse.OffsetFetchResponseGroup
    kind = group_kind.OffsetFetchResponseTopics
    part = kind.OffsetFetchResponsePartitions
    groups = []
    for each in request.groups:
        wanted = None if each.topics is None else _wanted(each.topics)
        topics, code = _offsets(node, request, each.group_id, wanted, kind, part)
        groups.append(group_kind(group_id=each.group_id, topics=topics, error_code=code))
    respond(OffsetFetchResponse(throttle_time_ms=0, groups=groups))


def _wanted(topics: list[Any]) -> list[Place]:
    return [(topic.name, index) for topic in topics for index in topic.partition_indexes]


def _offsets(
    node: BrokerNode,
    request: Any,
    name: str,
    wanted: list[Place] | None,
    topic_kind: Any,
    part_kind: Any,
) -> tuple[list[Any], int]:
    """The topics of an answer, and the error of the group."""
    try:
        node.check_coordinates(name)
    except Refused as refused:
        return [], refused.code
    groups = node.cluster.groups
    group = groups.groups.get(name) or ConsumerGroup(name)
    stable = request.API_VERSION >= 7 and request.require_stable
    topics: dict[str, list[Any]] = {}
    for place in list(group.offsets) if wanted is None else wanted:
        found, code = group.offsets.get(place), 0
        if stable and groups.is_unstable(group, place):
            found, code = None, errors.UNSTABLE_OFFSET_COMMIT
        topics.setdefault(place[0], []).append(
            part_kind(
                partition_index=place[1],
                committed_offset=found.offset if found else -1,
                committed_leader_epoch=found.leader_epoch if found else -1,
                metadata=found.metadata if found else "",
                error_code=code,
            )
        )
    return [topic_kind(name=topic, partitions=parts) for topic, parts in topics.items()], 0


def _committed(topics: list[Any], has_epochs: bool) -> dict[Place, GroupOffset]:
    return {
        (topic.name, part.partition_index): GroupOffset(
            offset=part.committed_offset,
            leader_epoch=part.committed_leader_epoch if has_epochs else -1,
            metadata=part.committed_metadata or "",
        )
        for topic in topics
        for part in topic.partitions
    }


def _known(node: BrokerNode, place: Place) -> bool:
    topic = node.image.topics.get(place[0])
    return topic is not None and 0 <= place[1] < len(topic.partitions)


def commit_offsets(node: BrokerNode, request: Any, respond: Respond) -> None:
    offsets = _committed(request.topics, request.API_VERSION >= 6)
    known = {place: offset for place, offset in offsets.items() if _known(node, place)}
    code = 0
    try:
        node.check_coordinates(request.group_id)
        _check_member(node, request)
        known = {
            place: each for place, each in known.items() if len(each.metadata) <= _LONGEST_TEXT
        }
        node.cluster.groups.commit(request.group_id, known)
    except Refused as refused:
        code = refused.code
    respond(_answered(OffsetCommitResponse, "OffsetCommit", request, known, code))


def _check_member(node: BrokerNode, request: Any) -> None:
    group = node.cluster.groups.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if generation < 0 and (group is None or not group.members):
        return
    if group is None:
        raise Refused(errors.GROUP_ID_NOT_FOUND)
    if request.member_id not in group.members:
        raise Refused(errors.UNKNOWN_MEMBER_ID)
    if generation != group.generation:
        raise Refused(errors.ILLEGAL_GENERATION)


def commit_in_transaction(node: BrokerNode, request: Any, respond: Respond) -> None:
    offsets = _committed(request.topics, request.API_VERSION >= 2)
    known = {place: offset for place, offset in offsets.items() if _known(node, place)}
    code = 0
    try:
        node.check_coordinates(request.group_id)
        node.cluster.transactions.check_has_group(
            request.transactional_id,
            (request.producer_id, request.producer_epoch),
            request.group_id,
        )
        node.cluster.groups.commit_later(request.group_id, request.producer_id, known)
    except Refused as refused:
        code = refused.code
    respond(_answered(TxnOffsetCommitResponse, "TxnOffsetCommit", request, known, code))


def _answered(
    response: Any, prefix: str, request: Any, known: dict[Place, GroupOffset], code: int
) -> Any:
    kind = getattr(response, f"{prefix}ResponseTopic")
    part_kind = getattr(kind, f"{prefix}ResponsePartition")
    topics = []
    for topic in request.topics:
        parts = []
        for part in topic.partitions:
            is_known = (topic.name, part.partition_index) in known
            is_long = len(part.committed_metadata or "") > _LONGEST_TEXT
            lacks = (
                errors.OFFSET_METADATA_TOO_LARGE if is_long else errors.UNKNOWN_TOPIC_OR_PARTITION
            )
            own = code or (0 if is_known else lacks)
            parts.append(part_kind(partition_index=part.partition_index, error_code=own))
        topics.append(kind(name=topic.name, partitions=parts))
    return response(throttle_time_ms=0, topics=topics)


def delete_offsets(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = OffsetDeleteResponse.OffsetDeleteResponseTopic
    part_kind = kind.OffsetDeleteResponsePartition
    code, topics = 0, []
    try:
        node.check_coordinates(request.group_id)
        group = node.cluster.groups.groups.get(request.group_id)
        if group is None:
            refuse(errors.GROUP_ID_NOT_FOUND)
        for topic in request.topics:
            is_read = bool(group.members) and topic.name in group.topics
            own = errors.GROUP_SUBSCRIBED_TO_TOPIC if is_read else 0
            parts = []
            for part in topic.partitions:
                if not own:
                    group.offsets.pop((topic.name, part.partition_index), None)
                parts.append(part_kind(partition_index=part.partition_index, error_code=own))
            topics.append(kind(name=topic.name, partitions=parts))
    except Refused as refused:
        code = refused.code
    respond(OffsetDeleteResponse(error_code=code, throttle_time_ms=0, topics=topics))
