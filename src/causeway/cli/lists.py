"""`causeway topics | groups | lanes | events FILE`: a line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from causeway.cli.common import console, load, print_json
from causeway.cli.guard import complain
from causeway.cli.options import FileArgument, JsonOption, LinkOption
from causeway.cli.status import WIDE
from causeway.cli.words import count, duration, moment, number, size

if TYPE_CHECKING:
    from causeway.operate.explain import Explanation
    from causeway.operate.listing import EventLine, Listed
    from causeway.status import TopicStatus

T = TypeVar("T")

MatchOption = Annotated[
    str,
    typer.Option(
        "--match", metavar="TEXT", help="Part of the name, in any case.", show_default=False
    ),
]
StateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help="With a partition in this state, such as stopped; may be said again.",
        show_default=False,
    ),
]


def topics(
    file: FileArgument,
    match: MatchOption = "",
    state: StateOption = None,
    link: LinkOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the topics that are mirrored, with lag, states and reasons, by the clusters alone."""
    from causeway.operate import listing

    found = listing.topics(load(file, quiet=True), link=link, match=match, states=state or ())
    if as_json:
        return _print_json("topics", found, listing.topic_json)
    columns = ("link", "topic", "to", ">partitions", ">lag", ">lag in time", "state", "~reason")
    _table(columns, [_topic(one) for one in found.lines], "topic")
    return _unasked(found)


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
        typer.Option(
            "--code",
            metavar="CODE",
            help="Such as synced, not-yet, has-members or excluded; may be said again.",
            show_default=False,
        ),
    ] = None,
    link: LinkOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the source's consumer groups, and whether their offsets are carried over or why not."""
    from causeway.operate import listing
    from causeway.operate.explain import as_json_of

    found = listing.groups(load(file, quiet=True), link=link, match=match, codes=code or ())
    if as_json:
        return _print_json("groups", found, as_json_of)
    _table(("link", "group", "code", "~answer"), [_group(one) for one in found.lines], "group")
    for text in dict.fromkeys(each for one in found.lines for each in one.unknown):
        console().print(f"not known: {text}")
    return _unasked(found)


def _group(one: Explanation) -> tuple[str, ...]:
    return one.link, one.name, one.code, one.answer


def lanes(file: FileArgument, as_json: JsonOption = False) -> int:
    """List the lanes of the driver on this machine, which alone knows them (exit code 9 where none
    answers)."""
    from causeway.operate.listing import items

    found = items(load(file, quiet=True), "lanes")
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
        typer.Option(
            "--match", metavar="TEXT", help="Part of what is said, in any case.", show_default=False
        ),
    ] = "",
    level: Annotated[
        list[str] | None,
        typer.Option(
            "--level",
            metavar="LEVEL",
            help="info, warning or error; may be said again.",
            show_default=False,
        ),
    ] = None,
    link: LinkOption = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="The newest so many.")
    ] = 50,
    as_json: JsonOption = False,
) -> int:
    """List what has happened, as the leading drivers noted it on the targets, the newest last."""
    from causeway.operate import listing

    found = listing.events(
        load(file, quiet=True), link=link, match=match, levels=level or (), limit=limit
    )
    if as_json:
        return _print_json("events", found, listing.event_json)
    columns = ("time", "level", "link", "event", "~about")
    _table(columns, [_event(one) for one in found.lines], "event")
    return _unasked(found)


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


def _unasked(found: Listed[Any]) -> int:
    """Says which links are not in the list, and why."""
    for link, error in found.errors:
        complain(f"{link}: {error}")
    return _code(found)


def _code(found: Listed[Any]) -> int:
    return next((error.exit_code for _, error in found.errors), 0)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], what: str) -> None:
    """On a narrow screen, the reasons follow below the table."""
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
