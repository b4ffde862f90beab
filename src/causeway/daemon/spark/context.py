"""Runs lanes on Spark: a context, and a job of one task for each lane.

In local mode (`local[*]`, the default) lanes are Python workers on this machine. With a cluster's
master they are tasks on its executors; Causeway must be installed there or shipped to them.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import logging
import os
import re
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import javaproperties

from causeway.config import Secret, is_local
from causeway.daemon.spark import environment, stuck
from causeway.daemon.spark.environment import (
    JVM_OPTIONS,
    SMALL_JVM,
    STAGE_JVM,
    Conf,
    complete,
    plain,
)
from causeway.errors import CausewayError, PrerequisiteError
from causeway.extras import install
from causeway.java import find_java
from causeway.private_file import Unlisted
from causeway.relay import SECRET_VARIABLE
from causeway.relay.lane import LaneTask

_log = logging.getLogger("causeway.spark")
_BACKOFF_S = (0.2, 30.0)  # first and longest pause before a lane's job is launched again
_HEALTHY_S = 60.0  # a lane that ran for this time starts again with the first pause
_COUNT_S = 5.0  # between two counts of a cluster's cores
_MOST_STUCK = 3  # threads that go on for cancelled jobs, each on a core
_LAST_JOBS_S = 2.0  # the jobs of ended lanes may end by themselves in this time
# Keys whose values Spark itself hides on its pages.
_REDACTION, _REDACTED = "spark.redaction.regex", "(?i)secret|password|token|access[.]?key"
_HIDDEN = "********"
_LEAST_HIDDEN = 4  # characters: a shorter text is no secret, and is in too many lines
_NOT_IMPORTABLE = "the executors cannot import"
_SHIP_IT = (
    "install Causeway for the Python that runs there (spark.pyspark.python), or ship it with "
    "spark.archives: see docs/how-to/spark.md"
)
_PYTHON_ERROR = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt)\b")


T = TypeVar("T")


class Spark:
    """The JVM, its context, and the threads that wait for lanes' jobs.

    The values of `conf` reach the JVM in a private file, never in its arguments. Secret values do
    not appear on the pages or in the output of Spark.

    `on_lane_ended(lane, reason, returned)` is called from a lane's thread each time its job ends.
    `returned`: the lane's function has returned. The job is launched again after a pause, until
    `quiesce` or `stop`.
    """

    def __init__(
        self,
        conf: Conf,
        lanes: int | None,
        secret: str,
        *,
        on_lane_ended: Callable[[int, str, bool], None],
        java_options: str | None = None,
        staged: int = 0,
    ) -> None:
        """`staged`: the number of stages of transforms that may run at once."""
        self._conf = complete(plain(conf), lanes, secret, staged)
        self._hidden = {key: v.reveal() for key, v in conf.items() if isinstance(v, Secret)}
        self.local = is_local(self._conf)
        # Only if all options are ours: options of the file stay as they are.
        self._tuned = self.local and "spark.driver.extraJavaOptions" not in conf
        self._java_options = java_options
        self._lanes, self._staged = lanes, staged
        self._secret = secret
        self._on_lane_ended = on_lane_ended
        self._context: Any = None
        self._session: Any = None
        self._session_lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._tail: collections.deque[str] = collections.deque(maxlen=40)
        self._stopping = threading.Event()
        self._context_ended: str | None = None
        self._cores, self._counted_at = 1, -_COUNT_S
        self._launched: dict[int, threading.Thread] = {}
        self._stuck: list[str] = []  # job groups whose threads did not stop

    def start(self) -> None:
        """Blocks until jobs can run, 2 to 4 s in local mode. Raises PrerequisiteError."""
        find_java()
        if (stand_in := environment.missing_account()) is not None:
            stand_in.set_environment()
            self._conf[JVM_OPTIONS] = " ".join(
                [
                    # The launcher splits options at spaces, but not within quotes.
                    f'"-Duser.home={stand_in.home}" "-Duser.name={stand_in.name}"',
                    *filter(None, [self._conf.get(JVM_OPTIONS)]),
                ]
            )
        if self.local:
            environment.prepare_local(self._secret)
        elif "spark.pyspark.python" in self._conf:
            # Only spark-submit reads the setting; a context in Python reads the variable.
            os.environ["PYSPARK_PYTHON"] = self._conf["spark.pyspark.python"]
        try:
            from pyspark import SparkConf, SparkContext
            from pyspark.java_gateway import launch_gateway
        except ImportError as error:
            raise PrerequisiteError(
                "start Spark", cause=str(error), remedy=install("pyspark[sql]")
            ) from error
        # PySpark warns about the version of pandas, and about a JVM that died before its stop.
        warnings.filterwarnings("ignore", module="pyspark")
        # The first call into the JVM needs this import; do it while the JVM starts.
        # It imports pandas and Arrow, if installed.
        modules = "pyspark.testing.utils"
        threading.Thread(target=_import, args=(modules,), name="spark-import", daemon=True).start()
        if self._tuned:
            more = (
                environment.archive_option() if self._java_options is None else self._java_options
            )
            self._conf["spark.driver.extraJavaOptions"] += more
        try:
            gateway = self._launch(launch_gateway)
            if self._stopping.is_set():
                self.stop()
                return
            if stand_in is not None:
                stand_in.log_in(gateway.jvm)
            conf = SparkConf(loadDefaults=True, _jvm=gateway.jvm)
            conf.setAll(list(self._conf.items()))
            options = STAGE_JVM if self._staged else SMALL_JVM
            conf.setIfMissing("spark.executor.extraJavaOptions", options)
            if self._hidden:
                names = [f"^{re.escape(key)}$" for key in self._hidden]
                conf.set(_REDACTION, "|".join([conf.get(_REDACTION, _REDACTED), *names]))
            self._context = SparkContext(gateway=gateway, conf=conf)
        except Exception as error:
            self.stop()
            raise PrerequisiteError("start Spark", cause=self._last_words(error)) from error
        # Executors have the secret in their environment; tasks must not contain it as well.
        self._context.environment.pop(SECRET_VARIABLE, None)
        self._context.setLogLevel(self._conf.get("spark.log.level", "ERROR"))

    def _launch(self, launch_gateway: Callable[..., Any]) -> Any:
        # The JVM gets its own session: Ctrl-C in a terminal must only reach this process, so that
        # lanes drain. The JVM ends by itself when our end of its standard input is gone.
        reader, writer = os.pipe()
        threading.Thread(target=self._read, args=(reader,), name="spark-log", daemon=True).start()
        # All users of the machine can read the arguments of a process.
        content = javaproperties.dumps(self._conf, timestamp=None).encode()
        with Unlisted(content) as path, environment.submit_args(f"--properties-file {path}"):
            try:
                gateway = launch_gateway(
                    None, {"stdout": writer, "stderr": writer, "start_new_session": True}
                )
            finally:
                os.close(writer)
        self._process = gateway.proc
        return gateway

    def _read(self, reader: int) -> None:
        with os.fdopen(reader, errors="replace") as lines:
            for line in lines:
                shown = self._mask(line.rstrip())
                self._tail.append(shown)
                _log.debug("%s", shown)

    def _mask(self, text: str) -> str:
        for value in self._hidden.values():
            if len(value) >= _LEAST_HIDDEN:
                text = text.replace(value, _HIDDEN)
        return text

    @property
    def host(self) -> str:
        """The driver's address as executors know it."""
        return str(self._context.getConf().get("spark.driver.host"))

    @property
    def lanes(self) -> int:
        """The number of lanes that may run now. On a cluster: the cores of its executors, without
        the cores of stages."""
        if self._lanes is not None:
            return self._lanes
        now = time.monotonic()
        if now - self._counted_at > _COUNT_S:
            self._counted_at = now
            self._cores = max(1, int(self._context.defaultParallelism) - self._staged)
        return self._cores

    @property
    def death(self) -> str | None:
        """The reason why no lane can run any more; None while the JVM lives."""
        code = self._process.poll() if self._process is not None else None
        if code is None:
            return self._context_ended
        words = self._last_words()
        return f"Spark's JVM ended with code {code}" + (f": {words}" if words else "")

    @property
    def session(self) -> Any:
        """The SparkSession of transforms, created at the first use."""
        from pyspark.sql import SparkSession

        with self._session_lock:
            if self._session is None:
                self._session = SparkSession(self._context)
            return self._session

    def cancel(self, group: str) -> None:
        """Ends the jobs of `group`, also future ones."""
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(group)

    def free(self, group: str) -> None:
        """Stops threads of the JVM that still work on a cancelled job of `group`, for example on a
        regular expression that never ends. Does nothing on a cluster, whose JVMs are out of reach.
        A thread that Java cannot stop costs a core. If there are more than _MOST_STUCK, another JVM
        replaces this one."""
        if not self.local or stuck.free(self._context._jvm, group):
            return
        with self._session_lock:
            self._stuck = [
                each
                for each in (*self._stuck, group)
                if next(stuck.threads(self._context._jvm, each), None) is not None
            ]
        _log.warning("a thread goes on that Java cannot stop", extra={"stage": group})
        if len(self._stuck) > _MOST_STUCK and self._process is not None:
            _log.error("too many threads go on that Java cannot stop: Spark begins again")
            self._process.kill()

    def launch(self, lane: int, host: str, port: int) -> None:
        """Runs lane number `lane` repeatedly, each time in a new job, in its own thread."""
        if lane in self._launched or self._stopping.is_set():
            return
        self._launched[lane] = threading.Thread(
            target=self._run, args=(LaneTask(lane, host, port),), name=f"lane-{lane}", daemon=True
        )
        self._launched[lane].start()

    def _run(self, task: LaneTask) -> None:
        pause = _BACKOFF_S[0]
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._job(task, f"lane {task.lane}", task.lane)
                reason, returned = "it returned", True
            except Exception as error:
                reason, returned = self._mask(explain(error)), False
                self._look_at_context()
            self._on_lane_ended(task.lane, reason, returned)
            if time.monotonic() - began > _HEALTHY_S:
                pause = _BACKOFF_S[0]
            self._stopping.wait(pause)
            pause = min(pause * 2, _BACKOFF_S[1])

    def _look_at_context(self) -> None:
        """Notes that the context has stopped, which happens if a cluster gives up the
        application."""
        try:
            if self._context is not None and self._context._jsc.sc().isStopped():
                words = self._last_words()
                self._context_ended = "Spark stopped" + (f": {words}" if words else "")
        except Exception as error:
            _log.debug("look at context: %s", error)

    def quiesce(self) -> None:
        """Prevents that lanes are launched again."""
        self._stopping.set()

    def rehearse(self) -> None:
        """Runs a job that does nothing, in the same way as a lane's job."""
        self._job(list, "rehearsal")

    def _job(
        self, task: Callable[[Iterator[int]], Iterable[T]], description: str, item: int = 0
    ) -> list[T]:
        self._context.setLocalProperty("spark.job.description", description)
        found: list[T] = self._context.parallelize([item], 1).mapPartitions(task).collect()
        return found

    def compute(self, task: Callable[[Iterator[int]], Iterator[T]], description: str) -> list[T]:
        """Runs `task` as a job of one task, from any thread, and returns what it yields. Raises
        CausewayError, which is retriable unless the JVM is gone or executors cannot import."""
        try:
            return self._job(task, description)
        except Exception as error:
            reason = self._mask(explain(error))
            self._look_at_context()
            lacking = not_importable(reason)
            if lacking is not None:
                raise lacking from error
            raise CausewayError(
                "run", description, self.death or reason, retriable=self.death is None
            ) from error

    def stop(self, patience_s: float = 5.0) -> None:
        """Ends all jobs, the context and the JVM, by force after `patience_s`. Never raises."""
        self._stopping.set()
        # If a context stops while it records the end of a task, its message to PySpark breaks off,
        # and PySpark prints a traceback.
        until = time.monotonic() + _LAST_JOBS_S
        for thread in tuple(self._launched.values()):
            thread.join(max(0.0, until - time.monotonic()))
        context, self._context = self._context, None
        try:
            if context is not None:
                context.stop()
        except Exception as error:
            _log.debug("stop: %s", error)
        if self._process is None:
            return
        from pyspark import SparkContext

        # Otherwise PySpark would use this JVM, which is about to end, for the next context.
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.wait(patience_s)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def _last_words(self, error: Exception | None = None) -> str:
        lines = [line for line in self._tail if re.search(r"ERROR|Error:|Exception:", line)]
        if lines:
            return lines[0].strip()[:500]
        return self._mask(explain(error)) if error is not None else ""


def _import(module: str) -> None:
    with contextlib.suppress(ImportError):
        importlib.import_module(module)


def explain(error: Exception) -> str:
    """Returns one line about a failed job: the cause, without Spark's text around it."""
    text = str(error)
    missing = re.search(r"No module named '([\w.]+)'", text)
    if missing:
        return f"{_NOT_IMPORTABLE} {missing[1]}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:  # the last line of a Python traceback
        if _PYTHON_ERROR.match(line) and not line.startswith(("org.apache.", "py4j", "java")):
            return line[:500]
    found = re.search(r"most recent failure: Lost task .*?\(TID \d+\)(?: \([^)]*\))?: (.+)", text)
    if found:
        return re.sub(r"^[\w.]+: ", "", found[1].strip())[:300]
    found = re.search(r"^: (?:[\w.]+: )?(.+)", text, re.MULTILINE)  # py4j's form of a Java error
    if found:
        return found[1].strip()[:500]
    return (lines or [type(error).__name__])[0][:500]


def not_importable(reason: str) -> CausewayError | None:
    """Returns the error if no retry can help a lane that failed with `reason`, else None."""
    if _NOT_IMPORTABLE in reason:
        return PrerequisiteError("start lanes", cause=reason, remedy=_SHIP_IT)
    return None
