"""One cutover of a link at a time, and its undo.

A command takes a lock in the directives topic, for half a minute, and renews it. A second command
gets an error that names the first one. If the first command was killed, others wait until its lock
is over. Two kinds of commands do not wait: a command on the same machine, because it sees that the
process has ended; and a command of the same user, who knows whether the first one goes on. An undo
takes the lock from any command, lifts the fences, and releases mirrors that are held for an end.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from causeway.cluster import Cluster, clusters
from causeway.config import LinkSettings, Settings
from causeway.control import fences
from causeway.daemon import processes
from causeway.errors import BrokerError, CausewayError, ConflictError
from causeway.link_topics import (
    THE_LINK,
    WRITE_DIRECTIVES,
    CutoverDirective,
    DirectiveKind,
    DirectiveLog,
    DirectivePlan,
    EndDirective,
    FenceDirective,
    LinkDirectives,
    Scope,
    write_directives,
)
from causeway.model import State
from causeway.operate.directives import choose_one, current_user, sharers_of
from causeway.status import picked

LOCK_S: Final = 30.0
_RENEW_S = 8.0
_KEY = DirectiveKind.CUTOVER, THE_LINK
_TRIES = 4
_PAUSE_S = 0.3
_UNKNOWN_SERVER_ERROR = -1

T = TypeVar("T")


def persist(write: Callable[[], T]) -> T:
    """Repeats a write of directives that met a concurrent write, for example of a pause or of the
    driver. Only for writes that decide by the directives at that time: repeating them does no
    harm."""
    for tried in range(1, _TRIES):
        try:
            return write()
        except CausewayError as error:
            if not _is_crossed(error):
                raise
            time.sleep(_PAUSE_S * tried)
    return write()


def _is_crossed(error: CausewayError) -> bool:
    """Returns whether a concurrent write has fenced this write's producer. Brokers have no error
    code of its own for that."""
    if isinstance(error, BrokerError):
        return error.code == _UNKNOWN_SERVER_ERROR
    return isinstance(error, ConflictError) and error.operation == WRITE_DIRECTIVES


class CutoverLock:
    """Held from the start of a `with` block to its end. Raises ConflictError if another command
    holds it; later `check` and `writing` raise it, and then nothing may be changed. `takes`: takes
    the lock from any holder, because an undo does not wait."""

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
        self._until = 0.0  # until then the lock is surely ours (monotonic)
        self._lost: ConflictError | None = None
        self._writing = threading.Lock()  # two writers of one process would fence each other
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
        """Directives may be written in this block, which takes up to `for_s`. Raises like
        `check`."""
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
                pass  # `check` raises if this lasts

    def _write(self, for_s: float = LOCK_S) -> None:
        begun = time.monotonic()
        take = partial(self._take, for_s)
        persist(lambda: write_directives(self._target, self._link, take))
        self._until = begun + for_s

    def _take(self, for_s: float, directives: LinkDirectives) -> DirectivePlan:
        now = int(time.time() * 1000)
        there = directives.get(CutoverDirective)
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
        """Returns whether it is the lock of another command, as far as this process can know. If
        that command goes on nevertheless, it writes nothing any more: see `refuse_others`."""
        if there.run == self._run or there.until <= now_ms or processes.has_ended(there.run):
            return False
        return there.who != self._who or processes.may_live_here(there.run)

    def refuse_others(self, directives: LinkDirectives) -> None:
        """Raises ConflictError if the directives do not name this command as the owner."""
        there = directives.get(CutoverDirective)
        if there is None or there.run != self._run:
            whose = (
                "an undo has taken its lock" if there is None else f"its lock is taken {there.by}"
            )
            raise self._conflict(whose, "look at `causeway status`, and call it again")

    def _conflict(self, cause: str, remedy: str) -> ConflictError:
        about = f"{self._link.name} for {self._who}"
        return ConflictError("cut over", about, cause, remedy=remedy)

    def _give_back(self, directives: LinkDirectives) -> DirectivePlan:
        there = directives.get(CutoverDirective)
        ours = there is not None and there.run == self._run
        return DirectivePlan(changes=((_KEY, None),) if ours else ())


# -- undo -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """`topics`: by topic of the source, the error of a fence that stays; None if it is lifted.
    `ended`: the topics whose mirror has ended. `held`: the scopes that an unfinished promotion
    held; they are mirrored again. `stopped`: who was cutting over the link; that command ends."""

    link: LinkSettings
    topics: dict[str, CausewayError | None]
    ended: frozenset[str]
    held: tuple[str, ...]
    stopped: str | None
    changed: bool


def undo(
    settings: Settings,
    *,
    link: str | None = None,
    topics: Collection[str] = (),
    act: bool = False,
    who: str | None = None,
) -> Lifted:
    """Lifts the fences of `topics`, or all of the link, so that producers continue on the source.

    Without `act` it only shows the fences. Mirrors that an interrupted promotion holds continue;
    promoted mirrors stay promoted. A cutover of the link that runs meanwhile gets an error, and
    ends. Raises like `cutover`.
    """
    with clusters() as connect:
        chosen, names = choose_one(settings, link, topics, connect)
        source, target = connect(chosen.source_admin), connect(chosen.target_admin)
        log = DirectiveLog(target, chosen.directives_topic)
        found, held = _look(log, names)
        at_it = under_way(log.directives, int(time.time() * 1000))
        errors: dict[str, CausewayError | None] = dict.fromkeys(found)
        changes = act and bool(found or held or at_it)
        if changes:
            with (
                CutoverLock(target, chosen, who or current_user(), takes=True) as lock,
                lock.writing(),
            ):
                # Until now the other command may have changed directives.
                found, held = _look(log, names)
                if held:
                    persist(lambda: write_directives(target, chosen, partial(_go_on, names)))
                sharers = sharers_of(settings, chosen, connect)
                lift = partial(fences.lift, source, target, chosen, list(found.values()), sharers)
                errors = persist(lift)
        return Lifted(
            link=chosen,
            topics=errors,
            ended=frozenset(topic for topic in found if log.directives.has_ended(Scope(topic))),
            held=tuple(str(each.scope) for each in held),
            stopped=at_it.by if at_it is not None else None,
            changed=changes,
        )


def _look(
    log: DirectiveLog, names: Collection[str]
) -> tuple[dict[str, FenceDirective], list[EndDirective]]:
    """Returns the fences and the held mirrors of the topics `names`, or of all the link if there
    are none."""
    log.look()
    return fences.fences(log.directives, names or None), _held(log.directives, names)


def under_way(directives: LinkDirectives, now_ms: int) -> CutoverDirective | None:
    """Returns the lock of a command that cuts over the link at this time."""
    found = directives.get(CutoverDirective)
    return found if found is not None and found.until > now_ms else None


def _held(directives: LinkDirectives, names: Collection[str]) -> list[EndDirective]:
    """Returns ends that are not done, of the topics `names`, or of all the link if there are
    none."""
    return [
        each
        for each in directives.all(EndDirective)
        if each.how is State.PROMOTING and (not names or each.scope.topic in names)
    ]


def _go_on(names: Collection[str], directives: LinkDirectives) -> DirectivePlan:
    return DirectivePlan(changes=tuple((each.key, None) for each in _held(directives, names)))


def undo_json(lifted: Lifted) -> dict[str, Any]:
    return picked(
        lifted,
        "changed held stopped",
        link=lifted.link.name,
        fences=[
            {"topic": topic, "ended": topic in lifted.ended, "error": error and str(error)}
            for topic, error in sorted(lifted.topics.items())
        ],
    )
