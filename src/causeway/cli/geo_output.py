"""Options, arguments and output of the `causeway geo` commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, grid, labelled, print_json, styled
from causeway.cli.guard import warn
from causeway.cli.options import argument
from causeway.cli.words import count, driver_of, duration, moment, number, printable
from causeway.errors import CausewayError, ConfigError, NobodyLeadsError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from causeway.cli.output import Output
    from causeway.geo import Added, ChosenTopicChange, ChosenTopicStatus, Destination, Done, GeoFile

Render = Callable[[Sequence["Destination"]], "RenderableType"]
_STYLES = {"stopped": "red", "failed": "red", "missing": "red", "paused": "yellow"}
_NEVER = "no `causeway geo run` has run yet"
_RESULTS = {"add": "added", "remove": "removed", "pause": "paused", "resume": "resumed"}
_SAME = {
    "add": "was already added",
    "pause": "was already paused",
    "resume": "was not paused",
    "remove": "was not copied",
}


def _names(incomplete: str) -> list[str]:
    """Returns the completions for a shell: the destinations that this machine knows."""
    from causeway.geo import default_path, read_geo_file

    try:
        found = read_geo_file(default_path()).destinations
    except CausewayError:
        return []
    return [each.name for each in found if each.name.startswith(incomplete)]


NameArgument = Annotated[str, argument("DEST", "The destination's name.", autocompletion=_names)]
SomeArgument = Annotated[
    str | None, argument("[DEST]", "One destination. Default: all.", autocompletion=_names)
]
TopicsArgument = Annotated[list[str], argument("TOPIC…", "Names of topics on the origin.")]
NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait until a running `causeway geo run` acts.")
]


def need_destinations(found: GeoFile) -> None:
    found.known_origin()
    if not found.destinations:
        raise ConfigError(
            "geo",
            cause="this machine knows no destination",
            remedy="causeway geo destination add NAME --bootstrap host:port",
        )


def look(
    context: typer.Context,
    name: str | None,
    as_json: bool,
    render: Render,
    *,
    check: bool = False,
    lag_above: int | None = None,
) -> int:
    """Shows destinations. Returns the exit code: that of the first one that does not answer."""
    from causeway.geo import look_at, settings_of
    from causeway.status import verdict

    need_destinations(context.obj)
    seen = look_at(settings_of(context.obj.only(name)))
    if as_json:
        origin = context.obj.known_origin().as_json()
        print_json({"origin": origin, "destinations": [each.as_json() for each in seen]})
    else:
        console().print(render(seen))
    failed = [each.error for each in seen if each.error is not None]
    if failed:
        return failed[0].exit_code
    links = [each.status for each in seen if each.status is not None]
    return verdict(links, lag_above) if check else 0


def say(done: Done, as_json: bool) -> int:
    if as_json:
        print_json(done.as_json())
    else:
        show_done(console(), done)
    if done.refused is not None:
        warn([done.refused])
    return NobodyLeadsError.exit_code if done.acted is False or done.refused else 0


def show_overview(out: Output, found: GeoFile) -> None:
    """Shows origin and destinations, and the next step."""
    origin = found.origin
    if origin is None:
        out.print("No origin is known yet (the cluster whose topics are copied). Name it once:")
        out.print("  causeway geo --origin NAME=host:port [--origin-config client.properties]")
        return
    out.print(f"origin {origin.name}, {origin.bootstrap or origin.config}")
    for each in found.destinations:
        out.print(f"destination {each.name}, {each.bootstrap or each.config}")
    out.print(f"(remembered in {found.path})")
    if found.destinations:
        out.print("causeway geo topics add DEST TOPIC…   copies a topic")
        out.print("causeway geo run                      copies, on a machine that stays up")
        out.print("causeway geo status                   shows the status of each topic")
    else:
        out.print("Next: causeway geo destination add NAME --bootstrap host:port")


def show_added(out: Output, done: Added, found: GeoFile) -> None:
    origin, before = found.known_origin().name, done.before
    if before is None:
        out.print(f"{done.destination} is a destination of {origin} now (cluster {done.cluster})")
    else:
        out.print(f"{done.destination} is already a destination of {origin}, {before.by}")
    if done.topics:
        out.print(f"chosen before: {', '.join(done.topics)}")
    else:
        out.print(f"Next: causeway geo topics add {done.destination} TOPIC…")


def show_done(out: Output, what: Done) -> None:
    if what.action == "remove destination":
        out.print(f"{what.destination} is not a destination any more; the copies stay")
    if not what.topics:
        return
    out.print(f"{what.destination}: {_driver(what)}")
    table = grid("topic", f"on {what.destination}", "")
    for each in what.topics:
        table.add_row(each.topic, each.target, _result(what.action, each))
    out.print(table)


def _driver(what: Done) -> str:
    if not any(each.changed for each in what.topics) and what.action in _SAME:
        return "nothing to change"
    if what.driver is None:
        return "recorded; no `causeway geo run` runs now, the next one will act on it"
    if what.acted is None:
        return f"recorded; {what.driver} will act on it"
    if what.acted and what.refused is None:
        return f"done by {what.driver}"
    return f"recorded, but {what.driver} has not acted on it"


def _result(action: str, each: ChosenTopicChange) -> str:
    if each.changed:
        return _RESULTS.get(action, "removed")
    before = "" if each.before is None else f" {each.before.by}"
    return f"{_SAME.get(action, 'as it was')}{before}"


def destination_table(seen: Sequence[Destination]) -> RenderableType:
    table = grid("destination", "bootstrap", "topics", "driver", "added")
    for each in seen:
        bootstrap = ",".join(f"{host}:{port}" for host, port in each.link.target.bootstrap)
        text = str(each.error) if each.error is not None else driver_of(each.driver, _NEVER)
        many = "?" if each.error is not None else str(len(each.topics))
        by = "" if each.error else "no" if each.by is None else f"{each.by.by}"
        table.add_row(each.name, bootstrap, many, text, by)
    return table


def description(seen: Sequence[Destination]) -> RenderableType:
    from rich.console import Group

    lines: list[RenderableType] = []
    for each in seen:
        target = each.link.target
        lines.append(styled(each.name, "bold"))
        lines.append(labelled("bootstrap", ",".join(f"{h}:{p}" for h, p in target.bootstrap)))
        lines.append(labelled("protocol", target.protocol))
        if each.error is not None:
            lines.append(labelled("error", str(each.error), "red"))
            continue
        lines.append(labelled("cluster id", str(each.cluster)))
        lines.append(
            labelled("link", f"{each.link.name}, directives in {each.link.directives_topic}")
        )
        lines.append(labelled("added", "no, or removed" if each.by is None else each.by.by))
        lines.append(labelled("driver", driver_of(each.driver, _NEVER).removeprefix("driver ")))
        lines += _notes(each)
        lines.append(labelled("topics", str(len(each.topics))))
        if each.topics:
            lines.append(_table(each))
    return Group(*lines)


def status_table(seen: Sequence[Destination]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for place, each in enumerate(seen):
        if place:
            parts.append(styled())
        if each.error is not None:
            error = printable(str(each.error))
            parts.append(Text.assemble((each.link.name, "bold"), " ", (error, "red")))
            continue
        text = printable(f": {count(len(each.topics), 'topic')}; {driver_of(each.driver, _NEVER)}")
        parts.append(Text.assemble((each.link.name, "bold"), text))
        parts += _notes(each)
        if each.topics:
            parts.append(_table(each))
    return Group(*parts)


def _notes(each: Destination) -> Iterator[RenderableType]:
    if each.by is None:
        text = f"not a destination: causeway geo destination add {each.name} --bootstrap host:port"
        yield labelled("removed", text, "yellow")
    if each.reason is not None:
        yield labelled("driver says", each.reason, "yellow")


def _table(each: Destination) -> RenderableType:
    from rich.console import Group

    from causeway.cli.output import table

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


def _reasons(topics: Sequence[ChosenTopicStatus]) -> Iterator[RenderableType]:
    for one in topics:
        if one.paused is not None:
            yield labelled("paused", f"{one.topic} {one.paused.by}", "yellow")
            continue
        for reason in one.reasons:
            if reason != "not begun":
                yield labelled(one.state, f"{one.topic}: {reason}", _STYLES.get(one.state, ""))
