"""CreateTopics, DeleteTopics, CreatePartitions, IncrementalAlterConfigs. Any broker passes them on
to the controller, and answers before it has applied the change itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kafka.protocol.admin import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    IncrementalAlterConfigsResponse,
)

from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused, refuse
from tests.simulation.cluster.settings import TOPIC_DEFAULTS, check_topic_config

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

Respond = Callable[[Any], None]

_NO_ID: Final = UUID(int=0)
_OF_TOPIC, _DEFAULT = 1, 5
_TOPIC = 2
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3


def create_topics(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = CreateTopicsResponse.CreatableTopicResult
    controller = node.cluster.controller
    names = [topic.name for topic in request.topics]
    results = []
    for topic in request.topics:
        try:
            if names.count(topic.name) > 1:
                refuse(errors.INVALID_REQUEST, "Duplicate topic name.")
            new = controller.new_topic(
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                {config.name: config.value for config in topic.configs},
                {each.partition_index: each.broker_ids for each in topic.assignments},
            )
            if not request.validate_only:
                controller.add(new)
            results.append(
                kind(
                    name=topic.name,
                    topic_id=_NO_ID if request.validate_only else new.id,
                    error_code=0,
                    error_message=None,
                    num_partitions=len(new.partitions),
                    replication_factor=len(new.partitions[0].replicas),
                    configs=[
                        kind.CreatableTopicConfigs(
                            name=name,
                            value=new.config(name),
                            read_only=False,
                            config_source=_OF_TOPIC if name in new.set_configs else _DEFAULT,
                            is_sensitive=False,
                        )
                        for name in TOPIC_DEFAULTS
                    ],
                )
            )
        except Refused as refused:
            results.append(
                kind(
                    name=topic.name,
                    topic_id=_NO_ID,
                    error_code=refused.code,
                    error_message=refused.message,
                    configs=[],
                )
            )
    _answer_after(node, CreateTopicsResponse(throttle_time_ms=0, topics=results), respond)


def _answer_after(node: BrokerNode, response: Any, respond: Respond) -> None:
    """The controller needs a moment."""
    node.later(node.chance_of(node.cluster.settings.metadata_s), lambda: respond(response))


def delete_topics(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = DeleteTopicsResponse.DeletableTopicResult
    controller = node.cluster.controller
    if request.API_VERSION >= 6:
        wanted = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        wanted = [(name, _NO_ID) for name in request.topic_names]
    results = []
    for asked, topic_id in wanted:
        code, message, name = 0, None, asked
        try:
            if name is None:
                name = controller.ids.get(topic_id)
                if name is None:
                    refuse(errors.UNKNOWN_TOPIC_ID)
            topic_id = controller.get(name).id
            node.cluster.delete_topic(name)
        except Refused as refused:
            code, message = refused.code, refused.message
        results.append(
            kind(name=name, topic_id=topic_id or _NO_ID, error_code=code, error_message=message)
        )
    _answer_after(node, DeleteTopicsResponse(throttle_time_ms=0, responses=results), respond)


def create_partitions(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = CreatePartitionsResponse.CreatePartitionsTopicResult
    controller = node.cluster.controller
    results = []
    for topic in request.topics:
        code, message = 0, None
        try:
            controller.add_partitions(topic.name, topic.count, dry_run=request.validate_only)
        except Refused as refused:
            code, message = refused.code, refused.message
        results.append(kind(name=topic.name, error_code=code, error_message=message))
    _answer_after(node, CreatePartitionsResponse(throttle_time_ms=0, results=results), respond)


def alter_configs(node: BrokerNode, request: Any, respond: Respond) -> None:
    kind = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    controller = node.cluster.controller
    results = []
    for resource in request.resources:
        code, message = 0, None
        try:
            if resource.resource_type != _TOPIC:
                refuse(errors.INVALID_REQUEST, "only topics have configs here")
            topic = controller.get(resource.resource_name)
            changes: dict[str, str | None] = {}
            for config in resource.configs:
                changes[config.name] = _changed(topic.config, config)
            controller.alter_configs(topic.name, changes, dry_run=request.validate_only)
        except Refused as refused:
            code, message = refused.code, refused.message
        results.append(
            kind(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    response = IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=results)
    _answer_after(node, response, respond)


def _changed(current: Callable[[str], str], config: Any) -> str | None:
    """The new value; None: the default."""
    if config.config_operation == _DELETE:
        return None
    if config.config_operation == _SET:
        check_topic_config(config.name, config.value)
        return str(config.value)
    if config.name not in TOPIC_DEFAULTS:
        raise Refused(errors.INVALID_CONFIG, f"Unknown topic config name: {config.name}")
    values = [each for each in current(config.name).split(",") if each]
    named = str(config.value).split(",")
    if config.config_operation == _APPEND:
        values += [each for each in named if each not in values]
    else:
        values = [each for each in values if each not in named]
    return ",".join(values)
