"""Sorts the keys of a MirrorMaker 2 file: acted on, known, misplaced or unknown.

No key is ignored silently: the warnings name all keys but those that are acted on.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from causeway.config.clients import (
    OF_REGISTRIES,
    SECURITY,
    ClientKeys,
    FetchSettings,
    ProducerKeys,
    SchemaKeys,
)
from causeway.config.entries import Entry
from causeway.config.keys import OF_FLOWS
from causeway.config.process import IN_SECONDS, HttpSettings, RunSettings, WebhookSettings
from causeway.config.reading import known
from causeway.config.reading.known import CLUSTER_KEYS, ROLE_KEYS, is_worker_key
from causeway.config.reading.precedence import OFFSETS_TOPIC, OVERRIDE
from causeway.config.transform_keys import (
    SECRET_FIELD,
    TRANSFORM_FAMILY,
    TRANSFORM_NAMES,
    TRANSFORMS,
    is_transform_key,
    split_transform_key,
)

_OF_FLOWS = OF_FLOWS | SchemaKeys.key_names()
_RUN = frozenset(IN_SECONDS).union(
    *(keys.key_names() for keys in (RunSettings, HttpSettings, WebhookSettings))
)
_CLIENT = ClientKeys.key_names() | frozenset(SECURITY)
_ROLE = {
    "consumer": _CLIENT | FetchSettings.key_names(),
    "producer": _CLIENT | ProducerKeys.key_names(),
    "admin": _CLIENT,
}


class KeyEffect(StrEnum):
    """What Causeway does with a key. The most important effect comes first."""

    REFUSED = "refused"
    MISPLACED = "misplaced"  # has an effect only in another place
    UNKNOWN = "unknown"  # to MirrorMaker 2, Connect and Kafka's clients as well
    NOT_YET = "not acted on"
    MEANINGLESS = "without meaning"  # about how Connect works
    AGREED = "done anyway"  # Causeway acts as its value says, without the key
    OURS = "Causeway's own"  # MirrorMaker 2 passes it over
    ACTS = "acts"


class Finding(NamedTuple):
    """The effect of a key. `hint` says where a misplaced key belongs, or which key a person may
    have meant by an unknown one."""

    effect: KeyEffect
    hint: str = ""


_FINE, _NOT_YET = Finding(KeyEffect.ACTS), Finding(KeyEffect.NOT_YET)
_IN_PRODUCER_FILE = Finding(KeyEffect.MISPLACED, "write it in the producer's file")
_LIKE_A_KEY = re.compile(r"([\w.-]+->)?[\w-]+(\.[a-z]+([_-][a-z]+)*)+", re.ASCII)
_MM1_FLOW = frozenset(
    {
        "causeway.delivery",
        "causeway.on.data.loss",
        "causeway.recompress",
        "causeway.throttle.bytes.per.second",
        TRANSFORMS,
    }
)
_MM1_CONSUMER = frozenset({"group.id", "metadata.max.age.ms"})


def split_key(key: str, aliases: Iterable[str]) -> tuple[str, str]:
    """Returns the prefix of a key and the rest. The prefix is `A->B`, an alias (the longest that
    fits) or empty.

    A flow's key has no prefix even if an alias fits: many people call a cluster `source`, and
    `source.cluster.alias` is a flow's key.
    """
    if key in _TOP_FINE or key in known.FLOW:
        return "", key
    by_length = sorted(aliases, key=len, reverse=True)
    source, arrow, rest = key.partition("->")
    if arrow:
        for target in by_length if source in by_length else ():
            if rest.startswith(f"{target}."):
                return f"{source}->{target}", rest[len(target) + 1 :]
        return "", key
    for alias in by_length:
        if key.startswith(f"{alias}."):
            return alias, key[len(alias) + 1 :]
    return "", key


def audit_key(key: str, aliases: Iterable[str]) -> Finding:
    """Returns what Causeway does with `key`, whatever its value is."""
    prefix, rest = split_key(key, aliases)
    if not prefix:
        return _top_level(rest, aliases)
    return _of_flow(rest, prefix) if "->" in prefix else _of_cluster(rest, prefix)


def key_warnings(entries: Mapping[str, Entry], aliases: Iterable[str]) -> list[str]:
    """Returns the warnings for the keys of a MirrorMaker 2 file: at most one line for each effect,
    with all its keys."""
    findings = [(entry, audit_key(entry.key, aliases)) for entry in entries.values()]
    remarks = [
        _place(entry, finding)
        for entry, finding in findings
        if entry.remark and finding.effect is KeyEffect.ACTS and not is_transform_key(entry.key)
    ]
    text = f"# does not end a value, so it is part of the value here: {', '.join(remarks)}"
    return [*([text] if remarks else []), *_lines(findings)]


def shown_place(entry: Entry, aliases: Iterable[str]) -> str:
    """Returns the place of `entry`. The key is hidden if it may be a piece of a secret."""
    return _place(entry, audit_key(entry.key, aliases))


def client_key_warnings(entries: Mapping[str, Entry], role: str) -> list[str]:
    """Returns what `key_warnings` returns, for a client's file of MirrorMaker 1. `role`: consumer
    or producer."""
    return _lines((entry, _of_client_file(entry.key, role)) for entry in entries.values())


def _of_client_file(name: str, role: str) -> Finding:
    acted_on = _RUN | _MM1_FLOW if role == "producer" else _MM1_CONSUMER
    if name in acted_on or name.startswith("config.providers."):
        return _FINE
    if name.startswith("spark."):
        return _FINE if role == "producer" else _IN_PRODUCER_FILE
    if name.startswith(TRANSFORM_FAMILY) and role == "producer":
        return _of_transform(name, "")
    if name in _RUN | _MM1_FLOW or name.startswith(TRANSFORM_FAMILY):
        return _IN_PRODUCER_FILE
    return _of_role(role, name, "")


def _lines(findings: Iterable[tuple[Entry, Finding]]) -> list[str]:
    places: dict[KeyEffect, list[str]] = {}
    for entry, (effect, hint) in findings:
        without_effect = effect in (KeyEffect.NOT_YET, KeyEffect.MEANINGLESS)
        if not (without_effect and is_done_anyway(entry.key, entry.value)):
            shown = _place(entry, Finding(effect, hint)) + (f" ({hint})" if hint else "")
            places.setdefault(effect, []).append(shown)
    texts = {
        KeyEffect.MEANINGLESS: "without meaning here, because they are about Connect",
        KeyEffect.NOT_YET: "not acted on in this version",
        KeyEffect.MISPLACED: "without effect in this place",
        KeyEffect.UNKNOWN: "unknown keys",
    }
    return [f"{text}: {', '.join(places[kind])}" for kind, text in texts.items() if kind in places]


def _place(entry: Entry, finding: Finding) -> str:
    """Returns the place of `entry`. If a secret was written on several lines without backslashes,
    pieces of it look like keys. So only text that looks like a key, or nearly is one, is shown."""
    unknown = finding.effect is KeyEffect.UNKNOWN
    if unknown and not finding.hint and not _LIKE_A_KEY.fullmatch(entry.key):
        return f"the key in line {entry.line}" if entry.line else "a hidden key"
    return entry.place


def is_done_anyway(name: str, value: str) -> bool:
    """Returns whether Causeway always acts as `name=value` asks. `name` may have a prefix."""
    values = next((v for key, v in known.AGREED.items() if f".{name}".endswith(f".{key}")), ())
    return value.replace(" ", "") in values


def _top_level(name: str, aliases: Iterable[str]) -> Finding:
    if name in _TOP_FINE or name.startswith(("spark.", "config.providers.")):
        return _FINE
    if name.startswith(TRANSFORM_FAMILY):
        return _of_transform(name, "")
    if name in known.FLOW or name in CLUSTER_KEYS or is_worker_key(name):
        return _of_connect(name)
    if override := _of_override(name, ""):
        return override
    role, _, rest = name.partition(".")
    if name in OF_REGISTRIES or rest in ROLE_KEYS.get(role, ()):
        return _misplaced(f"CLUSTER.{name}")
    with_alias = {f"{alias}.{word}" for alias in aliases for word in SECURITY}
    return _of_clients(name, "CLUSTER") or _unknown(name, _TOP_FINE | known.FLOW | with_alias)


def _of_cluster(name: str, alias: str) -> Finding:
    if name in SECURITY or name in OF_REGISTRIES or name == OFFSETS_TOPIC:
        return _FINE
    if name in CLUSTER_KEYS or is_worker_key(name):
        return _of_connect(name)
    role, _, rest = name.partition(".")
    if rest.startswith("override.") and role in ROLE_KEYS:
        return _misplaced(f"{alias}.{role}.{rest.removeprefix('override.')}")
    if role in ROLE_KEYS:
        return _of_role(role, rest, f"{alias}.{role}.")
    if name in _OF_FLOWS | known.FLOW or name.startswith(TRANSFORM_FAMILY):
        return _misplaced(f"{name}, or for a flow as A->B.{name}")
    words = CLUSTER_KEYS | OF_REGISTRIES | _WORDS_WITH_ROLE
    return _of_clients(name, alias) or _unknown(name, words, f"{alias}.")


def _of_clients(name: str, alias: str) -> Finding | None:
    """Returns the finding for a client's key without a role. None for other keys."""
    role = next((role for role, names in ROLE_KEYS.items() if name in names), None)
    return _misplaced(f"{alias}.{role}.{name}") if role else None


def _misplaced(place: str) -> Finding:
    return Finding(KeyEffect.MISPLACED, f"write it as {place}")


def _of_flow(name: str, flow: str) -> Finding:
    if name in _OF_FLOWS:
        return _FINE
    if name.startswith(TRANSFORM_FAMILY):
        return _of_transform(name, f"{flow}.")
    if name in known.FLOW:
        return _of_connect(name)
    if name == OFFSETS_TOPIC:
        return _misplaced(f"TARGET.{name}")
    if name in _RUN:
        return Finding(KeyEffect.MISPLACED, f"it is for all flows: write it as {name}")
    if override := _of_override(name, f"{flow}."):
        return override
    side = next((side for side in ("source.", "target.") if name.startswith(side)), "")
    role, _, rest = name.removeprefix(side).partition(".")
    if side and role == "cluster":
        return _FINE if rest in SECURITY else _of_cluster(rest, f"{flow}.{side}cluster")
    if role in ROLE_KEYS:
        # The source's producer and the target's consumer serve offset syncs and checkpoints only.
        idle = (side, role) in (("source.", "producer"), ("target.", "consumer"))
        finding = _of_role(role, rest, f"{flow}.{side}{role}.")
        return _NOT_YET if idle and finding is _FINE else finding
    if is_worker_key(name) or name in CLUSTER_KEYS:
        return _of_connect(name)
    if name in OF_REGISTRIES:
        return _misplaced(f"CLUSTER.{name}")
    return _unknown(name, _OF_FLOWS | known.FLOW | _WORDS_WITH_ROLE, f"{flow}.")


def _of_transform(name: str, prefix: str) -> Finding:
    transform, key = split_transform_key(name)
    if key in TRANSFORM_NAMES or key.removeprefix(SECRET_FIELD) not in ("", key):
        return _FINE
    if not transform or not key:
        return Finding(KeyEffect.UNKNOWN, f"write it as {prefix}{TRANSFORM_FAMILY}NAME.KEY")
    return _unknown(key, TRANSFORM_NAMES, f"{prefix}{TRANSFORM_FAMILY}{transform}.")


def _of_role(role: str, name: str, prefix: str) -> Finding:
    if name in _ROLE[role]:
        return _FINE
    if name in ROLE_KEYS[role]:
        return _NOT_YET
    return _unknown(name, ROLE_KEYS[role], prefix)


def _of_override(name: str, prefix: str) -> Finding | None:
    """Returns the finding for a connector's `ROLE.override.KEY`. None for other keys. Connect's own
    producer writes a connector's records, so `producer.override.` reaches it. MirrorMaker uses no
    consumer and no admin client of Connect, so the other two have no effect."""
    role, dot, rest = name.partition(".override.")
    if not dot or role not in ROLE_KEYS:
        return None
    if f"{role}{dot}" == OVERRIDE:
        return _of_role(role, rest, f"{prefix}{OVERRIDE}")
    return _misplaced(f"{prefix or 'A->B.'}{role}.{rest}")


def _of_connect(name: str) -> Finding:
    if name in known.MOOT:
        return _FINE
    return Finding(KeyEffect.MEANINGLESS) if known.is_connects_own(name) else _NOT_YET


def _unknown(name: str, words: Iterable[str], prefix: str = "") -> Finding:
    near = difflib.get_close_matches(name, sorted(words), n=1, cutoff=0.8)
    return Finding(KeyEffect.UNKNOWN, f"did you mean {prefix}{near[0]}?" if near else "")


_TOP_FINE = _RUN | _OF_FLOWS | {*SECURITY, "clusters", "config.providers", OFFSETS_TOPIC}
_WORDS_WITH_ROLE = frozenset(f"{role}.{name}" for role, names in _ROLE.items() for name in names)
