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

from causeway.operate.cutover.values import Act, Found, Group, Wishes
from causeway.operate.cutover.words import count, cut


def placing(groups: Collection[Group], wishes: Wishes) -> Found | None:
    """The next act for groups without a place on the target; None if all have one."""
    found = undecided(groups, wishes) or _at_work(groups, wishes)
    if found is not None:
        return found
    unplaced = [group for group in groups if not group.placed]
    unknown = [group for group in unplaced if group.reason is not None]
    if unknown:
        lines = cut(f"{group.name}: {group.reason}" for group in unknown)
        what = f"the place of {count(len(unknown), 'group')} on the target is not known"
        return Found(what, Act.STOP, lines)
    busy = [group for group in unplaced if group.busy_there]
    if busy:
        lines = cut(
            f"{group.name} has members there, and no place in {count(group.undone, 'partition')}"
            for group in busy
        )
        what = f"stop {count(len(busy), 'group')} on the target for a moment"
        return Found(f"{what}: brokers take no offsets while it has members", Act.PERSON, lines)
    if unplaced:
        many = sum(group.undone for group in unplaced)
        what = f"{count(len(unplaced), 'group')} gets" if len(unplaced) == 1 else ""
        what = what or f"{count(len(unplaced), 'group')} get"
        return Found(f"{what} the exact offsets of {count(many, 'partition')}", Act.GROUPS)
    return None


def further(groups: Iterable[Group]) -> tuple[str, ...]:
    """A line for each group at work on the target that is beyond its place."""
    return cut(
        f"{group.name} has members there, {count(group.ahead, 'record')} beyond its place on the "
        "source: it has read them on the target, or skips them"
        for group in groups
        if group.busy_there and group.ahead
    )


def undecided(groups: Collection[Group], wishes: Wishes) -> Found | None:
    """The groups that would skip records, and that no option names."""
    ahead = [
        group
        for group in groups
        if group.ahead and not group.busy_there and group.name not in wishes.reset_groups
    ]
    if not ahead:
        return None
    lines = cut(
        f"{group.name} would skip {count(group.ahead, 'record')}: --reset-group {group.name} "
        f"takes it back to its place, --leave-group {group.name} leaves it where it is"
        for group in ahead
    )
    what = "group is" if len(ahead) == 1 else "groups are"
    text = f"{len(ahead):,} {what} further on the target than on the source"
    return Found(text, Act.STOP, lines)


def _at_work(groups: Collection[Group], wishes: Wishes) -> Found | None:
    """The groups to be taken back that have members, for which brokers take no offsets."""
    busy = [g for g in groups if g.ahead and g.busy_there and g.name in wishes.reset_groups]
    if not busy:
        return None
    lines = cut(
        f"{group.name} has members there, {count(group.ahead, 'record')} beyond its place; if "
        f"it has read these records, call this without --reset-group {group.name}"
        for group in busy
    )
    what = f"stop {count(len(busy), 'group')} on the target, to take it back to its place"
    return Found(what, Act.PERSON, lines)
