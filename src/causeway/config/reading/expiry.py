"""Expiry times of the certificates that clients use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from cryptography import x509

from causeway.config.settings import ClientSettings, Settings

SOON: Final = timedelta(days=14)


class Expiry(NamedTuple):
    """`which`: the client's own certificate, or the trust store. `at`: in UTC. A chain expires with
    its first certificate. A trust store expires with its last one: while an authority is replaced,
    the store holds the old certificate and the new one."""

    cluster: str
    which: Literal["client", "trusted"]
    at: datetime

    def warning(self, now: datetime | None = None) -> str | None:
        """One line from `SOON` before the expiry on, None before that."""
        left = self.at - (now or datetime.now(UTC))
        if left > SOON:
            return None
        what = "the client certificate" if self.which == "client" else "the trust store"
        verb = "expires" if left > timedelta(0) else "expired"
        return f"{what} for cluster {self.cluster} {verb} on {self.at:%Y-%m-%d %H:%M} UTC: renew it"


def expiries(clients: Iterable[ClientSettings]) -> tuple[Expiry, ...]:
    """Sorted by cluster, without repetitions. The system's trust store is left out."""
    return tuple(sorted(dict.fromkeys(each for client in clients for each in _of(client))))


def clients_of(settings: Settings) -> dict[tuple[str, str], ClientSettings]:
    """The client settings of all links and heartbeats, by link and role."""
    found: dict[tuple[str, str], ClientSettings] = {}
    for link in settings.links:
        found[link.name, "source"] = link.source
        found[link.name, "target"] = link.target
        found[link.name, "source admin"] = link.source_admin
        found[link.name, "target admin"] = link.target_admin
    for beat in settings.heartbeat_links:
        found[beat.name, "heartbeats"] = beat.target
    return found


def expiry_warnings(settings: Settings) -> list[str]:
    """The warnings for all clusters of a file."""
    found = (each.warning() for each in expiries(clients_of(settings).values()))
    return [text for text in found if text is not None]


def _of(client: ClientSettings) -> Iterator[Expiry]:
    if client.tls is None:
        return
    if ends := _ends(client.tls.cert_pem):
        yield Expiry(client.alias, "client", min(ends))
    if ends := _ends(client.tls.ca_pem):
        yield Expiry(client.alias, "trusted", max(ends))


def _ends(pem: str | None) -> list[datetime]:
    if pem is None:
        return []
    try:
        return [each.not_valid_after_utc for each in x509.load_pem_x509_certificates(pem.encode())]
    except ValueError:  # the connection attempt reports the cause
        return []
