"""`sasl.jaas.config`: one login module and its options, as Java's clients read it.

org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b\\"c";

Other than in Java a quoted value may have several lines, as certificates do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from causeway.errors import ConfigError

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<quoted>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*')
    | (?P<mark>[=;])
    | (?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NAMES = ("username", "password", "clientId", "clientSecret", "scope")
_WRITTEN = "name=\"value\"; a '\"' inside a value as '\\\"'"
_FLAGS = ("required", "requisite", "sufficient", "optional")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """`name` is the class without its package. The options hold secrets: never shown."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Raises ConfigError that says what is wrong, and quotes nothing."""
    tokens = _tokens(text)
    if len(tokens) < 2:
        raise _error("it needs a login module, a control flag such as 'required' and a ';'")
    (_, module), (_, flag) = tokens[:2]
    if flag.lower() not in _FLAGS:
        raise _error(f"after the login module comes one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    at = 2
    while at < len(tokens) and tokens[at] != ("mark", ";"):
        # What stands where a name should may be a piece of the value before it.
        name = tokens[at][1]
        shown = name if name in _NAMES else f"number {len(options) + 1}"
        if tokens[at][0] != "word" or tokens[at + 1 : at + 2] != [("mark", "=")]:
            raise _error(f"option {shown} is not written {_WRITTEN}")
        if at + 2 >= len(tokens) or tokens[at + 2][0] == "mark":
            raise _error(f"option {shown} has no value, or one that must be quoted: {_WRITTEN}")
        options[name] = tokens[at + 2][1]
        at += 3
    if at >= len(tokens):
        raise _error("it must end with ';'")
    if at + 1 < len(tokens):
        raise _error("only one login module can be used")
    return LoginModule(name=module.rsplit(".", 1)[-1], options=options)


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _error(
                "a quoted value is not closed: a '\"' inside one is written '\\\"', also in what a"
                " ${...} stands for"
            )
        at = match.end()
        if match.lastgroup == "quoted":
            found.append(("quoted", _ESCAPE.sub(_unescape, match.group()[1:-1])))
        elif match.lastgroup is not None:
            found.append((match.lastgroup, match.group()))
    return found


def _unescape(match: re.Match[str]) -> str:
    text = match.group(1)
    return chr(int(text, 8)) if text[0] in "01234567" else _NAMED.get(text, text)


def _error(cause: str) -> ConfigError:
    return ConfigError("read sasl.jaas.config", "", cause)
