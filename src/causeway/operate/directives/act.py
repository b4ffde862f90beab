"""Writes requests of a running mirror: pause, resume, restart, throttle, step down.

Each request is written to the directives topic of its links on the target. No driver has to be
reachable, or to run: the leader reads the requests there, and so does the next leader. Then the
request waits until the leader's progress topic says that the leader has acted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Unpack

from causeway.cluster import Connect, clusters
from causeway.config import LinkSettings, Settings
from causeway.errors import CausewayError, ConfigError, NobodyLeadsError, RefusedError
from causeway.link_topics import (
    MOST_RATE,
    Directive,
    DirectiveKind,
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
from causeway.operate.directives.scopes import Asked, Wanted, choose_answering
from causeway.status import PartitionStatus, by_progress, driver_of, picked

_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectiveOutcome:
    """The outcome for one link. `action`: pause, resume, restart, throttle or step-down.

    `changed`: False if everything was as requested already; `before` is the directive that was in
    force for the scope, with its time and author. `beside`: directives for parts of the scope,
    which still apply. `driver`: the leading driver, None if there is none. `acted`: whether it has
    acted; None if the request did not wait. `refused`: why it cannot act. `seen`: the scope's
    partitions after that. `error`: why this link could not be asked; the others were asked.
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


def pause(settings: Settings, **asked: Unpack[Asked]) -> tuple[DirectiveOutcome, ...]:
    """Pauses a link (all of the file without `link`), topic or partition until it is resumed. This
    holds for each leading driver.

    If a link's target does not answer, its outcome has an `error`, and the others are paused.
    Raises ConfigError for an unknown name, with similar names; ConflictError for a concurrent
    request; CausewayError.
    """
    wanted = Wanted(**asked)
    return _ask("pause", settings, wanted, wanted.wish(PauseDirective))


def resume(settings: Settings, **asked: Unpack[Asked]) -> tuple[DirectiveOutcome, ...]:
    """Takes a pause back, also for a part of the paused scope. Pauses of smaller scopes go on
    (`beside`). Otherwise like `pause`."""
    # If a topic was paused before it existed, its directive makes the topic known.
    wanted = Wanted(**asked)
    return _ask("resume", settings, wanted, wanted.wish(PauseDirective, paused=False))


def restart(
    settings: Settings, *, adopt: bool = False, translate: bool = False, **asked: Unpack[Asked]
) -> tuple[DirectiveOutcome, ...]:
    """Has stopped and failed partitions tried again now, with all checks of a first try: if records
    could be lost or doubled, they stop again. Running partitions go on. Otherwise like `pause`.

    `adopt`: stopped partitions go on as after `run --adopt`, without their lost records, and
    earlier losses are acknowledged. `translate`: stopped partitions of a topic that keeps its
    offsets go on with translated offsets, whatever the file says."""
    wanted = Wanted(**asked)
    wish = wanted.wish(RestartDirective, adopt=adopt, translate=translate)
    return _ask("restart", settings, wanted, wish)


def throttle(
    settings: Settings, *, bytes_per_s: int | None, off: bool = False, **asked: Unpack[Asked]
) -> tuple[DirectiveOutcome, ...]:
    """Limits the bytes/s that a link, or one of its topics, reads from its source. None: no limit,
    whatever the file says. `off`: takes the limit back, so that the file counts. Otherwise like
    `pause`."""
    if bytes_per_s is not None and not 1 <= bytes_per_s <= MOST_RATE:
        raise ConfigError("throttle", cause=f"a rate must be 1 to {MOST_RATE} bytes/s")
    wanted = Wanted(**asked)
    wish = wanted.wish(ThrottleDirective, bytes_per_s=bytes_per_s)
    return _ask("throttle", settings, wanted, wish, back=off)


def step_down(settings: Settings, **asked: Unpack[Asked]) -> tuple[DirectiveOutcome, ...]:
    """Has the driver that leads a link hand it over to a waiting driver. If none waits, the same
    driver leads again. Raises NobodyLeadsError if no driver leads; otherwise like `pause`."""
    wanted = Wanted(**asked)
    return _ask("step-down", settings, wanted, wanted.wish(StepDownDirective))


def outcome_json(outcome: DirectiveOutcome) -> dict[str, Any]:
    """Returns JSON for `--json` and the API: stable keys."""
    before, error = outcome.before, outcome.error
    return picked(
        outcome,
        "link action changed driver acted refused gap_ms",
        **outcome.scope._asdict(),
        error=error and str(error),
        before=before and directive_as_json(before),
        beside=[directive_as_json(each) for each in outcome.beside],
        partitions=[picked(one, "topic partition state reason") for one in outcome.seen],
    )


def _ask(
    action: str, settings: Settings, wanted: Wanted, wish: Directive, *, back: bool = False
) -> tuple[DirectiveOutcome, ...]:
    def decide(directives: LinkDirectives) -> DirectivePlan:
        if back:
            return plan_removal(directives, wish.kind, wish.scope)
        return plan_directive(directives, wish)

    with clusters() as connect:
        chosen, left, _ = choose_answering(settings, wanted, connect, action)
        asked = [DirectiveRequest(link, action, connect) for link in chosen]
        if action == "step-down" and all(each.driver is None for each in asked):
            names = ", ".join(each.name for each in chosen)
            raise NobodyLeadsError("step down", names, "no driver leads now")
        if action == "resume":
            refuse_paused_by_file(chosen)
        for each in asked:
            each.write(wish, decide)
        deadline = None if wanted.wait_s is None else time.monotonic() + wanted.wait_s
        found = {each.link.name: each.outcome(deadline) for each in asked}
        for name, error in left.items():
            found[name] = DirectiveOutcome(
                link=name, action=action, scope=wish.scope, changed=False, driver=None, error=error
            )
        return tuple(found[each.name] for each in settings.links if each.name in found)


def refuse_paused_by_file(links: Collection[LinkSettings]) -> None:
    """Raises RefusedError for a link that the file itself pauses: no command resumes it."""
    for link in links:
        if link.records_paused:
            where = link.places.get("causeway.paused", "causeway.paused")
            cause = f"the file itself pauses it: {where}"
            remedy = "change that, and run `causeway reload` where the driver runs"
            raise RefusedError("resume", link.name, cause, remedy=remedy)


class LinkRequests:
    """Writes directives of one link, and reads in its progress topic whether its driver has acted.
    `contents`: the progress topic, as far as it was read. Raises CausewayError."""

    def __init__(self, link: LinkSettings, connect: Connect) -> None:
        self.link = link
        self.target = connect(link.target_admin)
        self._progress = ProgressTopic(self.target, link.progress_topic)
        self.contents = self._progress.read() if self._progress.exists() else ProgressContents()

    @property
    def driver(self) -> str | None:
        """The leading driver, by the progress read so far; None if there is none."""
        found = driver_of(self.contents.leases, int(time.time() * 1000))
        return found.owner if found is not None and found.running else None

    def change(self, decide: Callable[[LinkDirectives], DirectivePlan]) -> WrittenDirectives:
        """Raises ConflictError for a concurrent request."""
        return write_directives(self.target, self.link, decide)

    def read_on(self) -> None:
        if self.contents.end or self._progress.exists():
            self.contents.update(self._progress.read(self.contents.end))

    def has_acted(self, written: WrittenDirectives, kind: DirectiveKind | None = None) -> bool:
        """Returns whether the driver says that it has acted. `kind`: the kind of a directive that
        the driver must know: an older driver ignores kinds that it does not know."""
        acted = self.contents.directives
        return (
            acted is not None
            and acted.topic_id == written.topic_id
            and acted.applied >= written.end
            and (kind is None or kind.value in acted.kinds)
        )

    def reads_on_until(self, deadline: float) -> bool:
        """Reads on after a moment. Returns False if `deadline` (monotonic) is over."""
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
        self.read_on()
        return True


class DirectiveRequest(LinkRequests):
    """The request for one link: `write`, then `outcome`."""

    def __init__(self, link: LinkSettings, action: str, connect: Connect) -> None:
        super().__init__(link, connect)
        self._action = action

    def write(
        self, wish: Directive, decide: Callable[[LinkDirectives], DirectivePlan]
    ) -> DirectivePlan:
        """`wish` has the scope. Raises ConflictError for a concurrent request."""
        self._wish = wish
        self._written = self.change(decide)
        return self._written.plan

    def outcome(self, deadline: float | None) -> DirectiveOutcome:
        """Waits until `deadline` (monotonic) for the leading driver to act; None: does not wait."""
        plan, scope = self._written.plan, self._wish.scope
        acted, gap_ms = None, None
        if deadline is not None and self.driver is not None:
            if isinstance(self._wish, StepDownDirective):
                acted, gap_ms = self._await_lead(deadline)
            else:
                while not (acted := self.has_acted(self._written)):
                    if not self.reads_on_until(deadline):
                        break
        record = self.contents.directives
        return DirectiveOutcome(
            link=self.link.name,
            action=self._action,
            scope=scope,
            changed=bool(plan.changes),
            driver=self.driver,
            before=plan.before,
            beside=plan.parts,
            acted=acted,
            refused=record.reason if record is not None and acted is False else None,
            seen=tuple(
                by_progress(self.link, one)
                for at, one in sorted(self.contents.partitions.items())
                if acted and scope.covers(at) and one.gone_at < 0
            ),
            gap_ms=gap_ms,
        )

    def _await_lead(self, deadline: float) -> tuple[bool, int | None]:
        """Returns whether the lead was handed over in time, and how long no driver led (ms)."""
        before, known = self.contents.leases[-1], len(self.contents.leases)
        let_go: LeaseRecord | None = None
        while self.reads_on_until(deadline):
            for lease in self.contents.leases[known:]:
                if lease.released and lease.process == before.process:
                    let_go = lease
                elif lease.process != before.process or let_go is not None:
                    since = None if let_go is None else lease.written_at - let_go.written_at
                    return True, since
            known = len(self.contents.leases)
        return False, None
