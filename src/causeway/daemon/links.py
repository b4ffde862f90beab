"""The links of the file in force, and what happens to each link when another file replaces it.

unchanged      goes on; no part of the link notices
changed        goes on with the new settings; its lanes keep the partitions that are not concerned
restarted      ends in order, and starts again: its clusters or its relayed series have changed
removed        ends in order, as at the end of a run
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from causeway.cluster import Cluster
from causeway.config import ClientSettings, HeartbeatSettings, LinkSettings, Settings
from causeway.control import Sharer, Transforms, without_place
from causeway.daemon.clients import Clients
from causeway.daemon.lanes import Fleet
from causeway.daemon.link import LinkDriver, LinkWork
from causeway.daemon.partitions import RunOptions, Wish, treatments_of
from causeway.daemon.staging import Staging
from causeway.daemon.tasks import ScheduledTask, Tasks, heartbeat_task
from causeway.link_topics import ClusterIds

# A change of one of these concerns each partition of the link, or the link's topics on its target.
_RESTARTING: Final = (
    "policy",
    "partitioning",
    "delivery",
    "group_id",
    "treatments",
    "geo",
    "way_back",
)


@dataclass(frozen=True, slots=True)
class _Beats:
    """The heartbeats of one pair. `plain`: the settings without those of the client."""

    settings: HeartbeatSettings = field(compare=False)
    target: Cluster
    plain: HeartbeatSettings

    @property
    def task(self) -> ScheduledTask:
        return heartbeat_task(self.settings, self.target)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """All that one link works with, for the comparison with another file. The settings of clients
    do not count: the clients get the newest certificates and passwords anyway."""

    link: LinkSettings
    beats: _Beats | None
    sharers: tuple[Sharer, ...]
    progress_interval_s: float
    deleted_topics_retention_s: float | None


class Links:
    """Not thread-safe, but any thread may read `all` and `sides`."""

    def __init__(
        self,
        settings: Settings,
        options: RunOptions,
        clients: Clients,
        fleet: Fleet,
        staging: Staging,
        transforms: Mapping[str, Transforms],
    ) -> None:
        self._options = options
        self._clients = clients
        self._fleet = fleet
        self._staging = staging
        self.transforms = transforms
        self._settings = settings
        self.sides = {link.name: clients.sides(link) for link in settings.links}
        self._inputs = self._inputs_of(settings)
        self._running = {link.name: self._new(link, options) for link in settings.links}
        self._ending: list[LinkDriver] = []
        self._coming: dict[str, LinkSettings] = {}
        self._beats: dict[str, tuple[_Beats, Tasks]] = {}
        self._unused = False  # some clients may have no role; they are closed once all links settle
        self._started = False

    @property
    def all(self) -> tuple[LinkDriver, ...]:
        """The links of the file, and those that are about to end."""
        return (*list(self._running.values()), *list(self._ending))

    @property
    def running(self) -> tuple[LinkDriver, ...]:
        """The links of the file."""
        return tuple(self._running.values())

    def cluster_ids(self, name: str) -> ClusterIds:
        """Returns the ids of a running link's clusters, as far as they are known."""
        running = self._running.get(name)
        return ClusterIds() if running is None else running.leadership.clusters

    def changed(self, settings: Settings) -> list[LinkSettings]:
        """Returns the links of `settings` that are new or changed, apart from their clients."""
        known = {name: each.link for name, each in self._inputs.items()}
        return [link for link in settings.links if known.get(link.name) != _plain(link)]

    @property
    def beats(self) -> Mapping[str, Tasks]:
        """The heartbeats of pairs without a flow."""
        return {name: tasks for name, (_, tasks) in list(self._beats.items())}

    @property
    def settled(self) -> bool:
        """Whether each link has the settings of the file in force."""
        return not self.unsettled

    @property
    def unsettled(self) -> tuple[str, ...]:
        """The names of the links that still have other settings than the file in force."""
        ending = [each.settings.name for each in list(self._ending)]
        changing = [each.settings.name for each in self.running if each.changing]
        return tuple(dict.fromkeys([*ending, *list(self._coming), *changing]))

    def start(self) -> None:
        self._started = True
        for link in self._running.values():
            link.start()
        self._beat()

    def apply(
        self, settings: Settings, options: RunOptions, made: Mapping[str, Transforms]
    ) -> None:
        """Puts `settings` in force, whose transforms are `made`; returns at once."""
        inputs_before, sides_before = self._inputs, self.sides
        self._settings, self._options = settings, options
        news = self._clients.renew(settings) | self._clients.move(settings)
        self._fleet.renew(news)
        self.transforms, self._unused = made, True
        self.sides = {link.name: self._clients.sides(link) for link in settings.links}
        self._inputs = self._inputs_of(settings)
        wanted = {link.name: link for link in settings.links}
        for name, running in list(self._running.items()):
            link = wanted.get(name)
            if (
                link is None
                or self.sides[name] != sides_before[name]
                or _restarts(inputs_before[name].link, self._inputs[name].link)
            ):
                self._end(name)
            elif self._inputs[name] != inputs_before[name]:
                running.change(self._work(link, options))
        self._coming = {name: link for name, link in wanted.items() if name not in self._running}
        self._renew_treatments()
        self._beat()
        self.tick()

    def tick(self) -> None:
        """Starts the links that wait until an earlier link of the same name has ended. Call this
        several times a second."""
        if self._unused and self.settled:
            self._unused = False
            if gone := self._clients.close_unused():
                self._fleet.renew({}, gone=gone)
        if not (self._ending or self._coming):
            return
        before, self._ending = self._ending, [e for e in self._ending if not e.has_ended]
        if ended := [each.settings.name for each in before if each not in self._ending]:
            self._renew_treatments()
            for name in ended:
                self._fleet.detach(name)
        ending = {each.settings.name for each in self._ending}
        for name, link in list(self._coming.items()):
            if name not in ending:
                del self._coming[name]
                # `--from` and `--adopt` are only for the file that the run was started with.
                self._running[name] = self._new(link, replace(self._options, wish=Wish()))
                self._running[name].start()

    def note_file(self, reason: str | None) -> None:
        """Shows with each link why the changed file is not in force. None if it is in force."""
        for link in self.running:
            link.note_file(reason)

    def stop(self) -> None:
        for link in self.all:
            link.stop()
        self._coming = {}
        for tasks in self.beats.values():
            tasks.stop()

    def _renew_treatments(self) -> None:
        """A link keeps its treatments until it has ended: another lane may still get one of its
        partitions, and the claim is for these treatments."""
        ending = [each.settings for each in self._ending]
        self._fleet.renew({}, {**treatments_of(self._settings.links), **treatments_of(ending)})

    def _end(self, name: str) -> None:
        running = self._running.pop(name)
        self._ending.append(running)
        running.retire()

    def _new(self, link: LinkSettings, options: RunOptions) -> LinkDriver:
        work = self._work(link, options)
        return LinkDriver(work, self.sides[link.name], self._fleet, self._staging)

    def _work(self, link: LinkSettings, options: RunOptions) -> LinkWork:
        inputs = self._inputs[link.name]
        return LinkWork(
            link=link,
            run=options,
            transforms=self.transforms[link.name],
            also=() if inputs.beats is None else (inputs.beats.task,),
            sharers=tuple(
                Sharer(self.sides[each.name].target_admin, each)
                for each in self._settings.links
                if each.source.alias == link.source.alias and each.name != link.name
            ),
        )

    def _beats_of(self, settings: Settings) -> dict[str, _Beats]:
        return {
            each.name: _Beats(
                each,
                self._clients.beating(each),
                replace(each, target=_no_client(each.target)),
            )
            for each in settings.heartbeat_links
        }

    def _beat(self) -> None:
        """Sends the heartbeats of pairs without a flow, by the file in force."""
        if not self._started:
            return
        found = self._beats_of(self._settings).items()
        wanted = {name: beats for name, beats in found if name not in self.sides}
        for name, (known, tasks) in list(self._beats.items()):
            if wanted.get(name) != known:
                tasks.stop()
                del self._beats[name]
        for name, beats in wanted.items():
            if name not in self._beats:
                tasks = Tasks(name, [beats.task])
                self._beats[name] = beats, tasks
                tasks.start()

    def _inputs_of(self, settings: Settings) -> dict[str, _Inputs]:
        plain = {link.name: _plain(link) for link in settings.links}
        beats = self._beats_of(settings)
        return {
            link.name: _Inputs(
                link=plain[link.name],
                beats=beats.get(link.name),
                sharers=tuple(
                    Sharer(self.sides[name].target_admin, each)
                    for name, each in plain.items()
                    if each.source.alias == link.source.alias and name != link.name
                ),
                progress_interval_s=settings.run.progress_interval_s,
                deleted_topics_retention_s=settings.run.deleted_topics_retention_s,
            )
            for link in settings.links
        }


def _plain(link: LinkSettings) -> LinkSettings:
    """`link` without the settings of its clients, and without places in the file."""
    source, target = _no_client(link.source), _no_client(link.target)
    return replace(
        link,
        source=source,
        target=target,
        source_admin=source,
        target_admin=target,
        transforms=tuple(without_place(each) for each in link.transforms),
        schemas=link.schemas
        and replace(
            link.schemas,
            source=replace(link.schemas.source, place=""),
            target=replace(link.schemas.target, place=""),
        ),
    )


def _no_client(settings: ClientSettings) -> ClientSettings:
    return ClientSettings(alias=settings.alias, bootstrap=())


def _restarts(before: LinkSettings, now: LinkSettings) -> bool:
    # Renamed topics are compared one by one.
    earlier = replace(before, policy=replace(before.policy, renames=now.policy.renames))
    return any(getattr(earlier, name) != getattr(now, name) for name in _RESTARTING)
