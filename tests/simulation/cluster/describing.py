"""Metadata, FindCoordinator, DescribeCluster, DescribeConfigs, DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
)
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from tests.simulation.cluster import errors
from tests.simulation.cluster.controller import check_name
from tests.simulation.cluster.errors import Refused
from tests.simulation.cluster.settings import TOPIC_DEFAULTS, broker_name
from tests.simulation.cluster.topic_states import NOBODY, TopicState

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

Respond = Callable[[Any], None]

# Numbers of org.apache.kafka.common.acl.AclOperation.
_TOPIC_RIGHTS: Final = {3, 4, 5, 6, 7, 8, 10, 11}
_CLUSTER_RIGHTS: Final = {5, 7, 8, 9, 10, 11, 12}
_NO_ID: Final = UUID(int=0)
_TOPIC, _BROKER = 2, 4
_OF_TOPIC, _STATIC, _DEFAULT = 1, 4, 5
_DISK_BYTES: Final = 1 << 40
_STRING, _INT, _LONG, _LIST, _BOOLEAN, _DOUBLE = 2, 3, 5, 7, 1, 6


def metadata(node: BrokerNode, request: Any, respond: Respond) -> None:
    version, image = request.API_VERSION, node.image
    kind = MetadataResponse.MetadataResponseTopic
    wants_rights = version >= 8 and request.include_topic_authorized_operations
    topics: list[Any] = []
    if request.topics is None or (version == 0 and not request.topics):
        topics = [_topic(node, each) for each in image.topics.values()]
    else:
        for wanted in request.topics:
            by_id = version >= 10 and wanted.name is None
            found = image.by_id.get(wanted.topic_id) if by_id else image.topics.get(wanted.name)
            if found is not None:
                topics.append(_topic(node, found))
                continue
            code = errors.UNKNOWN_TOPIC_ID if by_id else _why_unknown(wanted.name)
            topics.append(
                kind(
                    error_code=code,
                    name=wanted.name,
                    topic_id=wanted.topic_id if by_id else _NO_ID,
                    is_internal=False,
                    partitions=[],
                )
            )
    if wants_rights:
        for topic in topics:
            topic.authorized_operations = _TOPIC_RIGHTS
    nodes = node.cluster.nodes
    response = MetadataResponse(
        throttle_time_ms=0,
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=each, host=nodes[each].host, port=nodes[each].port, rack=None
            )
            for each in image.alive
        ],
        cluster_id=node.cluster.cluster_id,
        controller_id=_some_broker(node),
        topics=topics,
    )
    if 8 <= version <= 10 and request.include_cluster_authorized_operations:
        response.authorized_operations = _CLUSTER_RIGHTS
    respond(response)


def _why_unknown(name: str) -> int:
    try:
        check_name(name)
    except Refused as refused:
        return refused.code
    return errors.UNKNOWN_TOPIC_OR_PARTITION


def _some_broker(node: BrokerNode) -> int:
    """Brokers name any broker as the controller, as each passes requests on to it."""
    alive = node.image.alive
    return node.world.random.choice(alive) if alive else NOBODY


def _topic(node: BrokerNode, topic: TopicState) -> Any:
    kind = MetadataResponse.MetadataResponseTopic
    alive = node.image.alive
    parts = []
    for index, state in enumerate(topic.partitions):
        led = state.leader in alive
        parts.append(
            kind.MetadataResponsePartition(
                error_code=0 if led else errors.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=state.leader if led else NOBODY,
                leader_epoch=state.epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                offline_replicas=[each for each in state.replicas if each not in alive],
            )
        )
    return kind(
        error_code=0, name=topic.name, topic_id=topic.id, is_internal=False, partitions=parts
    )


def find_coordinator(node: BrokerNode, request: Any, respond: Respond) -> None:
    many = request.API_VERSION >= 4
    kind = FindCoordinatorResponse.Coordinator
    found = []
    for key in request.coordinator_keys if many else [request.key]:
        number = node.cluster.controller.coordinator(key)
        if number in node.image.alive:
            home = node.cluster.nodes[number]
            fields = {"node_id": number, "host": home.host, "port": home.port, "error_code": 0}
        else:
            code = errors.COORDINATOR_NOT_AVAILABLE
            fields = {"node_id": -1, "host": "", "port": -1, "error_code": code}
        found.append((key, fields))
    if many:
        coordinators = [kind(key=key, error_message="", **fields) for key, fields in found]
        respond(FindCoordinatorResponse(throttle_time_ms=0, coordinators=coordinators))
    else:
        respond(FindCoordinatorResponse(throttle_time_ms=0, error_message="", **found[0][1]))


def describe_cluster(node: BrokerNode, request: Any, respond: Respond) -> None:
    nodes = node.cluster.nodes
    response = DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        cluster_id=node.cluster.cluster_id,
        controller_id=_some_broker(node),
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=each, host=nodes[each].host, port=nodes[each].port, rack=None
            )
            for each in node.image.alive
        ],
    )
    if request.include_cluster_authorized_operations:
        response.authorized_operations = _CLUSTER_RIGHTS
    respond(response)


def describe_configs(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = DescribeConfigsResponse.DescribeConfigsResult
    results = []
    for resource in request.resources:
        code, message = 0, ""
        entries: list[tuple[str, str, int]] = []
        if resource.resource_type == _BROKER:
            entries = list(_of_broker(node))
        elif resource.resource_type == _TOPIC:
            topic = node.image.topics.get(resource.resource_name)
            if topic is None:
                code, message = errors.UNKNOWN_TOPIC_OR_PARTITION, ""
            else:
                entries = list(_of_topic(topic))
        else:
            code, message = errors.INVALID_REQUEST, "no such resource"
        wanted = resource.configuration_keys
        results.append(
            kind(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[
                    kind.DescribeConfigsResourceResult(
                        name=name,
                        value=value,
                        read_only=False,
                        config_source=source,
                        is_sensitive=False,
                        synonyms=[],
                        config_type=_type(name),
                        documentation=None,
                    )
                    for name, value, source in entries
                    if wanted is None or name in wanted
                ],
            )
        )
    respond(DescribeConfigsResponse(throttle_time_ms=0, results=results))


def _of_topic(topic: TopicState) -> Iterator[tuple[str, str, int]]:
    for name in TOPIC_DEFAULTS:
        if name in topic.set_configs:
            source = _OF_TOPIC
        else:
            source = _STATIC if name in topic.defaults else _DEFAULT
        yield name, topic.config(name), source


def _of_broker(node: BrokerNode) -> Iterator[tuple[str, str, int]]:
    settings = node.cluster.settings
    for name, default in TOPIC_DEFAULTS.items():
        value = settings.topic_defaults.get(name)
        yield (
            broker_name(name),
            default if value is None else value,
            _DEFAULT if value is None else _STATIC,
        )
    yield "num.partitions", str(settings.num_partitions), _DEFAULT
    yield "default.replication.factor", str(settings.default_replication_factor), _DEFAULT
    yield "auto.create.topics.enable", "false", _DEFAULT
    yield "transaction.max.timeout.ms", str(settings.transaction_max_timeout_ms), _DEFAULT
    yield "allow.everyone.if.no.acl.found", "false", _DEFAULT


def _type(name: str) -> int:
    default = TOPIC_DEFAULTS.get(name, "")
    if name.endswith(".policy") or name.endswith(".replicas"):
        return _INT if name == "min.insync.replicas" else _LIST
    if default in ("true", "false"):
        return _BOOLEAN
    if name.endswith(".ratio"):
        return _DOUBLE
    if default.lstrip("-").isdigit():
        return _LONG if name.endswith(".ms") or name == "retention.bytes" else _INT
    return _STRING


def describe_log_dirs(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = DescribeLogDirsResponse.DescribeLogDirsResult
    topics: dict[str, list[Any]] = {}
    used = 0
    wanted = request.topics
    asked = None if wanted is None else {each.topic: each.partitions for each in wanted}
    for replica in node.replicas.values():
        used += replica.log.size
        name = replica.topic.name
        if asked is None or replica.index in asked.get(name, ()):
            topics.setdefault(name, []).append(
                kind.DescribeLogDirsTopic.DescribeLogDirsPartition(
                    partition_index=replica.index,
                    partition_size=replica.log.size,
                    offset_lag=0,
                    is_future_key=False,
                )
            )
    result = kind(
        error_code=0,
        log_dir="/var/lib/kafka",
        topics=[
            kind.DescribeLogDirsTopic(name=name, partitions=parts) for name, parts in topics.items()
        ],
        total_bytes=_DISK_BYTES,
        usable_bytes=_DISK_BYTES - used,
    )
    respond(DescribeLogDirsResponse(throttle_time_ms=0, error_code=0, results=[result]))
