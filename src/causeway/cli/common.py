"""Functions of several commands: reading the file, timestamps, JSON, console, progress."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causeway.cli.guard import is_unicode, warn
from causeway.cli.words import printable, printable_json
from causeway.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from causeway.cli.output import Output
    from causeway.config import Settings


def load(path: Path, *, quiet: bool = False) -> Settings:
    """Returns the settings of the file. Prints its warnings on stderr, each once, unless
    `quiet`."""
    from causeway.config.reading import expiry_warnings
    from causeway.formats import load as load_file

    settings = load_file(path)
    if not quiet:
        warn([*settings.warnings, *expiry_warnings(settings)])
    return settings


def with_chosen(settings: Settings) -> Settings:
    """Returns `settings` with the topics that people have chosen for links (`causeway geo`,
    `failback`). Asks clusters only if there are such links."""
    if not any(link.geo or link.way_back for link in settings.links):
        return settings
    from causeway.control import geo_topics

    return geo_topics.with_chosen(settings)


def into(settings: Settings, clusters: Sequence[str] | None) -> Settings:
    """Returns `settings` with only the flows and heartbeats into `clusters`, unchanged for None.
    One item of `clusters` may hold several aliases, separated by commas.

    With `offset-syncs.topic.location = target`, such a run writes nothing to any other cluster.
    Raises ConfigError if no flow has such a target.
    """
    if clusters is None:
        return settings
    wanted = [each.strip() for text in clusters for each in text.split(",") if each.strip()]
    known = {link.target.alias for link in settings.links}
    known |= {pair.target.alias for pair in settings.heartbeat_links}
    unknown = [each for each in wanted if each not in known]
    if unknown or not wanted:
        raise ConfigError(
            "read option",
            f"--clusters {','.join(wanted)}",
            f"no flow has target {' or '.join(unknown)}" if unknown else "it names no cluster",
            remedy=f"targets are {', '.join(sorted(known))}",
        )
    again = settings.rereading
    return replace(
        settings,
        rereading=None if again is None else again.then(lambda found: into(found, clusters)),
        links=tuple(each for each in settings.links if each.target.alias in wanted),
        heartbeat_links=tuple(
            each for each in settings.heartbeat_links if each.target.alias in wanted
        ),
    )


def print_json(value: Any) -> None:
    """Prints indented JSON; an object or list without nested ones takes one line. Bytes that are
    not UTF-8, such as in a file name, become `?`."""
    text = printable_json(_json(value, "\n"))
    if not is_unicode(sys.stdout.encoding):
        text = _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
    sys.stdout.write(text.encode(errors="replace").decode() + "\n")


def _json(value: Any, line: str) -> str:
    """Returns the JSON text. It is faster than `json.dumps(indent=2)`, which needs a second for
    10,000 partitions."""
    inner = line + "  "
    if isinstance(value, dict) and any(map(_holds_more, value.values())):
        parts = [f"{_dump(str(name))}: {_json(each, inner)}" for name, each in value.items()]
        return f"{{{inner}{f',{inner}'.join(parts)}{line}}}"
    if isinstance(value, list | tuple) and any(map(_holds_more, value)):
        return f"[{inner}{f',{inner}'.join(_json(each, inner) for each in value)}{line}]"
    return _dump(value)


def _holds_more(value: Any) -> bool:
    return bool(value) and isinstance(value, dict | list | tuple)


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_dump = partial(json.dumps, ensure_ascii=False)


def console() -> Output:
    """Returns the console for tables on stdout."""
    from causeway.cli.output import Output

    return Output()


def styled(text: str = "", style: str = "") -> Text:
    """Returns a rich text. Imports rich, so that a module of commands need not."""
    from rich.text import Text

    return Text(text, style)


def labelled(label: str, text: str, style: str = "") -> Text:
    """Returns a line with a label in `style`. Control characters of both become escapes."""
    from rich.text import Text

    if not label:
        return Text(printable(text))
    return Text.assemble((printable(label), style), " ", printable(text))


def grid(*columns: str) -> Table:
    """Returns a table without lines. `columns`: the titles. `>` before a title: numbers, aligned
    right."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in columns:
        if title.startswith(">"):
            table.add_column(title[1:], justify="right", no_wrap=True)
        else:
            table.add_column(title, overflow="fold")
    return table


@contextmanager
def waiting() -> Iterator[Callable[[str], None]]:
    """Yields a function that shows the current activity on a terminal, until the next call or the
    end. Shows nothing if stderr is no terminal."""
    from rich.console import Console

    err = Console(stderr=True)
    if not err.is_terminal:
        yield lambda _: None
        return
    with err.status("") as status:
        yield lambda text: status.update(printable(text))


def parse_timestamp(text: str) -> int:
    """Returns the time of `--from` in ms since 1970. The text is ISO 8601 (UTC if it names no zone)
    or ms."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            "read option",
            f"--from {text}",
            "neither milliseconds nor ISO 8601",
            remedy="such as 2026-01-31T12:00:00Z or 1769860800000",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    milliseconds = int(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise ConfigError("read option", f"--from {text}", "is before 1970")
    return milliseconds
