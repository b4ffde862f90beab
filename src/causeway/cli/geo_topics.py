"""`causeway geo topics`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.commands import command
from causeway.cli.common import console, print_json, waiting
from causeway.cli.geo_output import (
    NameArgument,
    NoWaitOption,
    SomeArgument,
    TopicsArgument,
    look,
    say,
    status_table,
)
from causeway.cli.options import JsonOption, ReasonOption, TimeoutOption

if TYPE_CHECKING:
    from causeway.geo import Done

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

    A topic that was copied before goes on at its position. All of the topics are added, or none.
    """
    from causeway.geo import add_topics as add

    act = partial(add, reason=reason, wait_s=None if no_wait else timeout)
    return _act(context, name, topics, act, "waiting until the topics exist", as_json)


@command(app, "geo topics list")
def list_topics(
    context: typer.Context, name: SomeArgument = None, as_json: JsonOption = False
) -> int:
    """List the chosen topics, with their status and who chose them."""
    return look(context, name, as_json, status_table)


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
    """List the topics of the origin that are not copied to a destination and can be."""
    from causeway.geo import available_topics as available
    from causeway.geo import link_to

    found = available(link_to(context.obj, name), match)
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
    """Stop copying topics until they are resumed."""
    from causeway.geo import pause_topics as pause

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
    """Continue paused topics at their positions: no record is lost or doubled."""
    from causeway.geo import resume_topics as resume

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
    """Stop copying topics. The copies on the destination stay, with their records."""
    from causeway.geo import remove_topics as remove

    act = partial(remove, reason=reason, wait_s=None if no_wait else timeout)
    return _act(context, name, topics, act, "waiting until copying has ended", as_json)


def _act(
    context: typer.Context,
    name: str,
    topics: list[str],
    act: Callable[..., Done],
    until: str,
    as_json: bool,
) -> int:
    from causeway.geo import link_to

    link = link_to(context.obj, name)
    with waiting() as told:
        told(until)
        done = act(link, topics)
    return say(done, as_json)
