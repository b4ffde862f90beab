"""Which partitions are not to be mirrored now, because a person wants it so.

paused    taken from its lane, in order: what it has sent is answered for; no lane gets it
resumed   assigned again where it was, like one whose lane is gone
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from causeway.control.directives import Standing
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.rows import AT_REST
from causeway.model import State, TopicPartition

_log = logging.getLogger("causeway.link")


class Pauses:
    """Of one link. Thread-safe but for `pause`, which belongs to one thread."""

    def __init__(
        self,
        link: str,
        registry: Registry,
        recall: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, bool]],
    ) -> None:
        """`recall` takes partitions from their lanes: those that no lane has any more."""
        self._link = link
        self._registry = registry
        self._recall = recall
        # Held from asking what is paused until the rest is with the fleet: what is paused later is
        # taken from there. Nobody who has the registry's lock, or the fleet's, waits for it.
        self.deciding = threading.RLock()
        self._standing = Standing()
        self._done = True  # with what stands
        self._held = False  # something is, or was

    def stand(self, standing: Standing) -> None:
        """What counts from now on: whoever asks afterwards hears of it."""
        with self.deciding:
            if standing is not self._standing:
                self._standing, self._done = standing, False

    @property
    def are_any(self) -> bool:
        with self.deciding:
            return self._standing.pauses

    def pause(self) -> bool:
        """Pauses what is to be paused; False where a lane has yet to let go of something."""
        with self.deciding:
            if self._done or not self._standing.pauses:
                return True
            standing = self._standing
        wanted = self._to_pause(standing)
        gone = self._recall(wanted) if wanted else {}
        paused = {at: why for at, why in wanted.items() if at in gone}
        self._registry.pause(paused)
        if paused:
            about = {"partitions": len(paused), "reason": next(iter(paused.values()))}
            _log.warning("paused", extra={"link": self._link, **about})
            self._held = True
        with self.deciding:
            self._done = len(paused) == len(wanted) and standing is self._standing
            return self._done

    def _to_pause(self, standing: Standing) -> dict[TopicPartition, str]:
        """Those that are not paused yet, or for another reason."""
        return {
            row.progress.source: why
            for row in self._registry.rows(lambda row: row.progress.state not in AT_REST)
            if (why := _why(standing, row.progress.source)) is not None
            and (row.progress.state, row.progress.reason) != (State.PAUSED, why)
        }

    def over(self) -> list[TopicPartition]:
        """What is paused and should be so no more."""
        with self.deciding:
            standing = self._standing
        if not self._held:
            return []
        paused = self._registry.rows(lambda row: row.progress.state is State.PAUSED)
        places = [row.progress.source for row in paused]
        return [at for at in places if standing.pause_of(at) is None]

    def hold(self, places: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Of partitions that are about to go to lanes, those that must not; they are paused. Call
        it with `deciding` held."""
        standing = self._standing
        if not standing.pauses:
            return set()
        held = {at: why for at in places if (why := _why(standing, at)) is not None}
        self._registry.pause(held)
        self._held |= bool(held)
        return set(held)


def _why(standing: Standing, at: TopicPartition) -> str | None:
    """Why it is paused; None where it is not."""
    found = standing.pause_of(at)
    return None if found is None else f"paused {found.by}"
