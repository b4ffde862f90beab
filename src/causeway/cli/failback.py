"""`causeway failback FILE`: back to how it was, once the old source is there again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, load, print_json, waiting
from causeway.cli.failover import WaitOption, cuts, next_steps
from causeway.cli.guard import UNCONFIRMED, unconfirmed
from causeway.cli.options import (
    DryRunOption,
    FileArgument,
    JsonOption,
    LinkOption,
    ReasonOption,
    TopicOption,
    YesOption,
)
from causeway.cli.words import count, number
from causeway.errors import PartitionsFailedError

if TYPE_CHECKING:
    from causeway.operate.failover import FailedBack

_SAY = "give --save PATH, --save-topic TOPIC, or --drop-unmirrored, with --yes"


def command(
    file: FileArgument,
    link: LinkOption = None,
    topic: TopicOption = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="PATH",
            help="Save the records that were never mirrored to this file, as lines of JSON.",
            show_default=False,
        ),
    ] = None,
    save_topic: Annotated[
        str | None,
        typer.Option(
            "--save-topic",
            metavar="TOPIC",
            help="Write them to this topic of the target instead.",
            show_default=False,
        ),
    ] = None,
    drop_unmirrored: Annotated[
        bool,
        typer.Option("--drop-unmirrored", help="Leave these records on the old source, unsaved."),
    ] = False,
    create_topics: Annotated[
        bool,
        typer.Option(
            "--create-topics",
            help="Create topics that the old source lacks, like those of the target. For a source"
            " that was set up again.",
        ),
    ] = False,
    yes: YesOption = False,
    turn_round: Annotated[
        bool,
        typer.Option(
            "--turn-round",
            help="The other side's producers have stopped: end the way back, mirror as before.",
        ),
    ] = False,
    reason: ReasonOption = None,
    dry_run: DryRunOption = False,
    timeout: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Take up a link again that was failed over or promoted, without a new copy of its topics.

    First the link the other way begins at the cut; a driver of this file mirrors it. Once the
    producers there have stopped, a call with --turn-round ends that link, and this link goes on
    behind it. Without --yes each call shows what it would do. Each call goes on from the point at
    which the last one ended.
    """
    from causeway.operate.failover import FailbackStep, failback, failed_back_json

    settings = load(file, quiet=True)
    with waiting() as told:
        found = failback(
            settings,
            link=link,
            topic=topic,
            save=save,
            save_topic=save_topic,
            drop=drop_unmirrored,
            create_topics=create_topics,
            turn_round=turn_round,
            dry_run=dry_run or not yes,
            reason=reason,
            wait_s=timeout,
            say=told,
        )
    if as_json:
        print_json(failed_back_json(found))
    else:
        _show(found)
    if found.promoted is not None and found.promoted.lagging:
        return PartitionsFailedError.exit_code
    if found.step in (FailbackStep.UNDECIDED, FailbackStep.NO_WAY_BACK):
        return 0 if dry_run else UNCONFIRMED
    return unconfirmed(dry_run=dry_run) if found.pending else 0


def _show(each: FailedBack) -> None:
    from rich.text import Text

    from causeway.operate.failover import FailbackStep

    out = console()
    source = each.link.partition("->")[0]
    for name in each.created:
        out.print(f"{'would create' if each.dry_run else 'created'} {name} on {source}, empty")
    for one in each.unmirrored:
        if one.deleted:
            out.print(
                Text(f"lost: {count(one.deleted, 'offset')}", "red"),
                f"of {one.at}, before {number(one.first)}: deleted there, and never mirrored",
            )
        if not one.records:
            continue
        surely = "" if one.surely else "; some of them may be on both sides"
        out.print(
            f"only on the old source: {count(one.records, 'record')} of {one.at}, offsets "
            f"{number(one.first)} to {number(one.end - 1)}{surely}"
        )
    for at, offsets in each.gone.items():
        out.print(
            Text(f"lost: {count(offsets, 'offset')}", "red"),
            f"of {at} on {each.link.partition('->')[2]}, behind the cut: deleted there by now",
        )
    for one in each.late:
        out.print(
            Text(f"written to the old source meanwhile: {count(one.records, 'record')}", "red"),
            f"of {one.at}, between offsets {number(one.first)} and {number(one.end - 1)}",
        )
    for name in each.unfenced:
        out.print(f"{'would lift' if each.dry_run else 'lifted'} the fence of {name}")
    for at in each.lost:
        out.print(f"{at}: the old source lost records that were mirrored; they come back to it")
    if each.saved is not None:
        out.print(f"saved to {each.saved}")
    if each.step is FailbackStep.UNDECIDED:
        out.print(Text("they would never be mirrored: ", "bold red").append(_SAY))
    elif each.step is FailbackStep.NO_WAY_BACK:
        out.print(
            "the file has no link the other way; with these lines it has, and a driver of it waits "
            "until this is called again:"
        )
        for line in each.lines:
            out.print(f"  {line}")
    elif each.step is FailbackStep.BACK and each.promoted is not None:
        _would_turn(each)
    elif each.step is FailbackStep.BACK and each.dry_run and not each.begun:
        out.print(f"{each.reverse} would begin at the cut")
    elif each.step is FailbackStep.BACK:
        _back(each)
        if each.late:
            out.print(
                Text("others write there, and nothing mirrors that: ", "bold red").append(
                    f"stop them. {_SAY} before the turn round"
                )
            )
    elif each.pending:
        out.print(f"{each.link} would mirror again, and go on where it was")
    elif not each.changed:
        out.print(f"{each.link} mirrors; nothing to change")
    else:
        out.print(Text(f"{each.link} mirrors again", "bold green"))
        if each.promoted is not None:
            cuts(out, each.promoted.cuts)
            next_steps(out, each.promoted.cuts, each.promoted.target)
        elif each.reverse is None:
            out.print("it goes on where it was: what was never mirrored comes now")


def _would_turn(each: FailedBack) -> None:
    from rich.text import Text

    out = console()
    assert each.promoted is not None
    if not each.promoted.lagging:
        out.print(f"{each.reverse} would end, and {each.link} go on behind it: nothing lags")
        return
    out.print(Text(f"{each.reverse} cannot end now: not all is mirrored back", "red"))
    for one in each.promoted.lagging:
        out.print(f"  {one}")


def _back(each: FailedBack) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(f"{each.reverse} begins at the cut", "bold green"))
    if each.lag is None:
        out.print("no driver has begun with it yet: run one with this file")
    else:
        out.print(f"it mirrors back, {count(each.lag, 'record')} behind")
    out.print(
        f"next: stop the producers of {each.link.partition('->')[2]}, and call this again with "
        "--turn-round"
    )
