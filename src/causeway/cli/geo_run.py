"""`causeway geo run`: the run, begun anew where this machine's destinations change."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from causeway.cli.guard import complain, warn
from causeway.cli.run import run_settings
from causeway.errors import CausewayError, ConfigError
from causeway.geo import local_file as memory
from causeway.geo import settings
from causeway.geo.local_file import Remembered

if TYPE_CHECKING:
    from causeway.config import Settings

_LOOK_S: Final = 1.0


class Ending(threading.Event):
    """Set by a signal, as ever, or by `renew`: then `anew`, and the run is to begin anew."""

    def __init__(self) -> None:
        super().__init__()
        self.anew = False

    def renew(self) -> None:
        if not self.is_set():
            self.anew = True
            self.set()


def run(
    found: Remembered,
    *,
    more: Path | None,
    until_caught_up: bool,
    start_from: int | None,
    adopt: bool,
) -> int:
    """Until a signal comes. Waits for the first destination where there is none. With
    `until_caught_up`, destinations that cannot be reached are left out, and said: the exit code is
    theirs then, where all else went well."""
    found.known_origin()
    if until_caught_up and not found.destinations:
        raise ConfigError("geo run", cause="this machine knows no destination: nothing to copy")
    while True:
        if not found.destinations:
            found = _await_destination(found)
        wanted = settings.settings(found, more=more)
        warn(wanted.warnings)
        away: Mapping[str, CausewayError] = {}
        if until_caught_up:
            wanted, away = _reached(wanted)
            for name, error in away.items():
                complain(f"nothing is copied to {name}: {error}")
        ending, over = Ending(), threading.Event()
        watcher = threading.Thread(
            target=_watch, args=(found, ending, over), name="geo destinations", daemon=True
        )
        watcher.start()
        try:
            code = run_settings(
                wanted,
                until_caught_up=until_caught_up,
                start_from=start_from,
                adopt=adopt,
                stop=ending,
            )
        finally:
            over.set()
            watcher.join()
        if not ending.anew:
            return code or next((error.exit_code for error in away.values()), 0)
        # What a person wished for at the start is done.
        start_from, adopt = None, False
        found = memory.read(found.path)


def _reached(wanted: Settings) -> tuple[Settings, Mapping[str, CausewayError]]:
    """With those destinations that answer, and why the others do not. Raises where none does."""
    from causeway.geo import destinations

    away = destinations.away(wanted.links)
    if len(away) == len(wanted.links):
        raise next(iter(away.values()))
    return replace(
        wanted,
        links=tuple(each for each in wanted.links if each.target.alias not in away),
        heartbeat_links=tuple(
            each for each in wanted.heartbeat_links if each.target.alias not in away
        ),
    ), away


def _await_destination(found: Remembered) -> Remembered:
    print(
        "causeway: no destination yet: causeway geo destination add NAME --bootstrap host:port",
        file=sys.stderr,
    )
    # Nothing is under way yet: to end is to leave.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while not found.destinations:
            time.sleep(_LOOK_S)
            found = _again(found)
    finally:
        signal.signal(signal.SIGTERM, before)
    return found


def _watch(found: Remembered, ending: Ending, over: threading.Event) -> None:
    while not over.wait(_LOOK_S):
        if _again(found) != found:
            ending.renew()
            return


def _again(found: Remembered) -> Remembered:
    """As it is by now; as before while somebody has broken it."""
    try:
        return memory.read(found.path)
    except CausewayError:
        return found
