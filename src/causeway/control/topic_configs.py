"""Configs of a mirrored topic: those copied from the source, and the limits it needs.

A mirror must accept every batch as it is on the source: its size, its timestamps (which a target's
clock may find too old or too new) and its codec (with another `compression.type` the target's
broker would compress every batch again). The batches of its log must also have producer ids, which
only a setting of an old broker prevents.

Versions of Kafka have different configs, and a broker refuses a topic with a config that it does
not know. No request lists the names, but each existing topic has all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

from causeway.cluster import (
    KNOWN_MESSAGE_FORMAT,
    MESSAGE_FORMAT,
    Cluster,
    ConfigEntry,
    knows_producers,
)
from causeway.config import LinkSettings
from causeway.errors import BrokerError, CausewayError
from causeway.filters import excludes
from causeway.patterns import Pattern
from causeway.wire import codes

LONG_MAX: Final = 2**63 - 1

MAX_MESSAGE_BYTES: Final = "max.message.bytes"
COMPRESSION_TYPE: Final = "compression.type"
CLEANUP_POLICY: Final = "cleanup.policy"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
# `before` and `after` exist since Kafka 3.6. `difference` is older, and was removed in 4.0.
TIMESTAMP_LIMITS: Final = (
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms",
)
LIMIT_NAMES: Final = (
    MAX_MESSAGE_BYTES,
    COMPRESSION_TYPE,
    TIMESTAMP_TYPE,
    MESSAGE_FORMAT,
    *TIMESTAMP_LIMITS,
)

# With these values a compacted topic keeps the same records, and accepts DeleteRecords as well.
WITH_DELETION: Final[Mapping[str, str]] = {
    CLEANUP_POLICY: "compact,delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}

# The reason that a plan shows for each limit.
_ANY_AGE: Final = "a mirror takes records as they are, however old or far ahead their times are"
REASONS: Final[Mapping[str, str]] = {
    MAX_MESSAGE_BYTES: "a mirror takes batches as big as the source's",
    COMPRESSION_TYPE: "a mirror takes batches as they were packed",
    TIMESTAMP_TYPE: "a mirror keeps the times that its records have on the source",
    MESSAGE_FORMAT: "a mirror's batches have producer ids, so that none comes twice",
    **dict.fromkeys(TIMESTAMP_LIMITS, _ANY_AGE),
}

# The broker's configs that are defaults of topics, for the limits.
BROKER_DEFAULTS: Final[Mapping[str, str]] = {
    "message.max.bytes": MAX_MESSAGE_BYTES,
    "compression.type": COMPRESSION_TYPE,
    "log.cleanup.policy": CLEANUP_POLICY,
    "log.message.timestamp.type": TIMESTAMP_TYPE,
    **{f"log.{name}": name for name in (MESSAGE_FORMAT, *TIMESTAMP_LIMITS)},
}


def copied(
    source: Mapping[str, ConfigEntry],
    exclude: Sequence[Pattern],
    use_defaults_from: Literal["source", "target"],
) -> dict[str, str]:
    """Returns the source's configs that a new mirror is created with, by MirrorMaker 2's rules."""
    return {
        name: entry.value
        for name, entry in source.items()
        if entry.value is not None
        and name != MESSAGE_FORMAT
        and not entry.read_only
        and not entry.sensitive
        and entry.source != "STATIC_BROKER_CONFIG"
        and (not entry.default or use_defaults_from == "source")
        and not excludes(exclude, name)
    }


def topic_defaults(broker: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Returns the values, for a topic without own configs, from which limits are computed."""
    return {
        topic_name: broker[broker_name].value or ""
        for broker_name, topic_name in BROKER_DEFAULTS.items()
        if broker_name in broker
    }


def effective(entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Returns a topic's values in force, its own or its broker's."""
    return {name: entry.value for name, entry in entries.items() if entry.value is not None}


def needed(
    source: Mapping[str, str], target: Mapping[str, str], names: Collection[str] | None = None
) -> dict[str, str]:
    """Returns the configs to set on the mirror so that it accepts everything that `source` has.

    Both arguments are values in force. `names`: the configs that the target knows, None if unknown.
    If no value of the target is known (no right to describe its brokers), all limits are set; the
    timestamp limits by `names`, or by the names that the source knows. Values that are wide enough
    are left alone, so the result is empty for a mirror that needs no change.
    """
    changes: dict[str, str] = {}
    size = source.get(MAX_MESSAGE_BYTES)
    if size is not None and _number(target.get(MAX_MESSAGE_BYTES), -1) < int(size):
        changes[MAX_MESSAGE_BYTES] = size
    known = [name for name in TIMESTAMP_LIMITS if name in target] or [
        name for name in TIMESTAMP_LIMITS if name in (source if names is None else names)
    ]
    for name in known:
        if _number(target.get(name), -1) < LONG_MAX:
            changes[name] = str(LONG_MAX)
    if target.get(TIMESTAMP_TYPE) != "CreateTime":
        changes[TIMESTAMP_TYPE] = "CreateTime"  # LogAppendTime would write over the records' times
    if target.get(COMPRESSION_TYPE) not in ("producer", source.get(COMPRESSION_TYPE)):
        changes[COMPRESSION_TYPE] = "producer"
    if not knows_producers(target.get(MESSAGE_FORMAT)):
        changes[MESSAGE_FORMAT] = KNOWN_MESSAGE_FORMAT
    return changes


def left_to_others(
    needed: Mapping[str, str],
    target: Mapping[str, str],
    exclude: Sequence[Pattern],
) -> dict[str, str]:
    """Returns the `needed` configs that are not set on an existing topic that others may write to,
    each with the consequence. The owners decide how a topic keeps its records, and about configs
    that `exclude` names. The limits of what the topic accepts are widened, which does no harm.
    `target`: values in force."""
    stays = {}
    for name in needed:
        value = f"{name}={target.get(name, '(default)')} stays"
        if name in _KEEPING:
            stays[name] = f"{value}, since others may write to it: {_KEEPING[name]}"
        elif excludes(exclude, name):
            stays[name] = (
                f"{value}, since config.properties.exclude names it: records that it does not allow"
                " are refused, and the partition says so"
            )
    return stays


_KEEPING: Final = {
    COMPRESSION_TYPE: "its brokers compress each batch again, and a batch that is too large then is"
    " sent in smaller ones",
    TIMESTAMP_TYPE: "records get the time of their arrival",
}


def max_message_bytes(values: Mapping[str, str]) -> int:
    """Returns the bytes of a whole batch with its header; Kafka's default if unknown."""
    return _number(values.get(MAX_MESSAGE_BYTES), 1_048_588)


def _number(value: str | None, otherwise: int) -> int:
    try:
        return int(value) if value is not None else otherwise
    except ValueError:
        return otherwise


_OTHERS = 10  # if a client may not describe these topics, it can hardly describe the next one


def known_configs(
    target: Cluster, link: LinkSettings, there: Collection[str], mirrors: Sequence[str]
) -> frozenset[str] | None:
    """Returns the configs that a new topic on the target may have; None if unknown. `there`: topics
    of the target. `mirrors`: topics that we surely may describe; they are asked for first.

    Raises CausewayError only if the cluster does not answer at all."""
    others = [name for name in (link.progress_topic, *sorted(there)[:_OTHERS]) if name in there]
    for asked in filter(None, (mirrors[:1], others)):
        for answer in target.describe_configs(asked).values():
            if isinstance(answer, Mapping):
                return frozenset(answer)
    return None


def default_configs(target: Cluster, broker: int) -> dict[str, str]:
    """Returns the values, for a new topic, from which limits are computed."""
    try:
        return topic_defaults(target.broker_configs(broker))
    except CausewayError as error:
        if error.retriable:
            raise
        return {}  # not allowed: every limit is then set on the topic itself


def unknown_configs(
    configs: Mapping[str, str],
    source: Mapping[str, ConfigEntry],
    names: Collection[str] | None,
    alias: str,
) -> dict[str, str]:
    """Returns the `configs` that cluster `alias` does not know by its `names` (None if unknown),
    each with a note. The note is empty for a default of the source."""
    if names is None:
        return {}
    return {
        name: ""
        if name in source and source[name].default
        else f"{name}={value} of the source is left out: {alias} has no such config"
        for name, value in configs.items()
        if name not in names
    }


REMOTE_STORAGE: Final = "remote.storage.enable"
# Without REMOTE_STORAGE these have no effect.
TIERED: Final = frozenset(
    (
        REMOTE_STORAGE,
        "local.retention.ms",
        "local.retention.bytes",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    )
)


def refused_config_note(name: str, value: str, alias: str) -> str:
    """Returns the note about a config of the source that the mirror on cluster `alias` lacks."""
    cause = "keeps the whole log on its brokers" if name in TIERED else "refuses it"
    return f"{name}={value} of the source is left out: {alias} {cause}"


def is_config_refusal(error: CausewayError | None) -> bool:
    """Returns whether `error` is about the configs of the topic."""
    return isinstance(error, BrokerError) and error.code == codes.INVALID_CONFIG
