"""Two drivers never lead a link at once, each by what it knows itself: its lease has not ended."""

from __future__ import annotations

from typing import Any

import pytest

from causeway.daemon.leadership import Leadership
from tests.simulation import threads
from tests.simulation.kernel import SimulatedProcess
from tests.simulation.statements import InvariantError


def watch_leaders(patch: pytest.MonkeyPatch) -> None:
    """The run fails at the moment at which a second driver begins to take the lead."""
    begin, take = Leadership.__init__, Leadership._take
    known: list[tuple[SimulatedProcess, Leadership]] = []

    def begins(leadership: Leadership, *given: Any) -> None:
        begin(leadership, *given)
        known.append((threads.kernel().here().process, leadership))

    def takes(leadership: Leadership) -> None:
        _check(leadership, known)
        take(leadership)

    patch.setattr(Leadership, "__init__", begins)
    patch.setattr(Leadership, "_take", takes)


def _check(leadership: Leadership, known: list[tuple[SimulatedProcess, Leadership]]) -> None:
    link, kernel = leadership._link.name, threads.kernel()
    for process, other in known:
        if other is leadership or other._link.name != link or not process.alive:
            continue
        if other.term is not None:
            here = kernel.here().process.name
            kernel.fail(InvariantError(f"{here} takes the lead of {link} from {process.name}"))
