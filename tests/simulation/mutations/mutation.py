"""What a mutation is: the absence of one guard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.harness.simulated_driver import SimulatedDriver
from tests.simulation.scenario import Scenario

Apply = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """`guard`: the file below `src/causeway` and the function that lose it. `runs`: within so many
    runs, from seed 0 on, a simulation finds it. `kind`: of lanes alone, a name in KINDS of
    tests/unit/relay/test_lane_under_fire.py; without one the whole mirror runs. `focus`: changes
    the scenario of each seed of the whole mirror, so that fewer runs are enough. `script`: what
    happens to lanes alone, in place of everything by chance. `survives`: why no
    simulation finds it; such a mutation is not looked for."""

    guard: str
    apply: Apply
    runs: int
    kind: str = ""
    survives: str = ""
    script: Callable[[SimulatedDriver], None] | None = None
    focus: Callable[[Scenario], Scenario] = field(default=lambda scenario: scenario)


def replaced(owner: Any, name: str, value: object) -> Apply:
    """`owner.name` is `value`."""
    return lambda patch: patch.setattr(owner, name, value)


def wrapped(owner: Any, name: str, around: Callable[..., Any]) -> Apply:
    """Each call of `owner.name` is one of `around`, whose first argument is the original."""
    original = getattr(owner, name)

    def call(*given: Any, **named: Any) -> Any:
        return around(original, *given, **named)

    return lambda patch: patch.setattr(owner, name, call)


def during(owner: Any, name: str, other: Callable[[Any], Mapping[str, Any]]) -> Apply:
    """While `owner.name(subject, …)` runs, its subject has the attributes that `other` gives."""

    def around(original: Callable[..., Any], subject: Any, *given: Any, **named: Any) -> Any:
        changed = dict(other(subject))
        before = {each: getattr(subject, each) for each in changed}
        for each, value in changed.items():
            setattr(subject, each, value)
        try:
            return original(subject, *given, **named)
        finally:
            for each, value in before.items():
                setattr(subject, each, value)

    return wrapped(owner, name, around)
