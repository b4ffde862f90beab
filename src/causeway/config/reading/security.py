"""How one client reaches one cluster: Java-style client keys to ClientSettings.

Every wrong value is a problem that names key and line; secrets are never quoted.
"""

from __future__ import annotations

from causeway.config.clients import CLUSTER_ID, ClientSettings, ProducerKeys
from causeway.config.entries import Entries, Problems, read
from causeway.config.key_table import values_of
from causeway.config.reading.client_reader import ClientReader
from causeway.config.reading.sasl import read_sasl


def client_settings(alias: str, entries: Entries, problems: Problems) -> ClientSettings | None:
    """How a client reaches cluster `alias`, by `entries` without any prefix. None after a problem,
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


def trusted_certificates(subject: str, entries: Entries, problems: Problems) -> str | None:
    """The certificates of the keys `ssl.truststore.*` in `entries`, as PEM text. None: the system's
    certificates, or a problem, which goes to `problems`."""
    reader = ClientReader(alias=subject, entries=entries, problems=problems)
    return reader.trusted() if reader.has_all("ssl.") else None
