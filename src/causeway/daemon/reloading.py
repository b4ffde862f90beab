"""Puts a changed file in force without a restart: notices the change, checks the whole new file,
and applies all of it or nothing.

    a look each second ─► the file, or a file that it refers to, has changed
    SIGHUP, `causeway reload`                                      │
        └──────────────► read ─► compare ─► check ─► put in force ◄┘ with causeway.reload=on-change

With `on-request`, a change that was only noticed renews certificates, keys and passwords. The
status shows that the rest of the file is not in force.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from causeway.config import ClientSettings, Settings, Stamp, have_changed, stamp_of
from causeway.config.reading import expiries
from causeway.daemon.clients import Clients
from causeway.errors import CausewayError, NeedsRestartError
from causeway.status import ReloadResult, ReloadStatus

_log = logging.getLogger("causeway.run")
_LOOK_S: Final = 1.0
_AGAIN_S: Final = 10.0  # until a file that could not be checked is tried again
_READS: Final = 3  # attempts to read all files before one of them changes
_WARN_S: Final = 24 * 3600.0  # between two warnings of the same certificate
_THE_FILE: Final = "the changed file"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The changes by another file, one line each. `restart`: the changes that need a restart of the
    process, each with the reason."""

    changes: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


class Reloader:
    """The callbacks:

    `compare`    returns the differences between the settings in force and others
    `check`      checks all new settings; raises CausewayError if they cannot be used
    `apply`      puts the result of `check` in force; returns the flows that do not use it yet
    `on_renewed` gets the settings of clients with new credentials, by key, and all settings in
                 force, which contain them
    `on_noted`   gets the reason why the changed file is not in force, or None
    `reach`      raises CausewayError if a cluster refuses new credentials
    """

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        *,
        compare: Callable[[Settings, Settings], FileDifference],
        check: Callable[[Settings], Any],
        apply: Callable[[Any], Sequence[str]],
        on_renewed: Callable[[Mapping[str, ClientSettings], Settings], None],
        on_noted: Callable[[str | None], None] = lambda _: None,
        reach: Callable[[ClientSettings], None] = lambda _: None,
    ) -> None:
        self._running = settings
        self._rereading = settings.rereading
        self._files: Mapping[Path, Stamp] = {} if self._rereading is None else self._rereading.files
        self._clients = clients
        self._compare, self._check, self._apply = compare, check, apply
        self._on_renewed, self._on_noted, self._reach = on_renewed, on_noted, reach
        self._seen: Mapping[Path, Stamp] | None = None  # at the last look, if that found a change
        self._only_others = False  # only files that the file refers to have changed
        self._found: Settings | None = None  # the newest settings that were read
        self._again_at: float | None = None
        self._trouble = ""
        self._asked: list[tuple[str, Future[ReloadStatus]]] = []  # requests without an answer
        self._come = threading.Event()
        self._warn_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reload", daemon=True)
        self.status = ReloadStatus(in_force_since_ms=_now_ms())
        self.expiries = expiries(clients.by_key.values())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, and cancels the requests that have no answer yet."""
        self._stop.set()
        self._come.set()
        for _, future in list(self._asked):
            future.cancel()

    def ask(self, by: str) -> Future[ReloadStatus]:
        """Has the file read now. `by`: who wishes it, such as `SIGHUP`. The future gets the
        outcome. It is cancelled if the run ends first. Any thread may call it."""
        future: Future[ReloadStatus] = Future()
        self._asked.append((by, future))
        self._come.set()
        if self._stop.is_set():
            future.cancel()
        return future

    @property
    def has_file(self) -> bool:
        """Whether the settings come from a file that can be read again."""
        return self._rereading is not None

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.turn()
                self._warn()
            except Exception as error:  # the thread must survive
                _log.error("internal error", exc_info=error)
            self._come.wait(_LOOK_S)
            self._come.clear()

    def turn(self) -> None:
        """Carries out the requests; if there are none, looks at the files once."""
        asked = list(self._asked)
        by = asked[-1][0] if asked else _THE_FILE
        try:
            if asked:
                self._reload(by)
            elif self._is_due():
                self._follow()
        except Exception as error:
            _log.error("internal error", exc_info=error)
            cause = f"internal error {type(error).__name__}, see the log of the driver"
            self._fail(by, CausewayError("use", _THE_FILE, cause, retriable=True))
        finally:
            del self._asked[: len(asked)]
            for _, future in asked:
                with suppress(InvalidStateError):  # cancelled
                    future.set_result(self.status)

    def _follow(self) -> None:
        """Does what the settings in force say about a change of the file without a request."""
        if self._running.run.reload != "on-change":
            self._renew()
            return
        others = self._only_others
        self._reload(_THE_FILE)
        if others and self.status.reason is not None and self._found is not None:
            # A renewed certificate must not wait until an older mistake in the file is corrected.
            self._renew_credentials(self._found)

    def _fail(self, by: str, error: CausewayError) -> None:
        if by != _THE_FILE or self._running.run.reload == "on-change":
            self._refuse(by, error)
        else:
            self._not_renewed(error)
            self._again_at = time.monotonic() + _AGAIN_S

    def _is_due(self) -> bool:
        """Returns whether files have changed and were equal at two looks (a file may be half
        written), or whether the time for another attempt has come."""
        now = {path: stamp_of(path) for path in self._files}
        if now == self._files:
            self._seen = None
            return self._again_at is not None and time.monotonic() > self._again_at
        settled, self._seen = now == self._seen, now
        main = next(iter(self._files), None)
        self._only_others = main is not None and now[main] == self._files[main]
        return settled

    def _read(self) -> Settings | CausewayError:
        self._seen, self._again_at, self._found = None, None, None
        if self._rereading is None:
            cause = "they do not come from a file"
            return CausewayError("read", "the settings again", cause, remedy="start the run again")
        for _ in range(_READS):
            found, files = self._rereading.attempt()
            if not have_changed(files):
                break
        else:
            # The settings may be a mixture of the files before and after a change.
            cause = "the file, or a file that it refers to, changes while it is read"
            found = CausewayError("read", _THE_FILE, cause, retriable=True)
        self._files = files
        if isinstance(found, CausewayError):
            return found
        result: Settings = found
        self._rereading, self._found = result.rereading, result
        return result

    def _reload(self, by: str) -> None:
        found = self._read()
        if isinstance(found, CausewayError):
            self._refuse(by, found)
            return
        difference = self._compare(self._running, found)
        if difference.restart:
            cause = f"only a restart applies {'; '.join(difference.restart)}"
            remedy = "start the driver again, or take these changes out of the file"
            waits = NeedsRestartError("use", "the changed file", cause, remedy=remedy)
            self._refuse(by, waits, difference.changes)
            return
        try:
            late = self._apply(self._check(found))
        except CausewayError as error:
            self._refuse(by, error, difference.changes)
            return
        self._running = found
        self.expiries, self._warn_at = expiries(self._clients.by_key.values()), 0.0
        now = _now_ms()
        result = ReloadResult.APPLIED if difference.changes else ReloadResult.UNCHANGED
        self._note(
            ReloadStatus(
                in_force_since_ms=now if difference.changes else self.status.in_force_since_ms,
                tried_ms=now,
                by=by,
                result=result,
                changes=(
                    *difference.changes,
                    *(f"{flow}: not yet, it ends its earlier work first" for flow in late),
                ),
            )
        )

    def _refuse(self, by: str, error: CausewayError, changes: tuple[str, ...] = ()) -> None:
        waits = isinstance(error, NeedsRestartError)
        if error.retriable and self._running.run.reload == "on-change":
            self._again_at = time.monotonic() + _AGAIN_S
        self._note(
            ReloadStatus(
                in_force_since_ms=self.status.in_force_since_ms,
                tried_ms=_now_ms(),
                by=by,
                result=ReloadResult.NEEDS_RESTART if waits else ReloadResult.REFUSED,
                reason=str(error),
                changes=changes,
                pending=True,
                exit_code=error.exit_code,
            )
        )

    def _note(self, status: ReloadStatus) -> None:
        before, self.status = self.status, status
        self._on_noted(status.reason)
        again = (before.result, before.reason, before.by) == (
            status.result,
            status.reason,
            status.by,
        )
        if again and status.by == _THE_FILE:
            return
        about = {"by": status.by, "changes": "; ".join(status.changes)}
        if status.reason is None:
            _log.info(f"file {status.result}", extra=about)
        else:
            _log.warning("file not in force", extra={**about, "reason": status.reason})

    def _renew(self) -> None:
        """Renews credentials from the changed file. Logs an error; the next change tries again."""
        found = self._read()
        if isinstance(found, CausewayError):
            self._not_renewed(found)
            return
        if not self._renew_credentials(found):
            return
        difference = self._compare(self._running, found)
        pending = bool(difference.changes)
        if pending and not self.status.pending:
            about = {"changes": "; ".join(difference.changes)}
            _log.info("file has changed and is not in force", extra=about)
        # A reason of an earlier attempt is about an earlier version of the file.
        self.status = self.status.replace(
            pending=pending, changes=difference.changes, reason=None, exit_code=0
        )
        self._on_noted(None)

    def _renew_credentials(self, found: Settings) -> bool:
        """Returns whether the clients have all credentials of `found`."""
        try:
            for new in self._clients.renewable(found).values():
                self._reach(new)
            changed = self._clients.renew(found)
        except CausewayError as error:
            self._not_renewed(error)
            self._again_at = time.monotonic() + _AGAIN_S
            return False
        self._trouble = ""
        if changed:
            aliases = dict.fromkeys(settings.alias for settings in changed.values())
            _log.info("credentials renewed", extra={"clusters": ", ".join(aliases)})
            self._running = self._clients.in_force(self._running)
            self._on_renewed(changed, self._running)
            self.expiries, self._warn_at = expiries(self._clients.by_key.values()), 0.0
        return True

    def _not_renewed(self, error: CausewayError) -> None:
        if str(error) != self._trouble:
            self._trouble = str(error)
            _log.warning("credentials not renewed", extra={"reason": self._trouble})
        self.status = self.status.replace(pending=True, reason=str(error), changes=())
        self._on_noted(str(error))

    def _warn(self) -> None:
        if time.monotonic() < self._warn_at:
            return
        self._warn_at = time.monotonic() + _WARN_S
        for each in self.expiries:
            if (text := each.warning()) is not None:
                _log.warning("certificate expires", extra={"reason": text})


def _now_ms() -> int:
    return int(time.time() * 1000)
