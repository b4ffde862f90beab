"""`causeway geo`: topics of one cluster, picked by name, appear on others; no file is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from causeway.cli import geo_destinations, geo_topics
from causeway.cli import geo_show as show
from causeway.cli.commands import command
from causeway.cli.common import JsonOption, console, parse_timestamp, waiting
from causeway.cli.geo_common import SomeArgument, look, need_destinations
from causeway.cli.watch import EVERY_S, EveryOption, WatchOption, watch
from causeway.errors import ConfigError
from causeway.geo import local_file as memory
from causeway.geo.local_file import Remembered

app = typer.Typer(
    name="geo",
    help="Copy topics of one cluster, picked by name, to others. No file is needed.",
)
app.add_typer(geo_destinations.app)
app.add_typer(geo_topics.app)


@app.callback(invoke_without_command=True)
def _geo(
    context: typer.Context,
    origin: Annotated[
        str | None,
        typer.Option(
            "--origin",
            metavar="NAME=host:port,…",
            envvar="CAUSEWAY_GEO_ORIGIN",
            help="The cluster whose topics are copied. Its name begins theirs on destinations. "
            "Remembered: said once.",
            show_default=False,
        ),
    ] = None,
    origin_config: Annotated[
        Path | None,
        typer.Option(
            "--origin-config",
            metavar="FILE",
            envvar="CAUSEWAY_GEO_ORIGIN_CONFIG",
            help="client.properties to reach it with. Its path is remembered, nothing that it "
            "says.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            envvar=memory.VARIABLE,
            help="Where origin and destinations are remembered. "
            "Default: ~/.config/causeway/geo.json.",
            show_default=False,
        ),
    ] = None,
) -> None:
    found = memory.read(config or memory.default_path())
    if origin is not None or origin_config is not None:
        found = _with_origin(found, origin, origin_config)
    context.obj = found
    if context.invoked_subcommand is None:
        show.situation(console(), found)


@command(app, "geo status")
def status(
    context: typer.Context,
    name: SomeArgument = None,
    as_json: JsonOption = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 9 where no `causeway geo run` is at it, else with 7 where topics are "
            "stopped or failed, else with 11 where a partition lags by more than --lag-above.",
        ),
    ] = False,
    lag_above: Annotated[
        int | None,
        typer.Option(
            "--lag-above", metavar="RECORDS", min=0, help="For --check.", show_default=False
        ),
    ] = None,
    watched: WatchOption = False,
    every: EveryOption = EVERY_S,
) -> int:
    """How far each topic is, by asking the clusters alone."""
    from causeway.geo import destination_status, settings

    if lag_above is not None and not check:
        raise ConfigError("geo status", "--lag-above", "it is for --check")
    if watched and check:
        raise ConfigError("geo status", "--check", "a check looks once", remedy="leave out --watch")
    if watched:
        found = settings.settings(context.obj.only(name))
        return watch(
            lambda: destination_status.look(found),
            show.standing,
            lambda seen: {"destinations": [destination_status.as_json(each) for each in seen]},
            every,
            as_json=as_json,
        )
    return look(context, name, as_json, show.standing, check=check, lag_above=lag_above)


@command(app, "geo properties")
def properties(context: typer.Context, name: SomeArgument = None) -> None:
    """Print the same as a property file, which every other command takes.

    Passwords and keys stand in it as references to the client.properties that say them.
    """
    from causeway.formats import to_properties
    from causeway.geo import settings

    found: Remembered = context.obj
    need_destinations(found)
    comment = "What `causeway geo` copies; which topics, its destinations know."
    text = to_properties(settings.as_properties(found.only(name)), comments=[comment])
    typer.echo(text, nl=False)


@command(app, "geo run")
def run(
    context: typer.Context,
    more: Annotated[
        Path | None,
        typer.Option(
            "--properties",
            metavar="FILE",
            help="Keys for this run: causeway.*, spark.*, and those of all flows.",
            show_default=False,
        ),
    ] = None,
    until_caught_up: Annotated[
        bool,
        typer.Option(
            "--until-caught-up",
            help="Copy what is there now, then exit; a destination that does not answer is left "
            "out (exit code 3).",
        ),
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIMESTAMP",
            help="What has stopped, or has no progress, begins at the first record of this time.",
            show_default=False,
        ),
    ] = None,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Take over what stopped as its progress does not tell."),
    ] = False,
) -> int:
    """Copy what was chosen, and act on what is chosen next, until SIGTERM or SIGINT.

    A second one waits, and goes on where the first one ends.
    """
    from causeway.cli import geo_run

    return geo_run.run(
        context.obj,
        more=more,
        until_caught_up=until_caught_up,
        start_from=None if start is None else parse_timestamp(start),
        adopt=adopt,
    )


def _with_origin(found: Remembered, origin: str | None, config: Path | None) -> Remembered:
    """Checked, and remembered where it is new."""
    from causeway.cluster import clusters
    from causeway.geo import claims, settings

    if origin is None:
        known = found.known_origin()
        place = memory.place(known.name, known.bootstrap, config, "origin")
    else:
        place = memory.parse_origin(origin, config)
        if config is None and found.origin is not None and found.origin.name == place.name:
            place = replace(place, config=found.origin.config)
    after = found.with_origin(place)
    if after.origin != found.origin:
        client = settings.client_of(place)
        with clusters() as connect, waiting() as told:
            told(f"asking {place.name}")
            claims.id_of(connect(client))
        return memory.change(found.path, lambda now: now.with_origin(place))
    return after
