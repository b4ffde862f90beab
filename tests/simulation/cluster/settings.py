"""The configs of simulated brokers and topics, with Kafka's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.cluster.errors import INVALID_CONFIG, Refused

DAY_MS: Final = 86_400_000
LONG_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Configs of all brokers of a cluster. Times of the cluster itself (delays of replication, of
    metadata, of requests) are ranges from which chance draws."""

    broker_session_timeout_ms: int = 9_000
    replica_lag_time_max_ms: int = 30_000
    producer_id_expiration_ms: int = DAY_MS
    producer_id_expiration_check_interval_ms: int = 600_000
    transaction_max_timeout_ms: int = 900_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    log_retention_check_interval_ms: int = 300_000
    leader_imbalance_check_interval_seconds: int = 300
    max_incremental_fetch_session_cache_slots: int = 1_000
    num_partitions: int = 1
    default_replication_factor: int = 1
    fetch_max_bytes: int = 57_671_680
    topic_defaults: Mapping[str, str] = field(default_factory=dict)  # set on the brokers

    compaction_s: tuple[float, float] | None = None  # after an append; None: only by `compact`

    request_s: tuple[float, float] = (0.000_1, 0.001)
    replication_s: tuple[float, float] = (0.000_5, 0.005)
    metadata_s: tuple[float, float] = (0.001, 0.02)
    slow_metadata_s: tuple[float, float] = (0.02, 1.0)
    slow_metadata_share: float = 0.02
    marker_s: tuple[float, float] = (0.001, 0.02)
    coordinator_load_s: tuple[float, float] = (0.0, 0.5)
    start_s: tuple[float, float] = (0.2, 1.5)


_BOOLEANS: Final = ("true", "false")
TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": str(DAY_MS),
    "file.delete.delay.ms": "60000",
    "flush.messages": str(LONG_MAX),
    "flush.ms": str(LONG_MAX),
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": str(LONG_MAX),
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": str(7 * DAY_MS),
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": str(7 * DAY_MS),
    "unclean.leader.election.enable": "false",
}
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "compression.type": ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "preallocate": _BOOLEANS,
    "remote.log.copy.disable": _BOOLEANS,
    "remote.log.delete.on.disable": _BOOLEANS,
    "remote.storage.enable": _BOOLEANS,
    "unclean.leader.election.enable": _BOOLEANS,
}
_LEAST: Final[Mapping[str, float]] = {
    "min.insync.replicas": 1,
    "max.message.bytes": 0,
    "segment.bytes": 1,  # Kafka: 1 MB. Small segments make retention and compaction interesting
    "segment.ms": 1,
    "retention.ms": -1,
    "delete.retention.ms": 0,
}
_BROKER_NAMES: Final[Mapping[str, str]] = {
    "max.message.bytes": "message.max.bytes",
    "min.insync.replicas": "min.insync.replicas",
    "compression.type": "compression.type",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "retention.ms": "log.retention.ms",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "flush.ms": "log.flush.interval.ms",
    "flush.messages": "log.flush.interval.messages",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
}


def broker_name(topic_config: str) -> str:
    """The broker's config that is the default of a topic's config."""
    return _BROKER_NAMES.get(topic_config, f"log.{topic_config}")


def check_topic_config(name: str, value: str | None) -> None:
    """Raises Refused (INVALID_CONFIG)."""
    default = TOPIC_DEFAULTS.get(name)
    if value is None:
        raise Refused(INVALID_CONFIG, f"Null value not supported for topic config: {name}")
    if default is None:
        raise Refused(INVALID_CONFIG, f"Unknown topic config name: {name}")
    if name == "cleanup.policy":
        fits = set(filter(None, value.replace(" ", "").split(","))) <= {"delete", "compact"}
    elif name in _WORDS:
        fits = value in _WORDS[name]
    elif name.endswith(".replicas") and name != "min.insync.replicas":
        fits = True
    else:
        try:
            number = float(value) if "." in default else int(value)
            fits = number >= _LEAST.get(name, -2)
        except ValueError:
            fits = False
    if not fits:
        raise Refused(INVALID_CONFIG, f"Invalid value {value} for configuration {name}")
