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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Concatenate, ParamSpec, Self, TypeVar

from causeway.cluster import Cluster, Connect, moved_remedy, one_cluster
from causeway.config import ClientSettings, HeartbeatSettings, LinkSettings, Settings
from causeway.config.reading import clients_of
from causeway.errors import ConfigError
from causeway.link_topics import ClusterIds
from causeway.logins import check_certificates

_link_log = logging.getLogger("causeway.link")
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The clients of one link: for the data, and for administration. `source_key` and `target_key`
    name the data's clients in the messages to lanes; they are '' outside of a driver."""

    source: Cluster
    target: Cluster
    source_admin: Cluster
    target_admin: Cluster
    source_key: str = ""
    target_key: str = ""

    @classmethod
    def of(cls, link: LinkSettings, connect: Connect) -> Self:
        """Returns the clients for a command."""
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
    """Returns the ids of the link's clusters. `known`: their ids by its progress. From now on all
    clients of `sides` refuse brokers of other clusters.

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


Role = tuple[str, str]  # of a client: the name of its link or pair, and its use there


def _locked(
    method: Callable[Concatenate[Clients, P], T],
) -> Callable[Concatenate[Clients, P], T]:
    @wraps(method)
    def locked(self: Clients, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return locked


class Clients:
    """One client for all roles with equal settings. Thread-safe."""

    def __init__(self) -> None:
        self._open: dict[str, Cluster] = {}  # by key
        self._roles: dict[Role, str] = {}
        self._count = 0
        self._lock = threading.RLock()

    @_locked
    def open(self, role: Role, settings: ClientSettings) -> str:
        """Returns the key of the client for `settings`. Opens a client if no client has equal
        settings now. From now on the client has this role."""
        known = (key for key, cluster in self._open.items() if cluster.settings == settings)
        if (key := next(known, "")) == "":
            key = f"{settings.alias}/{self._count}"
            self._count += 1
            self._open[key] = Cluster(settings)
        self._roles[role] = key
        return key

    @_locked
    def sides(self, link: LinkSettings) -> Sides:
        """The clients of one link."""
        keys = {role: self._key(each, known) for each, role, known in _roles_of(link)}
        return Sides(
            source=self._open[keys["source"]],
            target=self._open[keys["target"]],
            source_admin=self._open[keys["source admin"]],
            target_admin=self._open[keys["target admin"]],
            source_key=keys["source"],
            target_key=keys["target"],
        )

    @_locked
    def beating(self, pair: HeartbeatSettings) -> Cluster:
        """The client that sends the heartbeats of `pair`."""
        return self._open[self._key((pair.name, "heartbeats"), pair.target)]

    def _key(self, role: Role, settings: ClientSettings) -> str:
        return self._roles.get(role) or self.open(role, settings)

    @property
    @_locked
    def by_key(self) -> Mapping[str, ClientSettings]:
        return {key: cluster.settings for key, cluster in self._open.items()}

    @_locked
    def renew(self, now: Settings) -> dict[str, ClientSettings]:
        """Replace certificates, keys and passwords by those of `now`, for new connections. Other
        values of `now` have no effect. Returns the changed settings by key. Raises ConfigError, and
        changes no client, if a certificate or key cannot be used."""
        changed = self.renewable(now)
        for new in changed.values():
            check_certificates(new)  # a certificate may be here before its key is
        for key, new in changed.items():
            self._open[key].renew(new)
        return changed

    @_locked
    def renewable(self, now: Settings) -> dict[str, ClientSettings]:
        """Returns new settings by key, for the clients whose certificates, keys or passwords `now`
        changes. Leaves out a client if `now` changes its other settings too, or if its roles would
        get different settings."""
        wanted: dict[str, list[ClientSettings]] = {}
        for role, settings in clients_of(now).items():
            if role in self._roles:
                wanted.setdefault(self._roles[role], []).append(settings)
        return {
            key: news[0]
            for key, news in wanted.items()
            if news[0] != (before := self._open[key].settings)
            and _same_way(before, news[0])
            and all(each == news[0] for each in news)
        }

    @_locked
    def move(self, now: Settings) -> dict[str, ClientSettings]:
        """Gives each role of `now` the client with its settings, and forgets other roles. Returns
        the settings of new clients by key. Call `renew` first."""
        before = set(self._open)
        found = clients_of(now)
        for role in self._roles.keys() - found.keys():
            del self._roles[role]
        for role, settings in found.items():
            if role not in self._roles or self._open[self._roles[role]].settings != settings:
                self.open(role, settings)
        return {key: c.settings for key, c in self._open.items() if key not in before}

    @_locked
    def in_force(self, settings: Settings) -> Settings:
        """Returns `settings` with the values that their clients use now, such as renewed
        passwords."""

        def client(name: str, role: str, known: ClientSettings) -> ClientSettings:
            key = self._roles.get((name, role))
            return known if key is None else self._open[key].settings

        return replace(
            settings,
            links=tuple(
                replace(
                    link,
                    source=client(link.name, "source", link.source),
                    target=client(link.name, "target", link.target),
                    source_admin=client(link.name, "source admin", link.source_admin),
                    target_admin=client(link.name, "target admin", link.target_admin),
                )
                for link in settings.links
            ),
            heartbeat_links=tuple(
                replace(each, target=client(each.name, "heartbeats", each.target))
                for each in settings.heartbeat_links
            ),
        )

    @_locked
    def knows(self, settings: ClientSettings) -> bool:
        """Whether a client has these settings."""
        return any(cluster.settings == settings for cluster in self._open.values())

    @_locked
    def unmet(self, now: Settings) -> list[ClientSettings]:
        """Returns the settings of `now` that no client has, without repetition."""
        known = list(self.by_key.values())
        found: list[ClientSettings] = []
        for settings in clients_of(now).values():
            if settings not in known and settings not in found:
                found.append(settings)
        return found

    def close_unused(self) -> list[str]:
        """Closes the clients without a role, and returns their keys. No link may still use them."""
        with self._lock:
            unused = sorted(self._open.keys() - set(self._roles.values()))
            closing = [self._open.pop(key) for key in unused]
        for cluster in closing:
            cluster.close()
        return unused

    def close(self) -> None:
        for cluster in self._open.values():
            cluster.close()


def _roles_of(link: LinkSettings) -> Iterator[tuple[Role, str, ClientSettings]]:
    for role, settings in (
        ("source", link.source),
        ("target", link.target),
        ("source admin", link.source_admin),
        ("target admin", link.target_admin),
    ):
        yield (link.name, role), role, settings


def _same_way(before: ClientSettings, now: ClientSettings) -> bool:
    """Returns whether both differ at most in certificates, keys and passwords."""
    if (before.tls is None) != (now.tls is None) or (before.sasl is None) != (now.sasl is None):
        return False
    if before.sasl and now.sasl and before.sasl.mechanism != now.sasl.mechanism:
        return False
    return replace(now, tls=before.tls, sasl=before.sasl) == before
