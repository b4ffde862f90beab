"""`causeway promote | failover FILE`: the end of a mirror, cleanly or now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causeway.cli.common import console, load, print_json, waiting
from causeway.cli.guard import unconfirmed
from causeway.cli.options import (
    TIME,
    DryRunOption,
    FileArgument,
    JsonOption,
    LinkOption,
    ReasonOption,
    YesOption,
    seconds,
)
from causeway.cli.words import count, duration, number, printable
from causeway.model import age_ms

if TYPE_CHECKING:
    from rich.text import Text

    from causeway.cli.output import Output
    from causeway.link_topics import Cut
    from causeway.operate.failover import FailedOver, Promoted

TopicOption = Annotated[
    str | None,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Only this topic, by its name on the source. Default: the whole link.",
        show_default=False,
    ),
]
WaitOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar=TIME,
        parser=seconds,
        help="Wait no longer for what lags, or for the driver.",
    ),
]
_RENAMED = 2  # topics that are named
_UNKNOWN = 5  # topics that are named
_UNREACHABLE = 3
_FAILED = 7


def promote(
    file: FileArgument,
    link: LinkOption = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    timeout: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """End a mirror cleanly: nothing is left to copy, and others may write to its topics.

    Without --yes it shows whether something lags. Stop the producers, and call it with --yes: it
    proves that everything is mirrored, brings consumer groups over exactly, and records the cut. If
    partitions lag, it names them and changes nothing.
    """
    from causeway.operate.failover import promote, promoted_json

    settings = load(file, quiet=True)
    with waiting() as told:
        found = promote(
            settings,
            link=link,
            topic=topic,
            reason=reason,
            wait_s=timeout,
            dry_run=dry_run or not yes,
            say=told,
        )
    if as_json:
        print_json({"promoted": [promoted_json(each) for each in found]})
    else:
        _promoted(found)
    if any(each.lagging for each in found):
        return _FAILED
    return unconfirmed(dry_run=dry_run) if any(each.pending for each in found) else 0


def _promoted(found: Sequence[Promoted]) -> None:
    """The details of each link, and then a line for each that says how it ended."""
    out = console()
    for each in found:
        _promotion(out, each)
    for each in found:
        out.print(_how_promoted(each))


def _promotion(out: Output, each: Promoted) -> None:
    from rich.text import Text

    for one in each.lagging:
        out.print(f"{each.link}: {one}")
    cuts(out, each.cuts)
    for group in each.groups:
        if group.followed and group.reason:
            out.print(Text("group ", "yellow").append(printable(f"{group.group}: {group.reason}")))
    for name, records in each.ahead.items():
        many = count(records, "record")
        said = f"{name}: it is ahead on {each.target} and would skip at least {many} there"
        out.print(Text("group ", "yellow").append(printable(said)))
    followed = sum(group.followed and group.group not in each.ahead for group in each.groups)
    if followed:
        out.print(f"{count(followed, 'consumer group')} brought over")
    lifted(out, each.lifted, later=each.dry_run)
    if each.changed:
        next_steps(out, each.cuts, each.target)


def _how_promoted(each: Promoted) -> Text:
    from rich.text import Text

    what = f"{each.scope} of {each.link}" if each.scope.topic else each.link
    if each.left is not None:
        return Text(f"{what} is left as it is: ", "yellow").append(printable(each.left))
    if each.before is not None:
        how = f"{what} was {each.before.how} {each.before.by}; nothing to change"
        return Text(printable(how), "yellow" if each.before.how.value != "promoted" else "")
    if each.lagging:
        return Text(f"{what} can't be promoted now: not all is mirrored", "red")
    if each.dry_run:
        return Text(f"{what} would be promoted: nothing lags")
    return Text(f"{what} is promoted", "bold green")


def cuts(out: Output, found: Mapping[str, Cut]) -> None:
    """A row a partition."""
    if not found:
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("topic", overflow="fold")
    table.add_column("source offset", justify="right")
    table.add_column("target", overflow="fold")
    table.add_column("target offset", justify="right")
    for name, cut in sorted(found.items()):
        for point in cut.points:
            for at, offset in point.targets:
                source = f"{point.source:,}" + ("" if point.exact else " or later")
                table.add_row(f"{name}-{point.partition}", source, str(at), f"{offset:,}")
    out.print(table)


def lifted(out: Output, rules: Iterable[Any], *, later: bool) -> None:
    """The rules that made mirrors read-only."""
    for rule in rules:
        out.print(f"{'would take away' if later else 'taken away'}: {rule}")


def next_steps(out: Output, found: Mapping[str, Cut], target: str) -> None:
    """What people change in their own programs."""
    renamed = sorted(f"{name} is {cut.target}" for name, cut in found.items() if cut.target != name)
    out.print(f"point producers and consumers to the bootstrap servers of {target}")
    if renamed:
        shown = "; ".join(renamed[:_RENAMED])
        more = f"; and {len(renamed) - _RENAMED} more" if len(renamed) > _RENAMED else ""
        out.print(f"topics have other names there: {shown}{more}")


def failover(
    file: FileArgument,
    link: LinkOption = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    timeout: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """End a mirror now, with what has been mirrored so far; the source need not be there.

    First it shows how many records are missing, how old the first one is, and from where consumer
    groups go on. With --yes the mirror ends, groups are committed, read-only mirrors are opened,
    and the cut is recorded. No driver mirrors these topics afterwards.
    """
    from causeway.operate.failover import failed_over_json, failover

    settings = load(file, quiet=True)
    with waiting() as told:
        found = failover(
            settings,
            yes=yes and not dry_run,
            link=link,
            topic=topic,
            reason=reason,
            wait_s=timeout,
            say=told,
        )
    if as_json:
        print_json({"failed_over": [failed_over_json(each) for each in found]})
    else:
        _failed_over(found)
    if (error := next((each.error for each in found if each.error), None)) is not None:
        return error.exit_code
    if yes or dry_run or all(each.before is not None or each.left is not None for each in found):
        if any(each.failures for each in found):
            return _FAILED
        return _UNREACHABLE if any(each.late for each in found) else 0
    return unconfirmed(dry_run=dry_run)


def _failed_over(found: Sequence[FailedOver]) -> None:
    """The details of each link, and then a line for each that says how it ended, because a person
    at a terminal sees the last lines."""
    out = console()
    for each in found:
        _detail(out, each)
    for each in found:
        out.print(_verdict(each))
        if each.left is not None and each.late:
            out.print(f"call this again with --link '{each.link}' once {each.target} answers")


def _detail(out: Output, each: FailedOver) -> None:
    from rich.text import Text

    if each.error is not None or each.left is not None:
        return
    out.print(Text(_subject(each), "bold"))
    if each.before is None:
        _known(out, each)
    _groups(out, each)
    cuts(out, each.cuts)
    lifted(out, each.lifted, later=not each.changed)
    if each.changed:
        next_steps(out, each.cuts, each.target)
    out.print()


def _subject(each: FailedOver) -> str:
    return f"{each.scope} of {each.link}" if each.scope.topic else each.link


def _verdict(each: FailedOver) -> Text:
    from rich.text import Text

    what = _subject(each)
    if each.error is not None:
        return Text(f"{what} is not done: ", "red").append(str(each.error))
    if each.left is not None:
        return Text(f"{what} is left as it is: ", "yellow").append(each.left)
    uncommitted = len(each.failures)
    groups = f"; {count(uncommitted, 'group')} without a place" if uncommitted else ""
    if each.before is not None:
        nothing = "" if each.groups else "; nothing to change"
        return Text(f"{what} was {each.before.how} {each.before.by}{nothing}{groups}")
    missing = _rpo(each)
    if each.changed:
        return Text(f"{what} is failed over: ", "bold green").append(f"{missing}{groups}", "bold")
    return Text(f"{what}, failed over now: {missing}", "bold")


def _known(out: Output, each: FailedOver) -> None:
    from rich.table import Table
    from rich.text import Text

    if each.source is not None:
        out.print(Text("source unavailable ", "yellow").append(printable(each.source)))
    elif not each.changed and any(one.missing for one in each.topics):
        out.print(
            "the source answers: with its producers stopped, `causeway promote` would lose nothing"
        )
    if each.seen_ms is not None:
        out.print(f"a driver was last seen {duration(max(0, each.at_ms - each.seen_ms))} ago")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("topic", overflow="fold")
    for name in ("partitions", "first record missing", "records missing"):
        table.add_column(name, justify="right")
    for one in each.topics:
        age = "none"
        if one.first_ms is not None:
            old = age_ms(one.first_ms, each.at_ms)
            most = "" if one.missing and one.exact else "at most "
            age = "unknown" if old is None else f"{most}{duration(old)} old"
        missing = "unknown" if one.missing is None else number(one.missing)
        if not one.exact and one.missing is not None:
            missing = f"{missing} or more"
        parts = number(one.partitions)
        if one.unbegun:
            parts += f", {number(one.unbegun)} not begun"
        table.add_row(one.topic, parts, age, missing)
    out.print(table)


def _rpo(each: FailedOver) -> str:
    known, unknown = each.rpo_known_ms, each.rpo_unknown
    if known is None:
        return "RPO unknown"
    most = "" if each.source is None else " at the most"
    least = "nothing is missing" if known == 0 else f"RPO {duration(known)}{most}"
    if not unknown:
        return least
    named = ", ".join(unknown[:_UNKNOWN])
    more = f" and {len(unknown) - _UNKNOWN} more" if len(unknown) > _UNKNOWN else ""
    return f"{least}, but unknown for {named}{more}"


def _groups(out: Output, each: FailedOver) -> None:
    """Where they go on, or why not."""
    from rich.text import Text

    from causeway.operate.failover import by_group

    for group, places in by_group(each.groups).items():
        reason = each.failures.get(group) or places[0].reason
        left = sum(place.behind or 0 for place in places)
        behind = f"{count(left, 'record')} before the end" if left else "at the end"
        said = f"group {group}: goes on {behind}"
        out.print(said if reason is None else Text(printable(f"group {group}: {reason}"), "yellow"))
        if group in each.failures:
            out.print("  it has no place there: call this again, or set it before you start it")
            for place in places:
                out.print(f"  {place.partition} to offset {number(place.offset)}")
