"""`causeway geo topics`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli import geo_show as show
from causeway.cli.commands import command
from causeway.cli.common import JsonOption, console, print_json, waiting
from causeway.cli.geo_common import (
    NameArgument,
    NoWaitOption,
    ReasonOption,
    SomeArgument,
    TimeoutOption,
    TopicsArgument,
    look,
    say,
)

if TYPE_CHECKING:
    from causeway.geo.topics import Done

app = typer.Typer(name="topics", no_args_is_help=True, help="Topics that are copied.")


@command(app, "geo topics add")
def add_topics(
    context: typer.Context,
    name: NameArgument,
    topics: TopicsArgument,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Copy topics to a destination, from their first record on.

    One that was copied before goes on where it was. All of them are added, or none.
    """
    from causeway.geo.topics import add

    act = partial(add, reason=reason, wait_s=None if no_wait else timeout)
    return _act(context, name, topics, act, "waiting until they are there", as_json)


@command(app, "geo topics list")
def list_topics(
    context: typer.Context, name: SomeArgument = None, as_json: JsonOption = False
) -> int:
    """The topics that are copied, with who chose them and how far they are."""
    return look(context, name, as_json, show.standing)


@command(app, "geo topics available")
def available_topics(
    context: typer.Context,
    name: NameArgument,
    match: Annotated[
        str,
        typer.Option("--match", metavar="TEXT", help="Part of the name.", show_default=False),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Topics of the origin that could be copied to a destination, and are not."""
    from causeway.geo import settings
    from causeway.geo import topics as choosing

    found = choosing.available(settings.link_to(context.obj, name), match)
    if as_json:
        print_json({"destination": name, "topics": list(found)})
        return
    out = console()
    for each in found:
        out.print(each)


@command(app, "geo topics pause")
def pause_topics(
    context: typer.Context,
    name: NameArgument,
    topics: TopicsArgument,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Copy nothing more of topics until they are resumed."""
    from causeway.geo.topics import pause

    act = partial(pause, reason=reason, wait_s=None if no_wait else timeout)
    return _act(context, name, topics, act, "waiting until they are paused", as_json)


@command(app, "geo topics resume")
def resume_topics(
    context: typer.Context,
    name: NameArgument,
    topics: TopicsArgument,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Go on with topics where they were: nothing is lost or doubled."""
    from causeway.geo.topics import resume

    act = partial(resume, reason=reason, wait_s=None if no_wait else timeout)
    return _act(context, name, topics, act, "waiting until they go on", as_json)


@command(app, "geo topics remove")
def remove_topics(
    context: typer.Context,
    name: NameArgument,
    topics: TopicsArgument,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Copy topics no more. On the destination they stay, with all that they have."""
    from causeway.geo.topics import remove

    act = partial(remove, reason=reason, wait_s=None if no_wait else timeout)
    return _act(context, name, topics, act, "waiting until they are copied no more", as_json)


def _act(
    context: typer.Context,
    name: str,
    topics: list[str],
    act: Callable[..., Done],
    until: str,
    as_json: bool,
) -> int:
    from causeway.geo import settings

    link = settings.link_to(context.obj, name)
    with waiting() as told:
        told(until)
        done = act(link, topics)
    return say(done, as_json)
