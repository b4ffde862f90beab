"""`causeway topics | groups | lanes | events FILE`: one line for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from causeway.cli.common import console, load, print_json, with_chosen
from causeway.cli.guard import complain
from causeway.cli.options import FileArgument, JsonOption, LinkOption, valued
from causeway.cli.status import WIDE
from causeway.cli.words import count, duration, moment, number, size

if TYPE_CHECKING:
    from causeway.operate.listing import EventLine, Listed
    from causeway.status import TopicStatus

T = TypeVar("T")

MatchOption = Annotated[
    str,
    valued("--match", "TEXT", "Part of the name; upper and lower case are the same."),
]
StateOption = Annotated[
    list[str] | None,
    valued(
        "--state", "STATE", "Only with a partition in this state, such as stopped. Can be repeated."
    ),
]


def topics(
    file: FileArgument,
    match: MatchOption = "",
    state: StateOption = None,
    link: LinkOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the mirrored topics with lag, states and reasons. Reads the clusters only."""
    from causeway.operate import listing

    settings = with_chosen(load(file, quiet=True))
    found = listing.topics(settings, link=link, match=match, states=state or ())
    if as_json:
        return _print_json("topics", found, listing.topic_json)
    columns = ("link", "topic", "to", ">partitions", ">lag", ">lag in time", "state", "~reason")
    _table(columns, [_topic(one) for one in found.lines], "topic")
    return _complain(found)


def _topic(one: TopicStatus) -> tuple[str, ...]:
    to = one.target_topic or "–"
    states = ", ".join(f"{many} {each}" for each, many in one.states.items())
    if len(one.states) == 1:
        states = next(iter(one.states))
    return (
        one.link,
        one.topic,
        to if one.transform is None else f"{to} ({one.transform})",
        number(one.partitions),
        number(one.lag_records),
        duration(one.lag_ms),
        states,
        next(iter(one.reasons), ""),
    )


def groups(
    file: FileArgument,
    match: MatchOption = "",
    code: Annotated[
        list[str] | None,
        valued(
            "--code",
            "CODE",
            "Only this code, such as synced, not-yet or has-members. Can be repeated.",
        ),
    ] = None,
    link: LinkOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the consumer groups of the source, and whether their offsets are synced or why not."""
    from causeway.operate import listing
    from causeway.operate.explain import as_json_of

    settings = with_chosen(load(file, quiet=True))
    found = listing.groups(settings, link=link, match=match, codes=code or ())
    if as_json:
        return _print_json("groups", found, as_json_of)
    _table(
        ("link", "group", "code", "~answer"),
        [(one.link, one.name, one.code, one.answer) for one in found.lines],
        "group",
    )
    for text in dict.fromkeys(each for one in found.lines for each in one.unknown):
        console().print(f"not known: {text}")
    return _complain(found)


def lanes(file: FileArgument, as_json: JsonOption = False) -> int:
    """List the lanes of the driver on this machine. Exits with 9 if no driver answers."""
    from causeway.operate import listing

    found = listing.lanes(load(file, quiet=True))
    if as_json:
        print_json({"lanes": found})
        return 0
    columns = (">lane", "host", ">pid", ">partitions", ">bytes/s", ">memory", ">CPU")
    _table(columns, [_lane(one) for one in found], "lane")
    return 0


def _lane(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(one["lane"]),
        str(one["host"]),
        str(one["pid"]),
        number(one["partitions"]),
        f"{size(one['bytes_per_s'])}/s",
        size(one["rss_bytes"]),
        duration(1000 * one["cpu_s"]),
    )


def events(
    file: FileArgument,
    match: Annotated[
        str,
        valued("--match", "TEXT", "Part of the text; upper and lower case are the same."),
    ] = "",
    level: Annotated[
        list[str] | None,
        valued("--level", "LEVEL", "Only info, warning or error. Can be repeated."),
    ] = None,
    link: LinkOption = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Number of events.")
    ] = 50,
    as_json: JsonOption = False,
) -> int:
    """List the events that the leading drivers wrote to the targets, the newest last."""
    from causeway.operate import listing

    found = listing.events(
        load(file, quiet=True), link=link, match=match, levels=level or (), limit=limit
    )
    if as_json:
        return _print_json("events", found, listing.event_json)
    columns = ("time", "level", "link", "event", "~about")
    _table(columns, [_event(one) for one in found.lines], "event")
    return _complain(found)


def _event(one: EventLine) -> tuple[str, ...]:
    event = one.event
    about = "; ".join(f"{name} {value}" for name, value in event.about.items())
    return moment(event.at), event.level, one.link, event.event, about


def _print_json(what: str, found: Listed[T], to_json: Callable[[T], Any]) -> int:
    print_json(
        {
            what: [to_json(one) for one in found.lines],
            "errors": [{"link": link, "error": str(error)} for link, error in found.errors],
        }
    )
    return _code(found)


def _complain(found: Listed[Any]) -> int:
    """Reports the links that did not answer. Returns the exit code."""
    for link, error in found.errors:
        complain(f"{link}: {error}")
    return _code(found)


def _code(found: Listed[Any]) -> int:
    return next((error.exit_code for _, error in found.errors), 0)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], what: str) -> None:
    """Prints a table and the number of its rows. On a narrow screen, reasons follow the table."""
    from causeway.cli.output import table

    out = console()
    below: list[str] = []
    if columns[-1] == "~reason" and out.width < WIDE:
        below = [f"{row[1]}: {row[-1]}" for row in rows if row[-1]]
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    if rows:
        out.print(table(columns, rows, out.width))
    for line in below:
        out.print(line)
    out.print(count(len(rows), what))
