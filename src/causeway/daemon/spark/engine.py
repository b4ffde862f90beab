"""Keeps Spark and the stages of transforms alive.

Spark starts in a thread, and starts again when its JVM dies. Each stage has a thread and a Spark
job, which is launched again after its end. Only if there are transforms, Spark gets settings for
them: rows that do not wait for more rows, a JVM that compiles well, and workers that load Arrow
before they are forked.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from causeway.config import TransformSettings
from causeway.daemon.spark.context import Spark
from causeway.daemon.spark.environment import Conf
from causeway.errors import CausewayError, PrerequisiteError
from causeway.relay import SECRET_VARIABLE, StageEnded
from causeway.transform import stage

if TYPE_CHECKING:
    from causeway.transform.plan import PreparedTransform

_log = logging.getLogger("causeway.spark")
_DEATHS, _WITHIN_S = 5, 600.0  # more deaths than this in this time end the run
_PAUSE_S = 1.0
_STAGE_BACKOFF_S = (0.2, 30.0)  # first and longest pause before a stage is launched again
# When a lane searches for the record that throws, its stage dies for each half of a chunk.
_QUICK = 32  # this many failures do not lengthen the pause
GAVE_NO_ANSWER = "it gave no answer in time"
_HEALTHY_S = 60.0  # a stage that ran for this time starts again with the first pause


class Engine:
    def __init__(
        self,
        conf: Conf,
        lanes: int | None,
        secret: str,
        on_lane_ended: Callable[[int, str, bool], None],
        staged: int = 0,
    ) -> None:
        """`staged`: the number of stages of transforms that may run at once."""
        self._make = partial(Spark, conf, lanes, secret, on_lane_ended=on_lane_ended, staged=staged)
        self._spark = self._make()
        self._starter: threading.Thread | None = None
        self._failure: CausewayError | None = None
        self._ready = False
        self._deaths: list[float] = []

    @property
    def local(self) -> bool:
        return self._spark.local

    @property
    def spark(self) -> Spark | None:
        """The Spark on which lanes can be launched. None while it starts. It is another object
        after the JVM died."""
        return self._spark if self._ready else None

    def start(self) -> None:
        """Returns at once; `spark` is not None once Spark is up."""
        self._start_in_thread(0.0)

    def _start_in_thread(self, pause_s: float) -> None:
        self._starter = threading.Thread(
            target=self._start, args=(self._spark, pause_s), name="spark", daemon=True
        )
        self._starter.start()

    def _start(self, spark: Spark, pause_s: float) -> None:
        time.sleep(pause_s)
        try:
            spark.start()
            self._ready = True
        except CausewayError as error:
            self._failure = error
        except Exception as error:
            _log.error("internal error", exc_info=error)
            self._failure = PrerequisiteError("start Spark", cause=repr(error))

    def tick(self) -> None:
        """Starts Spark again if its JVM died. Raises PrerequisiteError if that has not helped."""
        if self._failure is not None:
            if not self._deaths:
                raise self._failure
            failure, self._failure = str(self._failure), None
            self._again(failure)
        elif self._ready and (death := self._spark.death) is not None:
            self._again(death)

    def _again(self, reason: str) -> None:
        now = time.monotonic()
        self._deaths = [at for at in self._deaths if now - at < _WITHIN_S] + [now]
        self._ready = False
        self._spark.stop()
        if len(self._deaths) > _DEATHS:
            raise PrerequisiteError(
                "run lanes",
                cause=f"{reason}, {len(self._deaths)} times in {_WITHIN_S / 60:.0f} minutes",
                remedy="start again when that is corrected: no record is lost or doubled",
            )
        _log.error("spark ended, starting it again", extra={"reason": reason})
        self._spark = self._make()
        self._start_in_thread(_PAUSE_S * (len(self._deaths) - 1))

    def quiesce(self) -> None:
        """Prevents that lanes are launched again."""
        self._spark.quiesce()

    def stop(self) -> None:
        """Never raises."""
        self._spark.quiesce()
        if self._starter is not None and not self._ready:
            self._starter.join(0.2)
        # A Spark that is still starting sees that it has to stop, and ends itself.
        self._spark.stop()


class Stages:
    """The stages of one Spark. Its methods can be called from any thread, and never block.

    `on_ended` is called from a stage's thread each time its job ends: its lane closed the
    connection, or the job failed. The stage is launched again after a pause, until it is stopped.
    """

    def __init__(
        self,
        spark: Spark,
        on_ended: Callable[[StageEnded], None],
        prepare: Callable[[Any, TransformSettings], PreparedTransform],
    ) -> None:
        """`prepare`: analyses a transform in a SparkSession, as causeway.transform.plan does."""
        self._spark = spark
        self._prepare = prepare
        self._on_ended = on_ended
        self._lock = threading.Lock()
        self._launched: dict[str, _Stage] = {}

    def warm(self) -> None:
        """Prepares the workers while transforms are analysed. Does nothing on a cluster, where this
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
        """Cancels stage `key` if it runs, and does not launch it again."""
        with self._lock:
            launched = self._launched.pop(key, None)
        if launched is None:
            return
        self._cancel(key, launched.stop())

    def give_up(self, key: str, attempt: str) -> None:
        """Ends an attempt at stage `key` that gives no answer. The next attempt begins."""
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
        pause, failures = _STAGE_BACKOFF_S[0], 0
        while not launched.stopped.is_set():
            began = time.monotonic()
            ended = launched.attempt(self._spark, self._prepare)
            if ended is None or launched.stopped.is_set():
                return
            self._on_ended(ended)
            healthy = time.monotonic() - began > _HEALTHY_S
            failures = 0 if healthy else failures + 1
            if failures <= _QUICK:
                pause = _STAGE_BACKOFF_S[0]
            launched.stopped.wait(pause)
            pause = min(pause * 2, _STAGE_BACKOFF_S[1])


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
        """Prevents further attempts. Returns the job group of the current attempt."""
        with self._lock:
            self.stopped.set()
            return self.group_of(self._attempt)

    def give_up(self, attempt: str) -> bool:
        """Returns whether this is the current attempt and was not given up before."""
        with self._lock:
            new = attempt == self._attempt and attempt != self._given_up
            self._given_up = attempt
        return new

    def _begin(self) -> str:
        """Returns the id of the next attempt; '' after a stop."""
        with self._lock:
            if self.stopped.is_set():
                return ""
            self._attempt = uuid.uuid4().hex
            return self._attempt

    def attempt(
        self, spark: Spark, prepare: Callable[[Any, TransformSettings], PreparedTransform]
    ) -> StageEnded | None:
        """Runs the stage once. Returns None after a stop."""
        attempt, reason, threw = self._begin(), "", False
        if not attempt:
            return None
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
        return StageEnded(key=self.key, attempt=attempt, reason=reason, threw=threw)
