"""What Causeway does with each key of a MirrorMaker 2 file, and the alternative for keys without
effect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from causeway.config import OLD_NAMES, Entries, Entry
from causeway.config.reading import (
    OVERRIDE,
    Effect,
    audit_key,
    is_done_anyway,
    shown_place,
    split_key,
)
from causeway.formats import YamlEntry


class KeyEffect(StrEnum):
    """What Causeway does with a key, the most important effect first."""

    REFUSED = "refused"
    MISPLACED = "misplaced"  # has an effect only in another place
    UNKNOWN = "unknown"  # to MirrorMaker 2, Connect and Kafka's clients as well
    NOT_YET = "not acted on"
    MEANINGLESS = "without meaning"  # about how Connect works
    AGREED = "done anyway"  # its value says what Causeway does without it
    OURS = "Causeway's own"  # MirrorMaker 2 passes it over
    ACTS = "acts"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """`key` as in the file; hidden if it may be a piece of a secret. `note`: the reason, or what to
    do instead."""

    key: str
    line: int
    use: KeyEffect
    note: str = ""


_USES: Final = {
    Effect.ACTED_ON: KeyEffect.ACTS,
    Effect.MEANINGLESS: KeyEffect.MEANINGLESS,
    Effect.NOT_YET: KeyEffect.NOT_YET,
    Effect.MISPLACED: KeyEffect.MISPLACED,
    Effect.UNKNOWN: KeyEffect.UNKNOWN,
}
_AS_THEY_ARE: Final = "batches go on as they are: size and codec are the source's"
_EXACTLY_ONCE: Final = "each record is copied once without it, for readers of uncommitted data too"
_HTTP: Final = "status and actions are served at causeway.http.port"
_NO_CONVERTERS: Final = "records are never converted"
# By the end of a key's name; the first that fits counts.
_NOTES: Final = (
    ("tasks.max", "causeway.lanes says how many lanes share all partitions"),
    ("tasks.max.enforce", "there are no tasks: lanes share all partitions"),
    ("producer.compression.type", f"{_AS_THEY_ARE}; or set compression.type of the target's topic"),
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
    ("sasl.kerberos.service.name", "Kerberos is not there: PLAIN, SCRAM, OAUTHBEARER or TLS"),
)
_OTHERS: Final = {
    KeyEffect.MEANINGLESS: "about how Connect works: leave it out",
    KeyEffect.NOT_YET: "no effect here: leave it out, unless you rely on it",
}


def key_uses(entries: Entries, aliases: tuple[str, ...]) -> tuple[KeyUse, ...]:
    """Of every key, in the file's order."""
    return tuple(_use(entry, aliases) for entry in entries.values())


def _use(entry: Entry, aliases: tuple[str, ...]) -> KeyUse:
    finding = audit_key(entry.key, aliases)
    use, note = _USES[finding.effect], finding.hint
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
        key = entry.path  # as the file has it; no line of YAML is a piece of the one before
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
