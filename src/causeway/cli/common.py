"""What several commands share: reading the file, and printing."""

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
from causeway.errors import CausewayError, ConfigError

if TYPE_CHECKING:
    from causeway.cli.output import Output
    from causeway.config import Settings


def load(path: Path, *, quiet: bool = False) -> Settings:
    """The file's settings; its warnings are said on stderr, each once, unless `quiet`."""
    from causeway.config.reading import expiry_warnings
    from causeway.formats import load as load_file

    settings = load_file(path)
    if not quiet:
        warn([*settings.warnings, *expiry_warnings(settings)])
    if any(link.geo or link.way_back for link in settings.links):
        _read_geo_topics(settings)
    return settings


def _read_geo_topics(settings: Settings) -> None:
    """Reads the topics that operators chose for links without a list, from the targets. A target
    that does not answer, or refuses to show the choice, raises when a command needs it."""
    from causeway.cluster import clusters
    from causeway.control import geo_topics

    with clusters() as connect:
        for link in settings.links:
            if link.geo or link.way_back:
                try:
                    standing = geo_topics.learn(connect(link.target_admin), link)
                except CausewayError:
                    continue
                link.chosen.names = geo_topics.names(standing, link)


def into(settings: Settings, clusters: Sequence[str] | None) -> Settings:
    """`settings` with only the flows and heartbeats into `clusters`; unchanged for None. One item
    of `clusters` may hold several aliases, separated by commas.

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
    return replace(
        settings,
        links=tuple(each for each in settings.links if each.target.alias in wanted),
        heartbeat_links=tuple(
            each for each in settings.heartbeat_links if each.target.alias in wanted
        ),
    )


def print_json(value: Any) -> None:
    """Indented; an object or list that holds no other stands in one line. What is no UTF-8 in it,
    such as the name of a file in a reason, comes out as `?`."""
    text = printable_json(_json(value, "\n"))
    if not is_unicode(sys.stdout.encoding):
        text = _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
    sys.stdout.write(text.encode(errors="replace").decode() + "\n")


def _json(value: Any, line: str) -> str:
    """json.dumps, which indents each line of 10,000 partitions in Python, would take a second."""
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
    """For tables on stdout."""
    from causeway.cli.output import Output

    return Output()


@contextmanager
def waiting() -> Iterator[Callable[[str], None]]:
    """What to call with what is being done while a person waits: it stands on the terminal until
    the next, or the end; where stderr is none, it says nothing."""
    from rich.console import Console

    err = Console(stderr=True)
    if not err.is_terminal:
        yield lambda _: None
        return
    with err.status("") as status:
        yield lambda text: status.update(printable(text))


def parse_timestamp(text: str) -> int:
    """Milliseconds since 1970 from `--from`: ISO 8601 (UTC where it names no zone) or ms."""
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
        raise ConfigError("read option", f"--from {text}", "lies before 1970")
    return milliseconds
