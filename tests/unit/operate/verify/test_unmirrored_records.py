"""What the source has and the mirror has not, as verify says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from causeway.cluster import value_of
from causeway.errors import CausewayError
from causeway.link_topics import PartitionProgress
from causeway.model import Pair, State, TopicPartition
from causeway.operate.verify import Why
from causeway.operate.verify.plan import _behind, _reached
from causeway.operate.verify.stretches import Ends
from tests.builders.daemon import row

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


@pytest.mark.parametrize(
    ("state", "target_end", "readable", "reached"),
    [
        (State.RUNNING, 130, 150, 130),  # the driver's last report is older
        (State.RUNNING, 130, 120, 120),  # someone else wrote the rest
        (State.RUNNING, 90, 150, 100),  # the target has lost records
        (State.PROMOTED, 130, 150, 100),  # applications write to the target
    ],
)
def test_the_end_of_the_target_is_the_position_where_offsets_are_preserved(
    state: State, target_end: int, readable: int, reached: int
) -> None:
    class _Both(_Ends):
        def there(self, _: TopicPartition) -> tuple[int, int]:
            return 0, target_end

    outlet = row().progress.outlets[0].replace(pair=Pair(100, 100, 3))
    known = row(state).progress.replace(position=100, offsets_from=50, outlets=(outlet,))
    after = _reached(known, cast(Ends, _Both(readable, readable)))
    assert (after.position, after.outlets[0].pair.target) == (reached, reached)
