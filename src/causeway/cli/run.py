"""`causeway run FILE`: mirrors until a signal, or until caught up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import into, load, parse_timestamp
from causeway.cli.options import ClustersOption, FileArgument, StartOption
from causeway.errors import ConfigError
from causeway.signals import hang_ups_remembered

if TYPE_CHECKING:
    from causeway.config import Settings
    from causeway.status import Look


def command(
    file: FileArgument,
    until_caught_up: Annotated[
        bool,
        typer.Option(
            "--until-caught-up",
            help="Copy the records that exist now, then exit (0 if all of them were copied).",
        ),
    ] = False,
    finish_in_flight: Annotated[
        bool,
        typer.Option(
            "--finish-in-flight",
            help="Finish the records that a killed process left in flight, mirror no others, then "
            "exit. Use it before you replace a transform.",
        ),
    ] = False,
    start: StartOption = None,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Take over target topics that have records but no progress."),
    ] = False,
    clusters: ClustersOption = None,
) -> int:
    """Mirror all flows of the file until SIGTERM or SIGINT, then drain and exit."""
    if until_caught_up and finish_in_flight:
        both = "--until-caught-up and --finish-in-flight"
        raise ConfigError("use", both, "they exclude each other", remedy="give one of them")
    with hang_ups_remembered():
        return run_settings(
            into(load(file), clusters),
            until_caught_up=until_caught_up,
            finish_in_flight=finish_in_flight,
            start_from=None if start is None else parse_timestamp(start),
            adopt=adopt,
        )


def run_settings(
    settings: Settings,
    *,
    until_caught_up: bool = False,
    finish_in_flight: bool = False,
    start_from: int | None = None,
    adopt: bool = False,
    stop: threading.Event | None = None,
) -> int:
    """Runs the daemon with the HTTP server. Shows a live table on a terminal, else logs. `stop`
    ends the run, as a signal does."""
    from causeway.cli.present import presenter
    from causeway.daemon import run, short_collections
    from causeway.http import served
    from causeway.java import find_java

    bounded = until_caught_up or finish_in_flight
    find_java()  # fails before the slow requests to the clusters
    with (
        short_collections(),
        served(settings) as server,
        presenter(bounded=bounded, address=server.address, trouble=server.trouble) as show,
    ):

        def on_status(look: Look) -> None:
            server.take(look)
            show(look)

        return run(
            settings,
            until_caught_up=until_caught_up,
            finish_in_flight=finish_in_flight,
            start_from=start_from,
            adopt=adopt,
            on_status=on_status,
            on_settings=server.change,
            stop=stop,
        )
