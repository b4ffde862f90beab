"""Consumer groups, in bulk: lists them, reads their offsets, and commits for them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.admin import ListGroupsRequest

from causeway.cluster.client import GROUP, NAMES_A_REQUEST, ClusterClient
from causeway.cluster.metadata import by_topic, value_of
from causeway.errors import BrokerError, CausewayError
from causeway.model import TopicPartition
from causeway.wire import (
    CommitAnswer,
    CommitOffsets,
    Committed,
    Deadline,
    FetchOffsets,
    FoundOffsets,
    apis,
    broker_error,
    raise_error,
)

# A broker answers a connection's requests one at a time, and a commit waits for its replicas.
COMMITTING_CONNECTIONS = 16
FETCHING_CONNECTIONS = 16  # each to another broker
# How long the others wait for one group whose coordinator moves, or of which a transaction is about
# to commit offsets. The offsets of the others get old meanwhile.
PATIENCE_S = 5.0

_COORDINATOR_NOT_AVAILABLE = 15
_UNKNOWN_MEMBER_ID = 25
_GROUP_ID_NOT_FOUND = 69
# Codes of a partition in a commit's answer that are about the whole group.
_OF_GROUP = frozenset((14, 15, 16, 22, 24, 25, 27, 30, 69, 82, 110, 113))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """`state`: Kafka's word (Empty, Stable, PreparingRebalance, …). `type`: classic, consumer,
    share or streams. `protocol_type`: consumer, connect, …; empty if offsets were committed, but no
    member ever joined."""

    name: str
    state: str
    type: str
    protocol_type: str


Offsets = dict[TopicPartition, Committed]
CommitResults = dict[TopicPartition, CausewayError]  # the partitions that are not done


def list_groups(cluster: ClusterClient) -> dict[str, GroupListing]:
    """Returns all groups that we may DESCRIBE, of all types.

    A broker knows only the groups that it coordinates, so a list without one broker would be wrong.
    Raises CausewayError if a broker cannot be asked.
    """
    request = ListGroupsRequest(
        states_filter=[], types_filter=[], min_version=apis.LIST_GROUPS.lowest
    )
    found: dict[str, GroupListing] = {}
    for node_id in cluster.metadata([]).brokers:
        where, needs = f"broker {node_id} of {cluster}", "DESCRIBE on the cluster, or on each group"
        check = partial(raise_error, operation="list the groups of", subject=where, needs=needs)
        for listed in cluster.call(request, node_id, check).groups:
            found[listed.group_id] = GroupListing(
                name=listed.group_id,
                state=listed.group_state,
                type=(listed.group_type or "classic").lower(),  # brokers before 3.8 give no type
                protocol_type=listed.protocol_type,
            )
    return found


def committed_offsets(cluster: ClusterClient, group: str) -> dict[TopicPartition, int]:
    """Returns all offsets that `group` has committed; none if there is no such group.

    Waits for offsets that a transaction is about to commit. Raises AuthorizationError without
    DESCRIBE on the group, and other CausewayErrors.
    """
    found = value_of(committed_offsets_of(cluster, [group], cluster.timeout_s)[group])
    return {at: committed.offset for at, committed in found.items()}


def committed_offsets_of(
    cluster: ClusterClient, groups: Collection[str], patience_s: float = PATIENCE_S
) -> dict[str, Offsets | CausewayError]:
    """Returns all offsets that each group has committed on topics that we may DESCRIBE; none if
    there is no such group.

    Waits `patience_s` for a group whose offsets are not known. Waits the same time for a broker
    that does not answer, for each NAMES_A_REQUEST groups that it is asked about; it waits for all
    brokers at once. If a transaction is about to replace an older offset, the group then has the
    error UNSTABLE_OFFSET_COMMIT (88). The first commit of a partition is seen only after the
    transaction. AuthorizationError without DESCRIBE on the group.
    """

    def attempt(left: list[str], deadline: Deadline) -> dict[str, Offsets | CausewayError]:
        by_node, errors = _coordinators(cluster, left, deadline, patience_s)
        results: dict[str, Offsets | CausewayError] = {**errors}
        with ThreadPoolExecutor(FETCHING_CONNECTIONS) as pool:
            fetches = [
                pool.submit(_fetch, cluster, node_id, names, _share(deadline, patience_s, names))
                for node_id, names in by_node.items()
            ]
        for fetch in fetches:
            results |= fetch.result()
        return results

    return cluster.retry_each(groups, attempt, patience_s=patience_s)


def _fetch(
    cluster: ClusterClient, node_id: int, groups: list[str], share_s: float
) -> dict[str, Offsets | CausewayError]:
    deadline = Deadline(share_s)
    try:
        with cluster.lease(node_id, deadline) as connection:
            answers = connection.call_in_bulk(
                groups,
                NAMES_A_REQUEST,
                FetchOffsets,
                lambda answer: ((each.group, each) for each in answer.groups),
                deadline.left(),
            )
    except CausewayError as error:
        return dict.fromkeys(groups, error)
    return {name: _offsets(cluster, name, answer) for name, answer in answers}


def _offsets(cluster: ClusterClient, group: str, found: FoundOffsets) -> Offsets | CausewayError:
    wrong = next((code for code in found.errors if code and code != _GROUP_ID_NOT_FOUND), 0)
    if wrong:
        return broker_error(
            wrong,
            "read the offsets of",
            f"group {group} on {cluster}",
            needs=f"DESCRIBE on group {group}",
        )
    return found.offsets


def commit_offsets(
    cluster: ClusterClient, commits: Mapping[str, Mapping[TopicPartition, Committed]]
) -> dict[str, CommitResults | CausewayError]:
    """Commits offsets for groups without members, as an administrator. Returns the errors of each
    group's partitions, or the error of a whole group.

    A group with members does not change, and has the error UNKNOWN_MEMBER_ID (25). The error is
    AuthorizationError without READ on the group, and for single partitions without READ on the
    topic. If the answer to a commit is lost, the commit is not sent again: meanwhile a consumer may
    have joined, read and left. For the same reason a commit is tried for at most PATIENCE_S.
    """
    doubtful: dict[str, CausewayError] = {}

    def attempt(left: list[str], deadline: Deadline) -> dict[str, CommitResults | CausewayError]:
        by_node, errors = _coordinators(cluster, left, deadline, PATIENCE_S)
        results: dict[str, CommitResults | CausewayError] = {**errors}
        connections = max(1, COMMITTING_CONNECTIONS // max(1, len(by_node)))
        shares = [
            (node_id, {name: commits[name] for name in names[start::connections]})
            for node_id, names in by_node.items()
            for start in range(min(connections, len(names)))
        ]
        with ThreadPoolExecutor(COMMITTING_CONNECTIONS) as pool:
            futures = [
                pool.submit(_commit, cluster, node_id, share, doubtful, deadline)
                for node_id, share in shares
            ]
        for future in futures:
            results |= future.result()
        return results | {name: {} for name in doubtful}  # these must not be tried again

    return cluster.retry_each(commits, attempt, patience_s=PATIENCE_S) | doubtful


def _commit(
    cluster: ClusterClient,
    node_id: int,
    commits: Mapping[str, Mapping[TopicPartition, Committed]],
    doubtful: dict[str, CausewayError],
    deadline: Deadline,
) -> dict[str, CommitResults | CausewayError]:
    """Commits over one connection. Adds the groups whose answers were lost to `doubtful`."""
    requests = [CommitOffsets(group, offsets) for group, offsets in commits.items()]
    try:
        with cluster.lease(node_id, deadline) as connection:
            try:
                answers = connection.call_many(requests, deadline.left())
            except CausewayError as lost:
                doubtful.update(dict.fromkeys(commits, lost))
                return {}
    except CausewayError as error:
        return dict.fromkeys(commits, error)
    results = {}
    for group, answer in zip(commits, answers, strict=True):
        found = _commit_results(cluster, group, answer)
        # A broker also answers this if the write took too long: it may still be done.
        if isinstance(found, BrokerError) and found.code == _COORDINATOR_NOT_AVAILABLE:
            doubtful[group] = found
        else:
            results[group] = found
    return results


def commit_topics(partition: Any, offsets: Mapping[TopicPartition, Committed]) -> list[Any]:
    """Returns the offsets for a request. `partition`: the request's class for a partition."""
    return by_topic(
        (
            tp.topic,
            partition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            ),
        )
        for tp, committed in offsets.items()
    )


def _commit_results(
    cluster: ClusterClient, group: str, answer: CommitAnswer
) -> CommitResults | CausewayError:
    results: CommitResults = {}
    subject = f"group {group} on {cluster}"
    for where, code in answer.errors.items():
        if code in _OF_GROUP:
            return broker_error(
                code,
                "commit offsets of",
                subject,
                "it has members" if code == _UNKNOWN_MEMBER_ID else None,
                needs=f"READ on group {group}",
            )
        needs = f"READ on topic {where.topic}"
        results[where] = broker_error(code, f"commit {where} of", subject, needs=needs)
    return results


def _coordinators(
    cluster: ClusterClient, groups: Sequence[str], deadline: Deadline, patience_s: float
) -> tuple[dict[int, list[str]], dict[str, CausewayError]]:
    """Returns the groups of each coordinating broker, and the errors of groups without a
    coordinator."""
    by_node: dict[int, list[str]] = defaultdict(list)
    errors: dict[str, CausewayError] = {}
    share = Deadline(_share(deadline, patience_s, groups))
    for group, found in cluster.coordinators(GROUP, groups, share).items():
        if isinstance(found, CausewayError):
            errors[group] = found
        else:
            by_node[found].append(group)
    return by_node, errors


def _share(deadline: Deadline, patience_s: float, groups: Sequence[str]) -> float:
    """Returns how long one broker may take to answer for `groups`."""
    return deadline.share_s(patience_s * math.ceil(len(groups) / NAMES_A_REQUEST))
