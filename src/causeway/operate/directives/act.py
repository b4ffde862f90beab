"""Writes requests of a running mirror: pause, resume, restart, throttle, step down.

Each writes to the directives topic of its links on the target. No driver needs to be reached, or to
run: the leader reads them there, and so does the next leader. Then the request waits until the
leader's progress topic says that it has acted.
"""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial as bound
from typing import Any, Final

from causeway.cluster import Connect, clusters
from causeway.config import LinkSettings, Settings
from causeway.errors import CausewayError, ConfigError, NobodyLeadsError, RefusedError
from causeway.link_topics import (
    MOST_RATE,
    AnyDirective,
    Directive,
    DirectivePlan,
    LeaseRecord,
    LinkDirectives,
    PauseDirective,
    ProgressContents,
    ProgressTopic,
    RestartDirective,
    Scope,
    StepDownDirective,
    ThrottleDirective,
    WrittenDirectives,
    directive_as_json,
    plan_directive,
    plan_removal,
    write_directives,
)
from causeway.operate.directives.scopes import Wanted, choose_answering
from causeway.status import PartitionStatus, by_progress, driver_of

WAIT_S: Final = 30.0
MOST_TEXT: Final = 500  # characters of a reason
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveOutcome:
    """Of one link. `action`: pause, resume, restart, throttle or step-down.

    `changed`: false where all was as asked for already, and `before` says since when and by whom:
    what counted for the scope until now. `beside`: requests about parts of it, which still
    apply. `driver`: the leading driver, None if there is none. `acted`: whether it has acted; None
    if the request did not wait. `refused`: why it cannot. `seen`: the scope's partitions after
    that. `error`: why the link could not be asked; the others were asked.
    """

    link: str
    action: str
    scope: Scope
    changed: bool
    driver: str | None
    before: Directive | None = None
    beside: tuple[Directive, ...] = ()
    acted: bool | None = None
    refused: str | None = None
    seen: tuple[PartitionStatus, ...] = ()
    gap_ms: int | None = None  # of a step-down: from one lead to the next
    error: CausewayError | None = None


def pause(
    settings: Settings,
    *,
    link: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    reason: str | None = None,
    who: str | None = None,
    ahead: bool = False,
    wait_s: float | None = WAIT_S,
) -> tuple[DirectiveOutcome, ...]:
    """Has nothing more of a link (all of the file without `link`), topic (a name on the source) or
    partition mirrored until it is resumed, by whichever driver leads.

    `who` is this user at this host unless given. `ahead`: the topic need not be there yet. Waits up
    to `wait_s` for the leading driver to have acted; None: not. A link whose target does not answer
    has an `error` in its outcome, and the others are paused. Raises ConfigError for a name that
    is unknown, with those like it; ConflictError for a concurrent request;
    CausewayError.
    """
    wish = wish_of(PauseDirective, reason, who)
    return _ask("pause", settings, wish, Wanted(link, topic, partition, ahead), wait_s)


def resume(
    settings: Settings,
    *,
    link: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    reason: str | None = None,
    who: str | None = None,
    wait_s: float | None = WAIT_S,
) -> tuple[DirectiveOutcome, ...]:
    """Takes a pause back, also for a part of the paused scope. Pauses of smaller scopes go on
    (`beside`). Otherwise like `pause`."""
    wish = wish_of(PauseDirective, reason, who, paused=False)
    # What was paused ahead of its coming can be resumed likewise.
    return _ask("resume", settings, wish, Wanted(link, topic, partition, ahead=False), wait_s)


def restart(
    settings: Settings,
    *,
    link: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    adopt: bool = False,
    reason: str | None = None,
    who: str | None = None,
    wait_s: float | None = WAIT_S,
) -> tuple[DirectiveOutcome, ...]:
    """Has what is stopped or failed tried again now, with all the checks of a first try: what could
    lose or double records stops again. Running partitions are left alone. Otherwise as `pause`.

    `adopt`: stopped partitions go on as after `run --adopt`, without their lost records, and
    earlier losses are acknowledged."""
    wish = wish_of(RestartDirective, reason, who, adopt=adopt)
    return _ask("restart", settings, wish, Wanted(link, topic, partition, ahead=False), wait_s)


def throttle(
    settings: Settings,
    *,
    bytes_per_s: int | None,
    off: bool = False,
    link: str | None = None,
    topic: str | None = None,
    reason: str | None = None,
    who: str | None = None,
    ahead: bool = False,
    wait_s: float | None = WAIT_S,
) -> tuple[DirectiveOutcome, ...]:
    """Limits what a link, or a topic of it, reads from its source, in bytes/s; None: not at all,
    whatever the file says; `off`: takes it back, so that the file counts. Otherwise as `pause`."""
    if bytes_per_s is not None and not 1 <= bytes_per_s <= MOST_RATE:
        raise ConfigError("throttle", cause=f"a rate must be 1 to {MOST_RATE} bytes/s")
    wish = wish_of(ThrottleDirective, reason, who, bytes_per_s=bytes_per_s)
    return _ask("throttle", settings, wish, Wanted(link, topic, None, ahead), wait_s, back=off)


def step_down(
    settings: Settings,
    *,
    link: str | None = None,
    reason: str | None = None,
    who: str | None = None,
    wait_s: float | None = WAIT_S,
) -> tuple[DirectiveOutcome, ...]:
    """Has the driver that leads a link hand it over to one that waits for it; where none does, it
    leads again itself. Raises NobodyLeadsError if no driver leads; otherwise like `pause`."""
    wish = wish_of(StepDownDirective, reason, who)
    return _ask("step-down", settings, wish, Wanted(link, None, None, False), wait_s)


def outcome_json(outcome: DirectiveOutcome) -> dict[str, Any]:
    """For `--json` and the API: stable keys."""
    before = outcome.before
    return {
        "link": outcome.link,
        "action": outcome.action,
        "topic": outcome.scope.topic,
        "partition": outcome.scope.partition,
        "changed": outcome.changed,
        "driver": outcome.driver,
        "acted": outcome.acted,
        "refused": outcome.refused,
        "error": None if outcome.error is None else str(outcome.error),
        "before": None if before is None else directive_as_json(before),
        "beside": [directive_as_json(each) for each in outcome.beside],
        "gap_ms": outcome.gap_ms,
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "state": str(one.state),
                "reason": one.reason,
            }
            for one in outcome.seen
        ],
    }


def current_user() -> str:
    """This process's user and machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an id without a name, as in some containers
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def wish_of(
    which: type[AnyDirective], reason: str | None, who: str | None, **fields: Any
) -> AnyDirective:
    """A directive about the whole link, as of now; `fields`: those of its class. Raises
    ConfigError for a reason that is too long."""
    if reason is not None and len(reason) > MOST_TEXT:
        cause = f"it has {len(reason)} characters, and may have {MOST_TEXT}"
        raise ConfigError(str(which.kind), "reason", cause)
    why = (reason or "").strip() or None
    at = int(time.time() * 1000)
    return which(who=(who or current_user())[:MOST_TEXT], why=why, at=at, **fields)


def _ask(
    action: str,
    settings: Settings,
    wish: Directive,
    wanted: Wanted,
    wait_s: float | None,
    *,
    back: bool = False,
) -> tuple[DirectiveOutcome, ...]:
    with clusters() as connect:
        chosen, left, _ = choose_answering(settings, wanted, connect, action)
        scope = Scope(wanted.topic, wanted.partition)
        asked = [DirectiveRequest(link, action, connect) for link in chosen]
        if isinstance(wish, StepDownDirective):
            _refuse_without_driver(asked)
        if isinstance(wish, PauseDirective) and not wish.paused:
            _refuse_by_file(chosen)
        for each in asked:
            about = wish.replace(scope=scope)
            each.write(about, bound(_decide, about, back))
        deadline = None if wait_s is None else time.monotonic() + wait_s
        found = {each.link.name: each.outcome(deadline) for each in asked}
        for name, error in left.items():
            found[name] = DirectiveOutcome(
                link=name, action=action, scope=scope, changed=False, driver=None, error=error
            )
        return tuple(found[each.name] for each in settings.links if each.name in found)


def _refuse_without_driver(asked: Sequence[DirectiveRequest]) -> None:
    idle = [each.link.name for each in asked if each.driver is None]
    if len(idle) == len(asked):
        raise NobodyLeadsError("step down", ", ".join(idle), "no driver leads now")


def _refuse_by_file(links: Sequence[LinkSettings]) -> None:
    for link in links:
        if link.records_paused:
            where = link.places.get("causeway.paused", "causeway.paused")
            raise RefusedError(
                "resume",
                link.name,
                f"the file itself pauses it: {where}",
                remedy="change that, and start the driver again",
            )


class DirectiveRequest:
    """One link that something is asked of: `write`, then `outcome`. Raises CausewayError."""

    def __init__(self, link: LinkSettings, action: str, connect: Connect) -> None:
        self.link = link
        self._action = action
        self._target = connect(link.target_admin)
        self._progress = ProgressTopic(self._target, link.progress_topic)
        self._contents = self._progress.read() if self._progress.exists() else ProgressContents()
        self._wish: Directive | None = None
        self._written: WrittenDirectives | None = None

    @property
    def driver(self) -> str | None:
        """Who leads by now, as far as has been read."""
        found = driver_of(self._contents.leases, int(time.time() * 1000))
        return found.owner if found is not None and found.running else None

    @property
    def contents(self) -> ProgressContents:
        """Of the link's progress topic, as far as has been read."""
        return self._contents

    def write(
        self, wish: Directive, decide: Callable[[LinkDirectives], DirectivePlan]
    ) -> DirectivePlan:
        """`wish`: what it is about. Raises ConflictError for a concurrent request."""
        self._wish = wish
        self._written = write_directives(self._target, self.link, decide)
        return self._written.plan

    def outcome(self, deadline: float | None) -> DirectiveOutcome:
        """Waits until then (monotonic) for the driver that leads to have acted; None: not."""
        assert self._wish is not None
        assert self._written is not None
        plan = self._written.plan
        led_by = self._newest()
        driver, acted, gap_ms = self.driver, None, None
        if deadline is not None and driver is not None:
            if isinstance(self._wish, StepDownDirective):
                acted, gap_ms = self._await_lead(led_by, deadline)
            else:
                acted = self._await_word(self._written, deadline)
            driver = self.driver
        told = self._contents.directives
        return DirectiveOutcome(
            link=self.link.name,
            action=self._action,
            scope=self._wish.scope,
            changed=bool(plan.changes),
            driver=driver,
            before=plan.before,
            beside=plan.parts,
            acted=acted,
            refused=told.reason if told is not None and acted is False else None,
            seen=_seen(self.link, self._contents, self._wish.scope) if acted else (),
            gap_ms=gap_ms,
        )

    def _newest(self) -> LeaseRecord | None:
        return self._contents.leases[-1] if self._contents.leases else None

    def _await_word(self, written: WrittenDirectives, deadline: float) -> bool:
        """Whether the driver says in time that it has acted."""
        while True:
            told = self._contents.directives
            if (
                told is not None
                and told.topic_id == written.topic_id
                and told.applied >= written.end
            ):
                return True
            if not self._read_on(deadline):
                return False

    def _await_lead(self, before: LeaseRecord | None, deadline: float) -> tuple[bool, int | None]:
        """Whether the lead was handed over in time, and how long no driver had it (ms)."""
        assert before is not None
        known = len(self._contents.leases)
        let_go: LeaseRecord | None = None
        while True:
            for lease in self._contents.leases[known:]:
                if lease.released and lease.process == before.process:
                    let_go = lease
                elif lease.process != before.process or let_go is not None:
                    since = None if let_go is None else lease.written_at - let_go.written_at
                    return True, since
            known = len(self._contents.leases)
            if not self._read_on(deadline):
                return False, None

    def _read_on(self, deadline: float) -> bool:
        """False where time is over."""
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
        self._contents.update(self._progress.read(self._contents.end))
        return True


def _decide(wish: Directive, back: bool, standing: LinkDirectives) -> DirectivePlan:
    if back:
        return plan_removal(standing, wish.kind, wish.scope)
    return plan_directive(standing, wish)


def _seen(
    link: LinkSettings, contents: ProgressContents, scope: Scope
) -> tuple[PartitionStatus, ...]:
    return tuple(
        by_progress(link, one)
        for at, one in sorted(contents.partitions.items(), key=lambda item: item[0])
        if scope.covers(at) and one.gone_at < 0
    )


def all_acted(outcomes: Collection[DirectiveOutcome]) -> bool:
    """Whether none was waited for in vain."""
    return not any(each.acted is False for each in outcomes)
