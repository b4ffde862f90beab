"""Looks for a link's topics and partitions repeatedly, in its own thread.

It also carries out the requests of people and of transforms, because these give partitions to lanes
as well."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from causeway.config import LinkSettings
from causeway.daemon.directive_executor import DirectiveExecutor
from causeway.daemon.partitions import Found, Reconciler, Registry
from causeway.errors import CausewayError
from causeway.link_topics import LeadershipLostError

_log = logging.getLogger("causeway.link")
_TICK_S = 0.1
_CALM_S = 0.25  # between looks
_BACKOFF_S = (1.0, 60.0)


@dataclass(frozen=True, slots=True)
class Term:
    """The end of one term of leading. `over`: the term is over, or is about to be; `lost`: another
    driver leads."""

    over: threading.Event = field(default_factory=threading.Event)
    lost: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Discoverer:
    """Works during one term of leading. `again`: looks more than once. `on_look` gets the result of
    each look. `fail` turns any error into a CausewayError and logs it."""

    link: LinkSettings
    intake: Reconciler
    registry: Registry
    directing: DirectiveExecutor
    term: Term
    again: bool
    on_look: Callable[[Found | CausewayError], None]
    fail: Callable[[Exception], CausewayError]
    _supply_at: float = 0.0  # for the outlets of transforms
    _supply_pause: float = _BACKOFF_S[0]
    _carry_out_at: float = 0.0
    _carry_out_pause: float = _BACKOFF_S[0]
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        name = f"discover {self.link.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while not self.directing.known.wait(_TICK_S):
            if self._is_over:
                return
        pause = _BACKOFF_S[0]
        while not self._is_over:
            try:
                found = self.intake.look()
            except LeadershipLostError:
                self.term.lost.set()
                return
            except Exception as error:
                again = True
                self.on_look(self.fail(error))
            else:
                again = found.unfinished
                if not found.held:
                    self.directing.looked()
                self.on_look(found)
            if again:
                self._sleep(pause)
                pause = min(2 * pause, _BACKOFF_S[1], self.link.refresh_topics_interval_s)
            else:
                pause = _BACKOFF_S[0]
                self._sleep(self.link.refresh_topics_interval_s if self.again else math.inf)

    @property
    def _is_over(self) -> bool:
        return self.term.over.is_set() or self.term.lost.is_set()

    def _sleep(self, seconds: float) -> None:
        """Carries out the requests of people meanwhile, and supplies the outlets of transforms."""
        wanted, asked, passing = self.registry.wanted, self.directing.wanted, self.registry.passing
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._is_over:
            due = asked.is_set() or passing.is_set()
            if due and time.monotonic() >= self._carry_out_at:
                asked.clear()
                passing.clear()
                if self._carry_out():
                    return
            if time.monotonic() < self._supply_at:
                self.term.over.wait(_TICK_S)
            elif wanted.wait(_CALM_S):
                wanted.clear()
                self._supply()

    def _carry_out(self) -> bool:
        """Returns whether a look has to follow. Work that is not possible now is tried again."""
        try:
            looks = self.directing.carry_out()
            free = self.intake.pass_over()
        except LeadershipLostError:
            self.term.lost.set()
            return True
        except Exception as error:
            about = {"link": self.link.name, "reason": str(self.fail(error))}
            _log.warning("not carried out", extra=about)
            self._carry_out_at = time.monotonic() + self._carry_out_pause
            self._carry_out_pause = min(2 * self._carry_out_pause, _BACKOFF_S[1])
            self.directing.wanted.set()
            self.registry.passing.set()
            return False
        self._carry_out_pause = _BACKOFF_S[0]
        if free is False:  # a lane still holds a partition
            self.registry.passing.set()
            self._carry_out_at = time.monotonic() + _BACKOFF_S[0]
        return looks or free is not None

    def _supply(self) -> None:
        try:
            done = self.intake.supply()
        except LeadershipLostError:
            self.term.lost.set()
            return
        except Exception as error:
            about = {"link": self.link.name, "reason": str(self.fail(error))}
            _log.warning("no outlets", extra=about)
            done = False
        if done:
            self._supply_pause = _BACKOFF_S[0]
        else:
            self.registry.wanted.set()
            self._supply_at = time.monotonic() + self._supply_pause
            self._supply_pause = min(2 * self._supply_pause, _BACKOFF_S[1])
