"""Partitions to lanes: those that go through transforms to the homes of these, others by load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from causeway.daemon.lanes import packing
from causeway.daemon.lanes.stage_placement import Homes, at_lane
from causeway.daemon.lanes.tracked import Key, Lane, Tracked
from causeway.model import State
from causeway.relay import Assign, Assignment, StageSpecs

ASSIGNED_AT_ONCE = 500  # assignments in a message
_AT_REST = (State.STOPPED, State.DONE)


def place(
    waiting: Iterable[Key], tracked: Mapping[Key, Tracked], lanes: Mapping[int, Lane], homes: Homes
) -> dict[Key, int]:
    """A lane for each of `waiting`, but for those whose stage is not open yet."""
    placed: dict[Key, int] = {}
    plain: list[Key] = []
    staged: dict[str, list[Key]] = {}
    for key in waiting:
        stage, going_to = tracked[key].assignment.transform, tracked[key].going_to
        if stage is not None:
            if stage in homes:
                staged.setdefault(stage, []).append(key)
        elif going_to is not None and going_to in lanes:
            placed[key] = going_to
        else:
            plain.append(key)
    for stage, keys in staged.items():
        loads = {number: _load(tracked, lanes[number], stage) for number in homes.at(stage, lanes)}
        placed |= packing.place([(key, tracked[key].weight) for key in keys], loads)
    loads = {number: _load(tracked, lane) for number, lane in lanes.items()}
    for key, number in placed.items():
        loads[number] += tracked[key].weight
    return placed | packing.place([(key, tracked[key].weight) for key in plain], loads)


def _load(tracked: Mapping[Key, Tracked], lane: Lane, stage: str | None = None) -> float:
    """Of what goes through `stage`, or of all."""
    return sum(
        tracked[key].weight
        for key in lane.partitions
        if stage is None or tracked[key].assignment.transform == stage
    )


def moves(tracked: Mapping[Key, Tracked], lanes: Mapping[int, Lane]) -> dict[Key, int]:
    """Partitions that are better off on another lane, with its number. What goes through a stage
    stays at its homes."""
    held: dict[int, dict[Key, float]] = {number: {} for number in lanes}
    fixed = dict.fromkeys(lanes, 0.0)
    for number, lane in lanes.items():
        for key in lane.partitions:
            one = tracked[key]
            if one.report is not None and one.report.state in _AT_REST:
                continue
            if one.assignment.transform is None:
                held[number][key] = one.weight
            else:
                fixed[number] += one.weight
    fresh = any(not held[number] and not fixed[number] for number in lanes)
    limit = len(tracked) if fresh else packing.MOVES_AT_ONCE
    tolerated = packing.FRESH if fresh else packing.WORTH_A_PAUSE
    return packing.moves(held, limit, tolerated, fixed)


def hand_over(lane: Lane, assignments: Sequence[Assignment], homes: Homes) -> None:
    """Tells `lane` of these, and before that of the stages that they go through."""
    needed = {each.transform for each in assignments if each.transform is not None} - lane.told
    if needed:
        stages = tuple(homes.stage(key, lane.number) for key in sorted(needed))
        lane.connection.send(StageSpecs(stages=stages))
        lane.told |= needed
    for at in range(0, len(assignments), ASSIGNED_AT_ONCE):
        part = assignments[at : at + ASSIGNED_AT_ONCE]
        lane.connection.send(Assign(assignments=tuple(_at(each, lane.number) for each in part)))


def _at(assignment: Assignment, lane: int) -> Assignment:
    if assignment.transform is None:
        return assignment
    return assignment.replace(transform=at_lane(assignment.transform, lane))
