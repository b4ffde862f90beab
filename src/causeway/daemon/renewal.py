"""Reads certificates and passwords again during a run, and warns before certificates expire.

A thread checks the files that the settings come from, and reads the settings again after a change.
It does not wait for a refusal: certificates that are renewed in time are used in time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from causeway.config import ClientSettings, Settings
from causeway.config.reading import expiries
from causeway.daemon.clients import Clients
from causeway.errors import CausewayError

_log = logging.getLogger("causeway.run")
_LOOK_S: Final = 10.0
_WARN_S: Final = 24 * 3600.0  # between two warnings of the same certificate


class Renewal:
    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        on_renewed: Callable[[Mapping[str, ClientSettings]], None],
    ) -> None:
        """`on_renewed` gets the settings of the clients that changed, by key."""
        self._first = settings
        self._rereading = settings.rereading
        self._clients = clients
        self._on_renewed = on_renewed
        self._trouble = ""
        self.expiries = expiries(clients.by_key.values())
        self._warn_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while True:
            try:
                self.look()
                self._warn()
            except Exception as error:  # the thread must survive
                _log.error("internal error", exc_info=error)
            if self._stop.wait(_LOOK_S):
                return

    def look(self) -> None:
        """Check the files once. Log settings that cannot be used; the next call tries again."""
        if self._rereading is None or not self._rereading.stale:
            return
        try:
            found = self._rereading.read()
            changed = self._clients.renew(self._first, found)
        except CausewayError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.warning("credentials not renewed", extra={"reason": self._trouble})
            return
        self._trouble = ""
        self._rereading = found.rereading
        if changed:
            aliases = dict.fromkeys(settings.alias for settings in changed.values())
            _log.info("credentials renewed", extra={"clusters": ", ".join(aliases)})
            self._on_renewed(changed)
            self.expiries = expiries(self._clients.by_key.values())
            self._warn_at = 0.0

    def _warn(self) -> None:
        if time.monotonic() < self._warn_at:
            return
        self._warn_at = time.monotonic() + _WARN_S
        for each in self.expiries:
            if (text := each.warning()) is not None:
                _log.warning("certificate expires", extra={"reason": text})
