"""What a `DualProducer` is told, checked as a whole before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

from causeway.errors import ConfigError
from causeway.producer import partitioner
from causeway.producer.encode import Packer
from causeway.producer.partitioner import Partitioner
from causeway.producer.wire_settings import WireSettings, wire_settings

Policy = Literal["both", "primary", "any"]
PartitionCounts = Literal["equal", "least"]
WhenFull = Literal["back-pressure", "refuse"]
Sync = Literal["process", "machine"]

_DEFAULT_MESSAGES = 100_000  # librdkafka's, as the next two
_DEFAULT_RECORD_BYTES = 1_000_000
_DEFAULT_STICKY_MS = 10
_ERRORS = 3  # of syslog: the client would warn of our own choices at each start
_DEFAULT_PARTITIONER = "consistent_random"
_LEAST_SPOOL = 1 << 20

# From property to why it is not for here.
_NEVER_GIVEN_UP = "a record that was taken is never given up; see queue.buffering.max.messages"
_REFUSED = {
    "transactional.id": "records of two clusters cannot be in one transaction",
    "message.timeout.ms": _NEVER_GIVEN_UP,
    "delivery.timeout.ms": _NEVER_GIVEN_UP,
    "message.send.max.retries": _NEVER_GIVEN_UP,
    "retries": _NEVER_GIVEN_UP,
    "delivery.report.only.error": "the spool must hear of each record that arrives",
    "dr_cb": "it is on_delivery here",
    "dr_msg_cb": "it is on_delivery here",
}
_FIXED: Mapping[str, Sequence[str]] = {
    "enable.idempotence": ("true",),
    "acks": ("all", "-1"),
    "request.required.acks": ("all", "-1"),
    "enable.gapless.guarantee": ("true",),
}
# What decides for both sides, so a second word on it would be ignored.
_LIMITS = ("queue.buffering.max.messages", "queue.buffering.max.kbytes", "message.max.bytes")
_SHARED = (*_LIMITS, "partitioner", "sticky.partitioning.linger.ms", "on_delivery")
_CLIENT = ("bootstrap.servers", "metadata.broker.list", "oauth_cb", "logger", "log_level", "debug")
_CLIENT_FAMILIES = (
    "security.", "sasl.", "ssl.", "socket.", "broker.", "client.", "https.", "reconnect.",
    "enable.ssl", "enable.sasl", "api.version", "metadata.recovery",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOptions:
    """`producer`: its configuration. `reader`: that of clients that only look. `wire`: that of our
    own client, None where librdkafka's has to do."""

    name: str
    producer: Mapping[str, Any]
    reader: Mapping[str, Any]
    wire: WireSettings | None

    def __repr__(self) -> str:  # no secrets
        return f"SideOptions({self.name!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`max_bytes`: of the spool, on disk. `max_messages`: records that were taken and not yet
    reported. `max_record_bytes`: of one, with all that is around it. Times in seconds.
    `packer`: how batches are compressed."""

    sides: tuple[SideOptions, SideOptions]
    policy: Policy
    spool: Path
    name: str | None
    max_bytes: int
    sync: Sync
    when_full: WhenFull
    partition_counts: PartitionCounts
    partitioner: Partitioner
    max_messages: int
    max_record_bytes: int
    settle_s: float
    failover_after_s: float | None
    failback: bool
    on_delivery: Callable[..., Any] | None
    packer: Packer


def check(
    primary: Mapping[str, Any],
    other: Mapping[str, Any],
    *,
    spool: str | Path,
    name: str | None,
    names: tuple[str, str],
    policy: str,
    spool_max_bytes: int,
    spool_sync: str,
    when_full: str,
    partition_counts: str,
    settle_s: float,
    failover_after_s: float | None,
    failback: bool,
) -> Options:
    """Raises ConfigError, which names the side and the property."""
    for value, kind, what in (
        (policy, Policy, "policy"),
        (spool_sync, Sync, "spool_sync"),
        (when_full, WhenFull, "when_full"),
        (partition_counts, PartitionCounts, "partition_counts"),
    ):
        if value not in get_args(kind):
            _refuse(what, f"{value!r} is none of {', '.join(get_args(kind))}")
    if len(names) != 2 or names[0] == names[1] or not all(names):
        _refuse("names", f"{names!r} are not two different names")
    if name is not None and (not name or not name.isascii() or set(name) & set("/ \n\r\t")):
        _refuse("name", f"{name!r} is not ASCII without spaces and slashes")
    if spool_max_bytes < _LEAST_SPOOL:
        _refuse("spool_max_bytes", f"{spool_max_bytes} is less than {_LEAST_SPOOL}")
    if settle_s < 0:
        _refuse("settle_s", f"{settle_s} is less than 0")
    if failover_after_s is not None:
        if policy != "primary":
            _refuse("failover_after_s", f"with policy {policy!r} neither side is the primary one")
        if failover_after_s <= 0:
            _refuse("failover_after_s", f"{failover_after_s} is not more than 0")
    for side, given in zip(names, (primary, other), strict=True):
        _check_side(side, given)
    for key in _SHARED:
        if key in other and other[key] != primary.get(key):
            _refuse(f"{key} of {names[1]}", f"{names[0]} decides it for both", "set it there alone")
    if primary["bootstrap.servers"] == other["bootstrap.servers"]:
        _refuse("bootstrap.servers", f"{names[0]} and {names[1]} have the same")
    limits = {key: primary[key] for key in _LIMITS if key in primary}
    sides = _side(names[0], primary, limits), _side(names[1], other, limits)
    packer = Packer(0)
    for made in sides:
        if made.wire is not None:
            packer = made.wire.packer
            break
    return Options(
        sides=tuple(_alike(side, packer) for side in sides),  # type: ignore[arg-type]
        policy=policy,  # type: ignore[arg-type]
        spool=Path(spool),
        name=name,
        max_bytes=spool_max_bytes,
        sync=spool_sync,  # type: ignore[arg-type]
        when_full=when_full,  # type: ignore[arg-type]
        partition_counts=partition_counts,  # type: ignore[arg-type]
        partitioner=_partitioner(names[0], primary),
        max_messages=_whole(names[0], primary, "queue.buffering.max.messages", _DEFAULT_MESSAGES)
        or sys.maxsize,  # 0 is no limit
        max_record_bytes=_whole(names[0], primary, "message.max.bytes", _DEFAULT_RECORD_BYTES),
        settle_s=settle_s,
        failover_after_s=failover_after_s,
        failback=failback,
        on_delivery=primary.get("on_delivery"),
        packer=packer,
    )


def _check_side(side: str, given: Mapping[str, Any]) -> None:
    if not isinstance(given, Mapping):
        _refuse(f"configuration of {side}", f"it is a {type(given).__name__}, not a dict")
    if not given.get("bootstrap.servers"):
        _refuse(f"bootstrap.servers of {side}", "it is missing")
    for key, why in _REFUSED.items():
        if key in given:
            _refuse(f"{key} of {side}", why, "leave it out")
    for key, only in _FIXED.items():
        if key in given and str(given[key]).lower() not in only:
            _refuse(
                f"{key} of {side}",
                f"{given[key]!r} could lose, double or reorder records",
                f"leave it out: it is {only[0]}",
            )


def _side(name: str, given: Mapping[str, Any], limits: Mapping[str, Any]) -> SideOptions:
    producer = {key: value for key, value in given.items() if key not in _SHARED}
    producer |= limits
    producer.setdefault("log_level", _ERRORS)
    producer |= {
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "acks": "all",
        "message.timeout.ms": 0,
    }
    producer.pop("request.required.acks", None)
    reader = {
        key: value
        for key, value in producer.items()
        if key in _CLIENT or key.startswith(_CLIENT_FAMILIES)
    }
    wire = wire_settings(name, producer)
    return SideOptions(name=name, producer=producer, reader=reader, wire=wire)


def _alike(side: SideOptions, packer: Packer) -> SideOptions:
    """Batches are compressed once, so a side that wants them otherwise is for librdkafka."""
    if side.wire is None or side.wire.packer == packer:
        return side
    return replace(side, wire=None)


def _partitioner(side: str, given: Mapping[str, Any]) -> Partitioner:
    wanted = given.get("partitioner", _DEFAULT_PARTITIONER)
    if callable(wanted):
        return wanted  # type: ignore[no-any-return]
    sticky_ms = _whole(side, given, "sticky.partitioning.linger.ms", _DEFAULT_STICKY_MS)
    found = partitioner.named(wanted, sticky_ms / 1000)
    if found is None:
        _refuse(
            f"partitioner of {side}",
            f"{wanted!r} is none of {', '.join(partitioner.NAMES)}, nor a function",
        )
    return found


def _whole(side: str, given: Mapping[str, Any], key: str, default: int) -> int:
    try:
        found = int(given.get(key, default))
    except (TypeError, ValueError):
        found = -1
    if found < 0:
        _refuse(f"{key} of {side}", f"{given[key]!r} is no whole number")
    return found


def _refuse(what: str, why: str, remedy: str = "") -> NoReturn:
    raise ConfigError("configure DualProducer:", what, why, remedy=remedy)
