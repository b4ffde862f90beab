"""How one client reaches one cluster: Java-style client keys to ClientSettings.

Every wrong value is a problem that names key and line; secrets are never quoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from causeway.config.clients import CLUSTER_ID, ClientSettings, ProducerKeys
from causeway.config.entries import Entries, Entry, Problems, Rereading, read, rereadable
from causeway.config.key_table import values_of
from causeway.config.logins import SaslSettings
from causeway.config.reading.client_reader import ClientReader
from causeway.config.reading.known import CLUSTER_KEYS
from causeway.config.reading.sasl import read_sasl


def client_settings(alias: str, entries: Entries, problems: Problems) -> ClientSettings | None:
    """Returns how a client reaches cluster `alias`. `entries` have no prefix. None after a problem,
    which goes to `problems`."""
    reader = ClientReader(alias=alias, entries=entries, problems=problems)
    before = len(problems.lines)
    keys = read(ProducerKeys, entries, problems)
    protocol = reader.protocol()
    bootstrap = reader.bootstrap()
    tls = reader.tls() if protocol.endswith("SSL") and reader.has_all("ssl.") else None
    sasl = None
    if protocol.startswith("SASL") and reader.has_all("sasl."):
        sasl = read_sasl(reader)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """A login without its connection. `ca_pem`: the trusted certificates, or None for the system's
    certificates. `rereading`: how to read the login again once one of its files has changed."""

    sasl: SaslSettings
    ca_pem: str | None = None
    rereading: Rereading | None = None


def login_settings(alias: str, keys: Mapping[str, str]) -> LoginSettings:
    """Returns the login of a client of cluster `alias` that is not Causeway's. `keys` are `sasl.…`
    and `ssl.truststore.…`. Raises ConfigError."""
    entries = {key: Entry(key=key, value=value, line=0) for key, value in keys.items()}

    def read_login() -> LoginSettings:
        problems = Problems(f"the login of {alias}")
        for key in sorted(key for key in keys if key.startswith("sasl.")):
            if key not in CLUSTER_KEYS:
                problems.add(f"{key} is no key of this login")
        reader = ClientReader(alias=alias, entries=entries, problems=problems)
        sasl, ca_pem = read_sasl(reader), reader.trusted()
        problems.raise_if_any()
        assert sasl is not None  # else there was a problem
        return LoginSettings(sasl=sasl, ca_pem=ca_pem)

    return rereadable(read_login)


def trusted_certificates(subject: str, entries: Entries, problems: Problems) -> str | None:
    """Returns the certificates of the keys `ssl.truststore.*` in `entries`, as PEM text. None for
    the system's certificates, or after a problem, which goes to `problems`."""
    reader = ClientReader(alias=subject, entries=entries, problems=problems)
    return reader.trusted() if reader.has_all("ssl.") else None
