"""`--mutations`: whether the simulations find each deliberate break of the mirror.

seed 0, 1, … with the mutation ──fails──► the same run without it ──passes──► found
         └ passes: the next seed                  └ fails: not because of the mutation
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.simulation import patches

if TYPE_CHECKING:
    from tests.simulation.mutations import Mutation

_OF_CHECKS = "InvariantError", "StuckError"
_SAID = 110  # characters of a failure


class Found(NamedTuple):
    """`run`: the number of the run, from 1 on; `said`: its failure."""

    run: int | str
    said: str


def check(names: Collection[str]) -> int:
    """Looks for these mutations, or for all; prints a table in Markdown. Returns the exit code."""
    print("| mutation | without the guard in | simulation | found in run | failure |")
    print("|---|---|---|---|---|", flush=True)
    # Lanes alone run in a process of their own: in this one, patches come before causeway.
    if (pid := os.fork()) == 0:
        os._exit(1 if _find(names, lanes=True) else 0)
    _, status = os.waitpid(pid, 0)
    patches.install()
    return 1 if _find(names, lanes=False) or status else 0


def _find(names: Collection[str], *, lanes: bool) -> int:
    """How many are not found."""
    from tests.simulation.mutations import MUTATIONS

    missed = 0
    for name in names or MUTATIONS:
        mutation = MUTATIONS[name]
        if bool(mutation.kind) != lanes:
            continue
        where = mutation.kind or "whole mirror"
        if mutation.survives and not names:
            print(f"| {name} | {mutation.guard} | {where} | – | {mutation.survives} |", flush=True)
            continue
        found = _in_lanes(mutation) if lanes else _in_mirror(name, mutation)
        missed += found is None
        run, said = found or Found("not found", "")
        said = said[:_SAID].replace("|", "/")
        count = f"{run} of {mutation.runs}"
        print(f"| {name} | {mutation.guard} | {where} | {count} | {said} |", flush=True)
    return missed


def _in_lanes(mutation: Mutation) -> Found | None:
    for seed in range(mutation.runs):
        said = _failure_of_lanes(seed, mutation, broken=True)
        if said and not _failure_of_lanes(seed, mutation, broken=False):
            return Found(seed + 1, said)
    return None


def _failure_of_lanes(seed: int, mutation: Mutation, *, broken: bool) -> str:
    from tests.harness.simulated_run import relay_under_fire, simulated
    from tests.unit.relay.test_lane_under_fire import KINDS

    with pytest.MonkeyPatch.context() as patch:
        if broken:
            mutation.apply(patch)
        try:
            if mutation.script is None:
                relay_under_fire(seed, KINDS[mutation.kind])
            else:
                with simulated(seed, KINDS[mutation.kind]) as driver:
                    mutation.script(driver)
        except Exception as error:  # a lane that is broken may fail in any way
            return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def _in_mirror(name: str, mutation: Mutation) -> Found | None:
    from tests.simulation import runs

    for seed in range(mutation.runs):
        said = runs.failure(seed, name, broken=True)
        if said.startswith(_OF_CHECKS) and not runs.failure(seed, name, broken=False):
            return Found(seed + 1, said)
    return None
