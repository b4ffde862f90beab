"""The settings of a `DualProducer`, checked as a whole before anything starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypedDict, get_args

from causeway_producer import partitioner
from causeway_producer.errors import SettingsError
from causeway_producer.logins import for_librdkafka
from causeway_producer.partitioner import Partitioner

Policy = Literal["both", "primary", "any"]
PartitionCounts = Literal["equal", "least"]
WhenFull = Literal["back-pressure", "refuse"]
SpoolSync = Literal["process", "machine"]


class Settings(TypedDict, total=False):
    """The keyword arguments of `DualProducer`, which describes them."""

    policy: Policy
    name: str | None
    names: tuple[str, str]
    spool_max_bytes: int
    spool_sync: SpoolSync
    when_full: WhenFull
    partition_counts: PartitionCounts
    settle_s: float
    failover_after_s: float | None
    failback: bool
    on_failover: Callable[[str, str], Any] | None
    on_side_delivery: Callable[[str, Any, Any], Any] | None


IN_FLIGHT = "max.in.flight.requests.per.connection"
_MAX_MESSAGES = "queue.buffering.max.messages"
_MAX_KBYTES = "queue.buffering.max.kbytes"
_NO_LIMIT = {_MAX_MESSAGES: 0, _MAX_KBYTES: (1 << 31) - 1}

_DEFAULT_MESSAGES = 100_000  # librdkafka's default, like the four below
_DEFAULT_KBYTES = 1 << 20
_DEFAULT_RECORD_BYTES = 1_000_000
_DEFAULT_STICKY_MS = 10
_DEFAULT_PARTITIONER = "consistent_random"
_LOG_ERRORS = 3  # librdkafka would warn about our own settings at each start
_MIN_SPOOL_BYTES = 1 << 20

# For each property, why it cannot be set.
_NEVER_GIVEN_UP = "a record that was taken is never given up; see queue.buffering.max.messages"
_REFUSED = {
    "transactional.id": "records of two clusters cannot be in one transaction",
    "message.timeout.ms": _NEVER_GIVEN_UP,
    "delivery.timeout.ms": _NEVER_GIVEN_UP,
    "message.send.max.retries": _NEVER_GIVEN_UP,
    "retries": _NEVER_GIVEN_UP,
    "delivery.report.only.error": "the spool needs the answer to each record",
    "dr_cb": "it is on_delivery here",
    "dr_msg_cb": "it is on_delivery here",
}
_FIXED: Mapping[str, tuple[str, ...]] = {
    "enable.idempotence": ("true",),
    "acks": ("all", "-1"),
    "request.required.acks": ("all", "-1"),
    "enable.gapless.guarantee": ("true",),
}
# For these, the first side's values hold for both sides.
_LIMITS = (_MAX_MESSAGES, _MAX_KBYTES, "message.max.bytes")
_SHARED = (*_LIMITS, "partitioner", "sticky.partitioning.linger.ms", "on_delivery")
# Properties that consumers and admin clients also need.
_CLIENT = ("bootstrap.servers", "metadata.broker.list", "oauth_cb", "logger", "log_level", "debug")
_CLIENT_PREFIXES = (
    "security.", "sasl.", "ssl.", "socket.", "broker.", "client.", "https.", "reconnect.",
    "enable.ssl", "enable.sasl", "api.version", "metadata.recovery",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOptions:
    """`producer`: the configuration of its producer. `reader`: of its consumers and admin
    clients."""

    name: str
    producer: Mapping[str, Any]
    reader: Mapping[str, Any]

    def __repr__(self) -> str:  # shows no secrets
        return f"SideOptions({self.name!r})"


@dataclass(frozen=True, kw_only=True)
class Options:
    """`max_messages`: the limit of unreported records, and of records in one client.
    `max_client_bytes`: the limit of bytes in one client. `max_record_bytes`: the limit of one
    record with all overhead. The others are `DualProducer`'s settings."""

    sides: tuple[SideOptions, SideOptions]
    spool: Path
    partitioner: Partitioner
    max_messages: int
    max_client_bytes: int
    max_record_bytes: int
    on_delivery: Callable[..., Any] | None
    policy: Policy = "both"
    name: str | None = None
    names: tuple[str, str] = ("east", "west")
    spool_max_bytes: int = 1 << 30
    spool_sync: SpoolSync = "process"
    when_full: WhenFull = "back-pressure"
    partition_counts: PartitionCounts = "equal"
    settle_s: float = 5.0
    failover_after_s: float | None = None
    failback: bool = True
    on_failover: Callable[[str, str], Any] | None = None
    on_side_delivery: Callable[[str, Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        for key, kind in (
            ("policy", Policy),
            ("spool_sync", SpoolSync),
            ("when_full", WhenFull),
            ("partition_counts", PartitionCounts),
        ):
            if (value := getattr(self, key)) not in get_args(kind):
                _refuse(key, f"{value!r} is not one of {', '.join(get_args(kind))}")
        name = self.name
        if name is not None and (not name or not name.isascii() or set(name) & set("/ \n\r\t")):
            _refuse("name", f"{name!r} is not ASCII without spaces and slashes")
        if self.spool_max_bytes < _MIN_SPOOL_BYTES:
            _refuse("spool_max_bytes", f"{self.spool_max_bytes} is less than {_MIN_SPOOL_BYTES}")
        if self.settle_s < 0:
            _refuse("settle_s", f"{self.settle_s} is less than 0")
        if self.failover_after_s is not None:
            if self.policy != "primary":
                _refuse("failover_after_s", "only policy 'primary' has a primary side")
            if self.failover_after_s <= 0:
                _refuse("failover_after_s", f"{self.failover_after_s} is not more than 0")


def check(
    primary: Mapping[str, Any],
    other: Mapping[str, Any],
    spool: str | os.PathLike[str],
    settings: Mapping[str, Any],
) -> Options:
    """Checks `settings`, which are those of `Settings`. Raises SettingsError, which names the side
    and the property."""
    names = settings.get("names", Options.names)
    if len(names) != 2 or names[0] == names[1] or not all(names):
        _refuse("names", f"{names!r} are not two different names")
    for side, given in zip(names, (primary, other), strict=True):
        _check_side(side, given)
    for key in _SHARED:
        if key in other and other[key] != primary.get(key):
            _refuse(f"{key} of {names[1]}", f"{names[0]} decides it for both", "set it only there")
    if primary["bootstrap.servers"] == other["bootstrap.servers"]:
        _refuse("bootstrap.servers", f"{names[0]} and {names[1]} have the same")
    limits = {key: primary[key] for key in _LIMITS if key in primary} | _NO_LIMIT
    messages = _number(names[0], primary, _MAX_MESSAGES, _DEFAULT_MESSAGES)
    return Options(
        sides=(_side(names[0], primary, limits), _side(names[1], other, limits)),
        spool=Path(spool),
        partitioner=_partitioner(names[0], primary),
        max_messages=messages or sys.maxsize,  # 0 is no limit
        max_client_bytes=max(1, _number(names[0], primary, _MAX_KBYTES, _DEFAULT_KBYTES)) << 10,
        max_record_bytes=_number(names[0], primary, "message.max.bytes", _DEFAULT_RECORD_BYTES),
        on_delivery=primary.get("on_delivery"),
        **settings,
    )


def _check_side(side: str, given: Mapping[str, Any]) -> None:
    if not isinstance(given, Mapping):
        _refuse(f"configuration of {side}", f"it is a {type(given).__name__}, not a dict")
    if not given.get("bootstrap.servers"):
        _refuse(f"bootstrap.servers of {side}", "it is missing")
    for key, why in _REFUSED.items():
        if key in given:
            _refuse(f"{key} of {side}", why, "leave it out")
    for key, allowed in _FIXED.items():
        if key in given and str(given[key]).lower() not in allowed:
            _refuse(
                f"{key} of {side}",
                f"{given[key]!r} could lose, double or reorder records",
                f"leave it out: it is {allowed[0]}",
            )


def _side(name: str, given: Mapping[str, Any], limits: Mapping[str, Any]) -> SideOptions:
    given = for_librdkafka(name, given)
    producer = {key: value for key, value in given.items() if key not in _SHARED}
    producer |= limits
    producer.setdefault("log_level", _LOG_ERRORS)
    producer |= {
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,  # after a record that failed, no later one is sent
        "acks": "all",
        "message.timeout.ms": 0,
    }
    producer.pop("request.required.acks", None)
    if "max.in.flight" in producer:
        producer[IN_FLIGHT] = producer.pop("max.in.flight")
    reader = {
        key: value
        for key, value in producer.items()
        if key in _CLIENT or key.startswith(_CLIENT_PREFIXES)
    }
    return SideOptions(name=name, producer=producer, reader=reader)


def _partitioner(side: str, given: Mapping[str, Any]) -> Partitioner:
    wanted = given.get("partitioner", _DEFAULT_PARTITIONER)
    if callable(wanted):
        return wanted  # type: ignore[no-any-return]
    sticky_ms = _number(side, given, "sticky.partitioning.linger.ms", _DEFAULT_STICKY_MS)
    found = partitioner.partitioner(str(wanted), sticky_ms / 1000)
    if found is None:
        names = ", ".join(partitioner.NAMES)
        _refuse(f"partitioner of {side}", f"{wanted!r} is neither a function nor one of {names}")
    return found


def _number(side: str, given: Mapping[str, Any], key: str, default: int) -> int:
    try:
        found = int(given.get(key, default))
    except (TypeError, ValueError):
        found = -1
    if found < 0:
        _refuse(f"{key} of {side}", f"{given[key]!r} is not a whole number")
    return found


def _refuse(setting: str, why: str, remedy: str = "") -> NoReturn:
    raise SettingsError(f"configure DualProducer: {setting}", why, remedy)
