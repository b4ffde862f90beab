"""`causeway geo run`: mirrors to the destinations, and restarts if this machine's list changes."""

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
from causeway.geo import GeoFile, read_geo_file, settings_of, unreachable_destinations
from causeway.signals import hang_ups_remembered

if TYPE_CHECKING:
    from causeway.config import Settings

_LOOK_S: Final = 1.0


class StopOrRestart(threading.Event):
    """Ends a run: set by a signal, or by `restart`, which also sets `restarting`."""

    def __init__(self) -> None:
        super().__init__()
        self.restarting = False

    def restart(self) -> None:
        if not self.is_set():
            self.restarting = True
            self.set()


@hang_ups_remembered()
def run(
    found: GeoFile,
    *,
    more: Path | None,
    until_caught_up: bool,
    start_from: int | None,
    adopt: bool,
) -> int:
    """Runs until a signal. Waits for the first destination if there is none. `until_caught_up`
    leaves out destinations that do not answer, with a message; the exit code is theirs then, if
    everything else succeeds."""
    found.known_origin()
    if until_caught_up and not found.destinations:
        raise ConfigError("geo run", cause="this machine knows no destination: nothing to copy")
    while True:
        if not found.destinations:
            found = _await_destination(found)
        wanted = settings_of(found, more=more)
        warn(wanted.warnings)
        away: Mapping[str, CausewayError] = {}
        if until_caught_up:
            wanted, away = _reached(wanted)
            for name, error in away.items():
                complain(f"nothing is copied to {name}: {error}")
        ending, over = StopOrRestart(), threading.Event()
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
        if not ending.restarting:
            return code or next((error.exit_code for error in away.values()), 0)
        # These options are for the first start only.
        start_from, adopt = None, False
        found = read_geo_file(found.path)


def _reached(wanted: Settings) -> tuple[Settings, Mapping[str, CausewayError]]:
    """Returns the settings with the destinations that answer, and the errors of the others. Raises
    CausewayError if none answers."""
    away = unreachable_destinations(wanted.links)
    if len(away) == len(wanted.links):
        raise next(iter(away.values()))
    return replace(
        wanted,
        links=tuple(each for each in wanted.links if each.target.alias not in away),
        heartbeat_links=tuple(
            each for each in wanted.heartbeat_links if each.target.alias not in away
        ),
    ), away


def _await_destination(found: GeoFile) -> GeoFile:
    print(
        "causeway: no destination yet: causeway geo destination add NAME --bootstrap host:port",
        file=sys.stderr,
    )
    # No mirror runs yet, so the process may just exit.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while not found.destinations:
            time.sleep(_LOOK_S)
            found = _again(found)
    finally:
        signal.signal(signal.SIGTERM, before)
    return found


def _watch(found: GeoFile, ending: StopOrRestart, over: threading.Event) -> None:
    while not over.wait(_LOOK_S):
        if _again(found) != found:
            ending.restart()
            return


def _again(found: GeoFile) -> GeoFile:
    """Returns the file as it is now, or as it was before while it cannot be read."""
    try:
        return read_geo_file(found.path)
    except CausewayError:
        return found
