"""`username` and `password` of causeway.yaml: written as the login module that Kafka's clients have
in `sasl.jaas.config`, and found again in one that says no more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from causeway.config import Entry, Problems
from causeway.config.reading import parse_jaas
from causeway.errors import ConfigError

_PACKAGE = "org.apache.kafka.common.security."
_MODULES = {
    "PLAIN": f"{_PACKAGE}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}scram.ScramLoginModule",
}
_REFERENCE = re.compile(r"(\$\{[^}]*\})")
MECHANISM, JAAS = "sasl.mechanism", "sasl.jaas.config"
# Keys that no file has: between reading and `settle`.
USER, PASSWORD = f"{JAAS}/username", f"{JAAS}/password"


def compose(entries: dict[str, Entry], prefix: str, path: str, problems: Problems) -> None:
    """Adds `sasl.jaas.config`, made of a name and a password, to `entries`."""
    user, word = entries.get(prefix + USER), entries.get(prefix + PASSWORD)
    if user is None and word is None:
        return
    if user is None or word is None:
        problems.add(f"{path}: username and password go together")
        return
    if prefix + JAAS in entries:
        problems.add(f"{entries[prefix + JAAS].place} and {user.place} say the same twice")
        return
    mechanism = entries.get(prefix + MECHANISM)
    module = _MODULES.get(mechanism.value.strip().upper()) if mechanism else None
    if module is None:
        problems.add(
            f"{user.place} needs mechanism: {', '.join(_MODULES)} beside it; for others write"
            " jaas-config"
        )
        return
    text = f'{module} required username="{_quoted(user.value)}" password="{_quoted(word.value)}";'
    entries[prefix + JAAS] = replace(word, key=prefix + JAAS, value=text)


def settle(entries: Mapping[str, Entry], problems: Problems) -> dict[str, Entry]:
    """`entries` as a property file has them. What came from outside stands between quotes now, and
    may not end them."""
    settled = {}
    for key, entry in entries.items():
        if not key.endswith((USER, PASSWORD)):
            settled[key] = entry
        elif entry.resolved and re.search(r'["\\\n]', entry.value):
            problems.add(
                f"{entry.place} has a quote, a backslash or a line end in it: write jaas-config,"
                " with these escaped as Kafka's clients want them"
            )
    return settled


def parts(text: str, mechanism: str) -> tuple[str, str] | None:
    """Name and password, if they are all that the login module `text` says."""
    module = _MODULES.get(mechanism)
    try:
        found = parse_jaas(text)
    except ConfigError:
        return None
    options = found.options
    if module is None or found.name != module.rsplit(".", 1)[-1] or set(options) != _OPTIONS:
        return None
    user, word = options["username"], options["password"]
    again = parse_jaas(f'{module} required username="{_quoted(user)}" password="{_quoted(word)}";')
    return (user, word) if again == found else None


_OPTIONS = {"username", "password"}


def _quoted(text: str) -> str:
    """As it stands between quotes; references stay what they are."""
    pieces = _REFERENCE.split(text)
    return "".join(
        piece if at % 2 else piece.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for at, piece in enumerate(pieces)
    )
