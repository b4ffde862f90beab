"""The driver: creates and connects all parts, from the settings to the exit code.

    Spark starts ─────────────────┐ in a thread, 2 to 4 s
    clusters answer, links plan ──┴─► lanes connect, get partitions ─► … ─► drain ─► exit

If Spark's JVM dies, the driver starts it again, with new lanes (engine.py). The run ends with one
line and exit code 6 only if that happens repeatedly.
"""

from __future__ import annotations

import _thread
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from causeway.config import Settings
from causeway.control import Sharer, Transforms
from causeway.daemon.clients import Clients, Renewal
from causeway.daemon.events import posting
from causeway.daemon.lanes import Fleet
from causeway.daemon.link import LinkDriver
from causeway.daemon.partitions import RunOptions, Wish, treatments_of
from causeway.daemon.spark import Engine, Spark, not_importable, wanted_lanes
from causeway.daemon.staging import Staging
from causeway.daemon.startup import FirstLane, await_clusters
from causeway.daemon.tasks import Tasks, heartbeat_task
from causeway.errors import ConfigError, PartitionsFailedError
from causeway.model import State
from causeway.relay import ControlServer, new_secret
from causeway.status import Look, Snapshot

_log = logging.getLogger("causeway.run")
_TICK_S = 0.05
_CALM_S = 0.25  # if all lanes are connected and the run does not end by itself
_STATUS_S = 0.5
_DRAIN_S = 20.0
_FOR_GOOD_S = 60.0  # a bounded run does not wait for a partition that failed so long ago
_FIRST_LANES = 2  # launched before the number of partitions is known
OnStatus = Callable[[Look], None]


def run(
    settings: Settings,
    *,
    until_caught_up: bool = False,
    finish_in_flight: bool = False,
    start_from: int | None = None,
    adopt: bool = False,
    on_status: OnStatus | None = None,
    stop: threading.Event | None = None,
) -> int:
    """Mirrors all links until SIGTERM, SIGINT or `stop`, then drains and returns 0.

    With `until_caught_up` it ends by itself once it has mirrored all records that the source had at
    the start. With `finish_in_flight` it ends by itself once it has found the records that a killed
    process left in flight, and each target partition has those that another target partition had.
    `start_from` (ms since 1970) and `adopt` say how a partition continues that has no progress or
    was stopped. `on_status` is called twice a second. Raises a CausewayError if the run is not
    possible, PartitionsFailedError if a bounded run could not copy everything.
    """
    if not settings.links:
        raise ConfigError("run", cause="no flow is enabled", remedy="set A->B.enabled = true")
    driver = Driver(
        settings,
        RunOptions(
            settings=settings.run,
            wish=Wish(start_from=start_from, adopt=adopt),
            bounded=until_caught_up or finish_in_flight,
            finish=finish_in_flight,
        ),
        on_status,
        stop or threading.Event(),
    )
    with _signals(driver.stop), posting(settings.run.webhook):
        return driver.run()


class Driver:
    def __init__(
        self,
        settings: Settings,
        options: RunOptions,
        on_status: OnStatus | None,
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._bounded = options.bounded
        self._on_status = on_status
        self.stop = stop
        self._started_at = time.time()
        self._status_at = 0.0
        self._draining = False
        secret = new_secret()
        transforms = {link.name: Transforms(link, settings.spark) for link in settings.links}
        staged = [transform for each in transforms.values() for transform in each.all]
        least = max((transform.settings.lanes for transform in staged), default=1)
        most = wanted_lanes(settings.spark, settings.run.lanes, least)
        self._engine = Engine(
            settings.spark,
            most,
            secret,
            self._on_lane_ended,
            sum(min(each.settings.lanes, most or each.settings.lanes) for each in staged),
        )
        self._clusters = Clients()
        self._sides = {link.name: self._clusters.sides(link) for link in settings.links}
        self._fleet = Fleet(
            settings.run,
            self._clusters.by_key,
            local=self._engine.local,
            treatments=treatments_of(settings.links),
        )
        self._staging = Staging(staged, self._fleet)
        self._secret = secret
        self._server: ControlServer | None = None
        self._lanes_of: Spark | None = None  # which Spark the lanes were launched on
        self._launched = self._ready = 0
        self._first = FirstLane()
        heartbeats = [
            (each.name, heartbeat_task(each, self._clusters.open(each.target)))
            for each in settings.heartbeat_links
        ]
        self._links = [
            LinkDriver(
                link,
                options,
                self._sides[link.name],
                self._fleet,
                transforms[link.name],
                self._staging,
                also=[task for name, task in heartbeats if name == link.name],
                sharers=[
                    Sharer(self._sides[each.name].target_admin, each)
                    for each in settings.links
                    if each.source.alias == link.source.alias and each.name != link.name
                ],
            )
            for link in settings.links
        ]
        self._renewal = Renewal(settings, self._clusters, self._fleet.renew)
        # Heartbeats of pairs without a flow.
        mirrored = {link.name for link in settings.links}
        self._heartbeats = [Tasks(name, [t]) for name, t in heartbeats if name not in mirrored]

    def run(self) -> int:
        self._engine.start()
        self._renewal.start()
        try:
            if not await_clusters(self._sides.values(), self.stop, every=self._bounded):
                return 0
            for link in self._links:
                link.start()
            for heartbeats in self._heartbeats:
                heartbeats.start()
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
        return self._bounded and all(link.is_settled(_FOR_GOOD_S) for link in self._links)

    def _raise_failures(self) -> None:
        self._engine.tick()
        if self._server is not None and self._server.failure is not None:
            raise self._server.failure
        failures = [link.failure for link in self._links]
        # While another link works, the failure of a link is only shown in the status.
        if all(failures) and failures[0] is not None:
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
            links=tuple(link.status() for link in self._links),
            lanes=self._fleet.lanes(),
            lanes_wanted=self._launched,
            lane_trouble=self._fleet.trouble,
            other_tasks={tasks.link: tasks.status() for tasks in self._heartbeats},
            refused={
                name: why
                for name, sides in self._sides.items()
                if (why := sides.refused_for_minutes) is not None
            },
            expiries=self._renewal.expiries,
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
        for link in self._links:
            link.stop()
        for link in self._links:
            link.join(_DRAIN_S)

    def _judge(self) -> None:
        """Raises PartitionsFailedError if a bounded run did not copy everything."""
        if not self._bounded or self.stop.is_set():
            return
        left = [str(link.failure) for link in self._links if link.failure is not None]
        left += [
            f"{link.settings.name}: the lead was lost at the end, see the log"
            for link in self._links
            if not link.is_settled(_FOR_GOOD_S)
        ]
        for link in (link.status() for link in self._links):
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
        for heartbeats in self._heartbeats:
            heartbeats.stop()
        self._renewal.stop()
        for link in self._links:
            link.stop()
        if self._server is not None:
            self._server.close()
        self._engine.stop()
        self._clusters.close()


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """The first SIGTERM or SIGINT sets `stop`, a second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        # The signal may interrupt this thread while it holds the event's lock.
        _thread.start_new_thread(stop.set, ())

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
