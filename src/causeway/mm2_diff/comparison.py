"""Compares a whole file: Causeway's use of each key of a MirrorMaker 2 file, alternatives for keys
without effect, and the differences. Asks no cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from causeway import filters
from causeway.config import OLD_NAMES, Entry, Problems
from causeway.config.reading import (
    OVERRIDE,
    KeyEffect,
    audit_key,
    is_done_anyway,
    shown_place,
    split_key,
)
from causeway.errors import ConfigError, PrerequisiteError
from causeway.formats import YamlEntry, is_yaml, load, read_connectors, read_entries
from causeway.mm2_diff.behaviour import BehaviourDifference, differences, flows


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """`key`: as in the file; hidden if it may be part of a secret. `note`: the reason, or an
    alternative."""

    key: str
    line: int
    use: KeyEffect
    note: str = ""


_AS_THEY_ARE: Final = "batches go on as they are: their sizes are the source's"
_EXACTLY_ONCE: Final = "each record is copied once without it, for readers of uncommitted data too"
_HTTP: Final = "status and actions are served at causeway.http.port"
_NO_CONVERTERS: Final = "records are never converted"
_LOGIN_TIME: Final = "socket.connection.setup.timeout.ms is for a connection and its login"
_LOGIN_RETRY: Final = "a connection is tried again, and its login with it"
_CHECKED_THERE: Final = "brokers check tokens; Causeway sends them as they are"
_CHECKS: Final = (
    "clock.skew.seconds",
    "expected.audience",
    "expected.issuer",
    "jwks.endpoint.refresh.ms",
    "jwks.endpoint.retry.backoff.max.ms",
    "jwks.endpoint.retry.backoff.ms",
    "jwks.endpoint.url",
    "jwt.validator.class",
    "scope.claim.name",
    "sub.claim.name",
)
# By the end of a key's name. The first note that fits counts.
_NOTES: Final = (
    ("tasks.max", "causeway.lanes says how many lanes share all partitions"),
    ("tasks.max.enforce", "there are no tasks: lanes share all partitions"),
    ("producer.batch.size", _AS_THEY_ARE),
    ("producer.linger.ms", _AS_THEY_ARE),
    ("producer.buffer.memory", "causeway.lane.buffer.bytes is the most that a lane holds"),
    ("producer.acks", "it is always acks=all"),
    ("producer.retries", "what fails is tried again until it succeeds, or its partition stops"),
    ("producer.delivery.timeout.ms", "what fails is tried again, and is never given up in silence"),
    ("producer.max.in.flight.requests.per.connection", "causeway.in.flight"),
    ("consumer.max.poll.records", "consumer.max.partition.fetch.bytes bounds what is read at once"),
    ("consumer.poll.timeout.ms", "consumer.fetch.max.wait.ms"),
    ("exactly.once.source.support", _EXACTLY_ONCE),
    ("exactly.once.support", _EXACTLY_ONCE),
    ("transaction.boundary", _EXACTLY_ONCE),
    ("transaction.boundary.interval.ms", _EXACTLY_ONCE),
    ("key.converter", _NO_CONVERTERS),
    ("value.converter", _NO_CONVERTERS),
    ("header.converter", _NO_CONVERTERS),
    ("listeners", _HTTP),
    ("rest.port", _HTTP),
    ("rest.host.name", _HTTP),
    ("rest.advertised.host.name", _HTTP),
    ("rest.advertised.port", _HTTP),
    ("dedicated.mode.enable.internal.rest", "drivers talk through the progress topic"),
    ("errors.tolerance", "no record is passed over in silence"),
    ("metric.reporters", "metrics are Prometheus', at /metrics"),
    ("sasl.login.connect.timeout.ms", _LOGIN_TIME),
    ("sasl.login.read.timeout.ms", _LOGIN_TIME),
    ("sasl.login.retry.backoff.ms", _LOGIN_RETRY),
    ("sasl.login.retry.backoff.max.ms", _LOGIN_RETRY),
    *(
        (f"sasl.login.refresh.{name}", "a token is renewed when four fifths of its life are over")
        for name in ("buffer.seconds", "min.period.seconds", "window.factor", "window.jitter")
    ),
    *((f"sasl.oauthbearer.{name}", _CHECKED_THERE) for name in _CHECKS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`keys`: in the file's order. `refused`: why Causeway does not run with this file on this
    machine."""

    file: str
    flows: tuple[str, ...]
    keys: tuple[KeyUse, ...]
    differences: tuple[BehaviourDifference, ...]
    refused: tuple[str, ...] = ()

    def of(self, *uses: KeyEffect) -> tuple[KeyUse, ...]:
        return tuple(key for key in self.keys if key.use in uses)

    def as_json(self) -> dict[str, Any]:
        """For `--json`: stable keys; no value of the file."""
        return {
            "file": self.file,
            "flows": list(self.flows),
            "refused": list(self.refused),
            "keys": [
                {"key": key.key, "line": key.line, "use": key.use, "note": key.note or None}
                for key in self.keys
            ],
            "differences": [
                {
                    "what": one.what,
                    "flows": list(one.flows),
                    "mirror_maker_2": one.mirror_maker,
                    "causeway": one.causeway,
                    "key": one.key or None,
                }
                for one in self.differences
            ],
        }


def compare(path: Path) -> Comparison:
    """Compares a file of any form that `load` reads, as a property file with the same settings.
    Raises ConfigError for other files."""
    problems = Problems(str(path))
    entries = read_entries(path, problems).entries
    if not entries:
        problems.raise_if_any()
    listed = entries.get("clusters")
    aliases = tuple(dict.fromkeys(filters.split_list(listed.value))) if listed else ()
    return Comparison(
        file=str(path),
        flows=tuple(flow.name for flow in flows(entries, aliases)),
        keys=tuple(_use(entry, aliases) for entry in entries.values()),
        differences=differences(entries, aliases),
        refused=_refused(path),
    )


def _refused(path: Path) -> tuple[str, ...]:
    if is_yaml(path) and read_connectors(path) is not None:
        return (f"connectors of Kafka Connect: causeway convert {path} writes a property file",)
    try:
        load(path)
    except (ConfigError, PrerequisiteError) as error:
        return tuple(line.strip() for line in str(error).splitlines() if line.strip())
    return ()


_OTHERS: Final = {
    KeyEffect.MEANINGLESS: "about how Connect works: leave it out",
    KeyEffect.NOT_YET: "no effect here: leave it out, unless you rely on it",
}


def _use(entry: Entry, aliases: tuple[str, ...]) -> KeyUse:
    finding = audit_key(entry.key, aliases)
    use, note = finding
    rest = split_key(entry.key, aliases)[1]
    if use in (KeyEffect.NOT_YET, KeyEffect.MEANINGLESS):
        if is_done_anyway(entry.key, entry.value):
            use = KeyEffect.AGREED
        else:
            name = rest.replace(OVERRIDE, "producer.")
            notes = (text for end, text in _NOTES if f".{name}".endswith(f".{end}"))
            note = next(notes, _OTHERS[use])
    elif use is KeyEffect.ACTS:
        use, note = _acting(rest, entry)
    shown = shown_place(entry, aliases)
    if isinstance(entry, YamlEntry):
        key = entry.path  # as in the file; a line of YAML is never part of the line before
    else:
        key = entry.key if shown.startswith(entry.key) else "(hidden)"
    return KeyUse(key=key, line=entry.line, use=use, note=note)


def _acting(name: str, entry: Entry) -> tuple[KeyEffect, str]:
    if name.startswith(("causeway.", "spark.")):
        return KeyEffect.OURS, ""
    if name in OLD_NAMES:
        return (
            KeyEffect.ACTS,
            f"as {OLD_NAMES[name]}; MirrorMaker 2 of Kafka 4 passes it over in silence",
        )
    if name == "transforms" and entry.value.strip():
        return KeyEffect.REFUSED, "Connect's transforms cannot run here: write causeway.transforms"
    return KeyEffect.ACTS, ""
