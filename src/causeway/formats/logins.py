"""Makes login modules of Kafka's clients from their options, once these are known.

causeway.yaml has `username` and `password`. A resource of Strimzi has the options of each module.
Between reading and `with_login_modules`, entries have the options under keys that no file has:
`A.sasl.jaas.config/MODULE/option`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from causeway.config import Entry, Problems
from causeway.config.reading import parse_jaas
from causeway.errors import ConfigError

_PACKAGE = "org.apache.kafka.common.security."
PLAIN = f"{_PACKAGE}plain.PlainLoginModule"
SCRAM = f"{_PACKAGE}scram.ScramLoginModule"
OAUTH = f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule"
_MODULES = {
    "PLAIN": PLAIN,
    "SCRAM-SHA-256": SCRAM,
    "SCRAM-SHA-512": SCRAM,
}
_REFERENCE = re.compile(r"(\$\{[^}]*\})")
MECHANISM, JAAS = "sasl.mechanism", "sasl.jaas.config"
# Keys of causeway.yaml's values, until the mechanism is known.
USER, PASSWORD = f"{JAAS}/username", f"{JAAS}/password"


def name_module(entries: dict[str, Entry], prefix: str, path: str, problems: Problems) -> None:
    """Makes the user name and the password in `entries` options of the mechanism's login module."""
    user, word = entries.pop(prefix + USER, None), entries.pop(prefix + PASSWORD, None)
    if user is None and word is None:
        return
    mechanism = entries.get(prefix + MECHANISM)
    module = _MODULES.get(mechanism.value.strip().upper()) if mechanism else None
    if user is None or word is None:
        problems.add(f"{path}: username and password go together")
    elif prefix + JAAS in entries:
        problems.add(f"{entries[prefix + JAAS].place} and {user.place} say the same twice")
    elif module is None:
        problems.add(
            f"{user.place} needs a mechanism ({', '.join(_MODULES)}); for other mechanisms write"
            " jaas-config"
        )
    else:
        for name, entry in (("username", user), ("password", word)):
            key = f"{prefix}{JAAS}/{module}/{name}"
            entries[key] = replace(entry, key=key)


def login_parts(text: str, mechanism: str) -> tuple[str, str] | None:
    """User name and password, if the login module `text` has no other options."""
    module = _MODULES.get(mechanism)
    try:
        found = parse_jaas(text)
    except ConfigError:
        return None
    options = found.options
    if module is None or found.name != module.rsplit(".", 1)[-1] or set(options) != _OPTIONS:
        return None
    user, word = options["username"], options["password"]
    again = parse_jaas(_login_module(module, user, word))
    return (user, word) if again == found else None


_OPTIONS = {"username", "password"}


def login_option(alias: str, module: str, name: str) -> str:
    """Returns the key of one login option, until `with_login_modules`."""
    return f"{alias}.{JAAS}/{module}/{name}"


def with_login_modules(
    entries: Mapping[str, Entry], problems: Problems, *, resolved: bool
) -> dict[str, Entry]:
    """Returns `entries` with login modules made of their options. `resolved`: the entries have no
    references any more. A `sasl.jaas.config` in a cluster's config wins."""
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


def _login_module(module: str, user: str, password: str) -> str:
    user, password = _around_references(user), _around_references(password)
    return f'{module} required username="{user}" password="{password}";'
