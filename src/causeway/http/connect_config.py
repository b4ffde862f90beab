"""A link's settings as the config of MirrorMaker 2's connectors. Credentials, keys
and certificates are left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from causeway.config import ClientSettings, LinkSettings
from causeway.patterns import Pattern

CLASSES: Final = (
    "MirrorSourceConnector",
    "MirrorCheckpointConnector",
    "MirrorHeartbeatConnector",
)
_PACKAGE: Final = "org.apache.kafka.connect.mirror."


def config_of(link: LinkSettings, kind: str, name: str) -> dict[str, str]:
    """The config of the connector of class `kind`, with MirrorMaker 2's keys."""
    found = {
        "name": name,
        "connector.class": _PACKAGE + kind,
        "source.cluster.alias": link.source.alias,
        "target.cluster.alias": link.target.alias,
        **_cluster("source", link.source),
        **_cluster("target", link.target),
        "replication.policy.separator": link.policy.separator,
    }
    match kind:
        case "MirrorSourceConnector":
            return found | _of_source(link)
        case "MirrorCheckpointConnector":
            return found | _of_checkpoints(link)
    control = link.control
    return found | {
        "emit.heartbeats.enabled": _text(control.heartbeats.enabled),
        "emit.heartbeats.interval.seconds": _text(control.heartbeats.interval_s),
        "heartbeats.topic.replication.factor": _text(control.heartbeats.replication_factor),
    }


def _cluster(side: str, client: ClientSettings) -> dict[str, str]:
    return {
        f"{side}.cluster.bootstrap.servers": ",".join(f"{h}:{p}" for h, p in client.bootstrap),
        f"{side}.cluster.security.protocol": client.protocol,
    }


def _of_source(link: LinkSettings) -> dict[str, str]:
    control = link.control
    return {
        "topics": _patterns(link.topics),
        "topics.exclude": _patterns(link.topics_exclude),
        "config.properties.exclude": _patterns(link.config_properties_exclude),
        "replication.factor": _text(link.replication_factor),
        "refresh.topics.enabled": _text(link.refresh_topics_enabled),
        "refresh.topics.interval.seconds": _text(link.refresh_topics_interval_s),
        "sync.topic.configs.enabled": _text(link.sync_topic_configs_enabled),
        "sync.topic.configs.interval.seconds": _text(link.sync_topic_configs_interval_s),
        "sync.topic.acls.enabled": _text(control.sync_topic_acls_enabled),
        "sync.topic.acls.interval.seconds": _text(control.sync_topic_acls_interval_s),
        "emit.offset-syncs.enabled": _text(control.emit_offset_syncs_enabled),
        "offset.lag.max": _text(control.offset_lag_max),
        "offset-syncs.topic.location": control.offset_syncs_topic_location,
        "offset-syncs.topic.replication.factor": _text(control.offset_syncs_replication_factor),
    }


def _of_checkpoints(link: LinkSettings) -> dict[str, str]:
    control = link.control
    return {
        "groups": _patterns(control.groups),
        "groups.exclude": _patterns(control.groups_exclude),
        "refresh.groups.enabled": _text(control.refresh_groups_enabled),
        "refresh.groups.interval.seconds": _text(control.refresh_groups_interval_s),
        "emit.checkpoints.enabled": _text(control.emit_checkpoints_enabled),
        "emit.checkpoints.interval.seconds": _text(control.emit_checkpoints_interval_s),
        "checkpoints.topic.replication.factor": _text(control.checkpoints_replication_factor),
        "sync.group.offsets.enabled": _text(control.sync_group_offsets_enabled),
        "sync.group.offsets.interval.seconds": _text(control.sync_group_offsets_interval_s),
    }


def _patterns(patterns: Iterable[Pattern]) -> str:
    return ",".join(each.pattern for each in patterns)


def _text(value: float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if value == int(value) else str(value)
