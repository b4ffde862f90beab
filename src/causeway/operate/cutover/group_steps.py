"""What the cutover does about consumer groups that have stopped on the source. Pure.

group's place on the target           action
none, or an earlier one               commit the exact place
a later one, and no members there     a person decides by --reset-group or --leave-group, because
                                      the group would skip records
a later one, and members there        say so: the group is at work there, and Causeway cannot know
                                      which records it has read
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from causeway.operate.cutover.report import count, shortened
from causeway.operate.cutover.values import Act, MovingGroup, StepFinding, Wishes


def placing(groups: Collection[MovingGroup], wishes: Wishes) -> StepFinding | None:
    """The next act for groups without a place on the target; None if all have one."""
    found = undecided(groups, wishes) or _at_work(groups, wishes)
    if found is not None:
        return found
    unplaced = [group for group in groups if not group.placed]
    unknown = [group for group in unplaced if group.reason is not None]
    if unknown:
        lines = shortened(f"{group.name}: {group.reason}" for group in unknown)
        what = f"the place of {count(len(unknown), 'group')} on the target is not known"
        return StepFinding(what, Act.STOP, lines)
    busy = [group for group in unplaced if group.busy_there]
    if busy:
        lines = shortened(
            f"{group.name} has members there, and no place in {count(group.undone, 'partition')}"
            for group in busy
        )
        what = f"stop {count(len(busy), 'group')} on the target for a moment"
        return StepFinding(
            f"{what}: brokers take no offsets while it has members", Act.PERSON, lines
        )
    if unplaced:
        many = sum(group.undone for group in unplaced)
        what = f"{count(len(unplaced), 'group')} gets" if len(unplaced) == 1 else ""
        what = what or f"{count(len(unplaced), 'group')} get"
        return StepFinding(f"{what} the exact offsets of {count(many, 'partition')}", Act.GROUPS)
    return None


def further(groups: Iterable[MovingGroup]) -> tuple[str, ...]:
    """A line for each group at work on the target that is beyond its place."""
    return shortened(
        f"{group.name} has members there, {count(group.ahead, 'record')} beyond its place on the "
        "source: it has read them on the target, or skips them"
        for group in groups
        if group.busy_there and group.ahead
    )


def undecided(groups: Collection[MovingGroup], wishes: Wishes) -> StepFinding | None:
    """The groups that would skip records, and that no option names."""
    ahead = [
        group
        for group in groups
        if group.ahead and not group.busy_there and group.name not in wishes.reset_groups
    ]
    if not ahead:
        return None
    lines = shortened(
        f"{group.name} would skip {count(group.ahead, 'record')}: --reset-group {group.name} "
        f"takes it back to its place, --leave-group {group.name} leaves it where it is"
        for group in ahead
    )
    what = "group is" if len(ahead) == 1 else "groups are"
    text = f"{len(ahead):,} {what} further on the target than on the source"
    return StepFinding(text, Act.STOP, lines)


def _at_work(groups: Collection[MovingGroup], wishes: Wishes) -> StepFinding | None:
    """The groups to be taken back that have members, for which brokers take no offsets."""
    busy = [g for g in groups if g.ahead and g.busy_there and g.name in wishes.reset_groups]
    if not busy:
        return None
    lines = shortened(
        f"{group.name} has members there, {count(group.ahead, 'record')} beyond its place; if "
        f"it has read these records, call this without --reset-group {group.name}"
        for group in busy
    )
    what = f"stop {count(len(busy), 'group')} on the target, to take it back to its place"
    return StepFinding(what, Act.PERSON, lines)
