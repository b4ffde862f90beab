"""The driver in this process, with lanes in processes of their own: all but Spark is real.

A JVM costs seconds; what a daemon decides does not depend on it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import pytest

from causeway.config import ClientSettings, LinkSettings, RunSettings, Settings
from causeway.daemon import driver as daemon
from causeway.errors import CausewayError
from causeway.filters import compile_patterns
from causeway.model import State
from causeway.naming import ReplicationPolicy
from causeway.status import LinkStatus, Look, PartitionStatus, Role, Snapshot
from tests.harness.lane_process import LaneProcess
from tests.harness.lanes import client
from tests.harness.waiting import await_until


class SubprocessEngine:
    """Stands in for `daemon.engine.Engine` and the Spark that it keeps."""

    local = True
    lanes = 2

    def __init__(
        self,
        conf: Mapping[str, str],
        lanes: int | None,
        secret: str,
        on_lane_ended: Callable[[int, str, bool], None],
        staged: int = 0,
    ) -> None:
        assert not staged, "stages need Spark"
        self._secret = secret
        self._on_lane_ended = on_lane_ended
        self._stopping = False
        self.processes: dict[int, LaneProcess] = {}
        self.spark = self

    def start(self) -> None:
        pass

    def tick(self) -> None:
        pass

    def launch(self, lane: int, host: str, port: int) -> None:
        threading.Thread(target=self._run, args=(lane, host, port), daemon=True).start()

    def _run(self, lane: int, host: str, port: int) -> None:
        while not self._stopping:
            process = LaneProcess(lane, host, port, self._secret)
            self.processes[lane] = process
            code = process.wait()
            self._on_lane_ended(lane, f"exit code {code}", code == 0)

    def quiesce(self) -> None:
        self._stopping = True

    def stop(self) -> None:
        self._stopping = True
        for process in self.processes.values():
            process.kill()


def link(
    source: str, target: str, topics: str, *, more: Mapping[str, Any] | None = None
) -> LinkSettings:
    """`A->B` between two bootstrap addresses, for topics of a pattern; looks every half second."""
    a, b = client("A", source), client("B", target)
    fields: dict[str, Any] = {
        "source": a,
        "target": b,
        "source_admin": a,
        "target_admin": b,
        "policy": ReplicationPolicy(source_alias="A"),
        "topics": compile_patterns(topics),
        "topics_exclude": (),
        "config_properties_exclude": (),
        "replication_factor": 1,
        "refresh_topics_interval_s": 0.5,
    }
    return LinkSettings(**{**fields, **(more or {})})


def link_apart(source: str, target: str, prefix: str, **more: Any) -> LinkSettings:
    """`link` for the topics of one test, with a source alias that no other test has. The progress
    topic and the directives outlive a test, and the progress topic keeps the source's cluster id.
    """
    alias = prefix.partition("-")[0]
    a = client(alias, source)
    own = {"source": a, "source_admin": a, "policy": ReplicationPolicy(source_alias=alias)}
    return link(source, target, prefix + ".*", more={**own, **more})


class RunningDaemon:
    """`run` in a thread, from `with` to its end; `result` is its exit code or its error."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *links: LinkSettings,
        lease_s: float = 3.0,
        deleted_topics_retention_s: float | None = None,
        on_status: Callable[[Look], None] | None = None,
        **options: Any,
    ) -> None:
        self._engines: list[SubprocessEngine] = []

        def engine(*arguments: Any, **options: Any) -> SubprocessEngine:
            self._engines.append(SubprocessEngine(*arguments, **options))
            return self._engines[-1]

        monkeypatch.setattr(daemon, "Engine", engine)
        self._settings = Settings(
            links=links,
            run=RunSettings(
                lease_s=lease_s,
                progress_interval_s=0.2,
                deleted_topics_retention_s=deleted_topics_retention_s,
            ),
            spark={},
        )
        self._options = options
        self._on_status = on_status
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.snapshot: Snapshot | None = None
        self.result: int | CausewayError | BaseException | None = None

    def __enter__(self) -> RunningDaemon:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self.result = daemon.run(
                self._settings, on_status=self._see, stop=self._stop, **self._options
            )
        except BaseException as error:
            self.result = error

    def _see(self, look: Look) -> None:
        self.snapshot = look()
        if self._on_status is not None:
            self._on_status(look)

    def kill_lanes(self) -> None:
        """SIGKILL each lane's process; the driver starts others."""
        for engine in self._engines:
            for process in list(engine.processes.values()):
                process.kill()

    def stop(self) -> None:
        """Drains and ends it, as SIGTERM would."""
        self._stop.set()
        self.join()

    def join(self) -> None:
        self._thread.join(240)
        assert not self._thread.is_alive()

    def link(self, name: str | None = None) -> LinkStatus:
        """The only one, or the first, without a name."""
        assert self.snapshot is not None
        return next(link for link in self.snapshot.links if name in (None, link.name))

    def partitions(self) -> dict[tuple[str, int], PartitionStatus]:
        if self.snapshot is None:
            return {}
        return {(p.topic, p.partition): p for link in self.snapshot.links for p in link.partitions}

    def await_role(self, role: Role) -> LinkStatus:
        def found() -> LinkStatus | None:
            if self.result is not None:
                raise AssertionError(f"it ended: {self.result!r}")
            if self.snapshot is None or self.link().role is not role:
                return None
            return self.link()

        link = await_until(found, 240, f"role {role}")
        assert link is not None
        return link

    def await_state(self, topic: str, state: State, partitions: int = 1) -> PartitionStatus:
        """Until partitions 0 to `partitions` - 1 of `topic` are in `state`; the first of them."""

        def there() -> PartitionStatus | None:
            if self.result is not None:
                raise AssertionError(f"it ended: {self.result!r}")
            found = self.partitions()
            mine = [found.get((topic, n)) for n in range(partitions)]
            return mine[0] if all(p is not None and p.state is state for p in mine) else None

        status = await_until(there, 60, f"{topic} {state}")
        assert status is not None
        return status


def unreachable(alias: str) -> ClientSettings:
    """A cluster at a port where nobody listens."""
    return ClientSettings(
        alias=alias, bootstrap=(("127.0.0.1", 1),), connect_timeout_ms=500, request_timeout_ms=1_000
    )
