"""`causeway run FILE`: mirror, until told to stop or until caught up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import FileArgument, load, parse_timestamp

if TYPE_CHECKING:
    from causeway.cli.present import Show
    from causeway.config.settings import RunSettings, Settings
    from causeway.daemon.status import Look


def command(
    file: FileArgument,
    until_caught_up: Annotated[
        bool,
        typer.Option(
            "--until-caught-up", help="Copy what is there now, then exit; 0 if all of it arrived."
        ),
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIMESTAMP",
            help="Partitions without progress begin at the first record of this time "
            "(ISO 8601, UTC unless it names a zone, or ms since 1970).",
            show_default=False,
        ),
    ] = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="Take over target topics that hold data but have no progress."
        ),
    ] = False,
) -> int:
    """Mirror every flow of the file until SIGTERM or SIGINT, then drain and exit."""
    return run_settings(
        load(file),
        until_caught_up=until_caught_up,
        start_from=None if start is None else parse_timestamp(start),
        adopt=adopt,
    )


def run_settings(
    settings: Settings,
    *,
    until_caught_up: bool = False,
    start_from: int | None = None,
    adopt: bool = False,
) -> int:
    """Run the daemon, shown as fits where the output goes: live, or in logs; and to Prometheus."""
    from causeway.cli.present import presenter
    from causeway.daemon.run import run
    from causeway.daemon.spark.java import check_java

    check_java()  # before any cluster is asked, which may take its time
    with _metrics(settings.run) as measure, presenter(bounded=until_caught_up) as show:

        def on_status(look: Look) -> None:
            measure(look)
            show(look)

        return run(
            settings,
            until_caught_up=until_caught_up,
            start_from=start_from,
            adopt=adopt,
            on_status=on_status,
        )


@contextmanager
def _metrics(run: RunSettings) -> Iterator[Show]:
    """What to call with how to look at the daemon, so that it can be scraped while the block
    lasts."""
    if run.metrics_port is None:
        yield lambda _: None
        return
    from causeway.metrics.server import served

    with served(run.metrics_host, run.metrics_port) as take:
        yield take
