"""The clients of all clusters and of one link, and their renewal.

Equal settings share a client. Lanes know each client by its key.

The clusters of a link must be the same ones as before, by their ids:

first look           accepts the ids; each lease in the progress topic keeps them
later looks          raise an error for other clusters, and do not act on their topics
causeway.cluster.id  in the file names the cluster, also if it is another one than before
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from causeway.cluster import Cluster, Connect, moved_remedy, one_cluster
from causeway.config import ClientSettings, LinkSettings, Settings
from causeway.config.reading import clients_of, expiries
from causeway.errors import CausewayError, ConfigError
from causeway.link_topics import ClusterIds
from causeway.logins import ssl_context

_log = logging.getLogger("causeway.run")
_LOOK_S: Final = 10.0
_WARN_S: Final = 24 * 3600.0  # between two warnings of the same certificate
_link_log = logging.getLogger("causeway.link")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The clusters of one link: to read and write data, and to administer. `source_key` and
    `target_key` name them in the messages to lanes; '' outside of a driver."""

    source: Cluster
    target: Cluster
    source_admin: Cluster
    target_admin: Cluster
    source_key: str = ""
    target_key: str = ""

    @classmethod
    def of(cls, link: LinkSettings, connect: Connect) -> Self:
        """For a command."""
        return cls(
            source=connect(link.source),
            target=connect(link.target),
            source_admin=connect(link.source_admin),
            target_admin=connect(link.target_admin),
        )

    @property
    def refused_for_minutes(self) -> str | None:
        """The reason if one of the clusters has refused new connections for minutes."""
        each = (self.source, self.target, self.source_admin, self.target_admin)
        return next((why for one in each if (why := one.refused_for_minutes) is not None), None)


def settle_clusters(sides: Sides, link: LinkSettings, known: ClusterIds) -> ClusterIds:
    """The ids of the link's clusters; `known`: their ids by its progress. From now on all clients
    of `sides` refuse brokers of other clusters.

    Raises UnreachableError for addresses that lead to several clusters, ConfigError for a cluster
    that another flow of this process knows by another id.
    """
    found = ClusterIds(
        source=_side((sides.source, sides.source_admin), link, known.source),
        target=_side((sides.target, sides.target_admin), link, known.target),
    )
    for client, before, now in (
        (sides.source, known.source, found.source),
        (sides.target, known.target, found.target),
    ):
        if before is not None and before != now:
            about = {"link": link.name, "cluster": str(client), "before": before, "now": now}
            _link_log.warning("another cluster by the file", extra=about)
    return found


def _side(clients: tuple[Cluster, Cluster], link: LinkSettings, known: str | None) -> str | None:
    pinned = (client.settings.cluster_id for client in clients)
    wanted = next(filter(None, pinned), known) or one_cluster(
        *(client.settings for client in clients)
    )
    if wanted is None:
        return None
    for client in clients:
        if (counts := client.expect(wanted)) != wanted:
            by_address = wanted != known  # the other flow has its id from its progress
            raise ConfigError(
                "mirror",
                link.name,
                f"{'the addresses of' if by_address else 'the progress topic says that'} {client}"
                f" {'lead to' if by_address else 'is'} cluster {wanted}, and another flow of the"
                f" file has {counts}",
                remedy=moved_remedy(str(client), wanted if by_address else counts),
            )
    return wanted


class Clients:
    def __init__(self) -> None:
        self._open: list[tuple[str, ClientSettings, Cluster]] = []  # the settings as first opened

    def open(self, settings: ClientSettings) -> Cluster:
        """The client for `settings`; a new one if no equal settings were opened before."""
        for _, known, cluster in self._open:
            if known == settings:
                return cluster
        cluster = Cluster(settings)
        self._open.append((f"{settings.alias}/{len(self._open)}", settings, cluster))
        return cluster

    def sides(self, link: LinkSettings) -> Sides:
        """The clients of one link."""
        return Sides(
            source=self.open(link.source),
            target=self.open(link.target),
            source_admin=self.open(link.source_admin),
            target_admin=self.open(link.target_admin),
            source_key=next(key for key, known, _ in self._open if known == link.source),
            target_key=next(key for key, known, _ in self._open if known == link.target),
        )

    @property
    def by_key(self) -> Mapping[str, ClientSettings]:
        return {key: cluster.settings for key, _, cluster in self._open}

    def renew(self, first: Settings, now: Settings) -> dict[str, ClientSettings]:
        """Replace certificates, keys and passwords by those of `now`, for new connections. Other
        values of `now` have no effect. `first`: the settings that the clients were opened with.
        Returns the changed settings by key. Raises ConfigError, and changes no client, if a
        certificate or key cannot be used."""
        found = clients_of(now)
        changed: dict[str, tuple[Cluster, ClientSettings]] = {}
        for role, opened in clients_of(first).items():
            new = found.get(role)
            key, cluster = next((key, c) for key, known, c in self._open if known == opened)
            if new is None or new == cluster.settings or not _same_way(cluster.settings, new):
                continue
            if new.tls is not None:
                ssl_context(new.tls)  # a certificate may be here before its key is
            changed[key] = cluster, new
        for cluster, new in changed.values():
            cluster.renew(new)
        return {key: new for key, (_, new) in changed.items()}

    def close(self) -> None:
        for _, _, cluster in self._open:
            cluster.close()


def _same_way(before: ClientSettings, now: ClientSettings) -> bool:
    """Whether both differ at most in certificates, keys and passwords."""
    if (before.tls is None) != (now.tls is None) or (before.sasl is None) != (now.sasl is None):
        return False
    if before.sasl and now.sasl and before.sasl.mechanism != now.sasl.mechanism:
        return False
    return replace(now, tls=before.tls, sasl=before.sasl) == before


class Renewal:
    """Checks the files that the settings come from, and reads the settings again after a change. It
    does not wait for a refusal: certificates that are renewed in time are used in time."""

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        on_renewed: Callable[[Mapping[str, ClientSettings]], None],
    ) -> None:
        """`on_renewed` gets the settings of the clients that changed, by key."""
        self._first = settings
        self._rereading = settings.rereading
        self._clients = clients
        self._on_renewed = on_renewed
        self._trouble = ""
        self.expiries = expiries(clients.by_key.values())
        self._warn_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while True:
            try:
                self.look()
                self._warn()
            except Exception as error:  # the thread must survive
                _log.error("internal error", exc_info=error)
            if self._stop.wait(_LOOK_S):
                return

    def look(self) -> None:
        """Check the files once. Log settings that cannot be used; the next call tries again."""
        if self._rereading is None or not self._rereading.stale:
            return
        try:
            found = self._rereading.read()
            changed = self._clients.renew(self._first, found)
        except CausewayError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.warning("credentials not renewed", extra={"reason": self._trouble})
            return
        self._trouble = ""
        self._rereading = found.rereading
        if changed:
            aliases = dict.fromkeys(settings.alias for settings in changed.values())
            _log.info("credentials renewed", extra={"clusters": ", ".join(aliases)})
            self._on_renewed(changed)
            self.expiries = expiries(self._clients.by_key.values())
            self._warn_at = 0.0

    def _warn(self) -> None:
        if time.monotonic() < self._warn_at:
            return
        self._warn_at = time.monotonic() + _WARN_S
        for each in self.expiries:
            if (text := each.warning()) is not None:
                _log.warning("certificate expires", extra={"reason": text})
