"""The APIs of Kafka that a link needs: versions, use, and the consequence if one is missing.

`causeway plan` and `causeway run` ask every broker which APIs it has. docs/reference/brokers.md has
the same table for people who choose a broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from causeway.cluster import Cluster, versions_of_brokers
from causeway.config import LinkSettings
from causeway.errors import BrokerError
from causeway.wire import Api, apis, codes

Side = Literal["source", "target"]


def _exactly_once(link: LinkSettings) -> bool:
    return link.delivery == "exactly-once"


def _writes_to_source(link: LinkSettings) -> bool:
    control = link.control
    syncs = control.emit_offset_syncs_enabled and control.offset_syncs_topic_location == "source"
    return syncs or any(each.dead_letters is not None for each in link.transforms)


def _preserves_offsets(link: LinkSettings) -> bool:
    return link.may_preserve


class ApiNeed(NamedTuple):
    """`without`: the consequence if a broker lacks one of the `apis`. If they are `required`,
    nothing is mirrored then. `when`: whether a link needs them. None: only a command needs them,
    and reports their absence itself."""

    side: Side
    apis: tuple[Api, ...]
    use: str
    without: str
    required: bool = False
    when: Callable[[LinkSettings], bool] | None = lambda _: True


_NO_TOPICS: Final = (
    "a topic that was deleted and created again cannot be told from the old one, so no topic is "
    "mirrored"
)
_TOPICS: Final = (
    (apis.METADATA,),
    "topics with their ids, and the leaders of partitions",
    _NO_TOPICS,
)
_OFFSETS: Final = (apis.LIST_OFFSETS,), "where logs begin and end", "no partition can begin"
_CONFIGS: Final = (
    (apis.DESCRIBE_CONFIGS,),
    "configs of topics; which logs are compacted",
    "the limits of mirrors and the recovery of compacted topics cannot be decided",
)
_AT_LEAST_ONCE: Final = (
    "so nothing is mirrored exactly once (causeway.delivery = at-least-once does without)"
)

NEEDS: Final = (
    ApiNeed("source", *_TOPICS, required=True),
    ApiNeed("source", (apis.LANE_FETCH,), "the records", "no record can be read", required=True),
    ApiNeed("source", *_OFFSETS, required=True),
    ApiNeed("source", *_CONFIGS, required=True),
    ApiNeed(
        "source",
        (apis.CREATE_TOPICS, apis.PRODUCE),
        "offset syncs and dead letters on the source",
        "offset syncs and dead letters cannot be written to the source",
        when=_writes_to_source,
    ),
    ApiNeed(
        "source",
        (apis.FIND_COORDINATOR, apis.LIST_GROUPS, apis.OFFSET_FETCH),
        "consumer groups",
        "consumer groups do not follow: no checkpoints, no committed offsets",
        when=lambda link: (
            link.control.emit_checkpoints_enabled or link.control.sync_group_offsets_enabled
        ),
    ),
    ApiNeed(
        "source",
        (apis.DESCRIBE_ACLS,),
        "ACLs of topics",
        "ACLs are not copied",
        when=lambda link: link.control.sync_topic_acls_enabled,
    ),
    ApiNeed(
        "source",
        (apis.DESCRIBE_PRODUCERS,),
        "which producer holds a transaction open, and which producers still write",
        "`status` and `cutover` do not name producers",
    ),
    ApiNeed(
        "source",
        (apis.LIST_TRANSACTIONS,),
        "transactional ids of producers, for `cutover`",
        "`cutover` names producer ids instead",
        when=None,
    ),
    ApiNeed(
        "source",
        (apis.OFFSET_FOR_LEADER_EPOCH,),
        "records that followers lack, for `cutover` and `promote`",
        "`cutover` and `promote` ask for each partition by a fetch, and need READ",
        when=None,
    ),
    ApiNeed(
        "source",
        (apis.DESCRIBE_CLUSTER, apis.CREATE_ACLS, apis.DELETE_ACLS),
        "fences of `cutover`",
        "`cutover` cannot fence producers",
        when=None,
    ),
    ApiNeed("target", *_TOPICS, required=True),
    ApiNeed(
        "target", (apis.LANE_PRODUCE,), "the records", "no record can be written", required=True
    ),
    ApiNeed(
        "target",
        (apis.FETCH,),
        "progress, and after a crash the end of each mirror",
        "progress cannot be read, and no mirror recovered",
        required=True,
    ),
    ApiNeed("target", *_OFFSETS, required=True),
    ApiNeed(
        "target",
        (apis.INIT_PRODUCER_ID,),
        "producer ids, so that a broker refuses a batch that comes twice",
        f"records could come twice, {_AT_LEAST_ONCE}",
        required=True,
        when=_exactly_once,
    ),
    ApiNeed(
        "target",
        (apis.FIND_COORDINATOR,),
        "the transactional id by which one driver fences another",
        f"two drivers could lead at a time, {_AT_LEAST_ONCE}",
        required=True,
        when=_exactly_once,
    ),
    ApiNeed(
        "target",
        (apis.CREATE_TOPICS,),
        "mirrors, the progress topic; dry runs of both",
        "no topic can be created",
        required=True,
    ),
    ApiNeed("target", *_CONFIGS, required=True),
    ApiNeed(
        "target",
        (apis.CREATE_PARTITIONS,),
        "new partitions of source topics",
        "new partitions of a source topic are not mirrored until they are added to the mirror",
    ),
    ApiNeed(
        "target",
        (apis.ALTER_CONFIGS,),
        "configs of mirrors that exist",
        "the configs of mirrors that exist do not follow, and their limits are not widened: the "
        "target refuses records beyond those limits",
    ),
    ApiNeed(
        "target",
        (apis.DESCRIBE_PRODUCERS,),
        "whether a log may still append requests of an earlier lane",
        "after a crash or a lost connection a partition waits for twice the request timeout and "
        "5 s before it goes on; `promote` and `failover` do not notice a lane that still writes "
        "after its lease has ended",
        when=_exactly_once,
    ),
    ApiNeed(
        "target",
        (apis.OFFSET_FOR_LEADER_EPOCH,),
        "records that followers lack, before a mirror is recovered",
        "recovery asks for each partition by a fetch",
        when=_exactly_once,
    ),
    ApiNeed(
        "target",
        (apis.DESCRIBE_TRANSACTIONS,),
        "whether a link has run before, though its progress topic is lost",
        "if an answer is lost at the very first start, this can look like lost progress, and then "
        "partitions with data stop",
        when=_exactly_once,
    ),
    ApiNeed(
        "target",
        (apis.ADD_PARTITIONS_TO_TXN, apis.END_TXN),
        "directives",
        "`pause`, `resume`, `promote` and similar commands cannot reach the driver",
    ),
    ApiNeed(
        "target",
        (apis.WRITE_TXN_MARKERS,),
        "gaps of offset-preserving partitions",
        "gaps are filled by empty transactions, which take longer",
        when=_preserves_offsets,
    ),
    ApiNeed(
        "target",
        (apis.DESCRIBE_CLUSTER,),
        "whether markers may fill gaps of offset-preserving partitions",
        "gaps are filled by empty transactions, unless causeway.offsets.gaps = markers",
        when=_preserves_offsets,
    ),
    ApiNeed(
        "target",
        (apis.DELETE_RECORDS,),
        "the beginning of offset-preserving partitions",
        "no partition that begins above offset 0 keeps its offsets",
        when=_preserves_offsets,
    ),
    ApiNeed(
        "target",
        (apis.LIST_GROUPS, apis.OFFSET_FETCH, apis.OFFSET_COMMIT),
        "committed offsets of groups",
        "offsets of groups are not committed on the target",
        when=lambda link: link.control.sync_group_offsets_enabled,
    ),
    ApiNeed(
        "target",
        (apis.DESCRIBE_ACLS, apis.CREATE_ACLS),
        "ACLs of mirrors",
        "ACLs are not copied, and mirrors are not made read-only",
        when=lambda link: link.control.sync_topic_acls_enabled or link.control.read_only_mirrors,
    ),
    ApiNeed(
        "target",
        (apis.DELETE_ACLS,),
        "ACLs that are no longer wanted",
        "ACLs that are no longer wanted stay",
        when=None,
    ),
    ApiNeed(
        "target",
        (apis.DELETE_TOPICS,),
        "`restart --refill` of offset-preserving topics",
        "`restart --refill` cannot delete the mirror",
        when=None,
    ),
    ApiNeed(
        "target",
        (apis.DESCRIBE_LOG_DIRS,),
        "free space on disks, for `cutover`",
        "`cutover` does not check the free space",
        when=None,
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
    """Returns the APIs that brokers of one side lack for `link`, required ones first. Leaves out
    brokers that do not answer within `timeout_s` (the request timeout). Raises CausewayError if
    none answers."""
    brokers = versions_of_brokers(cluster, timeout_s)
    lacks = [
        lack
        for need in NEEDS
        if need.side == side and need.when is not None and need.when(link)
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
