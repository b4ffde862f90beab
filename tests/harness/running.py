"""`causeway run` in the background: looked at, tormented and ended by a test."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.request import urlopen

import psutil
from confluent_kafka import KafkaException

from causeway.dev import spawn
from causeway.errors import CausewayError
from causeway.formats import load
from causeway.status import as_json, status
from tests.harness.command import causeway, command_environment
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.waiting import await_until

PATIENCE_S = 240.0  # for whatever takes seconds on a quiet machine
_numbers = count(1)


def mm2_file(
    directory: Path,
    clusters: Mapping[str, LocalCluster | str],
    *lines: str,
    spark: str = "local[2]",
) -> Path:
    """A MirrorMaker 2 property file of these clusters (or bootstrap servers) and `lines`. Without
    heartbeats, unless `lines` speak of them: tests share clusters, and count what is there."""
    path = directory / f"mm2-{next(_numbers)}.properties"
    base = [
        f"clusters = {', '.join(clusters)}",
        *(
            f"{alias}.bootstrap.servers = {where if isinstance(where, str) else where.bootstrap}"
            for alias, where in clusters.items()
        ),
        "replication.factor = 1",
        f"spark.master = {spark}",
    ]
    if not any("causeway.http" in line for line in lines):
        base.append("causeway.http.port = -1")  # runs side by side would want one port
    if not any("heartbeats" in line for line in lines):
        base += ["emit.heartbeats.enabled = false", "heartbeats.replication.enabled = false"]
    path.write_text("\n".join([*base, *lines]) + "\n")
    return path


class Running:
    """One process tree: driver, Spark's JVM, the JVM's Python daemon and its workers, the lanes.

    It is killed when the `with` block ends, and when this Python process does.
    """

    def __init__(
        self,
        *arguments: str | Path,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        script: str = "causeway",
    ) -> None:
        """`script` is one of those that are installed beside this Python."""
        self._log = directory / f"run-{next(_numbers)}.log"
        self._process = spawn(
            [Path(sys.executable).with_name(script), *arguments],
            output=self._log,
            environment={**command_environment(), **(environment or {})},
        )
        self._file = Path(arguments[-1])  # where it is a MirrorMaker 2 file
        self._known: set[psutil.Process] = set()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.add_note(error)
        self.kill()

    def add_note(self, error: BaseException) -> None:
        """Has `error` tell where it stood, and what it said last."""
        error.add_note(f"where it stood:\n{self._standing()}\nits log:\n{self.log[-4000:]}")

    @property
    def log(self) -> str:
        """All that it has said on stdout and stderr."""
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The driver's."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.alive()

    def processes(self) -> list[psutil.Process]:
        """Everything it runs by now, the driver first."""
        try:
            driver = psutil.Process(self.pid)
            found = [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            found = []
        self._known.update(found)
        return found

    def workers(self) -> list[psutil.Process]:
        """The Python workers, each of them a lane, or idle."""
        return python_workers(self.processes())

    def kill(self) -> None:
        """SIGKILL to all of it, at once; returns when all are gone."""
        self.processes()
        for process in self._known:
            _signal(process, signal.SIGKILL)
        self._await_gone()
        self._process.wait(60)

    def kill_driver(self) -> None:
        """SIGKILL to the driver alone; returns when the rest has ended by itself."""
        self.processes()
        self._process.send(signal.SIGKILL)
        self._process.wait(60)
        self.await_nothing_left()

    def freeze(self) -> None:
        """SIGSTOP to all of it."""
        for process in self.processes():
            _signal(process, signal.SIGSTOP)

    def thaw(self) -> None:
        for process in self.processes():
            _signal(process, signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM; returns the exit code when driver, JVM and lanes have all ended."""
        self.processes()
        self._process.send(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """The exit code, when it has ended by itself, and its JVM and lanes with it."""
        self.processes()
        assert self._process.wait(PATIENCE_S), f"it did not end:\n{self.log[-4000:]}"
        self.await_nothing_left()
        assert self._process.exit_code is not None
        return self._process.exit_code

    def await_nothing_left(self) -> None:
        await_until(
            lambda: not any(map(_lives, self._known)),
            PATIENCE_S,
            f"an end of {[_name(p) for p in self._known if _lives(p)]}",
        )

    def await_log(self, text: str, timeout_s: float = PATIENCE_S) -> None:
        await_until(lambda: text in self.log or not self.alive, timeout_s, f"{text!r} in the log")
        assert text in self.log, f"it ended without {text!r}:\n{self.log[-4000:]}"

    def api(self, path: str) -> Any:
        """The answer of its HTTP server, whose port is 0 in its file."""
        self.await_log("address=http")
        words = (word for line in self.log.splitlines() for word in line.split())
        address = next(w.removeprefix("address=") for w in words if w.startswith("address=http"))
        with urlopen(f"{address}/api/v1/{path}", timeout=60) as answer:
            return json.load(answer)

    def _standing(self) -> str:
        try:
            links = status_of(self._file)
        except CausewayError as error:
            return f"unknown: {error}"
        lines = [
            f"{link} {one['topic']}-{one['partition']} {one['state']}: {one['reason']}, "
            f"{one['mirrored_to']} of {one['source_end']}"
            for link, found in links.items()
            for one in found["partitions"]
        ]
        lines += [
            f"{link} {one}" for link, found in links.items() for one in found.get("problems", ())
        ]
        return "\n".join(lines)

    def _await_gone(self) -> None:
        await_until(lambda: not any(map(_lives, self._known)), 120, "killed processes are gone")


def status_of(file: Path) -> dict[str, Any]:
    """What `causeway status FILE --json` prints, link by link, without the start of a process; but
    of the topics that the file names alone, as tests share links and what is left of them."""
    settings = load(file)
    links = {link["link"]: link for link in as_json(status(settings))["links"]}
    for link in settings.links:
        if (found := links.get(link.name)) is not None:
            found["partitions"] = [
                one
                for one in found["partitions"]
                if "heartbeats" in one["topic"]
                or any(pattern.matches(one["topic"]) for pattern in link.topics)
            ]
    return links


def left_undone(file: Path, task: str, link: str = "A->B") -> dict[str, str] | None:
    """What a task of the control plane leaves undone: by item, why. None while the task has not
    been done, or fails as a whole."""
    found = next((each for each in status_of(file)[link]["tasks"] if each["task"] == task), None)
    if found is None or found["reason"] is not None or found["done_at_ms"] is None:
        return None
    items: dict[str, str] = found["items"]
    return items


def run_to_end(file: Path, *options: str) -> None:
    """`causeway run FILE --until-caught-up`, which must succeed."""
    ended = causeway("run", file, "--until-caught-up", *options, timeout_s=4 * PATIENCE_S)
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err, ended.err


def await_copied(
    source: KafkaTools,
    topic: str,
    target: KafkaTools,
    mirror: str,
    *,
    skipped: Mapping[int, int] | None = None,
) -> None:
    """Until `mirror` has at least as many records as are committed in `topic` now, less those
    `skipped` of each partition."""
    skipped = skipped or {}
    counts = {
        p: len(records) - skipped.get(p, 0)
        for p, records in source.read(topic, read_committed=True).items()
    }

    seen: object = None

    def there() -> bool:
        nonlocal seen
        try:
            if target.partition_count(mirror) is None:
                return False
            seen = ends = target.offsets(mirror)
        except KafkaException as error:  # a topic that was just made, a broker that just started
            seen = error
            return False
        return all(ends.get(partition, 0) >= count for partition, count in counts.items())

    try:
        await_until(there, PATIENCE_S, f"{mirror} has {counts}")
    except AssertionError as error:
        error.add_note(f"{mirror} has {seen}")
        raise


def assert_same(source: KafkaTools, topic: str, target: KafkaTools, mirror: str) -> None:
    """All that is committed in `topic` lies in `mirror`, once and in order, and nothing else, for
    readers of uncommitted and of committed records."""
    wanted = source.read(topic, read_committed=True)
    for read_committed in (False, True):
        found = target.read(mirror, read_committed=read_committed)
        assert found.keys() == wanted.keys()
        for partition, records in wanted.items():
            assert [r.content for r in found[partition]] == [r.content for r in records], (
                f"{mirror}-{partition}, read_committed={read_committed}"
            )


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        pass


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


# With the option before it: the scripts that start the JVM bear the module's name among Spark's
# settings, and whoever takes one of them for a lane and kills it ends the start of Spark.
_DAEMONS = ("-m pyspark.daemon", "-m causeway.worker_daemon")


def python_workers(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that run tasks: forks of Spark's daemon for Python, or of ours that is loaded before it
    forks, whose arguments they bear."""
    daemons = [p for p in processes if any(name in arguments_of(p) for name in _DAEMONS)]
    return [p for p in daemons if _parent(p) in daemons]


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.NoSuchProcess:
        return None


def arguments_of(process: psutil.Process) -> str:
    """As `ps` shows them; nothing of a process that has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
