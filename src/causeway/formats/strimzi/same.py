"""That a resource says what a property file says: by what counts for each flow, client and pair.

The two say it in different places, so their keys cannot be compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from pathlib import Path

from causeway import filters
from causeway.config import audit, jaas, kept_names
from causeway.config.keys import (
    OF_FLOWS,
    ControlKeys,
    FlowKeys,
    HeartbeatKeys,
    Keys,
)
from causeway.config.precedence import Role, Side, client_entries, flow_entries
from causeway.config.problems import Problems
from causeway.config.transforms import family
from causeway.errors import ConfigError
from causeway.formats.causeway_yaml.document import parse
from causeway.formats.causeway_yaml.login import JAAS
from causeway.formats.causeway_yaml.write import said
from causeway.formats.properties import Entry
from causeway.formats.strimzi import logins
from causeway.formats.strimzi.read import read_resource
from causeway.formats.strimzi.secrets import Secrets
from causeway.formats.strimzi.write import Written
from causeway.formats.strimzi.write_cluster import PAIR_KEYS, TRUST_KEYS

_NOWHERE = "/nowhere"
_SIDES: tuple[tuple[Side, Role], ...] = (
    ("source", "consumer"),
    ("target", "producer"),
    ("source", "admin"),
    ("target", "admin"),
)
_UPPER = ("security.protocol", "sasl.mechanism")


def check(path: Path, entries: Mapping[str, Entry], resource: Written) -> None:
    """Raises ConfigError that names what the resource says otherwise."""
    one = dict(_counts(entries, resource.made.files))
    other = dict(_counts(_back(path, resource), resource.made.files))
    lost = [key for key in one.keys() | other.keys() if not _same(key, one, other)]
    if lost:
        raise ConfigError(
            "convert",
            str(path),
            f"a resource cannot say {', '.join(sorted(lost))}",
            remedy="keep the property file, or causeway.yaml",
        )


def _back(path: Path, resource: Written) -> dict[str, Entry]:
    """The resource's entries, with the file's own texts in place of what Secrets are to hold."""
    problems = Problems(str(path))
    secrets = Secrets(directory=Path(_NOWHERE), problems=problems, unseen=True)
    found = read_resource(parse(resource.text, str(path), problems), problems, secrets)
    texts = {
        f"${{dir:{_NOWHERE}/{secret}:{key}}}": text
        for (secret, key), text in resource.made.texts.items()
    }
    entries: dict[str, Entry] = {}
    for key, entry in found.entries.items():
        value = entry.value
        for reference, text in texts.items():
            value = value.replace(reference, text)
        entries[key] = Entry(key=key, value=value, line=0)
    settled = logins.settle(entries, problems, resolved=False)
    problems.raise_if_any()
    return settled


def _counts(entries: Mapping[str, Entry], files: set[str]) -> Iterator[tuple[str, str]]:
    texts = said(entries)
    plain = {key: Entry(key=key, value=text, line=0) for key, text in texts.items()}
    aliases = sorted(filters.split_list(entries["clusters"].value))
    for source, target in permutations(aliases, 2):
        flow = f"{source}->{target}"
        own = flow_entries(plain, source, target, OF_FLOWS)
        on = "enabled" in own and own["enabled"].value.strip().lower() == "true"
        yield f"{flow}.enabled", str(on)
        paused = own["causeway.paused"].value if "causeway.paused" in own else ""
        yield f"{flow}.heartbeats paused", str("heartbeats" in paused.lower())
        names = OF_FLOWS - {"enabled"} if on else HeartbeatKeys.names()
        if on:
            positions = own[_POSITIONS].value.strip() if _POSITIONS in own else ""
            positions = positions or kept_names.offsets_topic(plain, source, target)
            yield f"{flow}.{_POSITIONS}", positions
        for name in names - {_POSITIONS}:
            if name in own or name in _DEFAULTS:
                yield f"{flow}.{name}", own[name].value if name in own else _DEFAULTS[name]
        if on:
            for name, entry in family(plain, flow).items():
                yield f"{flow}.{name}", entry.value
        for side, role in _SIDES if on else _SIDES[-1:]:
            alias = source if side == "source" else target
            client = client_entries(plain, source, target, side, role)
            found = {"security.protocol": "PLAINTEXT"} | {k: e.value for k, e in client.items()}
            for name, text in found.items():
                # `admin.timeout.ms` is a flow's key, no client's.
                moved = alias in files and name in (*TRUST_KEYS, *PAIR_KEYS)
                if not moved and name != "timeout.ms":
                    yield f"{flow}.{side}.{role}.{name}", text
    for key, text in texts.items():
        name = audit.split_key(key, aliases)[1]
        if name.startswith(("causeway.", "spark.")) and name not in OF_FLOWS:
            yield key, text


_POSITIONS = "causeway.mirror.maker.offsets.topic"


def _same(key: str, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    if key not in one or key not in other:
        return False
    text, again = one[key].strip(), other[key].strip()
    if key.endswith(_UPPER):
        return text.upper() == again.upper()
    if key.endswith(JAAS) and text != again:
        try:
            return jaas.parse_jaas(text) == jaas.parse_jaas(again)
        except ConfigError:
            return False
    if key.endswith("causeway.paused"):
        return set(filters.split_list(text)) == set(filters.split_list(again))
    return text == again or text.lower() == again.lower() in ("true", "false")


def _defaults(*models: type[Keys]) -> Iterator[tuple[str, str]]:
    for model in models:
        for info in model.model_fields.values():
            text = "" if info.default is None else str(info.default)
            yield str(info.alias), text.lower() if isinstance(info.default, bool) else text


_DEFAULTS = dict(_defaults(FlowKeys, ControlKeys, HeartbeatKeys))
