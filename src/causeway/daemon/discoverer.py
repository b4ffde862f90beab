"""Looks for a link's topics and partitions repeatedly, in its own thread.

The requests of people and transforms are carried out here as well: they also give partitions to
lanes."""

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


class Discoverer:
    """Works during one term of leading. `fail` turns any error into a CausewayError and logs it."""

    def __init__(
        self,
        link: LinkSettings,
        intake: Reconciler,
        registry: Registry,
        directing: DirectiveExecutor,
        term: Term,
        *,
        again: bool,
        on_look: Callable[[Found | CausewayError], None],
        fail: Callable[[Exception], CausewayError],
    ) -> None:
        """`again`: looks more than once; `on_look` gets the result of each look."""
        self._link = link
        self._intake = intake
        self._registry = registry
        self._directing = directing
        self._again = again
        self._over, self._lost = term.over, term.lost
        self._on_look, self._fail = on_look, fail
        self._supply_at, self._supply_pause = 0.0, _BACKOFF_S[0]  # for the outlets of transforms
        self._carry_out_at, self._carry_out_pause = 0.0, _BACKOFF_S[0]
        name = f"discover {link.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while not self._directing.known.wait(_TICK_S):
            if self._is_over:
                return
        pause = _BACKOFF_S[0]
        while not self._is_over:
            try:
                found = self._intake.look()
            except LeadershipLostError:
                self._lost.set()
                return
            except Exception as error:
                again = True
                self._on_look(self._fail(error))
            else:
                again = found.unfinished
                if not found.held:
                    self._directing.looked()
                self._on_look(found)
            if again:
                self._sleep(pause)
                pause = min(2 * pause, _BACKOFF_S[1], self._link.refresh_topics_interval_s)
            else:
                pause = _BACKOFF_S[0]
                self._sleep(self._link.refresh_topics_interval_s if self._again else math.inf)

    @property
    def _is_over(self) -> bool:
        return self._over.is_set() or self._lost.is_set()

    def _sleep(self, seconds: float) -> None:
        """Meanwhile carries out the requests of people, and supplies the outlets of transforms."""
        wanted, asked = self._registry.wanted, self._directing.wanted
        passing = self._registry.passing
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._is_over:
            due = asked.is_set() or passing.is_set()
            if due and time.monotonic() >= self._carry_out_at:
                asked.clear()
                passing.clear()
                if self._carry_out():
                    return
            if time.monotonic() < self._supply_at:
                self._over.wait(_TICK_S)
            elif wanted.wait(_CALM_S):
                wanted.clear()
                self._supply()

    def _carry_out(self) -> bool:
        """Whether a look has to follow. Work that is not possible now is tried again."""
        try:
            looks = self._directing.carry_out()
            free = self._intake.pass_over()
        except LeadershipLostError:
            self._lost.set()
            return True
        except Exception as error:
            about = {"link": self._link.name, "reason": str(self._fail(error))}
            _log.warning("not carried out", extra=about)
            self._carry_out_at = time.monotonic() + self._carry_out_pause
            self._carry_out_pause = min(2 * self._carry_out_pause, _BACKOFF_S[1])
            self._directing.wanted.set()
            self._registry.passing.set()
            return False
        self._carry_out_pause = _BACKOFF_S[0]
        if free is False:  # a lane still holds a partition
            self._registry.passing.set()
            self._carry_out_at = time.monotonic() + _BACKOFF_S[0]
        return looks or free is not None

    def _supply(self) -> None:
        try:
            done = self._intake.supply()
        except LeadershipLostError:
            self._lost.set()
            return
        except Exception as error:
            _log.warning(
                "no outlets", extra={"link": self._link.name, "reason": str(self._fail(error))}
            )
            done = False
        if done:
            self._supply_pause = _BACKOFF_S[0]
        else:
            self._registry.wanted.set()
            self._supply_at = time.monotonic() + self._supply_pause
            self._supply_pause = min(2 * self._supply_pause, _BACKOFF_S[1])
