"""Reads the login of one client: `sasl.mechanism`, `sasl.jaas.config` and the keys beside them.

One function for each mechanism. Each adds every problem to the reader's problems and returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast, get_args

from causeway.config.logins import SaslMechanism, SaslSettings
from causeway.config.reading import login
from causeway.config.reading.aws import MSK_HANDLER, aws_settings
from causeway.config.reading.client_reader import ClientReader
from causeway.config.reading.google import google_settings
from causeway.config.reading.kafka_opts import login_module_of_file
from causeway.config.reading.kerberos import kerberos_settings
from causeway.config.reading.oauth import CLIENT_ID, ENDPOINT, HANDLER, JAAS, read_oauth
from causeway.config.values import Secret
from causeway.errors import ConfigError, PrerequisiteError


def read_sasl(reader: ClientReader) -> SaslSettings | None:
    """Returns the login of the client. None after a problem, which goes to the reader's
    problems."""
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
    shown = reader.shown("sasl.mechanism")
    reader.refuse("sasl.mechanism", f"{shown} is not supported, only {known}")
    return None


def _options(
    reader: ClientReader, mechanism: SaslMechanism, login_of: _Login
) -> Mapping[str, str] | None:
    """Returns the options of the login module. Raises ConfigError if the text is not a login
    module."""
    text = reader.text(JAAS)
    if text is None and not login_of.needs_module:
        return {}
    if text is None and any(reader.text(key) for key in login_of.instead):
        return {}
    text = text or login_module_of_file()
    if text is None:
        default = "" if reader.text("sasl.mechanism") else " (Kafka's default of sasl.mechanism)"
        reader.missing(JAAS, f"{mechanism}{default} needs a login module")
        return None
    module = login.parse_jaas(text)
    if module.name != login_of.module:
        known = {each.module for each in _LOGINS.values()}
        found = module.name if module.name in known else "another login module"
        reader.refuse(JAAS, f"{mechanism} needs {login_of.module}, not {found}")
        return None
    return module.options


def _password(
    reader: ClientReader, mechanism: SaslMechanism, options: Mapping[str, str]
) -> SaslSettings | None:
    """Reads PLAIN and SCRAM. With `tokenauth=true` the login is a delegation token's id and
    HMAC."""
    if (handler := reader.text(HANDLER)) and handler not in _HANDLERS:
        _refuse_handler(reader)
        return None
    by_token = mechanism != "PLAIN" and options.get("tokenauth", "").lower() == "true"
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        reader.refuse(JAAS, f"the login module has no {' and no '.join(missing)}")
        return None
    return SaslSettings(
        mechanism=mechanism,
        username=options["username"],
        password=Secret(options["password"]),
        is_delegation_token=by_token,
    )


def _oauth(
    reader: ClientReader, mechanism: SaslMechanism, options: Mapping[str, str]
) -> SaslSettings | None:
    """Reads OAUTHBEARER by its login handler, a Java class whose work Causeway does itself."""
    handler = reader.text(HANDLER)
    read = _HANDLERS.get(handler) if handler else _by_endpoint
    if read is None:
        _refuse_handler(reader)
        return None
    return read(reader, options)


def _refuse_handler(reader: ClientReader) -> None:
    known = ", ".join(sorted({name.rpartition(".")[2] for name in _HANDLERS}))
    reader.refuse(
        HANDLER,
        f"{reader.shown(HANDLER)} is not supported: Causeway runs no Java class. It does what these"
        f" do: {known}. If the class asks a token endpoint, set {ENDPOINT} and leave it out",
    )


def _by_endpoint(reader: ClientReader, options: Mapping[str, str]) -> SaslSettings | None:
    oauth = read_oauth(reader, options)
    return SaslSettings(mechanism="OAUTHBEARER", oauth=oauth) if oauth else None


def _msk_iam(
    reader: ClientReader, mechanism: SaslMechanism, options: Mapping[str, str]
) -> SaslSettings | None:
    """Reads AWS_MSK_IAM, and OAUTHBEARER with tokens for MSK."""
    aws = aws_settings(reader, JAAS, options)
    return SaslSettings(mechanism=mechanism, aws=aws) if aws else None


def _by_msk(reader: ClientReader, options: Mapping[str, str]) -> SaslSettings | None:
    return _msk_iam(reader, "OAUTHBEARER", options)


def _kerberos(
    reader: ClientReader, mechanism: SaslMechanism, options: Mapping[str, str]
) -> SaslSettings | None:
    try:
        kerberos = kerberos_settings(reader, options)
    except PrerequisiteError as error:
        reader.refuse("sasl.mechanism", str(error))
        return None
    return SaslSettings(mechanism=mechanism, kerberos=kerberos) if kerberos else None


def _by_google(reader: ClientReader, options: Mapping[str, str]) -> SaslSettings | None:
    if options:
        named = ", ".join(sorted(options))
        reader.refuse(JAAS, f"the login handler of Google has no options, such as {named}")
        return None
    google = google_settings(reader, HANDLER)
    return SaslSettings(mechanism="OAUTHBEARER", google=google) if google else None


_KAFKAS = "org.apache.kafka.common.security.oauthbearer"
_HANDLERS: Mapping[str, Callable[[ClientReader, Mapping[str, str]], SaslSettings | None]] = {
    f"{_KAFKAS}.OAuthBearerLoginCallbackHandler": _by_endpoint,
    f"{_KAFKAS}.secured.OAuthBearerLoginCallbackHandler": _by_endpoint,
    "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler": _by_endpoint,
    f"software.amazon.msk.auth.iam.{MSK_HANDLER}": _by_msk,
    "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler": _by_google,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Login:
    """How the login of a mechanism is read. `module`: its login module, without the package. The
    file may leave it out if it sets one of the keys `instead`."""

    module: str
    read: Callable[[ClientReader, SaslMechanism, Mapping[str, str]], SaslSettings | None]
    needs_module: bool = True
    instead: tuple[str, ...] = ()


_LOGINS: Mapping[str, _Login] = {
    "PLAIN": _Login(module="PlainLoginModule", read=_password),
    "SCRAM-SHA-256": _Login(module="ScramLoginModule", read=_password),
    "SCRAM-SHA-512": _Login(module="ScramLoginModule", read=_password),
    "OAUTHBEARER": _Login(
        module="OAuthBearerLoginModule", read=_oauth, instead=(CLIENT_ID, ENDPOINT, HANDLER)
    ),
    "AWS_MSK_IAM": _Login(module="IAMLoginModule", read=_msk_iam, needs_module=False),
    "GSSAPI": _Login(module="Krb5LoginModule", read=_kerberos),
}
