"""Deliberate breaks of the mirror. The simulation must find each of them: see tests/README.md.

A mutation changes code of causeway in this process, for one run.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.mirror import LeaseAlarm

Mutation = Callable[[pytest.MonkeyPatch], None]


def _ignore_lease(patch: pytest.MonkeyPatch) -> None:
    """A lane sends although its lease has ended."""
    patch.setattr(LeaseAlarm, "lasts", lambda _: True)
    patch.setattr(LeaseAlarm, "send", lambda _, act: act())


MUTATIONS: dict[str, Mutation] = {
    "lanes ignore their lease": _ignore_lease,
}
