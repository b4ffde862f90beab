"""The APIs of Kafka that a link needs: versions, use, and the consequence if one is missing.

`causeway plan` and `causeway run` ask every broker which APIs it has. docs/reference/brokers.md has
the same table for people who choose a broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from causeway.cluster import Cluster, versions_of_brokers
from causeway.config import LinkSettings
from causeway.errors import BrokerError
from causeway.wire import Api, apis, codes

Side = Literal["source", "target"]


def _always(_: LinkSettings) -> bool:
    return True


def _by_command(_: LinkSettings) -> bool:
    """Never checked beforehand: the command that needs the API reports its absence."""
    return False


def _exactly_once(link: LinkSettings) -> bool:
    return link.delivery == "exactly-once"


def _groups(link: LinkSettings) -> bool:
    return link.control.emit_checkpoints_enabled or link.control.sync_group_offsets_enabled


def _group_offsets(link: LinkSettings) -> bool:
    return link.control.sync_group_offsets_enabled


def _source_acls(link: LinkSettings) -> bool:
    return link.control.sync_topic_acls_enabled


def _target_acls(link: LinkSettings) -> bool:
    return link.control.sync_topic_acls_enabled or link.control.read_only_mirrors


def _writes_to_source(link: LinkSettings) -> bool:
    control = link.control
    syncs = control.emit_offset_syncs_enabled and control.offset_syncs_topic_location == "source"
    return syncs or any(each.dead_letters is not None for each in link.transforms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiNeed:
    """`without`: the consequence if a broker lacks one of the `apis`; then nothing is mirrored if
    they are `required`. `when`: whether a link needs them."""

    side: Side
    apis: tuple[Api, ...]
    use: str
    without: str
    required: bool = False
    when: Callable[[LinkSettings], bool] = _always


_NO_TOPICS: Final = (
    "a topic that was deleted and created again cannot be told from the old one, so no topic is "
    "mirrored"
)
_NO_CONFIGS: Final = "the limits of mirrors and the recovery of compacted topics cannot be decided"

NEEDS: Final = (
    ApiNeed(
        side="source",
        apis=(apis.METADATA,),
        use="topics with their ids, and the leaders of partitions",
        without=_NO_TOPICS,
        required=True,
    ),
    ApiNeed(
        side="source",
        apis=(apis.LANE_FETCH,),
        use="the records",
        without="no record can be read",
        required=True,
    ),
    ApiNeed(
        side="source",
        apis=(apis.LIST_OFFSETS,),
        use="where logs begin and end",
        without="no partition can begin",
        required=True,
    ),
    ApiNeed(
        side="source",
        apis=(apis.DESCRIBE_CONFIGS,),
        use="configs of topics; which logs are compacted",
        without=_NO_CONFIGS,
        required=True,
    ),
    ApiNeed(
        side="source",
        apis=(apis.CREATE_TOPICS, apis.PRODUCE),
        use="offset syncs and dead letters on the source",
        without="offset syncs and dead letters cannot be written to the source",
        when=_writes_to_source,
    ),
    ApiNeed(
        side="source",
        apis=(apis.FIND_COORDINATOR, apis.LIST_GROUPS, apis.OFFSET_FETCH),
        use="consumer groups",
        without="consumer groups do not follow: no checkpoints, no committed offsets",
        when=_groups,
    ),
    ApiNeed(
        side="source",
        apis=(apis.DESCRIBE_ACLS,),
        use="ACLs of topics",
        without="ACLs are not copied",
        when=_source_acls,
    ),
    ApiNeed(
        side="source",
        apis=(apis.DESCRIBE_PRODUCERS,),
        use="which producer holds a transaction open, and which producers still write",
        without="`status` and `cutover` do not name producers",
    ),
    ApiNeed(
        side="source",
        apis=(apis.LIST_TRANSACTIONS,),
        use="transactional ids of producers, for `cutover`",
        without="`cutover` names producer ids instead",
        when=_by_command,
    ),
    ApiNeed(
        side="source",
        apis=(apis.OFFSET_FOR_LEADER_EPOCH,),
        use="records that followers lack, for `cutover` and `promote`",
        without="`cutover` and `promote` ask for each partition by a fetch, and need READ",
        when=_by_command,
    ),
    ApiNeed(
        side="source",
        apis=(apis.DESCRIBE_CLUSTER, apis.CREATE_ACLS, apis.DELETE_ACLS),
        use="fences of `cutover`",
        without="`cutover` cannot fence producers",
        when=_by_command,
    ),
    ApiNeed(
        side="target",
        apis=(apis.METADATA,),
        use="topics with their ids, and the leaders of partitions",
        without=_NO_TOPICS,
        required=True,
    ),
    ApiNeed(
        side="target",
        apis=(apis.LANE_PRODUCE,),
        use="the records",
        without="no record can be written",
        required=True,
    ),
    ApiNeed(
        side="target",
        apis=(apis.FETCH,),
        use="progress, and after a crash the end of each mirror",
        without="progress cannot be read, and no mirror recovered",
        required=True,
    ),
    ApiNeed(
        side="target",
        apis=(apis.LIST_OFFSETS,),
        use="where logs begin and end",
        without="no partition can begin",
        required=True,
    ),
    ApiNeed(
        side="target",
        apis=(apis.INIT_PRODUCER_ID,),
        use="producer ids, so that a broker refuses a batch that comes twice",
        without="records could come twice, so nothing is mirrored exactly once "
        "(causeway.delivery = at-least-once does without)",
        required=True,
        when=_exactly_once,
    ),
    ApiNeed(
        side="target",
        apis=(apis.FIND_COORDINATOR,),
        use="the transactional id by which one driver fences another",
        without="two drivers could lead at a time, so nothing is mirrored exactly once "
        "(causeway.delivery = at-least-once does without)",
        required=True,
        when=_exactly_once,
    ),
    ApiNeed(
        side="target",
        apis=(apis.CREATE_TOPICS,),
        use="mirrors, the progress topic; dry runs of both",
        without="no topic can be created",
        required=True,
    ),
    ApiNeed(
        side="target",
        apis=(apis.DESCRIBE_CONFIGS,),
        use="configs of topics; which logs are compacted",
        without=_NO_CONFIGS,
        required=True,
    ),
    ApiNeed(
        side="target",
        apis=(apis.CREATE_PARTITIONS,),
        use="new partitions of source topics",
        without="new partitions of a source topic are not mirrored until they are added to "
        "the mirror",
    ),
    ApiNeed(
        side="target",
        apis=(apis.ALTER_CONFIGS,),
        use="configs of mirrors that exist",
        without="the configs of mirrors that exist do not follow, and their limits are not "
        "widened: the target refuses records beyond those limits",
    ),
    ApiNeed(
        side="target",
        apis=(apis.DESCRIBE_PRODUCERS,),
        use="whether a log may still append requests of an earlier lane",
        without="after a crash or a lost connection a partition waits for twice the request "
        "timeout and 5 s before it goes on; `promote` and `failover` do not notice a lane that "
        "still writes after its lease has ended",
        when=_exactly_once,
    ),
    ApiNeed(
        side="target",
        apis=(apis.OFFSET_FOR_LEADER_EPOCH,),
        use="records that followers lack, before a mirror is recovered",
        without="recovery asks for each partition by a fetch",
        when=_exactly_once,
    ),
    ApiNeed(
        side="target",
        apis=(apis.DESCRIBE_TRANSACTIONS,),
        use="whether a link has run before, though its progress topic is lost",
        without="if an answer is lost at the very first start, this can look like lost progress, "
        "and then partitions with data stop",
        when=_exactly_once,
    ),
    ApiNeed(
        side="target",
        apis=(apis.ADD_PARTITIONS_TO_TXN, apis.END_TXN),
        use="directives",
        without="`pause`, `resume`, `promote` and similar commands cannot reach the driver",
    ),
    ApiNeed(
        side="target",
        apis=(apis.LIST_GROUPS, apis.OFFSET_FETCH, apis.OFFSET_COMMIT),
        use="committed offsets of groups",
        without="offsets of groups are not committed on the target",
        when=_group_offsets,
    ),
    ApiNeed(
        side="target",
        apis=(apis.DESCRIBE_ACLS, apis.CREATE_ACLS),
        use="ACLs of mirrors",
        without="ACLs are not copied, and mirrors are not made read-only",
        when=_target_acls,
    ),
    ApiNeed(
        side="target",
        apis=(apis.DELETE_ACLS,),
        use="ACLs that are no longer wanted",
        without="ACLs that are no longer wanted stay",
        when=_by_command,
    ),
    ApiNeed(
        side="target",
        apis=(apis.DESCRIBE_LOG_DIRS,),
        use="free space on disks, for `cutover`",
        without="`cutover` does not check the free space",
        when=_by_command,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingApi:
    """`cause`: which brokers lack the API, which versions they have, and the consequence."""

    need: ApiNeed
    cluster: str  # alias
    cause: str

    @property
    def error(self) -> BrokerError:
        return BrokerError(
            "mirror from" if self.need.side == "source" else "mirror to",
            self.cluster,
            self.cause,
            code=codes.UNSUPPORTED_VERSION,
            name="UNSUPPORTED_VERSION",
            remedy=apis.REMEDY,
        )

    def __str__(self) -> str:
        return f"{self.cluster}: {self.cause}"


def lacking(
    link: LinkSettings, side: Side, cluster: Cluster, timeout_s: float | None = None
) -> tuple[MissingApi, ...]:
    """The APIs that brokers of one side lack for `link`, required ones first. Leaves out brokers
    that do not answer within `timeout_s` (the request timeout). Raises CausewayError if none
    answers."""
    brokers = versions_of_brokers(cluster, timeout_s)
    lacks = [
        lack
        for need in NEEDS
        if need.side == side and need.when(link)
        for lack in _lacks(need, str(cluster), brokers)
    ]
    return tuple(sorted(lacks, key=lambda lack: not lack.need.required))


def _lacks(need: ApiNeed, alias: str, brokers: apis.Brokers) -> Iterator[MissingApi]:
    without: defaultdict[str, list[int | None]] = defaultdict(list)
    for api in need.apis:
        for node, versions in brokers.items():
            if not api.is_in(versions):
                without[api.lacking(versions)].append(node)
    for has, nodes in without.items():
        who = (
            "a broker has"
            if None in nodes
            else f"broker {nodes[0]} has"
            if len(nodes) == 1
            else f"brokers {', '.join(map(str, nodes))} have"
        )
        yield MissingApi(need=need, cluster=alias, cause=f"{who} {has}: {need.without}")
