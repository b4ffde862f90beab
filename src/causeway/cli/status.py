"""`causeway status FILE`: the state of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, labelled, load, print_json, styled, with_chosen
from causeway.cli.directives import directive_lines
from causeway.cli.options import (
    FileArgument,
    JsonOption,
    LagAboveOption,
    LinkOption,
    TopicOption,
    checked_once,
)
from causeway.cli.watch import EVERY_S, EveryOption, WatchOption, watch
from causeway.cli.words import (
    count,
    driver_of,
    duration,
    number,
    outcomes,
    printable,
    with_and_without,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from causeway.status import LinkStatus, PartitionStatus


WIDE = 120  # characters; on a narrower screen, reasons follow the table
_NEVER = "no driver has run this link yet"
_OTHER_LINES = 8  # of a screen, without partitions
_COLUMNS = ("topic", ">partition", ">source end", ">mirrored to", ">lag", ">lag in time", "state")
_OMITTED = ("source end",)  # it is `mirrored to` plus `lag`


def command(
    file: FileArgument,
    link: LinkOption = None,
    topic: TopicOption = None,
    as_json: JsonOption = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 9 if no driver runs a flow, else with 7 if partitions are stopped, "
            "failed, held by a promotion or without a lane, or if topics cannot be mirrored, else "
            "with 11 if a partition lags by more than --lag-above.",
        ),
    ] = False,
    lag_above: LagAboveOption = None,
    watched: WatchOption = False,
    every: EveryOption = EVERY_S,
) -> int:
    """Show the position, lag and state of each mirrored partition. Reads the clusters only.

    A link is unknown if its target does not answer: the exit code is 3 then."""
    from causeway.operate import listing
    from causeway.status import as_json as status_json
    from causeway.status import unasked, verdict

    checked_once("status", check=check, lag_above=lag_above, watched=watched)
    # `status` is called often; `plan` and `run` report warnings about the file.
    settings = with_chosen(load(file, quiet=True))
    if watched:
        out = console()
        room = out.height - _OTHER_LINES if out.is_terminal else None
        return watch(
            lambda: listing.narrowed(settings, link, topic),
            lambda links: render(worst_first(links, room), out.width),
            status_json,
            every,
            as_json=as_json,
        )
    links = listing.narrowed(settings, link, topic)
    if as_json:
        print_json(status_json(links))
    else:
        out = console()
        out.print(render(links, out.width))
    return verdict(links, lag_above) if check else unasked(links)


def worst_first(links: Sequence[LinkStatus], room: int | None) -> list[LinkStatus]:
    """Returns the links unchanged if `room` lines suffice (None: unlimited). Otherwise partitions
    with the worst state and the largest lag come first, because a screen cuts off the rest."""
    if room is None or sum(map(_lines, links)) <= room:
        return list(links)
    ordered = [tuple(sorted(each.partitions, key=_urgency)) for each in links]
    return [replace(each, partitions=some) for each, some in zip(links, ordered, strict=True)]


def _lines(each: LinkStatus) -> int:
    """Returns the most lines of a link: on a narrow screen, each topic has its own line."""
    return len(each.partitions) + len({one.topic for one in each.partitions})


def _urgency(one: PartitionStatus) -> tuple[int, int]:
    from causeway.status import rank

    return rank(one.state), -(one.lag_records or 0)


def render(links: Sequence[LinkStatus], width: int) -> RenderableType:
    """Shows all links, one below the other, in `width` columns."""
    from rich.console import Group

    parts: list[RenderableType] = []
    for place, each in enumerate(links):
        if place:
            parts.append(styled())
        parts += _parts(each, width)
    return Group(*parts)


def _parts(each: LinkStatus, width: int) -> Iterator[RenderableType]:
    from rich.text import Text

    from causeway.status import SOURCE_UNAVAILABLE, UNKNOWN

    if each.error is not None:
        yield Text.assemble(
            (each.name, "bold"), ": ", (UNKNOWN, "red"), " ", printable(str(each.error))
        )
        return
    topics = {one.topic for one in each.partitions}
    many = f"{count(len(topics), 'topic')}, {count(len(each.partitions), 'partition')}"
    head = f": {many}; {driver_of(each.driver, _NEVER)}"
    yield Text.assemble((each.name, "bold"), printable(head))
    if each.unavailable is not None:
        yield Text.assemble((SOURCE_UNAVAILABLE, "red"), " ", printable(each.unavailable))
    if each.partitions:
        yield from _partitions(each, width)
    for step in each.treatments:
        yield labelled("", f"each record is {step.text}")
    for transform in each.transforms:
        done = "not started" if transform.counts is None else outcomes(transform.counts)
        of = count(transform.partitions, "partition")
        yield labelled("", f"transform {transform.name} ({transform.kind}), {of}: {done}")
        for trouble in transform.troubles:
            yield labelled("problem", f"transform {transform.name}: {trouble}", "red")
        for counted in transform.rules:
            style = "yellow" if counted.missing else ""
            yield labelled("rule", f"{transform.name}: {with_and_without(counted)}", style)
        for rule in transform.unseen:
            yield labelled("protects nothing so far", f"{transform.name}: {rule}", "yellow")
    yield from directive_lines(each.directives)
    if each.directives_reason is not None:
        yield labelled("directives", each.directives_reason, "yellow")
    for task in each.tasks:
        if task.reason is not None:
            yield labelled("task", f"{task.name}: {task.reason}", "red")
        if task.figures:
            figures = ", ".join(f"{number} {name}" for name, number in task.figures.items())
            yield labelled("", f"{task.name}: {figures}")
        for item, why in task.items.items():
            yield labelled(task.name, f"{item}: {why}", "yellow")
    for topic, note in each.notes:
        yield labelled("", f"{topic}: {note}")
    for problem in each.problems:
        yield labelled("problem", f"{problem.topic}: {problem.reason}", "red")


def _partitions(each: LinkStatus, width: int) -> Iterator[RenderableType]:
    """Shows a row for each partition. The reasons are a column if there is room; otherwise they
    follow the table."""
    from causeway.cli.output import fits, table

    rows = [
        (
            one.topic,
            str(one.partition),
            _of(one.source_end, one.held_records),
            "–" if one.mirrored_to is None else number(one.mirrored_to),
            _of(one.lag_records, one.held_records),
            duration(one.lag_ms),
            f"{one.state}, preserving" if one.preserving else str(one.state),
        )
        for one in each.partitions
    ]
    reasons = [(*row, one.reason or "") for row, one in zip(rows, each.partitions, strict=True)]
    if width >= WIDE and fits((*_COLUMNS, "~reason"), reasons, width):
        yield table((*_COLUMNS, "~reason"), reasons, width)
        return
    yield table(_COLUMNS, rows, width, spared=_OMITTED)
    shown_below = [one.by for one in each.directives]  # once for each scope
    yield from _reasons(
        one
        for one in each.partitions
        if one.state != "paused" or (one.reason or "").removeprefix("paused ") not in shown_below
    )


def _reasons(partitions: Iterable[PartitionStatus]) -> Iterator[RenderableType]:
    """Returns one line for all partitions of a topic with the same reason."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in partitions:
        if one.reason:
            key = one.topic, one.state, one.reason
            alike.setdefault(key, []).append(str(one.partition))
    for (topic, state, reason), numbers in alike.items():
        yield labelled(state, f"{topic} {', '.join(numbers)}: {reason}", "yellow")


def _of(seen: int | None, held: int | None) -> str:
    """Returns a number as consumers of committed records see it, and the number after the end of
    open transactions if that differs."""
    if seen is None or not held:
        return number(seen)
    return f"{number(seen)} of {number(seen + held)}"
