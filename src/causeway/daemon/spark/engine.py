"""Keeps Spark alive: starts it in a thread, and again when its JVM dies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from causeway.daemon.spark.conf import Conf
from causeway.daemon.spark.context import Spark
from causeway.errors import CausewayError, PrerequisiteError

_log = logging.getLogger("causeway.spark")
_DEATHS, _WITHIN_S = 5, 600.0  # so many deaths within so long a time end the run
_PAUSE_S = 1.0


class Engine:
    def __init__(
        self,
        conf: Conf,
        lanes: int | None,
        secret: str,
        on_lane_ended: Callable[[int, str, bool], None],
        staged: int = 0,
    ) -> None:
        """`staged`: how many stages of transforms there may be at once."""
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
        """The Spark on which lanes can be launched; None while it starts. Another object after the
        JVM died."""
        return self._spark if self._ready else None

    def start(self) -> None:
        """Returns at once; `spark` shows when Spark is up."""
        self._starter = threading.Thread(
            target=self._start, args=(self._spark, 0.0), name="spark", daemon=True
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
        """Starts Spark again if its JVM died. Raises PrerequisiteError if that does not help."""
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
        pause = _PAUSE_S * (len(self._deaths) - 1)
        self._starter = threading.Thread(
            target=self._start, args=(self._spark, pause), name="spark", daemon=True
        )
        self._starter.start()

    def quiesce(self) -> None:
        """Launches no lane again."""
        self._spark.quiesce()

    def stop(self) -> None:
        """Never raises."""
        self._spark.quiesce()
        if self._starter is not None and not self._ready:
            self._starter.join(0.2)
        # A Spark that is still starting sees that it has to stop, and ends itself.
        self._spark.stop()
