"""Reads the login of one client: `sasl.mechanism`, `sasl.jaas.config` and the keys beside them.

One function for each mechanism. Each adds every problem to the reader's problems and returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast, get_args

from causeway.config.logins import OAuthSettings, SaslMechanism, SaslSettings
from causeway.config.reading import login
from causeway.config.reading.aws import MSK_HANDLER, aws_settings
from causeway.config.reading.client_reader import STORE_TYPES, ClientReader, is_endpoint
from causeway.config.values import Secret
from causeway.errors import ConfigError

JAAS = "sasl.jaas.config"
_HANDLER = "sasl.login.callback.handler.class"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a key's name


def read_sasl(reader: ClientReader) -> SaslSettings | None:
    """The login of the client. None after a problem, which goes to the reader's problems."""
    mechanism = _mechanism(reader)
    if mechanism is None:
        return None
    login_of = _LOGINS[mechanism]
    try:
        options = _options(reader, mechanism, login_of)
    except ConfigError as error:
        reader.refuse(JAAS, str(error))
        return None
    return None if options is None else login_of.read(reader, mechanism, options)


def _mechanism(reader: ClientReader) -> SaslMechanism | None:
    mechanism = (reader.text("sasl.mechanism") or "GSSAPI").upper()
    if mechanism in _LOGINS:
        return cast(SaslMechanism, mechanism)
    known = ", ".join(get_args(SaslMechanism))
    if mechanism != "GSSAPI":
        cause = f"{reader.shown('sasl.mechanism')} is not supported"
    elif reader.text("sasl.mechanism"):
        cause = "GSSAPI (Kerberos) is not supported"
    else:
        cause = "not set, and Kafka's default, GSSAPI (Kerberos), is not supported"
    reader.refuse("sasl.mechanism", f"{cause}, only {known}")
    return None


def _options(
    reader: ClientReader, mechanism: SaslMechanism, login_of: _Login
) -> Mapping[str, str] | None:
    """The options of the login module. Raises ConfigError if the text is not a login module."""
    text = reader.text(JAAS)
    if text is None:
        if login_of.is_complete_without_module(reader):
            return {}
        reader.missing(JAAS, f"{mechanism} needs a login module")
        return None
    module = login.parse_jaas(text)
    if module.name != login_of.module:
        known = {each.module for each in _LOGINS.values()} | {"Krb5LoginModule"}
        found = module.name if module.name in known else "another login module"
        reader.refuse(JAAS, f"{mechanism} needs {login_of.module}, not {found}")
        return None
    return module.options


def _password(
    reader: ClientReader, mechanism: SaslMechanism, options: Mapping[str, str]
) -> SaslSettings | None:
    """PLAIN and SCRAM."""
    if options.get("tokenauth", "").lower() == "true":
        reader.refuse(JAAS, "delegation tokens are not supported")
        return None
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        reader.refuse(JAAS, f"the login module has no {' and no '.join(missing)}")
        return None
    return SaslSettings(
        mechanism=mechanism,
        username=options["username"],
        password=Secret(options["password"]),
    )


def _oauth(
    reader: ClientReader, mechanism: SaslMechanism, options: Mapping[str, str]
) -> SaslSettings | None:
    if _is_msks(reader):
        return _msk_iam(reader, mechanism, options)
    oauth = _oauth_settings(reader, options)
    return SaslSettings(mechanism=mechanism, oauth=oauth) if oauth else None


def _msk_iam(
    reader: ClientReader, mechanism: SaslMechanism, options: Mapping[str, str]
) -> SaslSettings | None:
    """AWS_MSK_IAM, and OAUTHBEARER with tokens for MSK."""
    aws = aws_settings(reader, JAAS, options)
    return SaslSettings(mechanism=mechanism, aws=aws) if aws else None


def _is_msks(reader: ClientReader) -> bool:
    return (reader.text(_HANDLER) or "").endswith(f".{MSK_HANDLER}")


def _has_client_id(reader: ClientReader) -> bool:
    return reader.text(_CLIENT_ID) is not None or _is_msks(reader)


def _never(_: ClientReader) -> bool:
    return False


def _always(_: ClientReader) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Login:
    """How the login of a mechanism is read. `module`: its login module, without the package."""

    module: str
    read: Callable[[ClientReader, SaslMechanism, Mapping[str, str]], SaslSettings | None]
    is_complete_without_module: Callable[[ClientReader], bool] = _never


_LOGINS: Mapping[str, _Login] = {
    "PLAIN": _Login(module="PlainLoginModule", read=_password),
    "SCRAM-SHA-256": _Login(module="ScramLoginModule", read=_password),
    "SCRAM-SHA-512": _Login(module="ScramLoginModule", read=_password),
    "OAUTHBEARER": _Login(
        module="OAuthBearerLoginModule", read=_oauth, is_complete_without_module=_has_client_id
    ),
    "AWS_MSK_IAM": _Login(
        module="IAMLoginModule", read=_msk_iam, is_complete_without_module=_always
    ),
}


def _oauth_settings(reader: ClientReader, options: Mapping[str, str]) -> OAuthSettings | None:
    """Client credentials from the login module, or from keys of their own (since Kafka 4.1),
    which win. Strimzi's handler calls the same options `oauth.client.id` and so on, and has
    more grants."""

    def pick(key: str, *names: str) -> str | None:
        found = (options[name] for name in names if options.get(name))
        return reader.secret(key) or next(found, None)

    given = options.get(login.ACCESS_TOKEN, "").strip()
    endpoint = pick(_ENDPOINT, "oauth.token.endpoint.uri")
    client_id = pick(_CLIENT_ID, "clientId", "oauth.client.id")
    secret = pick(_CLIENT_SECRET, "clientSecret", "oauth.client.secret")
    if any(name.startswith("unsecuredLogin") for name in options):
        unsecured = "unsecured tokens (unsecuredLogin...) are not supported"
        reader.refuse(JAAS, f"{unsecured}, only client credentials")
        return None
    if not given and (endpoint is None or not is_endpoint(endpoint.strip())):
        reader.problems.add(
            f"{reader.place(_ENDPOINT)} must be an http(s) URL, without user and password:"
            f" these are {_CLIENT_ID} and {_CLIENT_SECRET}"
        )
        return None
    unknown = [name for name in options if not login.is_known_option(name)]
    if unknown:
        told = "options of the login module that are not supported"
        reader.refuse(JAAS, f"{told}: {', '.join(sorted(unknown))}")
        return None
    extensions = {
        name.removeprefix("extension_"): value
        for name, value in options.items()
        if name.startswith("extension_")
    }
    if given or endpoint is None:
        return OAuthSettings(
            token_endpoint="",
            client_id="",
            client_secret=Secret(""),
            extensions=extensions,
            access_token=Secret(given),
        )
    grant, fields = login.grant_of(options)
    if client_id is None or (secret is None and not fields.keys() & login.PROOFS):
        needed = f"{_CLIENT_ID} and {_CLIENT_SECRET}"
        reader.refuse(
            JAAS,
            f"OAUTHBEARER needs {needed} (or clientId and clientSecret in the login module)",
        )
        return None
    return OAuthSettings(
        token_endpoint=endpoint.strip(),
        client_id=client_id,
        client_secret=Secret(secret or ""),
        grant=grant,
        fields=fields,
        scope=pick("sasl.oauthbearer.scope", "scope", "oauth.scope"),
        extensions=extensions,
        ca_pem=_trusted_at_endpoint(reader, options),
    )


def _trusted_at_endpoint(reader: ClientReader, options: Mapping[str, str]) -> str | None:
    own = {name: options[key] for key, name in login.TRUST.items() if options.get(key)}
    kind = own.get("type", "JKS").upper()
    if kind not in STORE_TYPES:
        known = ", ".join(STORE_TYPES)
        reader.refuse(JAAS, f"its ssl.truststore.type is one of {known}")
    stored = own.get("certificates"), own.get("location"), own.get("password")
    return reader.trusted_by(JAAS, kind, *stored)
