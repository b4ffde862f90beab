"""The directives of a link that act once and are not carried out yet."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from causeway.link_topics import Directive, RestartDirective, Scope, StepDownDirective


@dataclass(slots=True)
class Requests:
    """Not thread-safe. If the settings of a link change, the next executor takes them over."""

    restarts: set[Scope] = field(default_factory=set)
    adopts: set[Scope] = field(default_factory=set)  # restarts that acknowledge lost records
    translates: set[Scope] = field(default_factory=set)  # restarts that do not keep offsets
    refills: dict[Scope, str] = field(default_factory=dict)  # topics, with their id on the target
    looking: set[Scope] = field(default_factory=set)  # let go of; the next look takes them up
    chosen: bool = False  # the chosen topics changed: a look has to follow
    asked_at: float = 0.0  # monotonic time of the newest restart
    step_down: tuple[int, Directive] | None = None  # with its offset
    read_to: int = -1  # directives before this offset of the log were added

    @property
    def are_any(self) -> bool:
        """Whether partitions have to be let go of, or looked at."""
        return bool(self.restarts or self.refills or self.looking or self.chosen)

    def restarting(self, for_s: float) -> bool:
        """Returns whether a restart, or the look after it, is still to come. False if the newest
        restart was requested more than `for_s` ago."""
        recent = time.monotonic() - self.asked_at < for_s
        return recent and bool(self.restarts or self.refills or self.looking)

    def add(self, offset: int, directive: Directive) -> None:
        """Adds the next directive from the log, if it is a request."""
        self.read_to = offset + 1
        if isinstance(directive, StepDownDirective):
            self.step_down = offset, directive
        if not isinstance(directive, RestartDirective):
            return
        if directive.refill is not None:
            self.refills[directive.scope] = directive.refill
        else:
            self.restarts.add(directive.scope)
        if directive.adopt:
            self.adopts.add(directive.scope)
        if directive.translate:
            self.translates.add(directive.scope)
        self.asked_at = time.monotonic()
