"""What the source has and the mirror has not, as verify says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from causeway.cluster import value_of
from causeway.errors import CausewayError
from causeway.link_topics import PartitionProgress
from causeway.model import State, TopicPartition
from causeway.operate.verify import Why
from causeway.operate.verify.plan import _behind
from causeway.operate.verify.stretches import Ends

UNKNOWN = CausewayError("list offsets of", "t-0", "it has no leader", retriable=True)


@dataclass
class _Ends:
    stable: int | CausewayError
    all_of_it: int | CausewayError

    def readable(self, _: TopicPartition) -> tuple[int, int]:
        return value_of(self.stable), value_of(self.all_of_it)


def _said(
    stable: int | CausewayError,
    written: int | CausewayError,
    state: State = State.STOPPED,
    *,
    beats: bool = False,
) -> list[tuple[Why, str]]:
    progress = PartitionProgress(
        topic="t",
        partition=0,
        topic_id="a",
        leader_epoch=0,
        position=100,
        outlets=(),
        state=state,
        reason="so" if state is State.STOPPED else None,
    )
    found = _behind(progress, cast(Ends, _Ends(stable, written)), beats=beats)
    return [(each.why, each.text) for each in found]


HELD = (Why.NOT_MIRRORED, "an open transaction holds back source offsets 120 to 129")


@pytest.mark.parametrize(
    ("stable", "written", "said"),
    [
        (100, 100, []),
        (90, 90, []),
        (
            120,
            130,
            [
                (
                    Why.NOT_MIRRORED,
                    "source offsets 100 to 119 are not mirrored yet: it is stopped, so",
                ),
                HELD,
            ],
        ),
        (120, 120, None),
    ],
)
def test_records_to_come_and_records_held_back_are_counted_apart(
    stable: int, written: int, said: list[tuple[Why, str]] | None
) -> None:
    found = _said(stable, written)
    assert found == said if said is not None else len(found) == 1


def test_heartbeats_of_a_mirror_that_runs_are_always_yet_to_come() -> None:
    """Else nothing would ever agree in full beside a mirror that runs."""
    assert _said(103, 103, State.RUNNING, beats=True) == []
    assert len(_said(103, 103, State.RUNNING)) == 1
    assert len(_said(103, 103, State.STOPPED, beats=True)) == 1


@pytest.mark.parametrize(("stable", "written"), [(UNKNOWN, 100), (100, UNKNOWN)])
def test_an_end_that_is_not_known_is_no_agreement(
    stable: int | CausewayError, written: int | CausewayError
) -> None:
    ((why, text),) = _said(stable, written)
    assert why is Why.UNREADABLE
    assert "from 100 on cannot be read" in text
    assert "it has no leader" in text
