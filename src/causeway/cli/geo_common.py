"""What the commands of `causeway geo` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli import geo_show as show
from causeway.cli import times
from causeway.cli.common import console, print_json
from causeway.cli.guard import warn
from causeway.errors import CausewayError, ConfigError, NobodyLeadsError

if TYPE_CHECKING:
    from causeway.geo.local_file import Remembered
    from causeway.geo.topics import Done


def _names(incomplete: str) -> list[str]:
    """What a shell offers: the destinations that this machine knows."""
    from causeway.geo import local_file

    try:
        found = local_file.read(local_file.default_path()).destinations
    except CausewayError:
        return []
    return [each.name for each in found if each.name.startswith(incomplete)]


NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="DEST",
        help="The destination's name.",
        show_default=False,
        autocompletion=_names,
    ),
]
SomeArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[DEST]",
        help="One destination. Default: all.",
        show_default=False,
        autocompletion=_names,
    ),
]
TopicsArgument = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC…", help="As they are named on the origin.", show_default=False),
]
ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why, for all who look.", show_default=False),
]
NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait until a running `causeway geo run` acts.")
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar=times.METAVAR,
        parser=times.seconds,
        help="Wait no longer than this.",
    ),
]


def need_destinations(found: Remembered) -> None:
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
    render: show.Render,
    *,
    check: bool = False,
    lag_above: int | None = None,
) -> int:
    """The exit code is that of the first destination that could not be asked."""
    from causeway.geo import destination_status, settings
    from causeway.status import health

    need_destinations(context.obj)
    seen = destination_status.look(settings.settings(context.obj.only(name)))
    if as_json:
        origin = context.obj.known_origin().as_json()
        print_json(
            {"origin": origin, "destinations": [destination_status.as_json(each) for each in seen]}
        )
    else:
        console().print(render(seen))
    failed = [each.error for each in seen if each.error is not None]
    if failed:
        return failed[0].exit_code
    links = [each.status for each in seen if each.status is not None]
    return health.verdict(links, lag_above) if check else 0


def say(done: Done, as_json: bool) -> int:
    from causeway.geo import topics as choosing

    if as_json:
        print_json(choosing.as_json(done))
    else:
        show.done(console(), done)
    if done.refused is not None:
        warn([done.refused])
    return NobodyLeadsError.exit_code if done.acted is False or done.refused else 0
