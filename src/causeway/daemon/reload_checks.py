"""Checks the new settings completely, before they replace any of the settings in force.

clusters     each client that the process does not have yet must reach its cluster, with its
             credentials
brokers      the brokers of changed flows must have the APIs that the flow needs
transforms   Spark analyses the changed transforms; there must be room for their stages
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from causeway.cluster import Connect, clusters, moved_remedy, reach
from causeway.config import ClientSettings, LinkSettings, SettingChange, Settings, changes, is_local
from causeway.control import Transforms
from causeway.daemon.clients import Clients, Sides
from causeway.daemon.links import Links
from causeway.daemon.reloading import FileDifference
from causeway.daemon.spark import Engine
from causeway.daemon.staging import Staging
from causeway.daemon.startup import BrokerApis
from causeway.errors import ConfigError, UnreachableError
from causeway.logins import check_certificates

if TYPE_CHECKING:
    from causeway.transform.plan import PreparedTransform

_ANSWER_S: Final = 10.0
_LONGEST: Final = 80  # characters of a value that are shown
_SPARE: Final = 4  # stages beyond those that the file of the start wants


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSettings:
    """Settings that have passed all checks, with their transforms by link. `applied` is set once
    the settings are in force."""

    settings: Settings
    transforms: Mapping[str, Transforms]
    prepared: Mapping[str, PreparedTransform]
    applied: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class StageRoom:
    """The number of `stages` of transforms that Spark was started for, and the most `lanes` of a
    transform. `lanes` is None if a cluster's cores decide it."""

    stages: int
    lanes: int | None

    @classmethod
    def of(cls, settings: Settings, lanes: int | None) -> StageRoom:
        """Returns room for the transforms of `settings`. On this machine it has spare stages, which
        cost nothing."""
        wanted = cls(0, lanes).wanted(settings)
        return cls(wanted + (_SPARE if wanted and is_local(settings.spark) else 0), lanes)

    def wanted(self, settings: Settings) -> int:
        """Returns the number of stages that `settings` want."""
        lanes = (each.lanes for link in settings.links for each in link.transforms)
        return sum(min(each, self.lanes or each) for each in lanes)

    def compare(self, running: Settings, wanted: Settings) -> FileDifference:
        """Returns what `wanted` changes, and which of the changes only a restart applies."""
        found = difference(running, wanted)
        if self.wanted(wanted) > max(self.stages, self.wanted(running)):
            room = f"Spark was started with room for {self.stages} stages of transforms"
            found = replace(found, restart=(*found.restart, f"causeway.transforms ({room})"))
        return found


def difference(running: Settings, wanted: Settings) -> FileDifference:
    found = changes(running, wanted)
    return FileDifference(
        changes=tuple(_line(each) for each in found),
        restart=tuple(
            f"{each.place} ({each.applies.restart})" for each in found if each.applies.restart
        ),
    )


def _line(change: SettingChange) -> str:
    before, after = (_short(value) for value in (change.before, change.after))
    return f"{change.place}: {before} → {after}"


def _short(value: str | None) -> str:
    if value is None:
        return "not set"
    text = " ".join(value.split())
    return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text or "empty"


class ReloadChecks:
    def __init__(
        self, clients: Clients, staging: Staging, engine: Engine, links: Links, *, bounded: bool
    ) -> None:
        """`bounded`: the run ends by itself, and accepts no other file."""
        self._clients = clients
        self._staging = staging
        self._engine = engine
        self._links = links
        self._bounded = bounded
        self._generation = 0

    def check(self, settings: Settings) -> CheckedSettings:
        """Raises CausewayError, which is retriable if a cluster or a registry does not answer."""
        if self._bounded:
            cause = "the run ends by itself"
            raise ConfigError("reload", cause=cause, remedy="start it again with the changed file")
        if not settings.links:
            raise ConfigError("run", cause="no flow is enabled", remedy="set A->B.enabled = true")
        self._generation += 1
        before = self._links.transforms
        transforms = {
            link.name: Transforms(
                link,
                settings.spark,
                before=before.get(link.name),
                generation=self._generation,
            )
            for link in settings.links
        }
        self._check_clusters(settings)
        staged = [each for known in transforms.values() for each in known.all]
        prepared = self._staging.check(self._engine.spark, self._staging.lacks(staged))
        return CheckedSettings(settings=settings, transforms=transforms, prepared=prepared)

    def reach(self, client: ClientSettings) -> None:
        """Raises AuthenticationError, or ConfigError for a certificate, if the cluster refuses
        these credentials. Does nothing if the cluster does not answer."""
        check_certificates(client)
        with clusters() as connect, suppress(UnreachableError):
            reach(connect, client, _ANSWER_S)

    def _check_clusters(self, settings: Settings) -> None:
        with clusters() as connect:
            for client in self._clients.unmet(settings):
                check_certificates(client)
                reach(connect, client, _ANSWER_S)
            for link in settings.links:
                self._check_ids(link, connect)
            for link in self._links.changed(settings):
                BrokerApis(link, Sides.of(link, connect)).check()

    def _check_ids(self, link: LinkSettings, connect: Connect) -> None:
        """Raises ConfigError if new addresses of a running link lead to another cluster."""
        known = self._links.cluster_ids(link.name)
        for client, wanted in (
            (link.source, known.source),
            (link.source_admin, known.source),
            (link.target, known.target),
            (link.target_admin, known.target),
        ):
            if client.cluster_id is not None or wanted is None or self._clients.knows(client):
                continue  # the file may name another cluster
            found = connect(client).bootstrap_check(_ANSWER_S).cluster_id
            if found not in (None, wanted):
                cause = f"the addresses of {client.alias} lead to cluster {found}, and its progress"
                cause += f" is of cluster {wanted}"
                remedy = moved_remedy(client.alias, str(found))
                raise ConfigError("mirror", link.name, cause, remedy=remedy)
