"""One cutover of a link at a time: a command takes a lock in the directives topic, for half a
minute, and renews it. A second command gets an error that names the first. If the first command was
killed, others wait until its lock is over. Two kinds of commands do not wait: those on the same
machine, which see that its process has ended, and those of the same user, who knows whether it goes
on."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.daemon import processes
from causeway.errors import BrokerError, CausewayError, ConflictError
from causeway.link_topics import (
    THE_LINK,
    WRITE_DIRECTIVES,
    CutoverDirective,
    DirectiveKind,
    DirectivePlan,
    LinkDirectives,
    write_directives,
)

LOCK_S: Final = 30.0
_RENEW_S = 8.0
_KEY = DirectiveKind.CUTOVER, THE_LINK
_TRIES = 4
_PAUSE_S = 0.3
_UNKNOWN_SERVER_ERROR = -1

T = TypeVar("T")


def persist(write: Callable[[], T]) -> T:
    """Repeats a write of directives that met a concurrent one: a pause, say, or the driver's. For
    writes that decide by the directives at that time, so that a second one does no harm."""
    for tried in range(1, _TRIES):
        try:
            return write()
        except CausewayError as error:
            if not _is_crossed(error):
                raise
            time.sleep(_PAUSE_S * tried)
    return write()


def _is_crossed(error: CausewayError) -> bool:
    """Brokers have no error of their own for a commit that meets its producer being fenced."""
    if isinstance(error, BrokerError):
        return error.code == _UNKNOWN_SERVER_ERROR
    return isinstance(error, ConflictError) and error.operation == WRITE_DIRECTIVES


class CutoverLock:
    """Held from the start of a `with` block to its end. Raises ConflictError if another command
    holds it, also later, by `check` and `writing`: nothing may be changed then. `takes`: takes the
    lock from any holder, because an undo does not wait."""

    def __init__(
        self, target: Cluster, link: LinkSettings, who: str, *, takes: bool = False
    ) -> None:
        self._target = target
        self._link = link
        self._who = who
        self._takes = takes
        self._run = f"{processes.fingerprint()}#{uuid.uuid4().hex}"
        self._since = int(time.time() * 1000)
        self._over = threading.Event()
        self._until = 0.0  # monotonic: so long it is surely ours
        self._lost: ConflictError | None = None
        self._writing = threading.Lock()  # two writers of one process would fence each other, too
        self._thread = threading.Thread(target=self._renew, name="cutover lock", daemon=True)

    def __enter__(self) -> CutoverLock:
        self._write()
        self._takes = False
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        with suppress(CausewayError):  # it is over by itself soon
            write_directives(self._target, self._link, self._give_back)

    def check(self) -> None:
        """Raises if the lock is lost, or was not renewed in time."""
        if self._lost is not None:
            raise self._lost
        if time.monotonic() > self._until:
            raise CausewayError(
                "cut over",
                self._link.name,
                "it was not possible to say in time that this command goes on",
                remedy="call it again",
                retriable=True,
            )

    @contextmanager
    def writing(self, for_s: float = LOCK_S) -> Iterator[None]:
        """Directives may be written in this block, that takes up to `for_s`. Raises as `check`."""
        self.check()
        with self._writing:
            self._write(for_s)
            yield

    def _renew(self) -> None:
        while not self._over.wait(_RENEW_S):
            try:
                with self._writing:
                    self._write()
            except ConflictError as error:
                if not _is_crossed(error):
                    self._lost = error
                    return
            except CausewayError:
                pass  # `check` tells once it lasts

    def _write(self, for_s: float = LOCK_S) -> None:
        begun = time.monotonic()
        take = partial(self._take, for_s)
        persist(lambda: write_directives(self._target, self._link, take))
        self._until = begun + for_s

    def _take(self, for_s: float, standing: LinkDirectives) -> DirectivePlan:
        now = int(time.time() * 1000)
        there = standing.get(CutoverDirective)
        if there is not None and not self._takes and self._is_others(there, now):
            raise self._conflict(
                f"it is being cut over {there.by}",
                "nothing was changed; if that command is gone, its lock ends within "
                f"{math.ceil((there.until - now) / 1000)} s",
            )
        until = now + round(for_s * 1000)
        wish = CutoverDirective(who=self._who, at=self._since, until=until, run=self._run)
        return DirectivePlan(changes=((wish.key, wish),))

    def _is_others(self, there: CutoverDirective, now_ms: int) -> bool:
        """Whether it is the lock of another command, as far as this process can know. If that
        command goes on in spite of this answer, it writes nothing any more: see `refuse_others`."""
        if there.run == self._run or there.until <= now_ms or processes.has_ended(there.run):
            return False
        return there.who != self._who or processes.may_live_here(there.run)

    def refuse_others(self, standing: LinkDirectives) -> None:
        """Raises ConflictError if the directives do not name us as the owner."""
        there = standing.get(CutoverDirective)
        if there is None or there.run != self._run:
            whose = (
                "an undo has taken its lock" if there is None else f"its lock is taken {there.by}"
            )
            raise self._conflict(whose, "look at `causeway status`, and call it again")

    def _conflict(self, cause: str, remedy: str) -> ConflictError:
        about = f"{self._link.name} for {self._who}"
        return ConflictError("cut over", about, cause, remedy=remedy)

    def _give_back(self, standing: LinkDirectives) -> DirectivePlan:
        there = standing.get(CutoverDirective)
        ours = there is not None and there.run == self._run
        return DirectivePlan(changes=((_KEY, None),) if ours else ())
