"""Ticket caches in files: the newest content, and the renewal of the ticket before it expires.

A process that has the file renews it while the process runs: driver, commands, Spark's processes.
As with Kafka's Java client this is the work of kinit, because GSSAPI cannot renew a ticket.
"""

from __future__ import annotations

import base64
import logging
import os
import random
import re
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from causeway.config import KerberosSettings, Secret, TicketRenewal
from causeway.errors import AuthenticationError

_log = logging.getLogger("causeway.logins")
_FIRST_S: Final = 5.0  # most commands end before the first turn, so they neither renew nor warn
_LOOK_S: Final = 60.0  # between two looks at the file: other programs may renew the ticket too
_SOON_S: Final = 5.0  # the least time between two attempts, also if the ticket expires soon
_LATEST: Final = 0.95  # share of a ticket's life: a later renewal might miss its end
_KINIT_S: Final = 60.0
_RENEWABLE: Final = 0x00800000  # RFC 4120, 5.3: bit 8 of the flags
_VERSIONS: Final = (0x0503, 0x0504)
_FILE: Final = re.compile(r"\s*\(filename: [^)]*\)")


class Ticket(NamedTuple):
    """The ticket-granting ticket of a cache, with times in seconds since 1970. `renew_until`: 0 if
    it is not renewable."""

    start: int
    end: int
    renew_until: int


def ticket_of(content: bytes) -> Ticket:
    """Returns the ticket of a cache in MIT's or Java's file format. Raises ValueError for other
    content, and for an incomplete file."""
    try:
        return next(_tickets(_Fields(content)))
    except (struct.error, StopIteration):
        raise ValueError("it has no ticket") from None


class _Fields:
    """Reads the fields of a file one after another. Raises struct.error at its end."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(f">{form}", self._content, self._at)
        self._at += struct.calcsize(f">{form}")
        return found

    def number(self, form: str = "I") -> int:
        return self.numbers(form)[0]

    def data(self) -> bytes:
        found: bytes = struct.unpack_from(f"{self.number()}s", self._content, self._at)[0]
        self._at += len(found)
        return found

    def principal(self) -> list[bytes]:
        """Reads a principal: its realm and its parts."""
        self.number()
        return [self.data() for _ in range(self.number() + 1)]

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._content)


def _tickets(fields: _Fields) -> Iterator[Ticket]:
    """Yields the tickets for the KDC of the cache's own realm."""
    version = fields.number("H")
    if version not in _VERSIONS:
        raise ValueError("it is not a ticket cache")
    if version == _VERSIONS[1]:
        fields.numbers(f"{fields.number('H')}x")
    realm = fields.principal()[0]
    while not fields.at_end:
        fields.principal()
        server = fields.principal()
        fields.numbers("H" if version == _VERSIONS[1] else "HH")  # the kind of the key
        fields.data()
        since, start, end, renew_until, _, flags = fields.numbers("IIIIBI")
        for _ in range(2):  # addresses, authorization data
            for _ in range(fields.number()):
                fields.number("H")
                fields.data()
        for _ in range(2):  # the ticket, a second one
            fields.data()
        if server == [realm, b"krbtgt", realm]:
            yield Ticket(start or since, end, renew_until if flags & _RENEWABLE else 0)


def with_newest_tickets(settings: KerberosSettings, alias: str) -> KerberosSettings:
    """Returns `settings` with the present content of the ticket cache, if this process has the
    file. From now on its ticket is renewed. `alias`: the cluster, for people."""
    if settings.renewal is None:
        return settings
    renewal = settings.renewal
    with _starting:
        if renewal not in _renewers:
            _renewers[renewal] = TicketRenewer(renewal, alias)
            threading.Thread(target=_renewers[renewal].run, name="ticket", daemon=True).start()
    try:
        content = Path(renewal.path).read_bytes()
        ticket_of(content)
    except (OSError, ValueError):  # it is being replaced
        return settings
    return replace(settings, ticket_cache=Secret(base64.b64encode(content).decode()))


class TicketRenewer:
    """Renews the ticket of one file. Other processes may do so at the same time. `alias`: a cluster
    that uses the file."""

    def __init__(self, settings: TicketRenewal, alias: str) -> None:
        self._settings, self._alias = settings, alias
        share = settings.window + settings.jitter * random.random()  # noqa: S311 - no secret
        self._share = min(share, _LATEST)
        self._tried_at = 0.0
        self._warned: object = None  # the ticket or the cause of the last warning

    def run(self) -> None:
        wait_s = _FIRST_S
        while True:
            time.sleep(wait_s)
            try:
                wait_s = min(self.turn(), _LOOK_S)
            except Exception as error:  # the thread must survive
                _log.error("internal error", exc_info=error)
                wait_s = _LOOK_S

    def turn(self) -> float:
        """Renews the ticket if it is time. Returns the seconds until the next turn."""
        now, ticket = time.time(), self._read()
        if ticket is None or ticket.end <= now:  # the next login reports it
            return _LOOK_S
        if ticket.renew_until <= ticket.end:
            self._warn_of_end(ticket)
            return _LOOK_S
        if (due := self._due(ticket)) > now:
            return due - now
        self._tried_at = now
        if (cause := self._renew()) is None:
            self._warned = None
            _log.info("%s: the ticket of the ticket cache is renewed", self._alias)
        elif self._read() == ticket:  # no other process has just renewed it
            remedy = "check sasl.kerberos.kinit.cmd and the KDC, or run kinit again"
            self._warn(cause, f"{cause}; it expires at {_utc(ticket.end)}", remedy)
        return 0.0

    def _read(self) -> Ticket | None:
        try:
            return ticket_of(Path(self._settings.path).read_bytes())
        except (OSError, ValueError):
            return None

    def _due(self, ticket: Ticket) -> float:
        due = ticket.start + (ticket.end - ticket.start) * self._share
        later = self._tried_at + max(self._settings.least_ms / 1000, _SOON_S)
        return max(due, later if later < ticket.end else self._tried_at + _SOON_S)

    def _renew(self) -> str | None:
        """Renews the ticket. Returns why that failed, None if it succeeded."""
        path = self._settings.path
        try:
            done = subprocess.run(
                [self._settings.command, "-R"],
                env={**os.environ, "KRB5CCNAME": f"FILE:{path}", "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_KINIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"kinit does not end within {_KINIT_S:g} s"
        except OSError as error:
            return f"kinit cannot be run: {(error.strerror or str(error)).lower()}"
        if done.returncode == 0:
            return None
        said = _FILE.sub("", done.stderr).replace(path, "the file").split("\n")
        return next(filter(None, map(str.strip, said)), f"kinit ends with {done.returncode}")

    def _warn_of_end(self, ticket: Ticket) -> None:
        why = "it is not renewable"
        if ticket.renew_until:
            why = "its renewable life is over then"
        self._warn(
            ticket,
            f"it expires at {_utc(ticket.end)}, and {why}",
            "run kinit again before then (kinit -r LIFE for a renewable ticket), or use a keytab",
        )

    def _warn(self, about: object, cause: str, remedy: str) -> None:
        """Warns, but not twice in succession about the same."""
        if self._warned != about:
            subject = f"the ticket of {self._alias}'s ticket cache"
            _log.warning("%s", AuthenticationError("renew", subject, cause, remedy=remedy))
        self._warned = about


def _utc(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


_renewers: dict[TicketRenewal, TicketRenewer] = {}
_starting = threading.Lock()
