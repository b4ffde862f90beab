"""The keys that this version acts on: name, default and meaning. The settings are these tables, and
the reference pages and the JSON schema are made of them.

`entries.read()` fills a table from a file, and reports a wrong value with its key and line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from causeway.config.key_table import LIVE, KeyTable, key, start_key
from causeway.config.values import (
    BOOL,
    LONG_MAX,
    MILLIS,
    PATTERNS,
    PAUSED,
    PRINCIPAL,
    REPLICAS,
    SECONDS,
    SIDE,
    TEXT,
    choice,
    whole,
)
from causeway.patterns import Pattern


@dataclass(frozen=True, kw_only=True)
class FlowSwitch(KeyTable, applies=LIVE):
    """Whether a flow `A->B` runs."""

    enabled: bool = key("enabled", BOOL, False, "Whether the flow runs.")


@dataclass(frozen=True, kw_only=True)
class FlowKeys(FlowSwitch):
    """The keys of a flow `A->B`: written `A->B.key`, or `key` for all flows."""

    topics: tuple[Pattern, ...] = key(
        "topics", PATTERNS, ".*", "Topics to mirror: a list of whole-name regular expressions."
    )
    topics_exclude: tuple[Pattern, ...] = key(
        "topics.exclude",
        PATTERNS,
        r"mm2.*\.internal, .*\.replica, __.*",
        "Topics to leave out; wins over `topics`. `topics.blacklist` is the old name.",
    )
    topic_filter_class: str = key(
        "topic.filter.class", TEXT, "DefaultTopicFilter", "Only Kafka's DefaultTopicFilter."
    )
    policy_class: str = start_key(
        "replication.policy.class",
        TEXT,
        "DefaultReplicationPolicy",
        "DefaultReplicationPolicy (`A.topic`), IdentityReplicationPolicy (`topic`), or"
        " one of your own (docs/reference/names.md).",
    )
    source_alias: str | None = start_key(
        "source.cluster.alias",
        TEXT,
        None,
        "Another alias for the source, in names of mirrored topics.",
    )
    target_alias: str | None = key(
        "target.cluster.alias", TEXT, None, "Another alias for the target, for finding circles."
    )
    policy_separator: str = start_key(
        "replication.policy.separator", TEXT, ".", "The text between alias and topic."
    )
    policy_internal_separator: bool = start_key(
        "replication.policy.internal.topic.separator.enabled",
        BOOL,
        True,
        "Whether the names of internal topics have that separator too.",
    )
    rename: str = start_key(
        "causeway.rename",
        TEXT,
        "",
        "Rules `pattern => name`, one per line or separated by `;`, that name mirrored topics"
        " before the policy does. The first rule whose pattern matches the whole name counts. `$1`"
        " is the text of its first group.",
    )
    replication_factor: int = key(
        "replication.factor", REPLICAS, 2, "Of created topics; -1: the target broker's default."
    )
    refresh_topics_enabled: bool = key(
        "refresh.topics.enabled", BOOL, True, "Whether to look for new topics and partitions."
    )
    refresh_topics_interval_s: float = key(
        "refresh.topics.interval.seconds", SECONDS, 600, "How often to look for them."
    )
    sync_topic_configs_enabled: bool = key(
        "sync.topic.configs.enabled", BOOL, True, "Whether to keep topic configs as on the source."
    )
    sync_topic_configs_interval_s: float = key(
        "sync.topic.configs.interval.seconds", SECONDS, 600, "How often to compare topic configs."
    )
    config_properties_exclude: tuple[Pattern, ...] = key(
        "config.properties.exclude",
        PATTERNS,
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas,"
        r" message\.timestamp\.difference\.max\.ms, message\.timestamp\.type,"
        r" unclean\.leader\.election\.enable, min\.insync\.replicas",
        "Topic configs not to copy. `config.properties.blacklist` is the old name.",
    )
    config_property_filter_class: str = key(
        "config.property.filter.class",
        TEXT,
        "DefaultConfigPropertyFilter",
        "Only Kafka's DefaultConfigPropertyFilter.",
    )
    use_defaults_from: Literal["source", "target"] = key(
        "use.defaults.from", SIDE, "target", "Whose default counts for a config that is not set."
    )
    heartbeats_replication_enabled: bool = key(
        "heartbeats.replication.enabled",
        BOOL,
        True,
        "Whether heartbeats topics are mirrored though `topics` does not select them.",
    )
    admin_timeout_ms: int = key(
        "admin.timeout.ms",
        MILLIS,
        60_000,
        "Timeout of each request that reads or changes topics, including the first contact with a"
        " cluster. A shorter `request.timeout.ms` wins.",
    )
    connect_transforms: str = key(
        "transforms", TEXT, "", "Must be empty: Connect's transforms cannot run here."
    )
    causeway_transforms: str = start_key(
        "causeway.transforms",
        TEXT,
        "",
        "Names of transforms; each is described below. Only the first one that matches a topic is"
        " used.",
    )
    internal_topics: Literal["kafka-4", "kafka-3"] = key(
        "causeway.internal.topics",
        choice("kafka-4", "kafka-3"),
        "kafka-4",
        "Rule for internal topics, which are never mirrored. With `kafka-3`, all names that end in"
        " `.internal` or `-internal` are internal.",
    )
    delivery: Literal["exactly-once", "at-least-once"] = start_key(
        "causeway.delivery",
        choice("exactly-once", "at-least-once"),
        "exactly-once",
        "`at-least-once` only for brokers without idempotent producers.",
    )
    offsets: Literal["translate", "preserve"] = start_key(
        "causeway.offsets",
        choice("translate", "preserve"),
        "translate",
        "`preserve`: each mirrored record has the same offset as on the source"
        " ([when to use it](../explanation/offsets.md)).",
    )
    preserve_topics: tuple[Pattern, ...] = start_key(
        "causeway.offsets.preserve.topics",
        PATTERNS,
        "",
        "Topics that keep their offsets although `causeway.offsets` is `translate`.",
    )
    offset_gaps: Literal["auto", "markers", "transactions"] = key(
        "causeway.offsets.gaps",
        choice("auto", "markers", "transactions"),
        "auto",
        "How offsets without a record are filled: `markers` needs CLUSTER_ACTION on the target's"
        " cluster; `transactions` needs no such right, and is slower. `auto`: `markers` if the"
        " right is granted.",
    )
    offset_filler: Literal["allow", "stop"] = key(
        "causeway.offsets.filler",
        choice("allow", "stop"),
        "allow",
        "`allow`: large gaps of compacted topics are filled with aborted records, which"
        " read_uncommitted consumers see. `stop`: such a gap stops the partition.",
    )
    offset_filler_from: int = key(
        "causeway.offsets.filler.from",
        whole(2, LONG_MAX),
        10_000,
        "Number of offsets from which a gap of a compacted topic is large.",
    )
    on_data_loss: Literal["stop", "continue"] = key(
        "causeway.on.data.loss",
        choice("stop", "continue"),
        "stop",
        "If the source deleted records before they were mirrored, a partition stops until"
        " `causeway restart --adopt` acknowledges the loss (`stop`), or goes on and reports the"
        " number of lost records (`continue`).",
    )
    declared_sole_writer: bool | None = start_key(
        "causeway.sole.writer",
        BOOL,
        None,
        "Whether only Causeway writes to the mirrored topics; then a foreign record stops its"
        " partition. Default: true if their names begin with the source's alias.",
    )
    provenance: Literal["none", "header", "local"] = start_key(
        "causeway.provenance",
        choice("none", "header", "local"),
        "none",
        "`header`: each mirrored record gets a header `causeway.origin` that names its source, and"
        " records that have been on the target are left out, so that [flows may go both ways"
        " with the same names](../explanation/provenance.md). `local`: records that were mirrored"
        " before, by any flow, are left out as well.",
    )
    skip_header: str = start_key(
        "causeway.skip.header",
        TEXT,
        "",
        "Name of a header: records with this header are not mirrored. Use it for records that a"
        " program writes to both clusters.",
    )
    throttle_bytes_per_s: int | None = key(
        "causeway.throttle.bytes.per.second",
        whole(1, LONG_MAX),
        None,
        "Maximum bytes per second that are read from the source; `causeway throttle` wins over it."
        " Default: no limit.",
    )
    recompress: Literal["uncompressed", "always", "never"] = key(
        "causeway.recompress",
        choice("uncompressed", "always", "never"),
        "uncompressed",
        "Which batches are compressed if the target's `producer.compression.type` names a codec:"
        " those without compression (`uncompressed`), also those in another codec (`always`), or"
        " none (`never`).",
    )
    geo: bool = key(
        "causeway.geo",
        BOOL,
        False,
        "Whether topics chosen with `causeway geo` are mirrored as if `topics` named them.",
    )
    way_back: bool = key(
        "causeway.way.back",
        BOOL,
        False,
        "Whether this flow, `B->A`, is the reverse link of `A->B`: it mirrors only the topics that"
        " `causeway failback`, or `cutover --back`, has started at a cut.",
    )


@dataclass(frozen=True, kw_only=True)
class HeartbeatKeys(KeyTable, applies=LIVE):
    """The keys of each pair of clusters, whether its flow runs or not."""

    enabled: bool = key(
        "emit.heartbeats.enabled", BOOL, True, "Whether to write heartbeats to the pair's target."
    )
    interval_s: float = key(
        "emit.heartbeats.interval.seconds", SECONDS, 1, "How often to write one."
    )
    replication_factor: int = key(
        "heartbeats.topic.replication.factor", REPLICAS, 3, "Of the heartbeats topic."
    )


@dataclass(frozen=True, kw_only=True)
class ControlSettings(KeyTable, applies=LIVE):
    """The keys of a flow about all but records: groups, offset syncs, checkpoints and ACLs."""

    groups: tuple[Pattern, ...] = key(
        "groups",
        PATTERNS,
        ".*",
        "Consumer groups to follow: a list of whole-name regular expressions.",
    )
    groups_exclude: tuple[Pattern, ...] = key(
        "groups.exclude",
        PATTERNS,
        "console-consumer-.*, connect-.*, __.*",
        "Groups to leave out; wins over `groups`. `groups.blacklist` is the old name.",
    )
    group_filter_class: str = key(
        "group.filter.class", TEXT, "DefaultGroupFilter", "Only Kafka's DefaultGroupFilter."
    )
    refresh_groups_enabled: bool = key(
        "refresh.groups.enabled", BOOL, True, "Whether to look for new groups."
    )
    refresh_groups_interval_s: float = key(
        "refresh.groups.interval.seconds", SECONDS, 600, "How often to look for them."
    )
    emit_checkpoints_enabled: bool = key(
        "emit.checkpoints.enabled",
        BOOL,
        True,
        "Whether to write the groups' translated offsets to the checkpoints topic.",
    )
    emit_checkpoints_interval_s: float = key(
        "emit.checkpoints.interval.seconds", SECONDS, 60, "How often to write them."
    )
    checkpoints_replication_factor: int = key(
        "checkpoints.topic.replication.factor", REPLICAS, 3, "Of the checkpoints topic."
    )
    sync_group_offsets_enabled: bool = key(
        "sync.group.offsets.enabled",
        BOOL,
        False,
        "Whether to commit the translated offsets on the target, for groups without members there.",
    )
    sync_group_offsets_interval_s: float = key(
        "sync.group.offsets.interval.seconds", SECONDS, 60, "How often to commit them."
    )
    emit_offset_syncs_enabled: bool = key(
        "emit.offset-syncs.enabled",
        BOOL,
        True,
        "Whether to write pairs of source and target offsets to the offset-syncs topic.",
    )
    offset_lag_max: int = key(
        "offset.lag.max",
        whole(0, LONG_MAX),
        100,
        "Records of a partition after which another pair is written.",
    )
    offset_syncs_topic_location: Literal["source", "target"] = key(
        "offset-syncs.topic.location", SIDE, "source", "Cluster that holds the offset-syncs topic."
    )
    offset_syncs_replication_factor: int = key(
        "offset-syncs.topic.replication.factor", REPLICAS, 3, "Of the offset-syncs topic."
    )
    sync_topic_acls_enabled: bool = key(
        "sync.topic.acls.enabled", BOOL, True, "Whether to give mirrored topics the source's ACLs."
    )
    sync_topic_acls_interval_s: float = key(
        "sync.topic.acls.interval.seconds", SECONDS, 600, "How often to compare ACLs."
    )
    read_only_mirrors: bool = key(
        "causeway.read.only.mirrors",
        BOOL,
        False,
        "Whether to deny writing to mirrored topics to all but Causeway; needs"
        " `causeway.principal`.",
    )
    principal: str | None = key(
        "causeway.principal",
        PRINCIPAL,
        None,
        "Causeway's principal on the target, such as `User:causeway`; by default the user of PLAIN"
        " or SCRAM.",
    )
    mm2_offsets: bool = key(
        "causeway.mirror.maker.offsets",
        BOOL,
        True,
        "Whether to continue from MirrorMaker 2's positions, and to keep writing them.",
    )
    mm2_offsets_topic: str | None = key(
        "causeway.mirror.maker.offsets.topic",
        TEXT,
        None,
        "Topic of these positions on the target. Default: `mm2-offsets.A.internal`; A is the"
        " source.",
    )
    mm2_connector: str = key(
        "causeway.mirror.maker.connector",
        TEXT,
        "MirrorSourceConnector",
        "Name of the connector in these positions.",
    )
    paused: str = key(
        "causeway.paused",
        PAUSED,
        "",
        "Paused by the file: `records`, `checkpoints` (with the groups' offsets) or `heartbeats`,"
        " or several of them. Commands cannot resume it.",
    )
    heartbeats: HeartbeatKeys = HeartbeatKeys()
    # Aliases of the source in MirrorMaker 2's positions, likeliest first. Empty: the source's own
    # alias, or the empty alias.
    mm2_aliases: tuple[str, ...] = ()


SKIP_HEADER, PROVENANCE = "causeway.skip.header", "causeway.provenance"
OLD_NAMES = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}

# All keys that a file may write as `A->B.key`, or as `key` for all flows.
OF_FLOWS = frozenset().union(
    *(keys.key_names() for keys in (FlowKeys, ControlSettings, HeartbeatKeys)), OLD_NAMES
)
