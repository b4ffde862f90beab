"""`causeway failback FILE`: restores a link after a failover, once the old source is back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import (
    console,
    labelled,
    load,
    print_json,
    styled,
    waiting,
    with_chosen,
)
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
    valued,
)
from causeway.cli.words import count, number
from causeway.errors import ConfigError, PartitionsFailedError

if TYPE_CHECKING:
    from causeway.cli.output import Output
    from causeway.operate.failover import FailedBack

_CHOICES = "give --save PATH, --save-topic TOPIC, or --drop-unmirrored, with --yes"


def command(
    file: FileArgument,
    link: LinkOption = None,
    topic: TopicOption = None,
    save: Annotated[
        Path | None,
        valued(
            "--save",
            "PATH",
            "Save the records that were never mirrored to this file, as JSON lines.",
        ),
    ] = None,
    save_topic: Annotated[
        str | None,
        valued("--save-topic", "TOPIC", "Write these records to this topic on the target."),
    ] = None,
    drop_unmirrored: Annotated[
        bool,
        typer.Option(
            "--drop-unmirrored", help="Do not save these records; they stay on the old source."
        ),
    ] = False,
    refill: Annotated[
        bool,
        typer.Option(
            "--refill",
            help="If topics cannot keep their offsets as they are: delete them on the old source,"
            " and fill them again with the same offsets.",
        ),
    ] = False,
    translate: Annotated[
        bool,
        typer.Option(
            "--translate",
            help="If topics cannot keep their offsets as they are: keep their records, and"
            " translate offsets from now on.",
        ),
    ] = False,
    create_topics: Annotated[
        bool,
        typer.Option(
            "--create-topics",
            help="Create the topics that are missing on the old source, as on the target. For a"
            " source cluster that was rebuilt.",
        ),
    ] = False,
    yes: YesOption = False,
    turn_round: Annotated[
        bool,
        typer.Option(
            "--turn-round",
            help="End the reverse link and mirror in the original direction. First stop the"
            " producers on the target.",
        ),
    ] = False,
    reason: ReasonOption = None,
    dry_run: DryRunOption = False,
    timeout: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Resume a link that was failed over or promoted, without a new copy of its topics.

    First the reverse link starts at the cutover offsets; a driver of this file mirrors it. After
    the producers on the target have stopped, a call with --turn-round ends the reverse link, and
    this link continues. Without --yes, a call shows what it would do. Each call continues where the
    last one ended.
    """
    from causeway.operate.failover import (
        FailbackStep,
        Keep,
        Otherwise,
        failback,
        failed_back_json,
    )

    if refill and translate:
        cause = "one deletes topics, the other keeps them"
        raise ConfigError("fail back", "--refill and --translate", cause, remedy="give one")
    otherwise = Otherwise.REFILL if refill else Otherwise.TRANSLATE if translate else None
    settings = with_chosen(load(file, quiet=True))
    with waiting() as say:
        found = failback(
            settings,
            link=link,
            topic=topic,
            keep=Keep(path=save, topic=save_topic, drop=drop_unmirrored),
            otherwise=otherwise,
            create_topics=create_topics,
            turn_round=turn_round,
            dry_run=dry_run or not yes,
            reason=reason,
            wait_s=timeout,
            say=say,
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
    from causeway.operate.failover import FailbackStep

    out = console()
    source, _, target = each.link.partition("->")
    for name in each.created:
        out.print(f"{'would create' if each.dry_run else 'created'} {name} on {source}, empty")
    for one in each.unmirrored:
        if one.deleted:
            said = f"of {one.at}, before {number(one.first)}: deleted before they were mirrored"
            out.print(labelled(f"lost: {count(one.deleted, 'offset')}", said, "red"))
        if one.records:
            surely = "" if one.surely else "; some of them may be on both clusters"
            records = f"{count(one.records, 'record')} of {one.at}"
            offsets = f"offsets {number(one.first)} to {number(one.end - 1)}"
            out.print(f"only on the old source: {records}, {offsets}{surely}")
    for at, lost in each.gone.items():
        said = f"of {at} on {target}, after the cutover offsets: deleted"
        out.print(labelled(f"lost: {count(lost, 'offset')}", said, "red"))
    for one in each.late:
        what = f"written to the old source since the failover: {count(one.records, 'record')}"
        said = f"of {one.at}, between offsets {number(one.first)} and {number(one.end - 1)}"
        out.print(labelled(what, said, "red"))
    for name in each.unfenced:
        out.print(f"{'would lift' if each.dry_run else 'lifted'} the fence of {name}")
    for at in each.lost:
        out.print(f"{at}: the old source lost mirrored records; the reverse link copies them back")
    if each.saved is not None:
        out.print(f"saved to {each.saved}")
    _show_offsets(out, each, source)
    if each.step is FailbackStep.UNDECIDED:
        if each.unmirrored or each.late:
            out.print(labelled("these records would never be mirrored:", _CHOICES, "bold red"))
    elif each.step is FailbackStep.NO_WAY_BACK:
        out.print(
            "the file has no reverse link; add these lines, start a driver of the file, and repeat "
            "the command:"
        )
        for line in each.lines:
            out.print(f"  {line}")
    elif each.step is FailbackStep.BACK:
        _show_reverse(out, each, target)
    elif each.pending:
        out.print(f"{each.link} would mirror again, from its position")
    elif not each.changed:
        out.print(f"{each.link} mirrors; nothing to change")
    else:
        out.print(styled(f"{each.link} mirrors again", "bold green"))
        if each.promoted is not None:
            cuts(out, each.promoted.cuts)
            next_steps(out, each.promoted.cuts, each.promoted.target)
        elif each.reverse is None:
            out.print("it continues at its position, with the records that were never mirrored")


def _show_offsets(out: Output, each: FailedBack, source: str) -> None:
    """Prints which topics keep their offsets, and why others cannot."""
    for at, offsets in each.keeps.beyond.items():
        out.print(f"{at}: its log on {source} goes {count(offsets, 'offset')} beyond the cutover")
    again = f"{count(each.again, 'offset')} are copied again"
    for name in each.refilled:
        done = "was deleted" if each.changed else "would be deleted"
        out.print(f"{name} {done} on {source}, and is filled again with the same offsets: {again}")
    for name in each.translated:
        out.print(f"{name} does not keep its offsets: they are translated from here on")
    if blocked := sorted(each.keeps.blocked.difference(each.refilled, each.translated)):
        what = f"{', '.join(blocked)} cannot keep its offsets as it is:"
        them, their = "it", "its"
        if len(blocked) > 1:
            what = f"{', '.join(blocked)} cannot keep their offsets as they are:"
            them, their = "them", "their"
        why = "stock Kafka cannot cut the end of a log"
        if not each.keeps.beyond:
            why = "the target has deleted the records right behind the cutover"
        out.print(labelled(what, why, "bold red"))
        deletes = f"--refill deletes {them} on {source}, and fills {them} with the same offsets"
        out.print(f"  {deletes}: {again}")
        out.print(f"  --translate keeps {their} records, and translates offsets from here on")
    elif each.keeps.topics and not (each.refilled or each.translated):
        out.print("offsets stay the same, and nothing is copied again")


def _show_reverse(out: Output, each: FailedBack, target: str) -> None:
    if each.promoted is not None and each.promoted.lagging:
        what = f"{each.reverse} cannot end now: some records are not mirrored back"
        out.print(styled(what, "red"))
        for one in each.promoted.lagging:
            out.print(f"  {one}")
    elif each.promoted is not None:
        out.print(f"{each.reverse} would end, and {each.link} would continue: nothing lags")
    elif each.dry_run and not each.begun:
        out.print(f"{each.reverse} would start at the cutover offsets")
    else:
        out.print(styled(f"{each.reverse} starts at the cutover offsets", "bold green"))
        if each.lag is None:
            out.print("no driver mirrors it yet: start one with this file")
        else:
            out.print(f"it mirrors back, {count(each.lag, 'record')} behind")
        out.print(f"next: stop the producers of {target}, and repeat the command with --turn-round")
        if each.late:
            said = f"stop them. {_CHOICES} before --turn-round"
            what = "producers write there, and no link mirrors it:"
            out.print(labelled(what, said, "bold red"))
