"""The options of `format("causeway")`, with the names of Spark's own Kafka source.

Spark shows options in plans, pages and event logs, so options may not contain secrets. They refer
to secrets by `${env:NAME}`, `${file:PATH:KEY}` or `${dir:PATH:FILE}`. The driver and each executor
resolve them when they connect to a broker. No resolved secret is part of a plan or a task."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from causeway.cluster import EARLIEST, LATEST
from causeway.config import SECURITY, ClientSettings, Entry, Problems
from causeway.config.reading import client_settings, is_done_anyway, parse_jaas
from causeway.errors import ConfigError
from causeway.formats import resolve
from causeway.model import TopicPartition

_PREFIX = "kafka."
_READ = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "includeHeaders",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "isolation.level",
    "timestampOverflow",
    "headerKeys",
    "pushFilters",
)
_WRITE = ("topic", "id", "batch", "includeHeaders")
_BOTH = ("config", "cluster")
_KNOWN = {name.lower(): name for name in (*_READ, *_WRITE, *_BOTH)}
# Options of login modules that hold a secret, not the name of a file or a URL.
_SECRET_PARTS = re.compile(
    r"password|secret|token(?!auth|\.(endpoint|location|is|expiry))|assertion(?!\.(type|location))",
    re.IGNORECASE,
)

Options = Mapping[str, str]
Side = Literal["read", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The begin or end of a range. `at`: an offset, EARLIEST or LATEST, for all partitions or for
    each one; if `timed`, a time in ms, which means the first record at or after that time."""

    name: str  # the option
    at: int | Mapping[TopicPartition, int]
    timed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The range to read. One of `topics`, `pattern`, `partitions` is set."""

    topics: tuple[str, ...] | None
    pattern: str | None
    partitions: tuple[TopicPartition, ...] | None
    start: Bound
    end: Bound
    late_start_is_end: bool  # if all records are earlier than the start: the end, no error
    headers: bool
    header_keys: Literal["string", "binary"]
    fail_on_data_loss: bool
    max_offsets: int | None
    max_bytes: int | None
    min_partitions: int | None
    read_committed: bool
    late_is_null: bool  # null for a time that Spark cannot express
    push_filters: bool


def read_options(options: Options, *, streaming: bool) -> ReadOptions:
    """Raises ConfigError, which names the option."""
    options = lowered(options)
    get = _OptionReader(options)
    get.refuse_misspelt()
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if get.text(name)]
    if len(chosen) != 1:
        said = " and ".join(chosen) or "none of them is"
        raise ConfigError("use", "subscribe, subscribePattern, assign", f"{said} set: set one")
    subscribe = get.text("subscribe")
    if streaming:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if get.text(name):
                raise ConfigError("use", f"option {name}", "a stream has no end")
    headers = get.choice("headerKeys", ("string", "binary"), "string")
    isolation = options.get("kafka.isolation.level") or options.get("isolation.level")
    if isolation not in (None, "read_committed", "read_uncommitted"):
        cause = "must be read_committed or read_uncommitted"
        raise ConfigError("use", "option isolation.level", cause)
    default = LATEST if streaming else EARLIEST
    late = get.choice("timestampOverflow", ("error", "null"), "error")
    strategy = get.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    return ReadOptions(
        topics=tuple(dict.fromkeys(t.strip() for t in subscribe.split(",") if t.strip()))
        if subscribe
        else None,
        pattern=get.text("subscribePattern"),
        partitions=_assigned(get.json("assign")) if get.text("assign") else None,
        start=get.bound("starting", default),
        end=get.bound("ending", LATEST),
        late_start_is_end=strategy == "latest",
        headers=get.flag("includeHeaders", False),
        header_keys="binary" if headers == "binary" else "string",
        fail_on_data_loss=get.flag("failOnDataLoss", True),
        max_offsets=get.count("maxOffsetsPerTrigger"),
        max_bytes=get.count("maxBytesPerTrigger"),
        min_partitions=get.count("minPartitions"),
        read_committed=isolation != "read_uncommitted",
        late_is_null=late == "null",
        push_filters=get.flag("pushFilters", False),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """`topic`: for rows without a topic. `id`: the name of a batch write, so that it can be
    repeated without duplicates; a stream has its query's id. `codec`: Kafka's number."""

    topic: str | None
    id: str | None
    batch: int
    codec: int
    transaction_timeout_ms: int


_CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")


def lowered(options: Options) -> dict[str, str]:
    """Returns options with lower-case names: Spark ignores their case, and Kafka's are lower."""
    return {name.lower(): value for name, value in options.items()}


def write_options(options: Options) -> WriteOptions:
    """Raises ConfigError, which names the option."""
    get = _OptionReader(lowered(options))
    get.refuse_misspelt()
    codec = get.choice("kafka.compression.type", tuple(_CODECS), "none")
    name = get.text("id")
    if name is not None and not _ID.fullmatch(name):
        raise ConfigError("use", "option id", "must be at most 200 of a-z, A-Z, 0-9, '.', '_', '-'")
    return WriteOptions(
        topic=get.text("topic"),
        id=name,
        batch=(get.count("batch", least=0) or 0),
        codec=_CODECS[codec],
        # The brokers' default maximum: the slowest task of a batch keeps the transactions of all
        # other tasks open.
        transaction_timeout_ms=get.count("kafka.transaction.timeout.ms") or 900_000,
    )


def connection(
    options: Options, side: Side, environment: Mapping[str, str] | None = None
) -> ClientSettings:
    """Returns the settings of the connection to the cluster. Raises ConfigError."""
    options = lowered(options)
    file, alias = options.get("config"), options.get("cluster")
    if file is not None:
        given = [name for name in options if name.removeprefix(_PREFIX) in SECURITY]
        if given:
            raise ConfigError("use", f"option {given[0]}", "the file in option config says it")
        if alias is None:
            raise ConfigError("use", "option config", "set option cluster to an alias of the file")
        return _from_file(Path(file), alias, side)
    if alias is not None:
        raise ConfigError("use", "option cluster", "set option config to the file that names it")
    refuse_secrets(options)
    entries = {
        name.removeprefix(_PREFIX): Entry(key=name, value=value, line=0)
        for name, value in options.items()
        if name.startswith(_PREFIX)
    }
    if not entries.get("bootstrap.servers"):
        raise ConfigError("use", "option kafka.bootstrap.servers", "it is missing")
    problems = Problems("the options of the causeway data source")
    resolved = resolve(entries, os.environ if environment is None else environment, problems)
    settings = client_settings("Kafka", resolved, problems)
    problems.raise_if_any()
    if settings is None:
        raise ConfigError("use", "the options of the causeway data source", "a value is missing")
    return settings


def refuse_secrets(options: Options) -> None:
    """Raises ConfigError for a secret in an option: Spark shows options."""
    for name, value in lowered(options).items():
        key = name.removeprefix(_PREFIX)
        if "${" in value and key != "sasl.jaas.config":
            continue
        entry = Entry(key=key, value=value, line=0)
        if key == "sasl.jaas.config":
            clear = _clear_in_jaas(value)
        else:
            clear = entry.secret and bool(value) and "certificate" not in key
        if clear:
            raise ConfigError(
                "use",
                f"option {name}",
                "it holds a secret, and Spark shows options in plans, pages and event logs",
                remedy="name it instead: ${env:NAME}, ${file:PATH:KEY} or ${dir:PATH:FILE}",
            )


def _clear_in_jaas(value: str) -> bool:
    try:
        found = parse_jaas(value).options
    except ConfigError:
        # The whole value may be one reference.
        return not re.fullmatch(r"\s*\$\{[^}]*\}\s*", value)
    return any(_SECRET_PARTS.search(name) and "${" not in part for name, part in found.items())


def _from_file(path: Path, alias: str, side: Side) -> ClientSettings:
    from causeway.formats import load

    settings = load(path)
    by_alias: dict[str, ClientSettings] = {}
    for link in settings.links:
        ends = (link.source, link.target) if side == "write" else (link.target, link.source)
        for client in ends:  # the later one wins: readers connect as a source, writers as a target
            by_alias[client.alias] = client
    if alias not in by_alias:
        raise ConfigError(
            "use",
            f"cluster {alias}",
            f"no flow of {path} that is enabled names it, only {', '.join(sorted(by_alias))}",
        )
    return by_alias[alias]


def _assigned(data: Any) -> tuple[TopicPartition, ...]:
    try:
        return tuple(TopicPartition(str(t), int(p)) for t, parts in data.items() for p in parts)
    except (AttributeError, TypeError, ValueError):
        raise ConfigError("use", "option assign", 'must be like {"orders": [0, 1]}') from None


@dataclass(frozen=True, slots=True)
class _OptionReader:
    options: Options

    def text(self, name: str) -> str | None:
        return (self.options.get(name.lower()) or "").strip() or None

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is not None and text.lower() not in ("true", "false"):
            raise ConfigError("use", f"option {name}", f"must be true or false, not {text!r}")
        return default if text is None else text.lower() == "true"

    def count(self, name: str, *, least: int = 1) -> int | None:
        text = self.text(name)
        if text is not None and (not text.isdecimal() or int(text) < least):
            raise ConfigError(
                "use", f"option {name}", f"must be a number from {least} on, not {text!r}"
            )
        return None if text is None else int(text)

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        text = self.text(name) or default
        if text.lower() not in choices:
            cause = f"must be one of {', '.join(choices)}, not {text!r}"
            raise ConfigError("use", f"option {name}", cause)
        return text.lower()

    def json(self, name: str) -> Any:
        text = self.text(name) or ""
        try:
            return json.loads(text)
        except ValueError as error:
            raise ConfigError("use", f"option {name}", f"is not JSON: {error}") from None

    def bound(self, side: str, default: int) -> Bound:
        """Returns the bound of `side`, starting or ending. A time for all partitions overrides
        times of partitions, and these override offsets."""
        every, each, at = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
        if self.text(every):
            return Bound(name=every, at=self.count(every, least=0) or 0, timed=True)
        if self.text(each):
            return Bound(name=each, at=self._by_partition(each, -1), timed=True)
        text = (self.text(at) or "").lower()
        words = {"earliest": EARLIEST, "latest": LATEST, "": default}
        if side == "ending":
            del words["earliest"]
        if text in words:
            return Bound(name=at, at=words[text])
        return Bound(name=at, at=self._by_partition(at, -2))

    def _by_partition(self, name: str, least: int) -> dict[TopicPartition, int]:
        data = self.json(name)
        try:
            found = {
                TopicPartition(topic, int(partition)): int(value)
                for topic, parts in data.items()
                for partition, value in parts.items()
            }
        except (AttributeError, TypeError, ValueError):
            found = {}
        if not found or min(found.values()) < least:
            raise ConfigError("use", f"option {name}", 'must be like {"orders": {"0": 23}}')
        return found

    def refuse_misspelt(self) -> None:
        for name in self.options:
            if name.lower() in _KNOWN or name.startswith(_PREFIX):
                continue
            close = difflib.get_close_matches(name.lower(), _KNOWN, 1, 0.85)
            if close:
                raise ConfigError(
                    "use", f"option {name}", f"it is not known; is {_KNOWN[close[0]]} meant?"
                )
        for name in self.options:
            key = name.removeprefix(_PREFIX)
            security = key.startswith(("ssl.", "sasl.", "security."))
            known = key in SECURITY or is_done_anyway(key, self.options[name])
            if name.startswith(_PREFIX) and security and not known:
                raise ConfigError(
                    "use", f"option {name}", "it is not known, and may be meant to protect"
                )
