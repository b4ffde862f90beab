"""How one client reaches one cluster: Java-style client keys to ClientSettings.

Every wrong value is a problem that names key and line; secrets are never quoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast, get_args
from urllib.parse import urlsplit

from causeway import filters
from causeway.config.clients import (
    CLUSTER_ID,
    ClientSettings,
    OAuthSettings,
    ProducerKeys,
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    TlsSettings,
)
from causeway.config.entries import Entries, Problems, read
from causeway.config.key_table import values_of
from causeway.config.reading import login, stores
from causeway.config.values import Secret
from causeway.errors import ConfigError

# Kafka accepts `PROTOCOL://` before the host, and IPv6 addresses in brackets.
_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]/]+)):(\d{1,5})")
_LOGIN_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
_KNOWN_MODULES = {*_LOGIN_MODULES.values(), "Krb5LoginModule", "IAMLoginModule"}
_TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
_TLS_NAMES = {*_TLS_VERSIONS, "TLSv1", "TLSv1.1"}  # a file may name older ones; they are not used
_STORE_TYPES = ("JKS", "PKCS12", "PEM")


def client_settings(alias: str, entries: Entries, problems: Problems) -> ClientSettings | None:
    """How a client reaches cluster `alias`, by `entries` without any prefix. None after a problem,
    which goes to `problems`."""
    reader = _ClientReader(alias=alias, entries=entries, problems=problems)
    before = len(problems.lines)
    keys = read(ProducerKeys, entries, problems)
    protocol = reader.protocol()
    bootstrap = reader.bootstrap()
    tls = reader.tls() if protocol.endswith("SSL") and reader.has_all("ssl.") else None
    sasl = reader.sasl() if protocol.startswith("SASL") and reader.has_all("sasl.") else None
    if len(problems.lines) > before or not (bootstrap and reader.has_all("")):
        return None
    if protocol.startswith("SASL") and not sasl:
        return None
    return ClientSettings(
        alias=alias,
        bootstrap=bootstrap,
        protocol=protocol,
        tls=tls,
        sasl=sasl,
        cluster_id=reader.text(CLUSTER_ID),
        **values_of(keys),
    )


def trusted_certificates(subject: str, entries: Entries, problems: Problems) -> str | None:
    """The certificates of the keys `ssl.truststore.*` in `entries`, as PEM text. None: the system's
    certificates, or a problem, which goes to `problems`."""
    reader = _ClientReader(alias=subject, entries=entries, problems=problems)
    return reader.trusted() if reader.has_all("ssl.") else None


def parse_address(text: str) -> tuple[str, int] | None:
    """Host and port; None if `text` is not `host:port`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match.group(3)) < 65536:
        return None
    return match.group(1) or match.group(2), int(match.group(3))


@dataclass(slots=True, kw_only=True)
class _ClientReader:
    alias: str
    entries: Entries
    problems: Problems

    def text(self, key: str) -> str | None:
        """The value of `key` without surrounding blanks, None if it is absent or blank."""
        entry = self.entries.get(key)
        return (entry.value.strip() or None) if entry else None

    def _secret(self, key: str) -> str | None:
        """With its blanks, which may be part of a password."""
        entry = self.entries.get(key)
        return entry.value if entry is not None and entry.value else None

    def _shown(self, key: str) -> str:
        entry = self.entries.get(key)
        return "(hidden)" if entry and entry.secret else (self.text(key) or "")

    def _refuse(self, key: str, cause: str | ConfigError) -> None:
        """An error may name a path. A path from outside the file must not be shown."""
        entry = self.entries.get(key)
        said = entry.told(cause) if entry and isinstance(cause, ConfigError) else cause
        self.problems.add(f"{self._place(key)}: {said}")

    def _place(self, key: str) -> str:
        entry = self.entries.get(key)
        return entry.place if entry else f"{key} of cluster {self.alias}"

    def has_all(self, prefix: str) -> bool:
        """Whether no value of the keys with this prefix is missing."""
        of = (entry for key, entry in self.entries.items() if key.startswith(prefix))
        return not any(entry.missing for entry in of)

    def _missing(self, key: str, why: str) -> None:
        if key in self.entries and self.entries[key].missing:
            return
        self.problems.add(f"cluster {self.alias} has no {key}: {why}")

    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        text = self.text("bootstrap.servers")
        if text is None:
            self._missing("bootstrap.servers", f"set {self.alias}.bootstrap.servers=host:port")
            return ()
        found = []
        for item in filter(None, (part.strip() for part in text.split(","))):
            address = parse_address(item)
            if address is None:
                shown = "a value" if self.entries["bootstrap.servers"].resolved else repr(item)
                self.problems.add(f"{self._place('bootstrap.servers')}: {shown} is not host:port")
            else:
                found.append(address)
        return tuple(dict.fromkeys(found))

    def protocol(self) -> SecurityProtocol:
        text = self.text("security.protocol") or "PLAINTEXT"
        if text.upper() not in get_args(SecurityProtocol):
            self.problems.add(
                f"{self._place('security.protocol')} must be one of"
                f" {', '.join(get_args(SecurityProtocol))}, not {self._shown('security.protocol')}"
            )
            return "PLAINTEXT"
        return cast(SecurityProtocol, text.upper())

    # -- TLS

    def tls(self) -> TlsSettings:
        ca_pem, pair = self.trusted(), None
        try:
            pair = self._key_pair()
        except ConfigError as error:
            inline = "ssl.keystore.key"
            self._refuse(inline if self.text(inline) else "ssl.keystore.location", error)
        return TlsSettings(
            ca_pem=ca_pem,
            cert_pem=pair.cert_pem if pair else None,
            key_pem=pair.key_pem if pair else None,
            verify_hostname=self._verify_hostname(),
            versions=self._tls_versions(),
        )

    def trusted(self) -> str | None:
        kind = self._store_type("ssl.truststore.type")
        inline, location = "ssl.truststore.certificates", "ssl.truststore.location"
        certificates, path = self.text(inline), self.text(location)
        if certificates:
            self._only_pem(kind, inline, "ssl.truststore.type")
        password = self._secret("ssl.truststore.password")
        return self._trusted_by(
            inline if certificates else location, kind, certificates, path, password
        )

    def _trusted_by(
        self, key: str, kind: str, certificates: str | None, path: str | None, password: str | None
    ) -> str | None:
        """The certificates as PEM text. None: the system's, or a problem with `key`."""
        try:
            if certificates:
                return stores.trusted_from_pem(certificates, "the certificates")
            if path and kind in _STORE_TYPES:
                return stores.trusted_from_store(path, kind, password)
        except ConfigError as error:
            self._refuse(key, error)
        return None

    def _verify_hostname(self) -> bool:
        key = "ssl.endpoint.identification.algorithm"
        entry = self.entries.get(key)
        if entry is None or entry.value.strip().lower() == "https":
            return True
        if entry.value.strip():
            self.problems.add(f"{entry.place} must be https or empty, not {entry.shown}")
        return False

    def _tls_versions(self) -> tuple[str, ...]:
        entry = self.entries.get("ssl.enabled.protocols")
        asked = filters.split_list(entry.value) if entry else ()
        found = tuple(version for version in _TLS_VERSIONS if version in asked)
        if entry and asked and (not found or not set(asked) <= _TLS_NAMES):
            self.problems.add(
                f"{entry.place} must name {' or '.join(_TLS_VERSIONS)}, not {entry.shown}"
            )
        return found or _TLS_VERSIONS

    def _store_type(self, key: str) -> str:
        text = (self.text(key) or "JKS").upper()
        if text not in _STORE_TYPES:
            self.problems.add(f"{self._place(key)} must be one of {', '.join(_STORE_TYPES)}")
        return text

    def _key_pair(self) -> stores.KeyPair | None:
        kind = self._store_type("ssl.keystore.type")
        path, text = self.text("ssl.keystore.location"), self.text("ssl.keystore.key")
        chain = self.text("ssl.keystore.certificate.chain")
        key_password = self._secret("ssl.key.password")
        if text is not None or chain is not None:
            self._only_pem(kind, "ssl.keystore.key", "ssl.keystore.type")
            if text is None or chain is None:
                raise ConfigError(
                    "use", "", "ssl.keystore.key and ssl.keystore.certificate.chain go together"
                )
            return stores.pair_from_pem(text, chain, "the key", key_password)
        if path is None or kind not in _STORE_TYPES:
            return None
        password = self._secret("ssl.keystore.password")
        return stores.pair_from_store(path, kind, password, key_password)

    def _only_pem(self, kind: str, key: str, type_key: str) -> None:
        if kind != "PEM":
            self.problems.add(f"{self._place(key)} holds PEM text: set {type_key}=PEM")

    # -- SASL

    def sasl(self) -> SaslSettings | None:
        mechanism = (self.text("sasl.mechanism") or "GSSAPI").upper()
        if mechanism not in get_args(SaslMechanism):
            known = ", ".join(get_args(SaslMechanism))
            if mechanism != "GSSAPI":
                cause = f"{self._shown('sasl.mechanism')} is not supported"
            elif self.text("sasl.mechanism"):
                cause = "GSSAPI (Kerberos) is not supported"
            else:
                cause = "not set, and Kafka's default, GSSAPI (Kerberos), is not supported"
            self._refuse("sasl.mechanism", f"{cause}, only {known}")
            return None
        try:
            options = self._login_options(mechanism)
        except ConfigError as error:
            self._refuse(_JAAS, str(error))
            return None
        if options is None:
            return None
        if mechanism == "OAUTHBEARER":
            oauth = self._oauth(options)
            return SaslSettings(mechanism="OAUTHBEARER", oauth=oauth) if oauth else None
        if options.get("tokenauth", "").lower() == "true":
            self._refuse(_JAAS, "delegation tokens are not supported")
            return None
        missing = [name for name in ("username", "password") if not options.get(name)]
        if missing:
            self._refuse(_JAAS, f"the login module has no {' and no '.join(missing)}")
            return None
        return SaslSettings(
            mechanism=cast(SaslMechanism, mechanism),
            username=options["username"],
            password=Secret(options["password"]),
        )

    def _login_options(self, mechanism: str) -> Mapping[str, str] | None:
        text = self.text(_JAAS)
        if text is None:
            if mechanism == "OAUTHBEARER" and self.text(_CLIENT_ID):
                return {}
            self._missing(_JAAS, f"{mechanism} needs a login module")
            return None
        module = login.parse_jaas(text)
        if module.name != _LOGIN_MODULES[mechanism]:
            found = module.name if module.name in _KNOWN_MODULES else "another login module"
            self._refuse(_JAAS, f"{mechanism} needs {_LOGIN_MODULES[mechanism]}, not {found}")
            return None
        return module.options

    def _oauth(self, options: Mapping[str, str]) -> OAuthSettings | None:
        """Client credentials from the login module, or from keys of their own (since Kafka 4.1),
        which win. Strimzi's handler calls the same options `oauth.client.id` and so on, and has
        more grants."""

        def pick(key: str, *names: str) -> str | None:
            found = (options[name] for name in names if options.get(name))
            return self._secret(key) or next(found, None)

        given = options.get(login.ACCESS_TOKEN, "").strip()
        endpoint = pick(_ENDPOINT, "oauth.token.endpoint.uri")
        client_id = pick(_CLIENT_ID, "clientId", "oauth.client.id")
        secret = pick(_CLIENT_SECRET, "clientSecret", "oauth.client.secret")
        if any(name.startswith("unsecuredLogin") for name in options):
            unsecured = "unsecured tokens (unsecuredLogin...) are not supported"
            self._refuse(_JAAS, f"{unsecured}, only client credentials")
            return None
        if not given and (endpoint is None or not is_endpoint(endpoint.strip())):
            self.problems.add(
                f"{self._place(_ENDPOINT)} must be an http(s) URL, without user and password:"
                f" these are {_CLIENT_ID} and {_CLIENT_SECRET}"
            )
            return None
        unknown = [name for name in options if not login.is_known_option(name)]
        if unknown:
            told = "options of the login module that are not supported"
            self._refuse(_JAAS, f"{told}: {', '.join(sorted(unknown))}")
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
            self._refuse(
                _JAAS,
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
            ca_pem=self._trusted_at_endpoint(options),
        )

    def _trusted_at_endpoint(self, options: Mapping[str, str]) -> str | None:
        own = {name: options[key] for key, name in login.TRUST.items() if options.get(key)}
        kind = own.get("type", "JKS").upper()
        if kind not in _STORE_TYPES:
            known = ", ".join(_STORE_TYPES)
            self._refuse(_JAAS, f"its ssl.truststore.type is one of {known}")
        stored = own.get("certificates"), own.get("location"), own.get("password")
        return self._trusted_by(_JAAS, kind, *stored)


def is_endpoint(url: str) -> bool:
    """Whether `url` is a complete http(s) URL. It must have no '@': the text before it may be a
    password, and Python would take a part of the password for the host or the port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    whole = bool(parts.hostname) and port != 0 and not re.search(r"[@\s\\]", url)
    return parts.scheme in ("http", "https") and whole


_JAAS = "sasl.jaas.config"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a key's name
