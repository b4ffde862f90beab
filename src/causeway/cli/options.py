"""Options that several commands share: lengths of time, links and their completion, --yes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any

import typer

from causeway.errors import CausewayError, ConfigError

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
_SECONDS = {"ms": 0.001, None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
TIME = "TIME"  # the metavar of a length of time


def seconds(text: str | float) -> float:
    """Returns the seconds of `90`, `30s`, `5m`, `1.5h` or `500ms`. Raises BadParameter; typer adds
    the option to it."""
    found = _TIME.fullmatch(str(text).strip())
    if found is None:
        raise typer.BadParameter(f"{text} is not a length of time, such as 30s, 5m or 1h")
    return float(found[1]) * _SECONDS[found[2]]


def at_least(least_s: float) -> Callable[[str | float], float]:
    """Returns a parser like `seconds` that refuses less than `least_s`."""

    def parse(text: str | float) -> float:
        found = seconds(text)
        if found < least_s:
            raise typer.BadParameter(f"{text} is shorter than {least_s:g}s")
        return found

    return parse


def complete_link(context: typer.Context, incomplete: str) -> list[str]:
    """Returns the flows of the file on the command line, for the completion of a shell. Reads only
    the file. If the file has errors, returns no names."""
    file = context.params.get("file")
    # After an option without its value, arguments have no names yet.
    named = [Path(file)] if file is not None else [Path(each) for each in context.args]
    try:
        found = [name for each in named if each.is_file() for name in _links(each)]
    except (CausewayError, OSError):
        return []
    # A shell takes `>` for a redirection. Shells other than bash quote what they insert.
    bash = os.environ.get("_CAUSEWAY_COMPLETE") == "complete_bash"
    offered = [name.replace(">", r"\>") if bash else name for name in found]
    return [name for name in offered if name.startswith(incomplete)]


def _links(file: Path) -> Iterator[str]:
    from causeway.config import Problems
    from causeway.filters import split_list
    from causeway.formats import read_entries

    entries = read_entries(file, Problems(str(file))).entries
    aliases = split_list(entries["clusters"].value) if "clusters" in entries else ()
    for source, target in permutations(aliases, 2):
        name = f"{source}->{target}"
        entry = entries.get(f"{name}.enabled") or entries.get("enabled")
        if entry is not None and entry.value.strip().lower() == "true":
            yield name


def valued(name: str, metavar: str, text: str, **more: Any) -> Any:
    """Returns an option with a value. `text`: its help, which names the default if there is one."""
    return typer.Option(name, metavar=metavar, help=text, show_default=False, **more)


def argument(metavar: str, text: str, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=text, show_default=False, **more)


FileArgument = Annotated[
    Path,
    argument(
        "FILE",
        "A MirrorMaker 2 property file, a causeway.yaml, or a KafkaMirrorMaker2 resource of"
        " Strimzi (its Secrets: --secrets DIR).",
    ),
]
ClustersOption = Annotated[
    list[str] | None,
    valued(
        "--clusters",
        "ALIAS,…",
        "Only the flows and heartbeats into these clusters, like MirrorMaker 2's --clusters.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
LinkOption = Annotated[
    str | None,
    valued(
        "--link",
        "A->B",
        "Only this flow. Default: all flows of the file.",
        autocompletion=complete_link,
    ),
]
TopicOption = Annotated[
    str | None,
    valued(
        "--topic",
        "TOPIC",
        "Only this topic, by its name on the source. Default: all topics of the flow.",
    ),
]
ReasonOption = Annotated[str | None, valued("--reason", "TEXT", "The reason, shown in the status.")]
LagAboveOption = Annotated[
    int | None,
    valued("--lag-above", "RECORDS", "The largest lag that --check accepts.", min=0),
]
NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Do not wait until the driver acts.")]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", metavar=TIME, parser=seconds, help="Wait no longer than this."),
]
StartOption = Annotated[
    str | None,
    valued(
        "--from",
        "TIMESTAMP",
        "Partitions without progress begin at the first record of this time or later "
        "(ISO 8601, UTC unless it names a zone, or ms since 1970).",
    ),
]
YesOption = Annotated[
    bool,
    typer.Option("--yes", help="Do it. Without --yes, the command only shows it (exit code 2)."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only show it, also with --yes (exit code 0).")
]


def checked_once(command: str, *, check: bool, lag_above: int | None, watched: bool) -> None:
    """Raises ConfigError for options of a status that do not go together."""
    if lag_above is not None and not check:
        raise ConfigError(command, "--lag-above", "it works with --check only")
    if watched and check:
        raise ConfigError(command, "--check", "a check looks once", remedy="leave out --watch")
