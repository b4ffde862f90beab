"""The stages of transforms: checked once Spark is up, launched for the lanes that want them.

Spark is up ─► each transform is analysed ─► its partitions are given to lanes
lanes ask for stages, with their addresses ─► launched, stopped, launched again

Lanes carry out some rules without Spark if records are plain. Spark analyses such rules with their
first stage: the settings' checks have covered them, and their records need not wait for Spark.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from causeway.config import TransformSettings
from causeway.control import Transform
from causeway.daemon.lanes import Fleet, without_lane
from causeway.errors import CausewayError, ConfigError, PrerequisiteError
from causeway.relay import StageEnded

if TYPE_CHECKING:
    from causeway.daemon.spark import Spark, Stages
    from causeway.transform.plan import PreparedTransform
    from causeway.transform.queries import QueryShortcut
    from causeway.transform.rules import Shortcut

_log = logging.getLogger("causeway.run")
_DEATH_S = 3.0  # after a failed call, the time in which a JVM may turn out to be dead
_AT_ONCE = (
    8  # stages: if there are more, stages that few records need start with their first record
)
_TROUBLED_S = 90.0  # the end of a stage is shown for this time
Prepare = Callable[[Any, TransformSettings], "PreparedTransform"]


class Staging:
    """The stages of all links. Not thread-safe except for `troubles`."""

    def __init__(
        self, transforms: Sequence[Transform], fleet: Fleet, prepare: Prepare | None = None
    ) -> None:
        self._transforms = {transform.key: transform for transform in transforms}
        self._shortcuts = {
            key: shortcut
            for key, transform in self._transforms.items()
            if (shortcut := transform.shortcut()) is not None
        }
        self._late = sum(transform.settings.lanes for transform in transforms) > _AT_ONCE
        self._fleet = fleet
        self._prepare = prepare or _Prepare()
        self._spark: Spark | None = None
        self._stages: Stages | None = None
        self._running: dict[str, str] = {}  # keys of stages, with the addresses of their lanes
        self._checked: set[str] = set()
        self._failure: CausewayError | None = None
        self._lock = threading.Lock()
        self._troubles: dict[str, tuple[float, str]] = {}

    @property
    def any(self) -> bool:
        """Whether there is a transform."""
        return bool(self._transforms)

    def lacks(self, transforms: Iterable[Transform]) -> list[Transform]:
        """Returns those of `transforms` that were not added yet."""
        return [each for each in transforms if each.key not in self._transforms]

    def check(
        self, spark: Spark | None, transforms: Iterable[Transform]
    ) -> dict[str, PreparedTransform]:
        """Analyses those of `transforms` that need it. Returns the results by their keys. Any
        thread may call it. Raises ConfigError, and another CausewayError while Spark does not
        answer."""
        found = {}
        for each in transforms:
            if each.shortcut() is not None:
                continue
            if spark is None:
                name = f"transform {each.name}"
                raise CausewayError("check", name, "Spark is starting", retriable=True)
            found[each.key] = self._prepare(spark.session, each.settings)
        return found

    def adopt(
        self, transforms: Iterable[Transform], prepared: Mapping[str, PreparedTransform]
    ) -> None:
        """Adds `transforms`, which `check` has `prepared`. The earlier transforms stay as long as
        lanes want them."""
        for each in self.lacks(transforms):
            if (shortcut := each.shortcut()) is not None:
                self._shortcuts[each.key] = shortcut
            self._transforms = {**self._transforms, each.key: each}
            if self._stages is not None:
                ready = prepared.get(each.key)
                self._open(each, shortcut if ready is None else ready.work.shortcut)

    def step(self, spark: Spark) -> None:
        """Launches the stages that lanes want. Raises ConfigError for a transform that cannot be
        used. `spark` is another object after the death of a JVM."""
        if not self._transforms:
            return
        if spark is not self._spark:
            self._begin(spark)
        if self._failure is not None:
            raise self._failure
        assert self._stages is not None
        wanted = self._fleet.stages()
        for key, address in list(self._running.items()):
            if key not in wanted or wanted[key].address != address:
                self._stages.stop(key)
                del self._running[key]
        for key, stage in wanted.items():
            if stage.hung is not None:
                self._stages.give_up(key, stage.hung)
            transform = self._transforms.get(without_lane(key))
            if key not in self._running and transform is not None:
                self._stages.launch(key, transform.settings, stage.address)
                self._running[key] = stage.address

    def running(self) -> Mapping[str, int]:
        """Returns the number of wanted stages, by the transform's key."""
        counts = dict.fromkeys(self._transforms, 0)
        for key in list(self._running):
            counts[without_lane(key)] += 1
        return counts

    def troubles(self) -> Mapping[str, str]:
        """Returns, by the transform's key, the reason why its stages wait, or why the last one
        ended recently."""
        since = time.monotonic() - _TROUBLED_S
        with self._lock:
            found = {key: reason for key, (at, reason) in self._troubles.items() if at > since}
        for key, stage in self._fleet.stages().items() if self._transforms else ():
            transform = self._transforms.get(without_lane(key))
            registry = None if transform is None else transform.settings.registry
            if stage.waiting is not None and transform is not None and registry is not None:
                waits = f"waits for the schema registry {registry.url}: {stage.waiting}"
                found[transform.key] = waits
        return found

    def stop(self) -> None:
        """Stops all stages. Call it when no lane has records in a stage."""
        if self._stages is not None:
            self._stages.stop_all()

    def _begin(self, spark: Spark) -> None:
        from causeway.daemon.spark import Stages
        from causeway.transform import require_spark

        self.stop()
        self._spark, self._running = spark, {}
        self._stages = Stages(spark, self._on_ended, self._prepare)
        try:
            require_spark()
        except PrerequisiteError as error:
            self._failure = error
            return
        for key in self._shortcuts.keys() - self._checked:
            self._open(self._transforms[key], self._shortcuts[key])
        if len(self._shortcuts) < len(self._transforms):
            self._stages.warm()
            threading.Thread(target=self._check, args=(spark,), name="check", daemon=True).start()

    def _open(self, transform: Transform, shortcut: Shortcut | QueryShortcut | None) -> None:
        stage = transform.stage(shortcut, late=self._late)
        self._checked.add(transform.key)
        self._fleet.open([(stage, transform.settings.lanes)])

    def _check(self, spark: Spark) -> None:
        """Analyses each transform, and then opens its stages."""
        for key, transform in self._transforms.items():  # `adopt` replaces it
            if key in self._checked:
                continue
            try:
                prepared = self._prepare(spark.session, transform.settings)
            except CausewayError as error:
                self._failure = error
                return
            except Exception as error:
                if self._is_gone(spark):
                    return  # its successor checks the rest
                _log.error("internal error", exc_info=error, extra={"transform": transform.name})
                self._failure = CausewayError(
                    "check", f"transform {transform.name}", f"internal error: {error!r}"
                )
                return
            self._open(transform, prepared.work.shortcut)

    def _is_gone(self, spark: Spark) -> bool:
        """Returns whether `spark` has died. This shows a moment after its calls fail."""
        until = time.monotonic() + _DEATH_S
        while time.monotonic() < until:
            if spark is not self._spark or spark.death is not None:
                return True
            time.sleep(0.05)
        return False

    def _on_ended(self, ended: StageEnded) -> None:
        self._fleet.tell(ended)
        if ended.reason:
            _log.warning("stage ended", extra={"stage": ended.key, "reason": ended.reason})
            with self._lock:
                self._troubles[without_lane(ended.key)] = time.monotonic(), ended.reason


class _Prepare:
    """Analyses a transform once for each session. Raises ConfigError. A schema registry that does
    not answer does not prevent the start: the workers wait for the registry."""

    def __init__(self) -> None:
        self._silent: set[str] = set()  # registries, asked once: many transforms may share one
        # Stages run the checked plan, because the analysis takes seconds in a new JVM.
        self._made: dict[int, tuple[Any, TransformSettings, PreparedTransform]] = {}

    def __call__(self, session: Any, transform: TransformSettings) -> PreparedTransform:
        from causeway import schemas
        from causeway.transform import plan

        made = self._made.get(id(transform))
        if made is not None and made[0] is session:
            return made[2]
        settings = transform.registry
        if settings is not None and settings.url not in self._silent:
            try:
                schemas.check_registry(settings)
            except ConfigError as error:
                if not error.retriable:
                    raise
                self._silent.add(settings.url)
        prepared = plan.prepare(session, transform)
        self._made[id(transform)] = session, transform, prepared
        return prepared
