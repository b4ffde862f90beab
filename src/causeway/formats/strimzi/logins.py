"""Login modules, put together once their options are known: a password may have any character."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from causeway.config import Entry, Problems
from causeway.formats.causeway_yaml.login import JAAS

_PACKAGE = "org.apache.kafka.common.security"
PLAIN = f"{_PACKAGE}.plain.PlainLoginModule"
SCRAM = f"{_PACKAGE}.scram.ScramLoginModule"
OAUTH = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"
# Keys that no file has: `A.sasl.jaas.config/MODULE/option`, between reading and `settle`.
_REFERENCE = re.compile(r"(\$\{[^}]*\})")


def option(alias: str, module: str, name: str) -> str:
    """The key of one option, until `settle`."""
    return f"{alias}.{JAAS}/{module}/{name}"


def settle(entries: Mapping[str, Entry], problems: Problems, *, resolved: bool) -> dict[str, Entry]:
    """`entries` as a property file has them. `resolved`: no reference is left in them. One that a
    config writes out wins."""
    settled: dict[str, Entry] = {}
    modules: dict[str, dict[str, Entry]] = {}
    for key, entry in entries.items():
        name, slash, rest = key.partition("/")
        if not slash or not name.endswith(JAAS):
            settled[key] = entry
        elif name not in entries:
            settled.setdefault(name, entry)  # its place among the others
            modules.setdefault(f"{name}/{rest.rpartition('/')[0]}", {})[key] = entry
    for place, options in modules.items():
        name, _, module = place.partition("/")
        parts = []
        for key, entry in options.items():
            if not entry.value and not entry.missing:
                problems.add(f"{entry.place} has nothing in it")
            value = _escaped(entry.value) if resolved else _around_references(entry.value)
            parts.append(f'{key.rpartition("/")[2]}="{value}"')
        last = next((each for each in options.values() if each.missing), [*options.values()][-1])
        text = f"{module} required {' '.join(parts)};"
        settled[name] = replace(last, key=name, value="" if last.missing else text)
    return settled


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _around_references(text: str) -> str:
    pieces = _REFERENCE.split(text)
    return "".join(each if at % 2 else _escaped(each) for at, each in enumerate(pieces))
