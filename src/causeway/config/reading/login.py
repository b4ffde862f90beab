"""Login modules: `sasl.jaas.config`, and the options of OAuth's.

org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b\\"c";

Java allows no line end in a quoted value. Causeway allows it, because certificates have several
lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from causeway.config.values import Secret
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
_SHOWN_NAMES = ("username", "password", "clientId", "clientSecret", "scope")
_WRITTEN = "name=\"value\"; a '\"' inside a value as '\\\"'"
_FLAGS = ("required", "requisite", "sufficient", "optional")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """A parsed login module. `name` is the class without its package. The options hold secrets:
    they are never shown."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Parses a login module. Raises ConfigError with the cause, which quotes nothing."""
    tokens = _tokens(text)
    if len(tokens) < 2:
        raise _refused("it needs a login module, a control flag such as 'required' and a ';'")
    (_, module), (_, flag) = tokens[:2]
    if flag.lower() not in _FLAGS:
        raise _refused(f"after the login module comes one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    at = 2
    while at < len(tokens) and tokens[at] != ("mark", ";"):
        # Text in the place of a name may be a piece of the value before it.
        name = tokens[at][1]
        shown = name if name in _SHOWN_NAMES else f"number {len(options) + 1}"
        if tokens[at][0] != "word" or tokens[at + 1 : at + 2] != [("mark", "=")]:
            raise _refused(f"option {shown} is not written {_WRITTEN}")
        if at + 2 >= len(tokens) or tokens[at + 2][0] == "mark":
            raise _refused(f"option {shown} has no value, or one that must be quoted: {_WRITTEN}")
        options[name] = tokens[at + 2][1]
        at += 3
    if at >= len(tokens):
        raise _refused("it must end with ';'")
    if at + 1 < len(tokens):
        raise _refused("only one login module can be used")
    return LoginModule(name=module.rsplit(".", 1)[-1], options=options)


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _refused(
                "a quoted value is not closed: a '\"' inside one is written '\\\"', also in what a"
                " ${...} means"
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


def _refused(cause: str) -> ConfigError:
    return ConfigError("read sasl.jaas.config", "", cause)


JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# From an option to the field that the token endpoint is asked with.
_FIELDS = {
    "oauth.refresh.token": "refresh_token",
    "oauth.password.grant.username": "username",
    "oauth.password.grant.password": "password",
    "oauth.client.assertion": "client_assertion",
    "oauth.client.assertion.type": "client_assertion_type",
    "oauth.audience": "audience",
}
TRUST = {
    f"{start}ssl.truststore.{name}": name
    for start in ("", "oauth.")
    for name in ("certificates", "location", "password", "type")
}
"""Options for the trusted certificates of the token endpoint: those of Kafka's handler, and those
of Strimzi's handler, which win."""

ACCESS_TOKEN = "oauth.access.token"  # noqa: S105 - an option's name
ACCESS_TOKEN_FILE = "oauth.access.token.location"  # noqa: S105 - an option's name
FILES = {
    "oauth.refresh.token.location": "refresh_token",
    "oauth.client.assertion.location": "client_assertion",
}
"""From an option that names a file to the field that has the file's content."""

_GRANT = "oauth.client.credentials.grant.type"

PROOFS = frozenset({"refresh_token", "password", "client_assertion"})
"""Fields that replace a client's secret."""

_KNOWN_OPTIONS = frozenset(
    (
        *_FIELDS,
        *TRUST,
        *(ACCESS_TOKEN, ACCESS_TOKEN_FILE, *FILES, _GRANT),
        *("clientId", "clientSecret", "scope"),
        *("oauth.client.id", "oauth.client.secret", "oauth.scope", "oauth.token.endpoint.uri"),
        # How tokens are checked here, waited for or counted: Causeway decides that itself.
        *("oauth.access.token.is.jwt", "oauth.connect.timeout.seconds", "oauth.enable.metrics"),
        *("oauth.http.retries", "oauth.http.retry.pause.millis", "oauth.include.accept.header"),
        *("oauth.max.token.expiry.seconds", "oauth.read.timeout.seconds"),
        *("oauth.username.claim", "oauth.fallback.username.claim"),
        "oauth.fallback.username.prefix",
    )
)


def is_known_option(name: str) -> bool:
    """Returns whether Causeway acts on the option, or whether the option does not change which
    token is used."""
    return name in _KNOWN_OPTIONS or name.startswith(("extension_", "unsecuredLogin"))


def unsupported_options(names: Iterable[str]) -> str:
    return f"options of the login module that are not supported: {', '.join(sorted(names))}"


def grant_of(
    options: Mapping[str, str], contents: Mapping[str, Secret]
) -> tuple[str, dict[str, Secret]]:
    """Returns the grant, and the fields of the request besides the client's id and secret.
    `contents`: the contents of the files in FILES, which win over the options."""
    fields = {
        field: Secret(value) for name, field in _FIELDS.items() if (value := options.get(name))
    }
    fields |= contents
    if "client_assertion" in fields:
        fields.setdefault("client_assertion_type", Secret(ASSERTION_TYPE))
    if "refresh_token" in fields:
        return "refresh_token", fields
    if "password" in fields:
        return "password", fields
    return options.get(_GRANT) or "client_credentials", fields
