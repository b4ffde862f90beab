"""`causeway try FILE --topic T`: records before and after a transform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import (
    console,
    load,
    parse_timestamp,
    print_json,
    styled,
    waiting,
    with_chosen,
)
from causeway.cli.options import FileArgument, JsonOption
from causeway.cli.words import count, printable
from causeway.errors import PartitionsFailedError

if TYPE_CHECKING:
    from rich.text import Text

    from causeway.cli.output import Output
    from causeway.operate.try_transform import Content, Decoded, Trial, Tried

_PIPED = 1000  # columns; a terminal has less
_LINES = 4  # of a terminal, for each value


def command(
    file: FileArgument,
    topic: Annotated[
        str, typer.Option("--topic", metavar="TOPIC", help="The topic, by its name on the source.")
    ],
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="Number of records.")
    ] = 20,
    link: Annotated[
        str | None,
        typer.Option(
            "--link",
            metavar="A->B",
            help="The flow. Needed if several flows have a transform for the topic.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIMESTAMP",
            help="The first records of this time or later (ISO 8601, or ms since 1970; 0: the start"
            " of the topic). Default: the newest records.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Show records of a topic before and after its transform. Writes nothing; needs no target.

    Exits with 7 if a record is refused or the query fails.
    """
    from causeway.operate.try_transform import TrialOutcome, try_out
    from causeway.operate.try_transform import as_json as to_json

    settings = with_chosen(load(file))
    since = None if start is None else parse_timestamp(start)
    with waiting() as on_step:
        trial = try_out(settings, topic, limit=limit, on_step=on_step, link=link, start=since)
    if as_json:
        print_json(to_json(trial))
    else:
        _show(console(), trial)
    wrong = (TrialOutcome.REFUSED, TrialOutcome.FAILS)
    bad = any(one.outcome in wrong for one in trial.records)
    return PartitionsFailedError.exit_code if bad else 0


def _show(out: Output, trial: Trial) -> None:
    from rich import box
    from rich.table import Table

    if trial.transform is None:
        out.print(f"{trial.link.name} has no transform for {trial.topic}: it {_as_is(trial)}")
        return
    transform = trial.transform
    out.print(
        styled(f"{trial.link.name} {trial.topic}", "bold"),
        f": transform {transform.name} ({transform.kind}), {_summary(trial)}",
        sep="",
    )
    if not trial.records:
        return
    table = Table(box=box.SIMPLE, padding=(0, 1), show_lines=True)
    table.add_column("record", overflow="fold")
    table.add_column("before", overflow="fold", ratio=1)
    table.add_column("after", overflow="fold", ratio=1)
    wide = (out.width - 24) // 2 * _LINES if out.width < _PIPED else None
    for one in trial.records:
        table.add_row(
            styled(f"{one.at.partition}:{one.offset}"), _before(one, wide), _after(trial, one, wide)
        )
    out.print(table)


def _as_is(trial: Trial) -> str:
    decision = trial.link.decide_topic(trial.topic)
    return "is mirrored unchanged" if decision.mirrored else f"is not mirrored, {decision.reason}"


def _summary(trial: Trial) -> str:
    from collections import Counter

    found = Counter(one.outcome for one in trial.records)
    parts = [count(len(trial.records), "record")]
    parts += [f"{number} {outcome}" for outcome, number in found.items()]
    return ", ".join(parts)


def _before(one: Tried, wide: int | None) -> Text:
    return styled("?", "dim") if one.before is None else _lines(one.before, None, wide)


def _after(trial: Trial, one: Tried, wide: int | None) -> Text:
    from causeway.operate.try_transform import TrialOutcome, target_topic

    match one.outcome:
        case TrialOutcome.DROPPED:
            return styled("dropped", "yellow")
        case TrialOutcome.REFUSED | TrialOutcome.FAILS:
            return styled(f"{one.outcome}: {printable(one.reason or '')}", "red")
        case TrialOutcome.SAME:
            return styled("unchanged", "dim")
    text = styled()
    for number, made in enumerate(one.after):
        if number:
            text.append("\n")
        if made.topic is not None or made.partition is not None:
            place = "" if made.partition is None else f"-{made.partition}"
            text.append(f"→ {target_topic(trial, made)}{place}\n", "cyan")
        text.append_text(_lines(made, one.before, wide))
    return text


def _lines(content: Content, before: Content | None, wide: int | None) -> Text:
    """Returns the parts of a record. Parts that differ from `before` are bold."""
    text = styled()
    parts = [("key", content.key, before and before.key)]
    parts.append(("value", content.value, before and before.value))
    for place, (name, data, was) in enumerate(parts):
        if place:
            text.append("\n")
        text.append(f"{name} ", "dim")
        decoded = content.decoded.get(name)
        if decoded is not None:
            text.append(f"(schema {decoded.schema}) ", "dim")
        style = "bold" if before is not None and data != was else ""
        text.append(_shown(data, wide, decoded), style)
    if content.headers or (before and before.headers):
        text.append("\nheaders ", "dim")
        shown = ", ".join(
            f"{printable(name)}={_shown(data, wide)}" for name, data in content.headers
        )
        differs = before is not None and content.headers != before.headers
        text.append(shown or "none", "bold" if differs else "")
    if before is not None and content.timestamp != before.timestamp:
        text.append("\ntimestamp ", "dim")
        text.append(str(content.timestamp), "bold")
    return text


def _shown(data: bytes | None, wide: int | None, decoded: Decoded | None = None) -> str:
    if data is None:
        return "null"
    try:
        text = printable(data.decode() if decoded is None else decoded.json)
    except UnicodeDecodeError:
        text = f"0x{data.hex()}"
    return text if wide is None or len(text) <= wide else f"{text[: wide - 1]}…"
