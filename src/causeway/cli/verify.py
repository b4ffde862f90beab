"""`causeway verify FILE`: compares source and target."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, load, print_json, styled, waiting, with_chosen
from causeway.cli.options import FileArgument, JsonOption, LinkOption, valued
from causeway.cli.words import count, duration, size
from causeway.errors import ConfigError

if TYPE_CHECKING:
    from causeway.cli.output import Output
    from causeway.operate.verify import Difference, Progress, Report

DIFFERENT, LEFT_OUT = 13, 14
_ROWS = 100  # the most equal partitions to list
_SHOWN = 20  # differences of a partition
_SHOW_S, _LOG_S = 0.5, 10.0  # between progress lines on a terminal, and elsewhere


def command(
    file: FileArgument,
    link: LinkOption = None,
    topic: Annotated[
        list[str] | None,
        valued("--topic", "NAME", "Only this topic, by its name on the source. Can be repeated."),
    ] = None,
    state: Annotated[
        Path | None,
        valued(
            "--state", "PATH", "File with the verified positions: the next call continues there."
        ),
    ] = None,
    throttle: Annotated[
        str | None,
        valued(
            "--throttle",
            "BYTES",
            "Limit of bytes per second read from both clusters together, such as 50MB.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        valued("--html", "PATH", "Also write the report to this file, as an HTML page."),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 14 if some records could not be compared."),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Compare the mirrored records with the source, and list each record that differs.

    Exits with 13 if a record differs. Works with and without a running driver."""
    from causeway.cli.directives import parse_rate
    from causeway.operate.verify import as_json as to_json
    from causeway.operate.verify import render, verify

    if html is not None:
        _write(html, "use", "a")  # fails before the comparison, not after it
    settings = with_chosen(load(file, quiet=True))
    with _shown() as on_progress:
        report = verify(
            settings,
            link=link,
            topics=topic,
            state=state,
            bytes_per_s=None if throttle is None else parse_rate(throttle, "--throttle"),
            on_progress=on_progress,
        )
    if as_json:
        print_json(to_json(report))
    else:
        show(console(), report)
    if html is not None:
        _write(html, "write", "w", render(report))
    if report.differs:
        return DIFFERENT
    return LEFT_OUT if strict and not report.complete else 0


def _write(path: Path, operation: str, mode: str, text: str = "") -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(operation, f"--html {path}", error.strerror or str(error)) from error


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """Yields a function that shows progress: in place on a terminal, else a line every 10 s."""
    every = _SHOW_S if sys.stderr.isatty() else _LOG_S
    due = 0.0 if sys.stderr.isatty() else time.monotonic() + every
    with waiting() as say:

        def show(progress: Progress) -> None:
            nonlocal due
            if time.monotonic() < due:
                return
            due = time.monotonic() + every
            if sys.stderr.isatty():
                say(progress_line(progress))
            else:
                print(progress_line(progress), file=sys.stderr)

        yield show


def progress_line(progress: Progress) -> str:
    if progress.looking:
        return f"comparing single records: {_do(progress.differ, 'range', 'differ')}"
    share = progress.done / progress.size if progress.size else 1.0
    text = (
        f"{min(share, 1.0):.0%} of {size(progress.size)}, {size(progress.bytes_per_s)}/s,"
        f" {count(progress.records, 'record')} agree"
    )
    if progress.eta_s is not None:
        text += f", {duration(progress.eta_s * 1000)} left"
    if progress.differ:
        text += f"; {_do(progress.differ, 'range', 'differ')}"
    return text


def show(out: Output, report: Report) -> None:
    from causeway.cli.output import table
    from causeway.operate.verify import Agreement, span

    styles: dict[str, str] = {
        Agreement.AGREES: "green",
        Agreement.IN_PART: "yellow",
        Agreement.NOT_COMPARED: "yellow",
        Agreement.DIFFERS: "red",
    }
    few = report.count(Agreement.AGREES) <= _ROWS
    rows = [one for one in report.partitions if few or one.verdict is not Agreement.AGREES]
    if rows:
        offsets = ">source offsets", ">target offsets"
        columns = ("topic", "mirror", *offsets, ">records", ">bytes", "verdict")
        cells = [
            (
                f"{one.topic}-{one.partition}",
                one.mirror,
                span(one.source_offsets),
                span(one.target_offsets),
                f"{one.records:,}",
                size(one.size),
                str(one.verdict),
            )
            for one in rows
        ]
        out.print(table(columns, cells, out.width, styles={"verdict": styles}))
    for one in rows:
        name = f"{one.topic}-{one.partition}"
        for each in one.differences[:_SHOWN]:
            out.print(styled("differs", "red"), f"{name}: {difference(each)}")
        shown = sum(each.records for each in one.differences[:_SHOWN])
        if one.different > shown:
            more = count(one.different - shown, "record")
            out.print(styled("differs", "red"), f"{name}: {more} more; --json lists up to 1,000")
        for left in one.left:
            out.print(styled("not compared", "yellow"), f"{name}: {left.text}")
    out.print(summary(report))


def summary(report: Report) -> str:
    from causeway.operate.verify import Agreement

    if not report.partitions:
        return "these flows mirror no partition, so nothing was compared"
    read = f"{count(report.records, 'record')} ({size(report.size)})"
    parts = [_do(report.count(Agreement.AGREES), "partition", "agree")]
    in_part, not_compared, differ = map(
        report.count, (Agreement.IN_PART, Agreement.NOT_COMPARED, Agreement.DIFFERS)
    )
    if in_part:
        parts.append(f"{in_part:,} in part")
    if not_compared:
        parts.append(f"{not_compared:,} not compared")
    if differ:
        parts.append(f"{differ:,} differ{'s' if differ == 1 else ''}")
    by_offset = sum(one.by_offset for one in report.partitions)
    if by_offset:
        parts.append(f"{by_offset:,} compared offset by offset")
    return f"{', '.join(parts)}; {read} are the same, in {duration(report.seconds * 1000)}"


def _do(number: int, one: str, verb: str) -> str:
    """Returns `1 range differs` or `2 ranges differ`."""
    return f"{count(number, one)} {verb}{'s' if number == 1 else ''}"


def difference(each: Difference) -> str:
    """Returns a difference in one line."""
    at = f"source offset {each.source:,}" if each.source is not None else "not from the source"
    there = f"target offset {each.target:,}"
    many = f" ({count(each.records, 'record')} from there)" if each.records > 1 else ""
    detail = f": {each.detail}" if each.detail else ""
    match each.kind.value:
        case "changed":
            return f"changed, {at}, {there}{many}{detail}"
        case "missing":
            return f"missing, {at}; expected at {there}{many}{detail}"
        case "doubled" if each.other is not None:
            return f"doubled, {at}, at target offset {each.other[1]:,} and again at {there}{many}"
        case "swapped" if each.other is not None:
            one, other = each.other
            return f"swapped, source offsets {each.source:,} and {one:,}, {there} and {other:,}"
        case kind:
            return f"{kind}, {at}, {there}{many}{detail}"
