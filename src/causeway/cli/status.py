"""`causeway status FILE`: where every partition stands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import FileArgument, JsonOption, console, load, print_json
from causeway.cli.standing import standing
from causeway.cli.words import count, duration, number, outcomes

if TYPE_CHECKING:
    from causeway.cli.output import Output
    from causeway.operate.status import LinkStatus


def command(
    file: FileArgument,
    as_json: JsonOption = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 9 where no driver runs a flow, else with 7 where partitions are "
            "stopped or failed or no lane takes them, or topics cannot be mirrored.",
        ),
    ] = False,
) -> int:
    """Show where each mirrored partition stands, by asking the clusters alone."""
    from causeway.operate import health, status

    # It is asked often; `plan` and `run` are where a person hears about the file.
    links = status.status(load(file, quiet=True))
    if as_json:
        print_json(status.as_json(links))
    else:
        out = console()
        for place, each in enumerate(links):
            if place:
                out.print()
            _show(out, each)
    return health.verdict(links) if check else 0


def _show(out: Output, each: LinkStatus) -> None:
    from rich.table import Table
    from rich.text import Text

    topics = {one.topic for one in each.partitions}
    out.print(
        Text(each.link.name, "bold"),
        f": {count(len(topics), 'topic')}, {count(len(each.partitions), 'partition')}; "
        f"{_driver(each)}",
        sep="",
    )
    if each.partitions:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("topic", overflow="fold")
        for name in ("partition", "source end", "mirrored to", "lag", "lag in time"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("state", no_wrap=True)
        table.add_column("reason", overflow="fold")
        for one in each.partitions:
            table.add_row(
                one.topic,
                str(one.partition),
                _of(one.source_end, one.held),
                "–" if one.mirrored_to is None else number(one.mirrored_to),
                _of(one.lag_records, one.held),
                duration(one.lag_ms),
                one.state,
                one.reason or "",
            )
        out.print(table)
    for transform in each.transforms:
        done = "not begun" if transform.counts is None else outcomes(transform.counts)
        of = count(transform.partitions, "partition")
        out.print(f"transform {transform.name} ({transform.kind}), {of}: {done}")
        if transform.reason is not None:
            out.print(Text("problem", "red"), f"transform {transform.name}: {transform.reason}")
        for rule in transform.unseen:
            out.print(Text("protects nothing so far", "yellow"), f"{transform.name}: {rule}")
    for line in standing(each.asked.standing):
        out.print(line)
    if each.asked.reason is not None:
        out.print(Text("directives", "yellow"), each.asked.reason)
    for task in each.tasks:
        if task.reason is not None:
            out.print(Text("task", "red"), f"{task.name}: {task.reason}")
        for item, why in task.items.items():
            out.print(Text(task.name, "yellow"), f"{item}: {why}")
    for topic, note in each.notes:
        out.print(f"{topic}: {note}")
    for problem in each.problems:
        out.print(Text("problem", "red"), f"{problem.topic}: {problem.error}")


def _of(seen: int | None, held: int | None) -> str:
    """A figure as readers of committed data see it, and as it is once open transactions have ended,
    where that is another."""
    if seen is None or not held:
        return number(seen)
    return f"{number(seen)} of {number(seen + held)}"


def _driver(each: LinkStatus) -> str:
    if each.driver is None:
        return "no driver has run this link yet"
    seen = duration(max(0, time.time() * 1000 - each.driver.last_seen_ms))
    if each.driver.running:
        return f"driver {each.driver.owner} running, seen {seen} ago"
    return f"no running driver, the last one ({each.driver.owner}) was seen {seen} ago"
