"""The driver: creates and connects all parts, from the settings to the exit code.

    Spark starts ─────────────────┐ in a thread, 2 to 4 s
    clusters answer, links plan ──┴─► lanes connect, get partitions ─► … ─► drain ─► exit

If Spark's JVM dies, the driver starts it again, with new lanes (engine.py). The run ends with one
line and exit code 6 only if that happens repeatedly.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace

from causeway.config import ClientSettings, Settings
from causeway.config.reading import clients_of
from causeway.control import Transforms
from causeway.daemon.clients import Clients
from causeway.daemon.events import posting
from causeway.daemon.lanes import Fleet
from causeway.daemon.links import Links
from causeway.daemon.partitions import RunOptions, Wish, treatments_of
from causeway.daemon.reload_checks import CheckedSettings, ReloadChecks, StageRoom
from causeway.daemon.reload_door import open_door
from causeway.daemon.reloading import Reloader
from causeway.daemon.spark import Engine, Spark, not_importable, wanted_lanes
from causeway.daemon.staging import Staging
from causeway.daemon.startup import FirstLane, await_clusters
from causeway.errors import CausewayError, ConfigError, PartitionsFailedError
from causeway.model import State
from causeway.relay import ControlServer, new_secret
from causeway.signals import handled
from causeway.status import Look, ReloadStatus, Snapshot

_log = logging.getLogger("causeway.run")
_TICK_S = 0.05
_CALM_S = 0.25  # while all lanes are connected and the run does not end by itself
_STATUS_S = 0.5
_DRAIN_S = 20.0
_FOR_GOOD_S = 60.0  # a bounded run no longer waits for a partition that has failed for this time
_TAKEN_UP_S = 30.0  # the longest time for which a reload waits for links
_FIRST_LANES = 2  # launched before the number of partitions is known
OnStatus = Callable[[Look], None]
OnSettings = Callable[[Settings], None]


def run(
    settings: Settings,
    *,
    until_caught_up: bool = False,
    finish_in_flight: bool = False,
    start_from: int | None = None,
    adopt: bool = False,
    on_status: OnStatus | None = None,
    on_settings: OnSettings | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Mirrors all links until SIGTERM, SIGINT or `stop`, then drains and returns 0.

    With `until_caught_up` it ends by itself once it has mirrored all records that the source had at
    the start. With `finish_in_flight` it ends by itself once it has found the records that a killed
    process left in flight, and has written each of them to all of its target partitions.
    `start_from` (ms since 1970) and `adopt` decide how a partition continues that was stopped or
    has no progress. `on_status` is called twice a second. `on_settings` is called with the settings
    in force, after a changed file was put in force and after credentials were renewed. Raises
    CausewayError if the run is not possible, PartitionsFailedError if a bounded run could not copy
    everything.
    """
    if not settings.links:
        raise ConfigError("run", cause="no flow is enabled", remedy="set A->B.enabled = true")
    with posting(settings.run.webhook) as poster:

        def in_force(found: Settings) -> None:
            poster.change(found.run.webhook)
            if on_settings is not None:
                on_settings(found)

        driver = Driver(
            settings,
            RunOptions(
                settings=settings.run,
                wish=Wish(start_from=start_from, adopt=adopt),
                bounded=until_caught_up or finish_in_flight,
                finish=finish_in_flight,
            ),
            on_status,
            in_force,
            stop or threading.Event(),
        )
        file = None if settings.rereading is None else settings.rereading.path
        with handled(driver.stop, driver.reload), open_door(file, driver.reload):
            return driver.run()


class Driver:
    def __init__(
        self,
        settings: Settings,
        options: RunOptions,
        on_status: OnStatus | None,
        on_settings: OnSettings,
        stop: threading.Event,
    ) -> None:
        self._options = options
        self._bounded = options.bounded
        self._on_status, self._on_settings = on_status, on_settings
        self.stop = stop
        self._started_at = time.time()
        self._status_at = 0.0
        self._draining = False
        secret = new_secret()
        transforms = {link.name: Transforms(link, settings.spark) for link in settings.links}
        staged = [transform for each in transforms.values() for transform in each.all]
        least = max((transform.settings.lanes for transform in staged), default=1)
        most = wanted_lanes(settings.spark, settings.run.lanes, least)
        room = StageRoom.of(settings, most)
        self._engine = Engine(settings.spark, most, secret, self._on_lane_ended, room.stages)
        self._clusters = Clients()
        for role, client in clients_of(settings).items():
            self._clusters.open(role, client)
        self._fleet = Fleet(
            settings.run,
            self._clusters.by_key,
            local=self._engine.local,
            treatments=treatments_of(settings.links),
        )
        self._staging = Staging(staged, self._fleet)
        self._secret = secret
        self._server: ControlServer | None = None
        self._lanes_of: Spark | None = None  # the Spark that the lanes were launched on
        self._launched = self._ready = 0
        self._first = FirstLane()
        self._links = Links(
            settings, options, self._clusters, self._fleet, self._staging, transforms
        )
        self._changes: queue.SimpleQueue[CheckedSettings] = queue.SimpleQueue()
        checks = ReloadChecks(
            self._clusters, self._staging, self._engine, self._links, bounded=options.bounded
        )
        self._reloader = Reloader(
            settings,
            self._clusters,
            compare=room.compare,
            check=checks.check,
            apply=self._apply_soon,
            on_renewed=self._use_renewed,
            on_noted=self._links.note_file,
            reach=checks.reach,
        )

    def run(self) -> int:
        self._engine.start()
        self._reloader.start()
        try:
            if not await_clusters(self._links.sides.values(), self.stop, every=self._bounded):
                return 0
            self._links.start()
            pause = _TICK_S
            while not self.stop.wait(pause) and not self._step():
                calm = 0 < self._launched == self._fleet.connected
                pause = _CALM_S if calm and not (self._bounded or self._staging.any) else _TICK_S
            self._drain()
            self._publish(force=True)
            self._judge()
        finally:
            self._end()
        return 0

    def _step(self) -> bool:
        """Does one turn of the loop. Returns True once a bounded run has nothing more to do."""
        self._raise_failures()
        self._apply_changes()
        if (spark := self._engine.spark) is not None:
            if self._server is None:
                self._server = ControlServer(
                    "127.0.0.1" if spark.local else spark.host,
                    self._secret,
                    on_hello=self._fleet.on_hello,
                    on_message=self._fleet.on_message,
                    on_closed=self._fleet.on_closed,
                )
                self._server.start()
            self._launch_lanes(spark, self._server)
            self._staging.step(spark)
        self._fleet.tick()
        if self._ready < self._launched <= self._fleet.connected:
            self._ready = self._launched  # all, and again after more were launched
            seconds = round(time.time() - self._started_at, 1)
            _log.info("lanes ready", extra={"lanes": self._ready, "after_s": seconds})
        self._publish()
        return self._bounded and all(link.is_settled(_FOR_GOOD_S) for link in self._links.all)

    def reload(self, by: str) -> Future[ReloadStatus]:
        """Has the file of the settings read again. Any thread may call it."""
        return self._reloader.ask(by)

    def _use_renewed(self, changed: Mapping[str, ClientSettings], settings: Settings) -> None:
        self._fleet.renew(changed)
        self._on_settings(settings)

    def _apply_soon(self, change: CheckedSettings) -> tuple[str, ...]:
        """Has the main thread put `change` in force, and waits until it has done so. Then waits up
        to _TAKEN_UP_S until each link works with the new settings: a link first ends its look at
        the clusters. Returns the names of the links that still have other settings. Raises
        CausewayError if the run ends before `change` is in force."""
        self._changes.put(change)
        while not change.applied.wait(_CALM_S):
            if self.stop.is_set():
                raise CausewayError("use", "the changed file", "the run ends")
        until = time.monotonic() + _TAKEN_UP_S
        while not (self.stop.is_set() or self._links.settled or time.monotonic() > until):
            self.stop.wait(_TICK_S)
        return self._links.unsettled

    def _apply_changes(self) -> None:
        while not self._changes.empty():
            change = self._changes.get()
            settings = change.settings
            options = replace(self._options, settings=settings.run)
            self._staging.adopt(
                [each for known in change.transforms.values() for each in known.all],
                change.prepared,
            )
            self._links.apply(settings, options, change.transforms)
            self._on_settings(settings)
            change.applied.set()
        self._links.tick()

    def _raise_failures(self) -> None:
        self._engine.tick()
        if self._server is not None and self._server.failure is not None:
            raise self._server.failure
        failures = [link.failure for link in self._links.all]
        # While another link works, the failure of a link is only shown in the status.
        if failures and all(failures) and failures[0] is not None and self._links.settled:
            raise failures[0]
        trouble = self._fleet.trouble
        if trouble and not self._fleet.lanes() and (error := not_importable(trouble)):
            raise error
        if self._bounded:
            self._first.check(
                launched=self._launched, connected=self._fleet.connected, trouble=trouble
            )

    def _launch_lanes(self, spark: Spark, server: ControlServer) -> None:
        if spark is not self._lanes_of:
            self._lanes_of, self._launched, self._ready = spark, 0, 0
        wanted = min(spark.lanes, max(_FIRST_LANES, self._fleet.partitions))
        if wanted <= self._launched:
            return
        self._fleet.expect(wanted)
        for lane in range(self._launched, wanted):
            spark.launch(lane, server.host, server.port)
        self._launched = wanted

    def _on_lane_ended(self, lane: int, reason: str, returned: bool) -> None:
        self._fleet.on_lane_ended(lane, reason, returned)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            started_at=self._started_at,
            taken_at=time.time(),
            bounded=self._bounded,
            draining=self._draining,
            links=tuple(link.status() for link in self._links.running),
            lanes=self._fleet.lanes(),
            lanes_wanted=self._launched,
            lane_trouble=self._fleet.trouble,
            other_tasks={name: tasks.status() for name, tasks in self._links.beats.items()},
            refused={
                name: why
                for name, sides in self._links.sides.items()
                if (why := sides.refused_for_minutes) is not None
            },
            expiries=self._reloader.expiries,
            reload=self._reloader.status if self._reloader.has_file else None,
        )

    def _publish(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if self._on_status is not None and (force or now - self._status_at >= _STATUS_S):
            self._status_at = now
            self._on_status(self.snapshot)

    def _drain(self) -> None:
        self._draining = True
        _log.info("drain")
        self._engine.quiesce()
        if self._server is not None and not self._fleet.drain(_DRAIN_S):
            _log.warning("a lane did not drain in time", extra={"seconds": _DRAIN_S})
        self._staging.stop()
        self._links.stop()
        for link in self._links.all:
            link.join(_DRAIN_S)

    def _judge(self) -> None:
        """Raises PartitionsFailedError if a bounded run did not copy everything."""
        if not self._bounded or self.stop.is_set():
            return
        left = [str(link.failure) for link in self._links.all if link.failure is not None]
        left += [
            f"{link.settings.name}: the lead was lost at the end, see the log"
            for link in self._links.all
            if not link.is_settled(_FOR_GOOD_S)
        ]
        for link in (link.status() for link in self._links.all):
            left += [
                f"{link.name} {p.topic}-{p.partition} {p.state}: {p.reason}"
                for p in link.partitions
                if p.state != State.DONE
            ]
            left += [f"{link.name} {problem.topic}: {problem.reason}" for problem in link.problems]
        if left:
            more = f"; and {len(left) - 3} more" if len(left) > 3 else ""
            raise PartitionsFailedError(
                "copy", f"{len(left)} topics or partitions", "; ".join(left[:3]) + more
            )

    def _end(self) -> None:
        self._reloader.stop()
        self._links.stop()
        if self._server is not None:
            self._server.close()
        self._engine.stop()
        self._clusters.close()
