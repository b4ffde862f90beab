"""The keys this version acts on: name, type, default and meaning. One table; docs are made of it.

Every model is read by typed.read(), which reports a wrong value with its key and line.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from causeway.config.values import (
    LONG_MAX,
    Address,
    Bool,
    Count,
    Header,
    Millis,
    Paused,
    Principal,
    Replicas,
    Seconds,
    Side,
    Text,
    Token,
    whole,
    word,
)


class Keys(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def names(cls) -> frozenset[str]:
        """The keys, as they stand in a file."""
        return frozenset(field.alias for field in cls.model_fields.values() if field.alias)


def key(name: str, default: Any, meaning: str) -> Any:
    return Field(default, alias=name, description=meaning)


class RunKeys(Keys):
    """Of the whole process; ours alone."""

    lanes: Count | None = key(
        "causeway.lanes",
        None,
        "Lanes (Spark tasks) that copy. Default: one for each two cores of this machine, and as "
        "many as a transform wants; what local[N] names; one a core of a Spark cluster.",
    )
    progress_interval_ms: Millis = key(
        "causeway.progress.interval.ms", 1000, "How often progress is written to the target."
    )
    lease_ms: Annotated[int, whole(1000, 3_600_000)] = key(
        "causeway.lease.ms",
        10_000,
        "How long a lane, or a leading driver, may go on without a sign from the other end.",
    )
    deleted_topics_retention_ms: Annotated[int, whole(0, LONG_MAX, (-1,))] = key(
        "causeway.deleted.topics.retention.ms",
        7 * 24 * 3600 * 1000,
        "How long the status shows topics that the source no longer has; -1: for ever.",
    )
    connections: Annotated[int, whole(1, 64)] = key(
        "causeway.connections", 2, "Connections of a lane to each target broker."
    )
    in_flight: Annotated[int, whole(1, 1000)] | None = key(
        "causeway.in.flight",
        None,
        "Produce requests unanswered on a connection. Default: 16, or 16 for each 5 ms of the round"
        " trip.",
    )
    lane_buffer_bytes: Annotated[int, whole(1 << 20, 1 << 40)] | None = key(
        "causeway.lane.buffer.bytes",
        None,
        "Most bytes of batches a lane holds in memory. Default: 64 MiB, or 256 MiB where it reads"
        " over a long line.",
    )
    metrics_port: Annotated[int, whole(1, 65535)] | None = key(
        "causeway.metrics.port", None, "Where Prometheus reads metrics. Default: nowhere."
    )
    metrics_host: Text = key(
        "causeway.metrics.host",
        "127.0.0.1",
        "Address for that port: only this machine reads there unless you name another one, such as"
        " 0.0.0.0 for all.",
    )
    metrics_names: str = key(
        "causeway.metrics.names",
        "",
        "More names by which clients may call that port, such as a Kubernetes service's: "
        "`causeway.mirrors.svc`. This machine's name and addresses are always allowed; calls by "
        "other names are refused.",
    )
    http_port: Annotated[int, whole(0, 65535, (-1,))] = key(
        "causeway.http.port",
        8490,
        "Where a run serves metrics, the REST API and probes. 0: on any free port, which it tells;"
        " -1: nowhere.",
    )
    http_host: Text = key(
        "causeway.http.host",
        "127.0.0.1",
        "Address for that port. Any that other machines reach needs TLS, and a token or clients'"
        " certificates.",
    )
    http_token: Token | None = key(
        "causeway.http.token",
        None,
        "What clients must send as `Authorization: Bearer …`, at least 16 characters, such as"
        " `${env:VAR}`.",
    )
    http_certificate: Text | None = key(
        "causeway.http.tls.certificate",
        None,
        "PEM file of the server's certificate and its chain, for https. It is read again when it"
        " changes.",
    )
    http_key: Text | None = key(
        "causeway.http.tls.key", None, "PEM file of its private key, without a password."
    )
    http_client_ca: Text | None = key(
        "causeway.http.tls.client.ca",
        None,
        "PEM file of certificates: only clients whose own is signed by one of them may connect.",
    )
    webhook_url: Address | None = key(
        "causeway.webhook.url", None, "Where the leading driver posts what happens, as JSON."
    )
    webhook_token: Header | None = key(
        "causeway.webhook.token", None, "What is sent there as `Authorization: Bearer …`."
    )
    webhook_secret: Text | None = key(
        "causeway.webhook.secret", None, "Key of the signature (HMAC, SHA-256) of what is posted."
    )


# The same in seconds, for those who prefer MirrorMaker 2's `.interval.seconds`.
IN_SECONDS = {
    "causeway.progress.interval.seconds": "causeway.progress.interval.ms",
    "causeway.lease.seconds": "causeway.lease.ms",
}


class FlowKeys(Keys):
    """Of a flow `A->B`: written `A->B.key`, or `key` for all flows."""

    enabled: Bool = key("enabled", False, "Whether the flow runs.")
    topics: Text = key(
        "topics", ".*", "Topics to mirror: a list of whole-name regular expressions."
    )
    topics_exclude: Text = key(
        "topics.exclude",
        r"mm2.*\.internal, .*\.replica, __.*",
        "Topics to leave out; wins over `topics`. `topics.blacklist` is the old name.",
    )
    topic_filter_class: Text = key(
        "topic.filter.class", "DefaultTopicFilter", "Only Kafka's DefaultTopicFilter."
    )
    policy_class: Text = key(
        "replication.policy.class",
        "DefaultReplicationPolicy",
        "DefaultReplicationPolicy (`A.topic`), IdentityReplicationPolicy (`topic`), or"
        " one of your own (docs/reference/names.md).",
    )
    source_alias: Text | None = key(
        "source.cluster.alias", None, "Another alias for the source, in names of mirrored topics."
    )
    target_alias: Text | None = key(
        "target.cluster.alias", None, "Another alias for the target, for telling circles."
    )
    policy_separator: Text = key(
        "replication.policy.separator", ".", "Stands between alias and topic."
    )
    policy_internal_separator: Bool = key(
        "replication.policy.internal.topic.separator.enabled",
        True,
        "Whether the names of internal topics have that separator too.",
    )
    rename: Text = key(
        "causeway.rename",
        "",
        "Rules `pattern => name`, a line each or with `;` between them, that name mirrored topics"
        " before the policy does: the first counts whose pattern matches the whole name. `$1` is"
        " what its first group holds.",
    )
    replication_factor: Replicas = key(
        "replication.factor", 2, "Of created topics; -1 is the target broker's default."
    )
    refresh_topics_enabled: Bool = key(
        "refresh.topics.enabled", True, "Whether to look for new topics and partitions."
    )
    refresh_topics_interval: Seconds = key(
        "refresh.topics.interval.seconds", 600, "How often to look for them."
    )
    sync_topic_configs_enabled: Bool = key(
        "sync.topic.configs.enabled", True, "Whether to keep topic configs as on the source."
    )
    sync_topic_configs_interval: Seconds = key(
        "sync.topic.configs.interval.seconds", 600, "How often to compare topic configs."
    )
    config_properties_exclude: Text = key(
        "config.properties.exclude",
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas,"
        r" message\.timestamp\.difference\.max\.ms, message\.timestamp\.type,"
        r" unclean\.leader\.election\.enable, min\.insync\.replicas",
        "Topic configs not to copy. `config.properties.blacklist` is the old name.",
    )
    config_property_filter_class: Text = key(
        "config.property.filter.class",
        "DefaultConfigPropertyFilter",
        "Only Kafka's DefaultConfigPropertyFilter.",
    )
    use_defaults_from: Side = key(
        "use.defaults.from", "target", "Whose default counts for a config that is not set."
    )
    heartbeats_replication_enabled: Bool = key(
        "heartbeats.replication.enabled",
        True,
        "Whether heartbeats topics are mirrored though `topics` does not select them.",
    )
    admin_timeout_ms: Millis = key(
        "admin.timeout.ms",
        60_000,
        "For each request that looks at or changes topics, the first contact with a cluster among"
        " them. `request.timeout.ms` counts where it is shorter.",
    )
    transforms: Text = key("transforms", "", "Must be empty: Connect's transforms cannot run here.")
    causeway_transforms: Text = key(
        "causeway.transforms",
        "",
        "Transforms, by their names, of which each is described below. The first that matches a"
        " topic is its only one.",
    )
    internal_topics: Annotated[Literal["kafka-4", "kafka-3"], BeforeValidator(word)] = key(
        "causeway.internal.topics",
        "kafka-4",
        "Whose rule tells internal topics, which are never mirrored: by `kafka-3`, all whose names"
        " end in `.internal` or `-internal`.",
    )
    delivery: Annotated[Literal["exactly-once", "at-least-once"], BeforeValidator(word)] = key(
        "causeway.delivery",
        "exactly-once",
        "`at-least-once` only for brokers without idempotent producers.",
    )
    on_data_loss: Annotated[Literal["stop", "continue"], BeforeValidator(word)] = key(
        "causeway.on.data.loss",
        "stop",
        "If the source deleted records before they were mirrored, a partition stops until"
        " `causeway restart --adopt` acknowledges the loss (`stop`), or goes on and reports the"
        " number of lost records (`continue`).",
    )
    sole_writer: Bool | None = key(
        "causeway.sole.writer",
        None,
        "Whether nobody else writes to the mirrored topics; a foreign record then stops its"
        " partition. Default: true where their names begin with the source's alias.",
    )
    provenance: Annotated[Literal["none", "header", "local"], BeforeValidator(word)] = key(
        "causeway.provenance",
        "none",
        "`header`: each mirrored record gets a header `causeway.origin` that names its source, and"
        " records that have been on the target are left out, so that [flows may go both ways"
        " with the same names](../explanation/provenance.md). `local`: so are all that were"
        " mirrored before.",
    )
    skip_header: Text = key(
        "causeway.skip.header",
        "",
        "Name of a header: records that have it are not mirrored, such as those that a program"
        " writes to both clusters.",
    )
    throttle: Annotated[int, whole(1, LONG_MAX)] | None = key(
        "causeway.throttle.bytes.per.second",
        None,
        "Most bytes a second that are read from the source; `causeway throttle` wins over it."
        " Default: no limit.",
    )
    geo: Bool = key(
        "causeway.geo",
        False,
        "Whether topics chosen with `causeway geo` are mirrored as if `topics` named them.",
    )
    way_back: Bool = key(
        "causeway.way.back",
        False,
        "Whether this flow, `B->A`, is the way back of `A->B`: it mirrors nothing but what"
        " `causeway failback`, or `cutover --back`, has had begin at a cut.",
    )


class ControlKeys(Keys):
    """Of a flow, besides its records: groups, offset syncs, checkpoints and ACLs."""

    groups: Text = key(
        "groups", ".*", "Consumer groups to follow: a list of whole-name regular expressions."
    )
    groups_exclude: Text = key(
        "groups.exclude",
        "console-consumer-.*, connect-.*, __.*",
        "Groups to leave out; wins over `groups`. `groups.blacklist` is the old name.",
    )
    group_filter_class: Text = key(
        "group.filter.class", "DefaultGroupFilter", "Only Kafka's DefaultGroupFilter."
    )
    refresh_groups_enabled: Bool = key(
        "refresh.groups.enabled", True, "Whether to look for new groups."
    )
    refresh_groups_interval: Seconds = key(
        "refresh.groups.interval.seconds", 600, "How often to look for them."
    )
    emit_checkpoints_enabled: Bool = key(
        "emit.checkpoints.enabled",
        True,
        "Whether to write the groups' translated offsets to the checkpoints topic.",
    )
    emit_checkpoints_interval: Seconds = key(
        "emit.checkpoints.interval.seconds", 60, "How often to write them."
    )
    checkpoints_replication_factor: Replicas = key(
        "checkpoints.topic.replication.factor", 3, "Of the checkpoints topic."
    )
    sync_group_offsets_enabled: Bool = key(
        "sync.group.offsets.enabled",
        False,
        "Whether to commit the translated offsets on the target, for groups without members there.",
    )
    sync_group_offsets_interval: Seconds = key(
        "sync.group.offsets.interval.seconds", 60, "How often to commit them."
    )
    emit_offset_syncs_enabled: Bool = key(
        "emit.offset-syncs.enabled",
        True,
        "Whether to write pairs of source and target offsets to the offset-syncs topic.",
    )
    offset_lag_max: Annotated[int, whole(0, LONG_MAX)] = key(
        "offset.lag.max", 100, "Records of a partition after which another pair is written."
    )
    offset_syncs_topic_location: Side = key(
        "offset-syncs.topic.location", "source", "Cluster that holds the offset-syncs topic."
    )
    offset_syncs_replication_factor: Replicas = key(
        "offset-syncs.topic.replication.factor", 3, "Of the offset-syncs topic."
    )
    sync_topic_acls_enabled: Bool = key(
        "sync.topic.acls.enabled", True, "Whether to give mirrored topics the source's ACLs."
    )
    sync_topic_acls_interval: Seconds = key(
        "sync.topic.acls.interval.seconds", 600, "How often to compare ACLs."
    )
    read_only_mirrors: Bool = key(
        "causeway.read.only.mirrors",
        False,
        "Whether to deny writing to mirrored topics to all but Causeway; needs"
        " `causeway.principal`.",
    )
    principal: Principal | None = key(
        "causeway.principal",
        None,
        "Who Causeway is on the target, such as `User:causeway`; by default the user of PLAIN or"
        " SCRAM.",
    )
    mm2_offsets: Bool = key(
        "causeway.mirror.maker.offsets",
        True,
        "Whether to go on from MirrorMaker 2's positions, and to keep them written.",
    )
    mm2_offsets_topic: Text | None = key(
        "causeway.mirror.maker.offsets.topic",
        None,
        "Where these are on the target. Default: `mm2-offsets.A.internal`, A being the source.",
    )
    mm2_connector: Text = key(
        "causeway.mirror.maker.connector",
        "MirrorSourceConnector",
        "What the connector is called there.",
    )
    paused: Paused = key(
        "causeway.paused",
        "",
        "What waits until the file says otherwise: `records`, `checkpoints` (with the groups'"
        " offsets) or `heartbeats`, or several of them. Commands do not resume it.",
    )


class HeartbeatKeys(Keys):
    """Of every pair of clusters, whether its flow runs or not."""

    enabled: Bool = key(
        "emit.heartbeats.enabled", True, "Whether to write heartbeats to the pair's target."
    )
    interval: Seconds = key("emit.heartbeats.interval.seconds", 1, "How often to write one.")
    replication_factor: Replicas = key(
        "heartbeats.topic.replication.factor", 3, "Of the heartbeats topic."
    )


SKIP_HEADER, PROVENANCE = "causeway.skip.header", "causeway.provenance"
OLD_NAMES = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}

# All that may be written `A->B.key`, or `key` for all.
OF_FLOWS = FlowKeys.names() | ControlKeys.names() | HeartbeatKeys.names() | OLD_NAMES.keys()
