"""Ends directives whose time is limited because their command may die: fences on the source, and
promotions that hold their mirrors.

The clocks of two machines may differ. So a promotion counts as dead if this process has seen no
renewal for PROMOTION_HOLD_S, by its own clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial

from causeway.config import LinkSettings
from causeway.control import fences
from causeway.daemon.clients import Sides
from causeway.errors import CausewayError
from causeway.link_topics import (
    PROMOTION_HOLD_S,
    EndDirective,
    LinkDirectives,
    promotions_under_way,
    release_promotions,
    write_directives,
)

_log = logging.getLogger("causeway.link")
_LEFT_MS = 3_000  # after the end of a fence; its own command may lift it in this time
_AGAIN_S = 5.0  # between two attempts


@dataclass(slots=True)
class OverdueDirectives:
    """The overdue directives of one link, during one term. Not thread-safe. `sharers`: links that
    may fence the same topics."""

    link: LinkSettings
    sides: Sides
    sharers: Collection[fences.Sharer] = ()
    _lift_at: float = 0.0
    _release_at: float = 0.0
    _seen: dict[EndDirective, float] = field(default_factory=dict)  # promotions, when first seen
    _not_lifted: str | None = None
    _not_released: str | None = None

    @property
    def reason(self) -> str | None:
        """Why a fence or promotion could not be ended in time. None if there is no such problem."""
        return self._not_lifted or self._not_released

    def end(self, directives: LinkDirectives) -> None:
        """Ends all overdue directives. Raises no CausewayError; `reason` has the error."""
        self._lift(directives)
        self._release(directives)

    def _lift(self, directives: LinkDirectives) -> None:
        over = fences.expired(directives, int(time.time() * 1000) - _LEFT_MS)
        if not over:
            self._not_lifted = None
        if not over or time.monotonic() < self._lift_at:
            return
        self._lift_at = time.monotonic() + _AGAIN_S
        source, target = self.sides.source_admin, self.sides.target_admin
        try:
            errors = fences.lift(source, target, self.link, over, self.sharers)
        except CausewayError as error:
            errors = {str(over[0].scope.topic): error}
        why = next((error for error in errors.values() if error is not None), None)
        self._not_lifted = None if why is None else f"a fence could not be lifted in time: {why}"
        for topic in (topic for topic, error in errors.items() if error is None):
            _log.info("fence lifted", extra={"link": self.link.name, "topic": topic})

    def _release(self, directives: LinkDirectives) -> None:
        now = time.monotonic()
        promotions = promotions_under_way(directives)
        self._seen = {each: self._seen.get(each, now) for each in promotions}
        dead = [each for each, since in self._seen.items() if now - since >= PROMOTION_HOLD_S]
        if not dead:
            self._not_released = None
        if not dead or now < self._release_at:
            return
        self._release_at = now + _AGAIN_S
        decide = partial(release_promotions, left=dead)
        try:
            written = write_directives(self.sides.target_admin, self.link, decide)
        except CausewayError as error:
            self._not_released = f"a promotion whose command has died was not released: {error}"
            return
        self._not_released = None
        for (_, scope), _ in written.plan.changes:
            about = {"link": self.link.name, "scope": str(scope)}
            _log.warning("promotion released, its command has died", extra=about)
