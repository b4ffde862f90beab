"""Reads the keys of one client: where the cluster is, and TLS. `sasl` reads its login."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast, get_args
from urllib.parse import urlsplit

from causeway import filters
from causeway.config.clients import SECURITY, SecurityProtocol
from causeway.config.entries import Entries, Problems
from causeway.config.logins import TlsSettings
from causeway.config.reading import stores
from causeway.errors import CausewayError, ConfigError, PrerequisiteError

# Kafka accepts `PROTOCOL://` before the host, and IPv6 addresses in brackets.
_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]/]+)):(\d{1,5})")
_TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
_TLS_NAMES = {*_TLS_VERSIONS, "TLSv1", "TLSv1.1"}  # a file may name older ones; they are not used
STORE_TYPES = ("JKS", "PKCS12", "PEM")


def parse_address(text: str) -> tuple[str, int] | None:
    """Returns host and port. None if `text` is not `host:port`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match.group(3)) < 65536:
        return None
    return match.group(1) or match.group(2), int(match.group(3))


def is_endpoint(url: str) -> bool:
    """Returns whether `url` is a complete http(s) URL. It must have no '@': the text before it may
    be a password, and Python would take a part of the password for the host or the port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    whole = bool(parts.hostname) and port != 0 and not re.search(r"[@\s\\]", url)
    return parts.scheme in ("http", "https") and whole


@dataclass(slots=True, kw_only=True)
class ClientReader:
    alias: str
    entries: Entries
    problems: Problems

    def text(self, key: str) -> str | None:
        """Returns the value of `key` without surrounding blanks. None if it is absent or blank."""
        entry = self.entries.get(key)
        return (entry.value.strip() or None) if entry else None

    def value(self, key: str, default: Any) -> Any:
        """Returns the value of `key`, which is a key of SECURITY, or `default` if it is absent or
        wrong."""
        text = self.text(key)
        if text is None:
            return default
        try:
            return SECURITY[key].kind.parse(text)
        except ValueError as error:
            self.refuse(key, f"must be {error}, not {self.shown(key)}")
            return default

    def secret(self, key: str) -> str | None:
        """Returns the value of `key` with its blanks, which may be part of a password."""
        entry = self.entries.get(key)
        return entry.value if entry is not None and entry.value else None

    def shown(self, key: str) -> str:
        entry = self.entries.get(key)
        return "(hidden)" if entry and entry.secret else (self.text(key) or "")

    def refuse(self, key: str, cause: str | CausewayError) -> None:
        """Adds a problem with `key`. An error may name a path. A path from outside the file is not
        shown."""
        entry = self.entries.get(key)
        said = entry.without_secrets(cause) if entry and isinstance(cause, CausewayError) else cause
        self.problems.add(f"{self.place(key)}: {said}")

    def place(self, key: str) -> str:
        entry = self.entries.get(key)
        return entry.place if entry else f"{key} of cluster {self.alias}"

    def has_all(self, prefix: str) -> bool:
        """Returns whether all keys with this prefix have values."""
        of = (entry for key, entry in self.entries.items() if key.startswith(prefix))
        return not any(entry.missing for entry in of)

    def missing(self, key: str, why: str) -> None:
        if key in self.entries and self.entries[key].missing:
            return
        self.problems.add(f"cluster {self.alias} has no {key}: {why}")

    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        text = self.text("bootstrap.servers")
        if text is None:
            self.missing("bootstrap.servers", f"set {self.alias}.bootstrap.servers=host:port")
            return ()
        found = []
        for item in filter(None, (part.strip() for part in text.split(","))):
            address = parse_address(item)
            if address is None:
                shown = "a value" if self.entries["bootstrap.servers"].resolved else repr(item)
                self.problems.add(f"{self.place('bootstrap.servers')}: {shown} is not host:port")
            else:
                found.append(address)
        return tuple(dict.fromkeys(found))

    def protocol(self) -> SecurityProtocol:
        text = self.text("security.protocol") or "PLAINTEXT"
        if text.upper() not in get_args(SecurityProtocol):
            self.problems.add(
                f"{self.place('security.protocol')} must be one of"
                f" {', '.join(get_args(SecurityProtocol))}, not {self.shown('security.protocol')}"
            )
            return "PLAINTEXT"
        return cast(SecurityProtocol, text.upper())

    # -- TLS

    def tls(self) -> TlsSettings:
        ca_pem, pair = self.trusted(), None
        try:
            pair = self._key_pair()
        except (ConfigError, PrerequisiteError) as error:
            inline = "ssl.keystore.key"
            self.refuse(inline if self.text(inline) else "ssl.keystore.location", error)
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
        password = self.secret("ssl.truststore.password")
        return self.trusted_by(
            inline if certificates else location, kind, certificates, path, password
        )

    def trusted_by(
        self, key: str, kind: str, certificates: str | None, path: str | None, password: str | None
    ) -> str | None:
        """Returns the certificates as PEM text. None for the system's certificates, or after a
        problem with `key`."""
        try:
            if certificates:
                return stores.trusted_from_pem(certificates, "the certificates")
            if path and kind in STORE_TYPES:
                return stores.trusted_from_store(path, kind, password)
        except (ConfigError, PrerequisiteError) as error:
            self.refuse(key, error)
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
        if text not in STORE_TYPES:
            self.problems.add(f"{self.place(key)} must be one of {', '.join(STORE_TYPES)}")
        return text

    def _key_pair(self) -> stores.KeyPair | None:
        kind = self._store_type("ssl.keystore.type")
        path, text = self.text("ssl.keystore.location"), self.text("ssl.keystore.key")
        chain = self.text("ssl.keystore.certificate.chain")
        key_password = self.secret("ssl.key.password")
        if text is not None or chain is not None:
            self._only_pem(kind, "ssl.keystore.key", "ssl.keystore.type")
            if text is None or chain is None:
                raise ConfigError(
                    "use", "", "ssl.keystore.key and ssl.keystore.certificate.chain go together"
                )
            return stores.pair_from_pem(text, chain, "the key", key_password)
        if path is None or kind not in STORE_TYPES:
            return None
        password = self.secret("ssl.keystore.password")
        return stores.pair_from_store(path, kind, password, key_password)

    def _only_pem(self, kind: str, key: str, type_key: str) -> None:
        if kind != "PEM":
            self.problems.add(f"{self.place(key)} holds PEM text: set {type_key}=PEM")
