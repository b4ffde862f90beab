"""What `causeway geo` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from causeway.cli.common import console
from causeway.cli.tables import table
from causeway.cli.words import count, duration, moment, number, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from causeway.cli.output import Output
    from causeway.geo.destination_status import Destination, TopicStanding
    from causeway.geo.destinations import Added
    from causeway.geo.local_file import Remembered
    from causeway.geo.topics import Done, Topic

Render = Callable[[Sequence["Destination"]], "RenderableType"]
_STYLES = {"stopped": "red", "failed": "red", "missing": "red", "paused": "yellow"}
_RESULTS = {"add": "added", "remove": "removed", "pause": "paused", "resume": "resumed"}
_SAME = {
    "add": "was added already",
    "pause": "was paused already",
    "resume": "was not paused",
    "remove": "was not copied",
}


def situation(out: Output, found: Remembered) -> None:
    """What is remembered, and what to do next."""
    origin = found.origin
    if origin is None:
        out.print(
            "No origin is known yet: the cluster whose topics are to be copied. Name it once:"
        )
        out.print("  causeway geo --origin NAME=host:port [--origin-config client.properties]")
        return
    out.print(f"origin {origin.name}, {origin.bootstrap or origin.config}")
    for each in found.destinations:
        out.print(f"destination {each.name}, {each.bootstrap or each.config}")
    out.print(f"(remembered in {found.path})")
    if found.destinations:
        out.print("causeway geo topics add DEST TOPIC…   has a topic copied")
        out.print("causeway geo run                      copies, on a machine that stays up")
        out.print("causeway geo status                   how far each topic is")
    else:
        out.print("Next: causeway geo destination add NAME --bootstrap host:port")


def added(out: Output, done: Added, found: Remembered) -> None:
    origin, before = found.known_origin().name, done.before
    if before is None:
        out.print(f"{done.destination} is a destination of {origin} now (cluster {done.cluster})")
    else:
        out.print(f"{done.destination} is a destination of {origin} already, {before.by}")
    if done.topics:
        out.print(f"chosen before: {', '.join(done.topics)}")
    else:
        out.print(f"Next: causeway geo topics add {done.destination} TOPIC…")


def done(out: Output, what: Done) -> None:
    from rich.table import Table

    if what.action == "remove destination":
        out.print(f"{what.destination} is no destination any more; what is there stays")
    if not what.topics:
        return
    out.print(f"{what.destination}: {_driver(what)}")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("topic", overflow="fold")
    table.add_column(f"on {what.destination}", overflow="fold")
    table.add_column("", overflow="fold")
    for each in what.topics:
        table.add_row(each.topic, each.target, _result(what.action, each))
    out.print(table)


def _driver(what: Done) -> str:
    if not any(each.changed for each in what.topics) and what.action in _SAME:
        return "nothing to change"
    if what.driver is None:
        return "noted; no `causeway geo run` is at it now, the next one will act on it"
    if what.acted is None:
        return f"noted; {what.driver} will act on it"
    if what.acted and what.refused is None:
        return f"done by {what.driver}"
    return f"noted, but {what.driver} has not acted on it"


def _result(action: str, each: Topic) -> str:
    if each.changed:
        return _RESULTS.get(action, "removed")
    before = "" if each.before is None else f" {each.before.by}"
    return f"{_SAME.get(action, 'as it was')}{before}"


def destinations(seen: Sequence[Destination]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("destination", "bootstrap", "topics", "driver", "added"):
        table.add_column(name, overflow="fold")
    for each in seen:
        bootstrap = ",".join(f"{host}:{port}" for host, port in each.link.target.bootstrap)
        said = str(each.error) if each.error is not None else driver_of(each)
        many = "?" if each.error is not None else str(len(each.topics))
        by = "" if each.error else "no" if each.by is None else f"{each.by.by}"
        table.add_row(each.name, bootstrap, many, said, by)
    return table


def described(seen: Sequence[Destination]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    lines: list[RenderableType] = []
    for each in seen:
        target = each.link.target
        lines.append(Text(each.name, "bold"))
        lines.append(_line("bootstrap", ",".join(f"{h}:{p}" for h, p in target.bootstrap)))
        lines.append(_line("protocol", target.protocol))
        if each.error is not None:
            lines.append(_line("error", str(each.error), "red"))
            continue
        lines.append(_line("cluster id", str(each.cluster)))
        lines.append(_line("link", f"{each.link.name}, directives in {each.link.directives_topic}"))
        lines.append(_line("added", "no, or removed" if each.by is None else each.by.by))
        lines.append(_line("driver", driver_of(each).removeprefix("driver ")))
        lines += _notes(each)
        lines.append(_line("topics", str(len(each.topics))))
        if each.topics:
            lines.append(_table(each))
    return Group(*lines)


def standing(seen: Sequence[Destination]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for place, each in enumerate(seen):
        if place:
            parts.append(Text())
        if each.error is not None:
            error = printable(str(each.error))
            parts.append(Text.assemble((each.link.name, "bold"), " ", (error, "red")))
            continue
        said = printable(f": {count(len(each.topics), 'topic')}; {driver_of(each)}")
        parts.append(Text.assemble((each.link.name, "bold"), said))
        parts += _notes(each)
        if each.topics:
            parts.append(_table(each))
    return Group(*parts)


def _notes(each: Destination) -> Iterator[RenderableType]:
    if each.by is None:
        text = f"no destination: causeway geo destination add {each.name} --bootstrap host:port"
        yield _line("removed", text, "yellow")
    if each.reason is not None:
        yield _line("driver says", each.reason, "yellow")


def _table(each: Destination) -> RenderableType:
    from rich.console import Group

    columns = ("topic", f"on {each.name}", "state", ">behind", ">in time", "~chosen")
    rows = [
        (
            one.topic,
            one.target,
            one.state,
            number(one.lag_records),
            duration(one.lag_ms),
            f"{one.by.who} {moment(one.by.at)}" + (f": {one.by.why}" if one.by.why else ""),
        )
        for one in each.topics
    ]
    found = table(columns, rows, console().width, styles={"state": _STYLES})
    return Group(found, *_reasons(each.topics))


def _reasons(topics: Sequence[TopicStanding]) -> Iterator[RenderableType]:
    for one in topics:
        if one.paused is not None:
            yield _line("paused", f"{one.topic} {one.paused.by}", "yellow")
            continue
        for reason in one.reasons:
            if reason != "not begun":
                yield _line(one.state, f"{one.topic}: {reason}", _STYLES.get(one.state, ""))


def driver_of(each: Destination) -> str:
    """Who copies, in words."""
    import time

    if each.driver is None:
        return "no `causeway geo run` has been at it yet"
    seen = duration(max(0, time.time() * 1000 - each.driver.last_seen_ms))
    if each.driver.running:
        return f"driver {each.driver.owner} running, seen {seen} ago"
    return f"no running driver, the last one ({each.driver.owner}) was seen {seen} ago"


def _line(kind: str, text: str, style: str = "") -> RenderableType:
    from rich.text import Text

    return Text.assemble((printable(kind), style), " ", printable(text))
