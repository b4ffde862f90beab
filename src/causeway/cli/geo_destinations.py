"""`causeway geo destination`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from causeway.cli import geo_show as show
from causeway.cli.commands import command
from causeway.cli.common import JsonOption, console, print_json, waiting
from causeway.cli.geo_common import (
    NameArgument,
    NoWaitOption,
    ReasonOption,
    TimeoutOption,
    look,
    say,
)
from causeway.errors import ConfigError, UnreachableError
from causeway.geo import local_file as memory
from causeway.geo.local_file import Remembered

app = typer.Typer(
    name="destination", no_args_is_help=True, help="Clusters that topics are copied to."
)


@command(app, "geo destination add")
def add_destination(
    context: typer.Context,
    name: NameArgument,
    bootstrap: Annotated[
        str,
        typer.Option(
            "--bootstrap", metavar="host:port,…", help="Some of its brokers.", show_default=False
        ),
    ] = "",
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="client.properties to reach it with, which may name the brokers, too. Its path "
            "is remembered, nothing that it says.",
            show_default=False,
        ),
    ] = None,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a cluster a destination. Topics that were chosen for it before are as they were."""
    from causeway.geo import destinations, settings

    if not bootstrap and command_config is None:
        raise ConfigError("geo", f"destination {name}", "where is it?", remedy="--bootstrap")
    found: Remembered = context.obj
    found.known_origin()
    place, known = (
        memory.place(name, bootstrap, command_config, "destination"),
        found.cluster_of(name),
    )
    link = settings.link_to(found.with_destination(place), name)
    with waiting() as told:
        told(f"asking {name}")
        added = destinations.add(link, known=known, reason=reason)
    place = replace(place, cluster=added.cluster)
    found = memory.change(found.path, lambda now: now.with_destination(place))
    if as_json:
        print_json(destinations.as_json(added))
    else:
        show.added(console(), added, found)


@command(app, "geo destination list")
def list_destinations(context: typer.Context, as_json: JsonOption = False) -> int:
    """The destinations that this machine knows, each in a line."""
    return look(context, None, as_json, show.destinations)


@command(app, "geo destination describe")
def describe_destination(
    context: typer.Context, name: NameArgument, as_json: JsonOption = False
) -> int:
    """All that is known of one."""
    return look(context, name, as_json, show.described)


@command(app, "geo destination remove")
def remove_destination(
    context: typer.Context,
    name: NameArgument,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also where topics are copied there: they are no more.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Only on this machine: ask no cluster, others go on copying."
        ),
    ] = False,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Copy nothing more to a destination. What is there stays."""
    from causeway.geo import destinations, settings

    found: Remembered = context.obj
    found.destination(name)
    if forget:
        memory.change(found.path, lambda now: now.without_destination(name))
        if as_json:
            print_json({"destination": name, "action": "forget"})
        else:
            console().print(f"{name} is known on this machine no more; nothing else has changed")
        return 0
    with waiting() as told:
        told("waiting until nothing is copied there any more")
        try:
            done = destinations.remove(
                settings.link_to(found, name),
                confirmed=yes,
                reason=reason,
                wait_s=None if no_wait else timeout,
            )
        except UnreachableError as error:
            error.remedy = "with --forget this machine knows it no more, and asks no cluster"
            raise
    memory.change(found.path, lambda now: now.without_destination(name))
    return say(done, as_json)
