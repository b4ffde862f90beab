"""Breaks of the rules by which a partition keeps the source's offsets. Lanes alone find them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from causeway.records import Gap
from causeway.relay.lane import fences, filling
from causeway.relay.lane.filling import GapFiller
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.gaps import Gaps
from causeway.relay.lane.outlet import OutletState
from tests.simulation.mutations import lane_scripts
from tests.simulation.mutations.mutation import Apply, Mutation, replaced, wrapped

MARKERS: Final = "offsets kept by markers, refusals"
FILLER: Final = "offsets kept by markers and filler"
TRANSACTIONS: Final = "offsets kept by transactions"


def _at_once(original: Callable[..., None], filler: GapFiller, flow: Flow, *given: Any) -> None:
    late_by, rival_by = flow.late_by, flow.rival_by
    flow.late_by = flow.rival_by = 0.0
    try:
        original(filler, flow, *given)
    finally:
        flow.late_by, flow.rival_by = late_by, rival_by


def _same_epoch(
    original: Callable[..., None], filler: GapFiller, flow: Flow, state: Any, gaps: Gaps, _: str
) -> None:
    original(filler, flow, state, gaps, "transactions")


def _without_doubt(patch: pytest.MonkeyPatch) -> None:
    """Two places keep it."""
    reset = Gaps.reset

    def forget(gaps: Gaps, *, doubtful: bool) -> None:
        gaps.doubtful = False
        reset(gaps, doubtful=doubtful)

    patch.setattr(Gaps, "reset", forget)
    patch.setattr(Flow, "doubtful", property(lambda _: False))


def _no_takeover(cluster: Any, at: Any, end: int, _: str) -> None:
    fences.expect_end(cluster, at, end)


def _unproved(filler: GapFiller, written: Any) -> None:
    for flow, state, count in written:
        state.unanswered -= 1
        filler._take(flow, state, "markers", state.end + count)


def _before_answers(original: Callable[..., None], filler: GapFiller, flow: Flow) -> None:
    state = flow.outlets[0]
    unanswered, state.unanswered = state.unanswered, 0
    original(filler, flow)
    state.unanswered += unanswered


def _over_gaps(original: Callable[..., None], state: OutletState, runs: Any) -> None:
    original(state, [run for run in runs if not isinstance(run, Gap)])


def _lanes(guard: str, kind: str, runs: int, apply: Apply, survives: str = "") -> Mutation:
    return Mutation(guard=guard, kind=kind, runs=runs, apply=apply, survives=survives)


SAME_OFFSETS: dict[str, Mutation] = {
    "the first marker does not wait until no earlier one can arrive": Mutation(
        guard="relay/lane/filling.py, GapFiller._fence",
        kind="offsets kept by markers",
        runs=10,
        apply=wrapped(GapFiller, "_fence", _at_once),
        script=lane_scripts.markers_before_the_first,
    ),
    "the first marker of a lane has no higher epoch": Mutation(
        guard="relay/lane/filling.py, GapFiller._fence",
        kind="offsets kept by markers",
        runs=10,
        apply=wrapped(GapFiller, "_fence", _same_epoch),
        script=lane_scripts.markers_after_all,
    ),
    "a recovery ends all doubt about late markers": Mutation(
        guard="relay/lane/gaps.py, Gaps.reset, and flow.py, Flow.doubtful",
        kind="offsets kept by markers",
        runs=10,
        apply=_without_doubt,
        script=lane_scripts.markers_between_two_recoveries,
    ),
    "a lane does not take over the transactional id that fills gaps": _lanes(
        "relay/lane/fences.py, fence",
        FILLER,
        150,
        replaced(filling, "fence", _no_takeover),
    ),
    "nothing looks at the end of the log before a gap is filled": _lanes(
        "relay/lane/fences.py, expect_end",
        TRANSACTIONS,
        150,
        replaced(fences, "expect_end", lambda *_: None),
    ),
    "one answer proves that all markers of a request were written": _lanes(
        "relay/lane/filling.py, GapFiller._prove",
        "offsets kept by markers, refused one by one",
        20,
        replaced(GapFiller, "_prove", _unproved),
    ),
    "a gap is filled before the data below it is acknowledged": _lanes(
        "relay/lane/filling.py, GapFiller.look",
        MARKERS,
        20,
        wrapped(GapFiller, "look", _before_answers),
    ),
    "data goes on over a gap": _lanes(
        "relay/lane/outlet.py, OutletState.put_runs",
        "offsets kept by markers",
        5,
        wrapped(OutletState, "put_runs", _over_gaps),
    ),
    "control batches are relayed": _lanes(
        "records/keep.py, _keep_all",
        "offsets kept by markers",
        5,
        replaced(sys.modules["causeway.records.keep"], "CONTROL", 0),
    ),
}
