"""`causeway promote | failover FILE`: ends a mirror, without loss or at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import (
    console,
    grid,
    labelled,
    load,
    print_json,
    styled,
    waiting,
    with_chosen,
)
from causeway.cli.guard import unconfirmed
from causeway.cli.options import (
    TIME,
    DryRunOption,
    FileArgument,
    JsonOption,
    LinkOption,
    ReasonOption,
    TopicOption,
    YesOption,
    seconds,
)
from causeway.cli.words import count, duration, number, printable
from causeway.model import age_ms

if TYPE_CHECKING:
    from rich.text import Text

    from causeway.cli.output import Output
    from causeway.link_topics import Cut
    from causeway.operate.failover import FailedOver, LinkResult, Promoted

WaitOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar=TIME,
        parser=seconds,
        help="Wait no longer for lagging partitions, or for the driver.",
    ),
]
_RENAMED = 2  # topics in the text
_UNKNOWN = 5  # topics in the text
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
    """End a mirror without loss: all records are copied, and producers may write to the target.

    Without --yes, the command shows whether partitions lag. Stop the producers, and call it with
    --yes: it proves that all records are mirrored, commits exact offsets of the consumer groups,
    and records the cutover offsets. If partitions lag, it lists them and changes nothing.
    """
    from causeway.operate.failover import promote, promoted_json

    settings = with_chosen(load(file, quiet=True))
    with waiting() as say:
        found = promote(
            settings,
            link=link,
            topic=topic,
            reason=reason,
            wait_s=timeout,
            dry_run=dry_run or not yes,
            say=say,
        )
    if as_json:
        print_json({"promoted": [promoted_json(each) for each in found]})
    else:
        _promoted(found)
    if any(each.lagging for each in found):
        return _FAILED
    return unconfirmed(dry_run=dry_run) if any(each.pending for each in found) else 0


def _promoted(found: Sequence[Promoted]) -> None:
    """Prints the details of each link, and then one line for the result of each."""
    out = console()
    for each in found:
        _promotion(out, each)
    for each in found:
        out.print(_how_promoted(each))


def _promotion(out: Output, each: Promoted) -> None:
    for one in each.lagging:
        out.print(f"{each.link}: {one}")
    cuts(out, each.cuts)
    for group in each.groups:
        if group.followed and group.reason:
            out.print(labelled("group", f"{group.group}: {group.reason}", "yellow"))
    for name, records in each.ahead.items():
        many = count(records, "record")
        said = f"{name}: its offset on {each.target} is ahead and would skip at least {many}"
        out.print(labelled("group", said, "yellow"))
    followed = sum(group.followed and group.group not in each.ahead for group in each.groups)
    if followed:
        out.print(f"{count(followed, 'consumer group')} committed on the target")
    _opened(out, each)


def _how_promoted(each: Promoted) -> Text:
    what = each.subject
    if each.left is not None:
        return styled(f"{what} is unchanged: ", "yellow").append(printable(each.left))
    if each.before is not None:
        how = f"{what} was {each.before.how} {each.before.by}; nothing to change"
        return styled(printable(how), "yellow" if each.before.how.value != "promoted" else "")
    if each.lagging:
        return styled(f"{what} cannot be promoted now: some records are not mirrored", "red")
    if each.dry_run:
        return styled(f"{what} would be promoted: nothing lags")
    return styled(f"{what} is promoted", "bold green")


def cuts(out: Output, found: Mapping[str, Cut]) -> None:
    """Prints the cutover offsets, a row for each partition."""
    if not found:
        return
    table = grid("topic", ">source offset", "target", ">target offset")
    for name, cut in sorted(found.items()):
        for point in cut.points:
            for at, offset in point.targets:
                source = f"{point.source:,}" + ("" if point.exact else " or later")
                table.add_row(f"{name}-{point.partition}", source, str(at), f"{offset:,}")
    out.print(table)


def _opened(out: Output, each: LinkResult) -> None:
    """Prints the ACLs that made mirrors read-only, and the changes that clients need."""
    for rule in each.lifted:
        out.print(f"{'removed' if each.changed else 'would remove'}: {rule}")
    if each.changed:
        next_steps(out, each.cuts, each.target)


def next_steps(out: Output, found: Mapping[str, Cut], target: str) -> None:
    """Prints the changes that clients need."""
    renamed = sorted(f"{name} is {cut.target}" for name, cut in found.items() if cut.target != name)
    out.print(f"point producers and consumers to the bootstrap servers of {target}")
    if renamed:
        shown = "; ".join(renamed[:_RENAMED])
        more = f"; and {len(renamed) - _RENAMED} more" if len(renamed) > _RENAMED else ""
        out.print(f"topics have other names there: {shown}{more}")
    if same := same_offsets(found):
        out.print(same)


def same_offsets(found: Mapping[str, Cut]) -> str | None:
    """Returns what consumers of topics that preserve offsets have to do. None if there are no such
    topics."""
    same = sorted(name for name, cut in found.items() if cut.preserves)
    if not same:
        return None
    more = f" and {len(same) - _RENAMED} more" if len(same) > _RENAMED else ""
    of = "" if len(same) == len(found) else f" of {', '.join(same[:_RENAMED])}{more}"
    return f"offsets{of} are the same: consumers with offsets of their own go on with them"


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
    """End a mirror now, with the records that are mirrored so far. Works without the source.

    The command shows the number of missing records, the age of the first one, and the offsets of
    consumer groups. With --yes, the mirror ends, the offsets of groups are committed, read-only
    mirrors become writable, and the cutover offsets are recorded. Then no driver mirrors these
    topics.
    """
    from causeway.operate.failover import failed_over_json, failover

    settings = with_chosen(load(file, quiet=True))
    with waiting() as say:
        found = failover(
            settings,
            yes=yes and not dry_run,
            link=link,
            topic=topic,
            reason=reason,
            wait_s=timeout,
            say=say,
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
    """Prints the details of each link, and then one line for the result of each: a terminal shows
    the last lines."""
    out = console()
    for each in found:
        _detail(out, each)
    for each in found:
        out.print(_verdict(each))
        if each.left is not None and each.late:
            out.print(f"repeat the command with --link '{each.link}' when {each.target} answers")


def _detail(out: Output, each: FailedOver) -> None:
    if each.error is not None or each.left is not None:
        return
    out.print(styled(each.subject, "bold"))
    if each.before is None:
        _known(out, each)
    _groups(out, each)
    cuts(out, each.cuts)
    _opened(out, each)
    if each.changed and same_offsets(each.cuts):
        out.print(
            "if such an offset is beyond the cut, set it to the cut: new records get the offsets "
            "behind the cut"
        )
    out.print()


def _verdict(each: FailedOver) -> Text:
    what = each.subject
    if each.error is not None:
        return styled(f"{what} is not failed over: ", "red").append(str(each.error))
    if each.left is not None:
        return styled(f"{what} is unchanged: ", "yellow").append(each.left)
    uncommitted = len(each.failures)
    groups = f"; {count(uncommitted, 'group')} without an offset" if uncommitted else ""
    if each.before is not None:
        nothing = "" if each.groups else "; nothing to change"
        return styled(f"{what} was {each.before.how} {each.before.by}{nothing}{groups}")
    missing = _rpo(each)
    if each.changed:
        return styled(f"{what} is failed over: ", "bold green").append(f"{missing}{groups}", "bold")
    return styled(f"{what}, failed over now: {missing}", "bold")


def _known(out: Output, each: FailedOver) -> None:
    if each.source is not None:
        out.print(labelled("source unavailable", each.source, "yellow"))
    elif not each.changed and any(one.missing for one in each.topics):
        out.print("the source answers: stop its producers, and `causeway promote` loses no records")
    if each.seen_ms is not None:
        out.print(f"a driver was last seen {duration(max(0, each.at_ms - each.seen_ms))} ago")
    table = grid("topic", ">partitions", ">first record missing", ">records missing")
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
            parts += f", {number(one.unbegun)} not started"
        table.add_row(one.topic, parts, age, missing)
    out.print(table)


def _rpo(each: FailedOver) -> str:
    known, unknown = each.rpo_known_ms, each.rpo_unknown
    if known is None:
        return "RPO unknown"
    most = "" if each.source is None else " at most"
    least = "nothing is missing" if known == 0 else f"RPO {duration(known)}{most}"
    if not unknown:
        return least
    named = ", ".join(unknown[:_UNKNOWN])
    more = f" and {len(unknown) - _UNKNOWN} more" if len(unknown) > _UNKNOWN else ""
    return f"{least}, but unknown for {named}{more}"


def _groups(out: Output, each: FailedOver) -> None:
    """Prints where each group continues, or why not."""
    from causeway.operate.failover import by_group

    for group, places in by_group(each.groups).items():
        reason = each.failures.get(group) or places[0].reason
        left = sum(place.behind or 0 for place in places)
        behind = f"{count(left, 'record')} before the end" if left else "at the end"
        said = f"group {group}: continues {behind}"
        out.print(
            said if reason is None else styled(printable(f"group {group}: {reason}"), "yellow")
        )
        if group in each.failures:
            out.print("  it has no offset there: repeat the command, or set the offset yourself")
            for place in places:
                out.print(f"  {place.partition} to offset {number(place.offset)}")
