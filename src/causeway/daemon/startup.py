"""Checks at the start of a run: clusters answer, brokers have the APIs that a link needs, a first
lane connects. Decides which errors of a first start may pass by themselves."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import required_apis
from causeway.daemon.clients import Sides
from causeway.errors import (
    BrokerError,
    CausewayError,
    PrerequisiteError,
    TooFewBrokersError,
    UnreachableError,
)
from causeway.wire import codes

_run_log = logging.getLogger("causeway.run")
_log = logging.getLogger("causeway.link")
_TICK_S: Final = 0.05
_LATE_S: Final = 5.0  # links whose clusters answer wait for the other clusters for this time
_APIS_S: Final = 5.0  # a cluster that does not answer delays the start by this time at most
PATIENCE_S = 60.0  # the restart of a broker takes less
_FAILING_S: Final = 60.0  # until a bounded run ends, if its lanes end before they connect
_DIFFERS_S: Final = 30.0
_SILENT_S: Final = 600.0  # if no lane starts: a Spark cluster may have no free core for a while


def await_clusters(links: Iterable[Sides], stop: threading.Event, *, every: bool) -> bool:
    """Waits until all clusters of one link have answered, or of `every` link. Returns False after
    `stop`. Links whose clusters do not answer continue to try, and report it. Raises CausewayError
    if no link can work: a wrong address must not look like an outage."""
    needs = [(one.source, one.target, one.source_admin, one.target_admin) for one in links]
    clusters = dict.fromkeys(cluster for each in needs for cluster in each)
    pool = ThreadPoolExecutor(max(1, len(clusters)))
    checks = {each: pool.submit(each.bootstrap_check) for each in clusters}
    pool.shutdown(wait=False)
    late_at: float | None = None
    while True:
        results = {each: check.exception() for each, check in checks.items() if check.done()}
        errors = {each: error for each, error in results.items() if error is not None}
        if errors and (every or not any(errors.keys().isdisjoint(each) for each in needs)):
            for cluster in clusters:
                cluster.close()  # this ends the checks
            raise next(iter(errors.values()))
        if len(results) == len(checks):
            break
        answered = results.keys() - errors.keys()
        if not every and any(answered.issuperset(each) for each in needs):
            late_at = late_at or time.monotonic() + _LATE_S
            if time.monotonic() > late_at:
                break
        if stop.wait(_TICK_S):
            for cluster in clusters:
                cluster.close()
            return False
    for error in errors.values():
        _run_log.warning("cluster does not answer", extra={"reason": str(error)})
    return True


class BrokerApis:
    """Checks that the brokers of one link have the APIs that the link needs, before the driver
    leads it. Not thread-safe."""

    def __init__(self, link: LinkSettings, sides: Sides) -> None:
        self._link = link
        self._left: list[tuple[required_apis.Side, Cluster]] = [
            ("target", sides.target),
            ("source", sides.source),
        ]

    def check(self) -> None:
        """Warns once of each API that a cluster lacks. Raises BrokerError for an API that the link
        needs. A cluster that does not answer is checked by the next call."""
        for side, cluster in tuple(self._left):
            try:
                lacks = required_apis.lacking(self._link, side, cluster, _APIS_S)
            except UnreachableError:
                continue
            for lack in lacks:
                if lack.need.required:
                    raise lack.error
            for lack in lacks:
                about = {"link": self._link.name, "reason": str(lack)}
                _log.warning("brokers lack an API", extra=about)
            self._left.remove((side, cluster))


@dataclass(slots=True)
class Patience:
    """Decides how long one link waits for an error to pass. Not thread-safe.

    While a broker restarts, a cluster refuses to create a topic with N replicas, just like a
    cluster with fewer than N brokers. Only time shows the difference.
    """

    link: str
    _since: float | None = None

    def may_pass(self, error: CausewayError) -> bool:
        """Returns whether another attempt after `error` may succeed."""
        if error.retriable:
            return True
        refused = isinstance(error, BrokerError) and error.code == codes.INVALID_REPLICATION_FACTOR
        if not refused and not isinstance(error, TooFewBrokersError):
            return False
        if self._since is None:
            self._since = time.monotonic()
            about = {"link": self.link, "for_s": PATIENCE_S, "reason": str(error)}
            _log.warning("waits for brokers that may be restarting", extra=about)
        return time.monotonic() - self._since < PATIENCE_S

    def lasting(self, errors: Sequence[CausewayError]) -> list[CausewayError]:
        """Returns those of a look's `errors` that cannot pass by themselves."""
        if not errors:
            self._since = None
        return [each for each in errors if not self.may_pass(each)]

    @property
    def waits(self) -> bool:
        """Whether there was an error that may still pass, or that has not passed in time."""
        return self._since is not None


OTHER_FILE: Final = ", and its file says something else about this flow"


@dataclass(slots=True)
class OtherFile:
    """Logs if the files of two drivers of a link differ for longer than a reload of both takes. Not
    thread-safe."""

    link: str
    _since: float | None = None
    _logged: bool = False

    def looks(self, leaders: str | None, ours: str | None) -> bool:
        """Returns whether the files differ, by the hashes of the flow's settings. None if
        unknown."""
        if leaders is None or leaders == ours:
            self._since, self._logged = None, False
            return False
        self._since = self._since or time.monotonic()
        if not self._logged and time.monotonic() - self._since > _DIFFERS_S:
            self._logged = True
            remedy = "give both drivers the same file"
            _log.warning(
                "the leading driver has another file", extra={"link": self.link, "remedy": remedy}
            )
        return True


@dataclass(slots=True)
class FirstLane:
    """Ends a bounded run if no lane connects in time."""

    _since: float | None = None
    _connected: bool = False

    def check(self, *, launched: int, connected: int, trouble: str | None) -> None:
        """Call this repeatedly during the run. `trouble`: why the newest lane ended. Raises
        PrerequisiteError if lanes were launched and none has connected for too long."""
        self._connected = self._connected or connected > 0
        if self._connected or not launched:
            return
        self._since = self._since or time.monotonic()
        waited_s = time.monotonic() - self._since
        if waited_s > (_FAILING_S if trouble else _SILENT_S):
            raise PrerequisiteError(
                "start lanes",
                cause=f"none connected in {waited_s:.0f} s: {trouble or 'Spark started no task'}",
                remedy="see the log, with --debug also Spark's",
            )
