"""Reads and changes topics and their configuration in bulk: there is a result or an error for each
item. Also asks brokers for their API versions and disks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
)

from causeway.cluster.client import ClusterClient
from causeway.cluster.metadata import value_of
from causeway.errors import BrokerError, CausewayError
from causeway.wire import Brokers, Deadline, Versions, apis, codes, error_in, raise_error

ASKED_AT_ONCE = 16  # brokers
TOPICS_A_REQUEST = 500
# A KRaft controller writes at most 10,000 records for one request: each topic, partition and config
# is a record. It refuses the items beyond that with POLICY_VIOLATION.
RECORDS_A_REQUEST = 5_000
# The size of a request cannot be the reason for a refusal below this number of records.
_SURELY_SMALL = 500
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """`value` is None if it is sensitive. `source`: Kafka's constant, for example
    DYNAMIC_TOPIC_CONFIG. `default`: neither the topic nor the broker sets it."""

    value: str | None
    source: str
    read_only: bool = False
    sensitive: bool = False
    default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. -1 for `partitions` or `replication_factor` is the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


def describe_configs(
    cluster: ClusterClient, topics: Collection[str], names: Collection[str] | None = None
) -> dict[str, dict[str, ConfigEntry] | CausewayError]:
    """Returns the configuration of each topic: all keys, or only `names`."""

    def attempt(
        left: list[str], deadline: Deadline
    ) -> dict[str, dict[str, ConfigEntry] | CausewayError]:
        requests = (_describe_request(_TOPIC, chunk, names) for chunk in _chunks(left))
        return {
            result.resource_name: _entries(cluster, "topic", result)
            for request in requests
            for result in cluster.once(request, None, deadline).results
        }

    return cluster.retry_each(topics, attempt)


def broker_configs(cluster: ClusterClient, node_id: int) -> dict[str, ConfigEntry]:
    """Returns the configuration of one broker. Raises BrokerError and AuthorizationError."""
    response = cluster.call(_describe_request(_BROKER, [str(node_id)], None), node_id)
    return value_of(_entries(cluster, "broker", response.results[0]))


def _describe_request(kind: int, resources: list[str], names: Collection[str] | None) -> Any:
    keys = None if names is None else list(names)
    return DescribeConfigsRequest(
        resources=[(kind, name, keys) for name in resources],
        include_synonyms=False,
        include_documentation=False,
        min_version=apis.DESCRIBE_CONFIGS.lowest,
    )


def _entries(
    cluster: ClusterClient, kind: str, result: Any
) -> dict[str, ConfigEntry] | CausewayError:
    name = result.resource_name
    needs = f"DESCRIBE_CONFIGS on {f'topic {name}' if kind == 'topic' else 'the cluster'}"
    error = error_in(result, f"read the configuration of {kind}", f"{name} on {cluster}", needs)
    if error is not None:
        return error
    return {
        entry.name: ConfigEntry(
            value=entry.value,
            source=_SOURCES.get(entry.config_source, "UNKNOWN"),
            read_only=entry.read_only,
            sensitive=entry.is_sensitive,
            default=entry.config_source == 5,
        )
        for entry in result.configs
    }


def create_topics(
    cluster: ClusterClient, topics: Sequence[NewTopic], validate_only: bool = False
) -> dict[str, CausewayError | None]:
    """Creates topics; with `validate_only` only asks whether that would work. None if it is done.

    TOPIC_ALREADY_EXISTS (36) is an error, unless the answer to an earlier attempt of this call was
    lost: then that attempt may have created the topic.
    """
    by_name = {topic.name: topic for topic in topics}

    def request(names: list[str], timeout_ms: int) -> Any:
        wanted = [by_name[name] for name in names]
        return CreateTopicsRequest(
            topics=[
                (t.name, t.partitions, t.replication_factor, [], list(t.configs.items()))
                for t in wanted
            ],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
            # An older version has no dry run: the topic would be created.
            min_version=apis.CREATE_TOPICS.lowest,
        )

    return _on_controller(
        cluster,
        "create topic",
        by_name,
        request,
        attrgetter("topics"),
        needs="CREATE on topic {0}, and ALTER_CONFIGS if it sets any",
        weight=lambda name: 1 + max(by_name[name].partitions, 1) + len(by_name[name].configs),
        done_in_doubt=0 if validate_only else codes.TOPIC_ALREADY_EXISTS,
    )


def create_partitions(
    cluster: ClusterClient, counts: Mapping[str, int]
) -> dict[str, CausewayError | None]:
    """Raises the number of partitions of each topic to the count. INVALID_PARTITIONS (37) if a
    topic has as many or more."""
    return _on_controller(
        cluster,
        "add partitions to",
        counts,
        lambda names, timeout_ms: CreatePartitionsRequest(
            topics=[(name, counts[name], None) for name in names],
            timeout_ms=timeout_ms,
            validate_only=False,
        ),
        attrgetter("results"),
        needs="ALTER on topic {0}",
        weight=lambda name: counts[name],
    )


def alter_configs(
    cluster: ClusterClient, changes: Mapping[str, Mapping[str, str | None]]
) -> dict[str, CausewayError | None]:
    """Sets the named configs of each topic; None sets a config back to its default. Other configs
    do not change."""

    def request(names: list[str], _timeout_ms: int) -> Any:
        settings = {
            name: [
                (key, _DELETE if value is None else _SET, value)
                for key, value in changes[name].items()
            ]
            for name in names
        }
        return IncrementalAlterConfigsRequest(
            resources=[(_TOPIC, name, configs) for name, configs in settings.items()],
            validate_only=False,
        )

    return _on_controller(
        cluster,
        "configure topic",
        changes,
        request,
        attrgetter("responses"),
        needs="ALTER_CONFIGS on topic {0}",
        weight=lambda name: len(changes[name]),
    )


def delete_topics(
    cluster: ClusterClient, topics: Collection[str]
) -> dict[str, CausewayError | None]:
    """Deletes topics by name. UNKNOWN_TOPIC_OR_PARTITION (3) if there is no such topic."""
    return _on_controller(
        cluster,
        "delete topic",
        topics,
        lambda names, timeout_ms: DeleteTopicsRequest(
            topics=[(name, None) for name in names], topic_names=names, timeout_ms=timeout_ms
        ),
        attrgetter("responses"),
        needs="DELETE on topic {0}",
        done_in_doubt=codes.UNKNOWN_TOPIC_OR_PARTITION,
    )


def _on_controller(
    cluster: ClusterClient,
    operation: str,
    topics: Collection[str],
    request: Callable[[list[str], int], Any],
    results_of: Callable[[Any], Iterable[Any]],
    *,
    needs: str,
    weight: Callable[[str], int] = lambda _: 1,
    done_in_doubt: int = 0,
) -> dict[str, CausewayError | None]:
    """Does one operation on many topics, in chunks, and retries it for single topics.

    `weight`: the number of records that the controller writes for a topic. If the controller
    refused topics with POLICY_VIOLATION, its limit may be lower than ours: they are sent again in
    chunks of half the weight. `done_in_doubt`: the code that a repetition gets if the first
    attempt, whose answer was lost, had worked.
    """
    doubtful: set[str] = set()

    def attempt(left: list[str], _: Deadline) -> dict[str, CausewayError | None]:
        results: dict[str, CausewayError | None] = {}
        waiting = list(_chunks(left, weight))
        while waiting:
            chunk = waiting.pop()
            # Each chunk has the whole time, because thousands of topics take a controller long.
            deadline = Deadline(cluster.timeout_s)
            try:
                response = cluster.controller_once(
                    request(chunk, int(cluster.timeout_s * 1000)), deadline
                )
            except CausewayError as failure:
                doubtful.update(chunk)
                results.update(dict.fromkeys(chunk, failure))
                continue
            refused = []
            for result in results_of(response):
                name = result.name if hasattr(result, "name") else result.resource_name
                error = error_in(result, operation, f"{name} on {cluster}", needs.format(name))
                code = error.code if isinstance(error, BrokerError) else 0
                if code == codes.POLICY_VIOLATION:
                    refused.append(name)
                if name in doubtful and code and code == done_in_doubt:
                    error = None
                if code == codes.REQUEST_TIMED_OUT:
                    doubtful.add(name)
                results[name] = error
            total = sum(map(weight, chunk))
            if len(chunk) > 1 and total > _SURELY_SMALL:
                waiting += _chunks(refused, weight, total // 2)
        return results

    return cluster.retry_each(topics, attempt)


def _chunks(
    topics: list[str], weight: Callable[[str], int] = lambda _: 1, limit: int = RECORDS_A_REQUEST
) -> Iterator[list[str]]:
    """Cuts `topics` into requests of at most `limit` records. `weight` gives the records of a
    topic. A topic above the limit has its own request."""
    chunk: list[str] = []
    total = 0
    for topic in topics:
        if chunk and (len(chunk) == TOPICS_A_REQUEST or total + weight(topic) > limit):
            yield chunk
            chunk, total = [], 0
        chunk.append(topic)
        total += weight(topic)
    if chunk:
        yield chunk


MESSAGE_FORMAT: Final = "message.format.version"
BROKER_MESSAGE_FORMAT: Final = "log.message.format.version"
# All brokers that Causeway accepts (they have topic ids) know this version.
KNOWN_MESSAGE_FORMAT: Final = "2.8"


def knows_producers(version: str | None) -> bool:
    """Returns whether the format with this value of one of these configs has producer ids. None:
    there is no such config, since Kafka 4.0."""
    return version is None or re.match(r"0\.([0-9]|10)(\.|-|$)", version) is None


def versions_of_brokers(cluster: ClusterClient, timeout_s: float | None = None) -> Brokers:
    """Returns the versions of each broker that answers within `timeout_s` (by default the request
    timeout). If the first broker's Metadata API is too old, it is the only one. Raises
    CausewayError if no broker answers."""
    limit_s = timeout_s or cluster.timeout_s
    with cluster.lease(None, Deadline(limit_s)) as connection:
        versions = connection.versions
    if not apis.METADATA.is_in(versions):
        return {None: versions}
    nodes = sorted(cluster.bootstrap_check(limit_s).brokers)

    def ask(node: int) -> Versions | None:
        try:
            with cluster.lease(node, Deadline(limit_s)) as connection:
                return connection.versions
        except CausewayError:
            return None  # another broker leads its partitions; a lane that needs it reports why

    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        found = dict(zip(nodes, pool.map(ask, nodes), strict=True))
    return {node: versions for node, versions in found.items() if versions is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The file system of one log directory. `total`, `usable`: in bytes; all files count, not only
    logs. None if the broker does not give them, as before Kafka 3.3 (KIP-827)."""

    broker: int
    path: str
    total: int | None
    usable: int | None


def disks(cluster: ClusterClient) -> tuple[Disk, ...]:
    """Returns the disks of all brokers that are up. Without DESCRIBE on the cluster, raises
    AuthorizationError (before Kafka 3.2, brokers then list no disk). Raises CausewayError, also for
    a disk that has failed."""
    found = []
    for node in sorted(cluster.metadata([]).brokers):
        # Without topics, the answer has no sizes of logs.
        answer = cluster.call(
            DescribeLogDirsRequest(topics=[], max_version=apis.DESCRIBE_LOG_DIRS.highest), node
        )
        if hasattr(answer, "error_code"):
            raise_error(answer, "ask for the disks of", str(cluster), "DESCRIBE on the cluster")
        for each in answer.results:
            raise_error(each, "ask", f"broker {node} of {cluster} for its disk {each.log_dir}")
            found.append(
                Disk(
                    broker=node,
                    path=each.log_dir,
                    total=_known(getattr(each, "total_bytes", None)),
                    usable=_known(getattr(each, "usable_bytes", None)),
                )
            )
    return tuple(found)


def _known(size: int | None) -> int | None:
    """`size`, or None if it is unknown: there is no such field before version 4, and -1 means that
    the broker does not know it."""
    return None if size is None or size < 0 else size
