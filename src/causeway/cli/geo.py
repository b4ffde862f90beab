"""`causeway geo`: copies topics of one cluster, picked by name, to others. It needs no file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from causeway.cli.commands import command
from causeway.cli.common import console, parse_timestamp, print_json, waiting
from causeway.cli.geo_output import (
    NameArgument,
    NoWaitOption,
    SomeArgument,
    TopicsArgument,
    description,
    destination_table,
    look,
    need_destinations,
    say,
    show_added,
    show_overview,
    status_table,
)
from causeway.cli.options import (
    JsonOption,
    LagAboveOption,
    ReasonOption,
    TimeoutOption,
    checked_once,
    valued,
)
from causeway.cli.watch import EVERY_S, EveryOption, WatchOption, watch
from causeway.errors import ConfigError, UnreachableError
from causeway.geo import (
    GEO_FILE_VARIABLE,
    GeoFile,
    change_geo_file,
    cluster_address,
    default_path,
    parse_origin,
    read_geo_file,
)

app = typer.Typer(
    name="geo",
    help="Copy topics of one cluster, picked by name, to others. No file is needed.",
)
destination_app = typer.Typer(
    name="destination", no_args_is_help=True, help="Clusters that topics are copied to."
)
topics_app = typer.Typer(name="topics", no_args_is_help=True, help="Topics that are copied.")
app.add_typer(destination_app)
app.add_typer(topics_app)


@app.callback(invoke_without_command=True)
def _geo(
    context: typer.Context,
    origin: Annotated[
        str | None,
        valued(
            "--origin",
            "NAME=host:port,…",
            "The cluster whose topics are copied. Its name begins their names there. "
            "The first value is remembered.",
            envvar="CAUSEWAY_GEO_ORIGIN",
        ),
    ] = None,
    origin_config: Annotated[
        Path | None,
        valued(
            "--origin-config",
            "FILE",
            "client.properties for the origin. Its path is remembered, not its content.",
            envvar="CAUSEWAY_GEO_ORIGIN_CONFIG",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        valued(
            "--config",
            "FILE",
            "The file that remembers origin and destinations. "
            "Default: ~/.config/causeway/geo.json.",
            envvar=GEO_FILE_VARIABLE,
        ),
    ] = None,
) -> None:
    found = read_geo_file(config or default_path())
    if origin is not None or origin_config is not None:
        found = _with_origin(found, origin, origin_config)
    context.obj = found
    if context.invoked_subcommand is None:
        show_overview(console(), found)


@command(app, "geo status")
def status(
    context: typer.Context,
    name: SomeArgument = None,
    as_json: JsonOption = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 9 if no `causeway geo run` runs, else with 7 if topics are stopped "
            "or failed, else with 11 if a partition lags by more than --lag-above.",
        ),
    ] = False,
    lag_above: LagAboveOption = None,
    watched: WatchOption = False,
    every: EveryOption = EVERY_S,
) -> int:
    """Show the status of each topic, from the clusters alone."""
    from causeway.geo import look_at, settings_of

    checked_once("geo status", check=check, lag_above=lag_above, watched=watched)
    if watched:
        found = settings_of(context.obj.only(name))
        return watch(
            lambda: look_at(found),
            status_table,
            lambda seen: {"destinations": [each.as_json() for each in seen]},
            every,
            as_json=as_json,
        )
    return look(context, name, as_json, status_table, check=check, lag_above=lag_above)


@command(app, "geo properties")
def properties(context: typer.Context, name: SomeArgument = None) -> None:
    """Print origin and destinations as a property file for the other commands.

    Passwords and keys become references to the client.properties that have them.
    """
    from causeway.formats import to_properties
    from causeway.geo import as_properties

    found: GeoFile = context.obj
    need_destinations(found)
    comment = "The links of `causeway geo`. The destinations keep the list of topics."
    text = to_properties(as_properties(found.only(name)), comments=[comment])
    typer.echo(text, nl=False)


@command(app, "geo run")
def run(
    context: typer.Context,
    more: Annotated[
        Path | None,
        valued(
            "--properties",
            "FILE",
            "A property file for this run: causeway.*, spark.*, and keys of all flows.",
        ),
    ] = None,
    until_caught_up: Annotated[
        bool,
        typer.Option(
            "--until-caught-up",
            help="Copy the records that exist now, then exit. A destination that does not answer "
            "is left out (exit code 3).",
        ),
    ] = False,
    start: Annotated[
        str | None,
        valued(
            "--from",
            "TIMESTAMP",
            "Partitions that have stopped, or have no progress, begin at the first record "
            "of this time.",
        ),
    ] = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="Take over partitions that stopped because they have no progress."
        ),
    ] = False,
) -> int:
    """Copy the chosen topics, and those that are chosen later, until SIGTERM or SIGINT.

    A second run waits, and takes over when the first one ends.
    """
    from causeway.cli import geo_run

    return geo_run.run(
        context.obj,
        more=more,
        until_caught_up=until_caught_up,
        start_from=None if start is None else parse_timestamp(start),
        adopt=adopt,
    )


@command(destination_app, "geo destination add")
def add_destination(
    context: typer.Context,
    name: NameArgument,
    bootstrap: Annotated[str, valued("--bootstrap", "host:port,…", "Some of its brokers.")] = "",
    command_config: Annotated[
        Path | None,
        valued(
            "--command-config",
            "FILE",
            "client.properties for the cluster, which may also name the brokers. Its path is "
            "remembered, not its content.",
        ),
    ] = None,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a cluster a destination. Topics that were chosen for it before stay chosen."""
    from causeway.geo import add_destination as add
    from causeway.geo import link_to

    if not bootstrap and command_config is None:
        raise ConfigError(
            "geo", f"destination {name}", "its address is missing", remedy="--bootstrap"
        )
    found: GeoFile = context.obj
    found.known_origin()
    place, known = (
        cluster_address(name, bootstrap, command_config, "destination"),
        found.cluster_of(name),
    )
    link = link_to(found.with_destination(place), name)
    with waiting() as on_step:
        on_step(f"asking {name}")
        added = add(link, known=known, reason=reason)
    place = replace(place, cluster=added.cluster)
    found = change_geo_file(found.path, lambda now: now.with_destination(place))
    if as_json:
        print_json(added.as_json())
    else:
        show_added(console(), added, found)


@command(destination_app, "geo destination list")
def list_destinations(context: typer.Context, as_json: JsonOption = False) -> int:
    """List the destinations that this machine knows."""
    return look(context, None, as_json, destination_table)


@command(destination_app, "geo destination describe")
def describe_destination(
    context: typer.Context, name: NameArgument, as_json: JsonOption = False
) -> int:
    """Show everything that is known about a destination."""
    return look(context, name, as_json, description)


@command(destination_app, "geo destination remove")
def remove_destination(
    context: typer.Context,
    name: NameArgument,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it even if topics are copied there: copying ends.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Only on this machine: connects to no cluster, other machines continue to copy.",
        ),
    ] = False,
    reason: ReasonOption = None,
    no_wait: NoWaitOption = False,
    timeout: TimeoutOption = 30.0,
    as_json: JsonOption = False,
) -> int:
    """Stop copying to a destination. The copies stay."""
    from causeway.geo import link_to
    from causeway.geo import remove_destination as remove

    found: GeoFile = context.obj
    found.destination(name)
    if forget:
        change_geo_file(found.path, lambda now: now.without_destination(name))
        if as_json:
            print_json({"destination": name, "action": "forget"})
        else:
            console().print(f"this machine does not know {name} any more; nothing else has changed")
        return 0
    with waiting() as on_step:
        on_step("waiting until copying has ended")
        try:
            done = remove(
                link_to(found, name),
                confirmed=yes,
                reason=reason,
                wait_s=None if no_wait else timeout,
            )
        except UnreachableError as error:
            error.remedy = "--forget removes it from this machine only, and asks no cluster"
            raise
    change_geo_file(found.path, lambda now: now.without_destination(name))
    return say(done, as_json)


def _change(action: str, until: str, meaning: str) -> None:
    """Registers a command that changes chosen topics."""

    def change(
        context: typer.Context,
        name: NameArgument,
        topics: TopicsArgument,
        reason: ReasonOption = None,
        no_wait: NoWaitOption = False,
        timeout: TimeoutOption = 30.0,
        as_json: JsonOption = False,
    ) -> int:
        from causeway import geo

        link = geo.link_to(context.obj, name)
        with waiting() as on_step:
            on_step(f"waiting until {until}")
            wait_s = None if no_wait else timeout
            done = getattr(geo, f"{action}_topics")(link, topics, reason=reason, wait_s=wait_s)
        return say(done, as_json)

    change.__doc__ = meaning
    command(topics_app, f"geo topics {action}")(change)


_change(
    "add",
    "the topics exist",
    """Copy topics to a destination, from their first record on.

    A topic that was copied before goes on at its position. All of the topics are added, or none.
    """,
)


@command(topics_app, "geo topics list")
def list_topics(
    context: typer.Context, name: SomeArgument = None, as_json: JsonOption = False
) -> int:
    """List the chosen topics, with their status and who chose them."""
    return look(context, name, as_json, status_table)


@command(topics_app, "geo topics available")
def available_topics(
    context: typer.Context,
    name: NameArgument,
    match: Annotated[str, valued("--match", "TEXT", "Part of the name.")] = "",
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


_change("pause", "they are paused", "Stop copying topics until they are resumed.")
_change(
    "resume",
    "they go on",
    "Continue paused topics at their positions: no record is lost or doubled.",
)
_change(
    "remove",
    "copying has ended",
    "Stop copying topics. The copies on the destination stay, with their records.",
)


def _with_origin(found: GeoFile, origin: str | None, config: Path | None) -> GeoFile:
    """Checks the origin, and remembers it if it is new."""
    from causeway.cluster import clusters
    from causeway.geo import client_of, cluster_id

    if origin is None:
        known = found.known_origin()
        place = cluster_address(known.name, known.bootstrap, config, "origin")
    else:
        place = parse_origin(origin, config)
        if config is None and found.origin is not None and found.origin.name == place.name:
            place = replace(place, config=found.origin.config)
    after = found.with_origin(place)
    if after.origin != found.origin:
        client = client_of(place)
        with clusters() as connect, waiting() as on_step:
            on_step(f"asking {place.name}")
            cluster_id(connect(client))
        return change_geo_file(found.path, lambda now: now.with_origin(place))
    return after
