"""Keeps the stages of transforms alive: each has a thread and a Spark job, launched again after its
end.

Only with transforms, Spark gets settings for them: rows that do not wait for more rows, a JVM that
compiles well, and workers that load Arrow before they are forked.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from causeway.config import TransformSettings
from causeway.errors import CausewayError
from causeway.relay import SECRET_VARIABLE
from causeway.transform import stage

if TYPE_CHECKING:
    from causeway.daemon.spark.context import Spark
    from causeway.transform.plan import PreparedTransform

_log = logging.getLogger("causeway.spark")
_BACKOFF_S = (0.2, 30.0)  # first and longest pause before a stage is launched again
# When a lane searches the record that throws, its stage dies for each half of a chunk.
_QUICK = 32  # so many failures do not lengthen the pause
GAVE_NO_ANSWER = "it gave no answer in time"
_HEALTHY_S = 60.0  # a stage that ran this long starts again with the first pause


class Ended(NamedTuple):
    """The end of an attempt at stage `key`. `reason`: '' if its lane closed the connection;
    `threw`: the query threw on its records."""

    key: str
    attempt: str
    reason: str
    threw: bool


class Stages:
    """The stages of one Spark. Its methods can be called from any thread, and never block.

    `on_ended` is called from a stage's thread each time its job ends: its lane closed the
    connection, or the job failed. The stage is launched again after a pause until it is stopped.
    """

    def __init__(
        self,
        spark: Spark,
        on_ended: Callable[[Ended], None],
        prepare: Callable[[Any, TransformSettings], PreparedTransform],
    ) -> None:
        """`prepare`: analyses a transform in a SparkSession, as causeway.transform.plan does."""
        self._spark = spark
        self._prepare = prepare
        self._on_ended = on_ended
        self._lock = threading.Lock()
        self._launched: dict[str, _Stage] = {}

    def warm(self) -> None:
        """Prepares the workers while transforms are analysed. Does nothing on a cluster, where that
        would need a core. A failure has no effect."""
        if self._spark.local:
            threading.Thread(target=self._warm, name="warm", daemon=True).start()

    def _warm(self) -> None:
        try:
            stage.warm(self._spark.session)
        except Exception as error:  # the first stage reports it better
            _log.debug("warm: %s", type(error).__name__)

    def launch(self, key: str, transform: TransformSettings, address: str) -> None:
        """Runs stage `key` for the lane that listens at `address`, unless it runs already."""
        with self._lock:
            if key in self._launched:
                return
            launched = _Stage(key, transform, address)
            self._launched[key] = launched
        threading.Thread(
            target=self._run, args=(launched,), name=f"stage-{key}", daemon=True
        ).start()

    def stop(self, key: str) -> None:
        """Cancels stage `key`, if it runs, and does not launch it again."""
        with self._lock:
            launched = self._launched.pop(key, None)
        if launched is None:
            return
        self._cancel(key, launched.stop())

    def give_up(self, key: str, attempt: str) -> None:
        """Ends an attempt at stage `key` that gives no answer, so that the next one begins."""
        with self._lock:
            launched = self._launched.get(key)
        if launched is None or not launched.give_up(attempt):
            return
        group = launched.group_of(attempt)
        _log.warning("stage gives no answer: begins again", extra={"stage": key})
        threading.Thread(
            target=self._end, args=(key, group), name=f"end-{key}", daemon=True
        ).start()

    def _end(self, key: str, group: str) -> None:
        self._cancel(key, group)
        try:
            self._spark.free(group)
        except Exception as error:
            _log.debug("free %s: %s", key, type(error).__name__)

    def _cancel(self, key: str, group: str) -> None:
        try:
            self._spark.cancel(group)
        except Exception as error:  # a JVM that has died runs no job either
            _log.debug("cancel %s: %s", key, type(error).__name__)

    def stop_all(self) -> None:
        with self._lock:
            keys = tuple(self._launched)
        for key in keys:
            self.stop(key)

    def _run(self, launched: _Stage) -> None:
        pause, failures = _BACKOFF_S[0], 0
        while not launched.stopped.is_set():
            began = time.monotonic()
            ended = launched.attempt(self._spark, self._prepare)
            if launched.stopped.is_set():
                return
            self._on_ended(ended)
            healthy = time.monotonic() - began > _HEALTHY_S
            failures = 0 if healthy else failures + 1
            if failures <= _QUICK:
                pause = _BACKOFF_S[0]
            launched.stopped.wait(pause)
            pause = min(pause * 2, _BACKOFF_S[1])


class _Stage:
    def __init__(self, key: str, transform: TransformSettings, address: str) -> None:
        self.key = key
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._attempt = self._given_up = ""
        self._transform = transform
        self._address = address
        self._prepared: PreparedTransform | None = None

    def group_of(self, attempt: str) -> str:
        return f"{self.key} {attempt}"

    def stop(self) -> str:
        """Prevents further attempts. Returns the job group of the current one."""
        with self._lock:
            self.stopped.set()
            return self.group_of(self._attempt)

    def give_up(self, attempt: str) -> bool:
        """Whether this is the current attempt, and was not given up before."""
        with self._lock:
            new = attempt == self._attempt and attempt != self._given_up
            self._given_up = attempt
        return new

    def _begin(self) -> str:
        """The id of the next attempt; '' after a stop."""
        with self._lock:
            if self.stopped.is_set():
                return ""
            self._attempt = uuid.uuid4().hex
            return self._attempt

    def attempt(
        self, spark: Spark, prepare: Callable[[Any, TransformSettings], PreparedTransform]
    ) -> Ended:
        """Runs the stage once."""
        attempt, reason, threw = self._begin(), "", False
        if not attempt:
            return Ended(self.key, attempt, reason, threw)
        try:
            session = spark.session
            context = session.sparkContext
            context.setJobGroup(self.group_of(attempt), f"transform {self.key}", True)
            if self._prepared is None:
                self._prepared = prepare(session, self._transform)
            stage.run_stage(
                session, self._prepared, self._address, SECRET_VARIABLE, self.key, attempt
            )
        except CausewayError as error:
            reason, threw = str(error), not error.retriable
        except Exception as error:
            reason = stage.explain(error)
        if attempt == self._given_up:
            reason, threw = GAVE_NO_ANSWER, False
        return Ended(self.key, attempt, reason, threw)
