"""Carries out the directives of a link while this process leads it. Reads the directives topic
twice a second, in its own thread.

    in force     pause, end: at once, here · throttle: sent to the lanes · withdrawn directives: by
                 the discoverer
    chosen       the discoverer looks again, and takes up or lets go of topics
    acts         restart: by the discoverer · step-down: by the link's leading thread
    overdue      fences and promotions whose commands may have died: see overdue.py
    done         the progress topic contains the offset up to which directives were applied; the
                 commands wait until it is there

The discoverer gives partitions to lanes. It waits until the directives in force are known.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping

from causeway.config import LinkSettings
from causeway.control import fences, geo_topics, open_transactions
from causeway.daemon.clients import Sides
from causeway.daemon.overdue import OverdueDirectives
from causeway.daemon.partitions import Reconciler, Registry
from causeway.daemon.requests import Requests
from causeway.errors import AuthorizationError, CausewayError
from causeway.link_topics import (
    THE_LINK,
    CutoverDirective,
    Directive,
    DirectiveKind,
    DirectiveLog,
    DirectivesRecord,
    EndDirective,
    LinkDirectives,
    PauseDirective,
    RestartDirective,
    Scope,
    ThrottleDirective,
)
from causeway.model import ENDED, HELD, NO_TOPIC_ID, same_topic
from causeway.status import LinkProblem

_log = logging.getLogger("causeway.link")
_LOOK_S = 0.5
_ENDS_S = 2.0  # between two measurements of the lag of paused partitions
_PATIENCE_S = 10.0  # with a broker that does not know the topic, because it has just started
_SOURCE_S = 2.0  # for the question for the source's id: pauses wait until it is answered
_FIRST_S = 30.0  # the longest time for which a step-down waits for earlier requests
_LOST = "the directives topic, or its newest records, are lost: earlier requests are not known"
_END_LOST = (
    "but the directive for that is lost with the directives topic: going on could mirror into a "
    "topic in use (`causeway failover` ends it again, `causeway restart --adopt` mirrors it again)"
)
_KINDS = tuple(kind.value for kind in DirectiveKind)
_ENDS_SHARE = 20  # the measurements of the lag take at most a twentieth of the time

OnLimits = Callable[[Mapping[str | None, int]], None]


class DirectiveExecutor:
    """Works from its creation until `end`: during one term of leading, or until the settings of the
    link change.

    `known`: the directives in force were read, or this driver lacks the right to read them.
    `wanted`: there is work for `carry_out`.
    """

    def __init__(
        self,
        link: LinkSettings,
        sides: Sides,
        registry: Registry,
        intake: Reconciler,
        on_limits: OnLimits,
        before: DirectivesRecord | DirectiveExecutor | None,
        sharers: Collection[fences.Sharer] = (),
    ) -> None:
        """`before`: the record that the previous leader wrote, or the executor of this term with
        the earlier settings, whose thread has ended. `sharers`: links that may fence the same
        topics."""
        self._link = link
        self._sides = sides
        self._registry = registry
        self._intake = intake
        self._on_limits = on_limits
        self._overdue = OverdueDirectives(link, sides, sharers)
        self._lock = threading.Lock()
        self._log = DirectiveLog(sides.target, link.directives_topic)
        self._over = threading.Event()
        self.known = threading.Event()
        self.wanted = threading.Event()
        self._patient_until = time.monotonic() + _PATIENCE_S
        self._limits: Mapping[str | None, int] | None = None
        self._lost: str | None = None
        self._judged: LinkDirectives | None = None  # the directives at the last look for lost ends
        self._not_read: str | None = None
        self._dirty = False
        self._requests = Requests()
        if isinstance(before, DirectiveExecutor):
            self._requests, self._dirty, self._lost = before._requests, before._dirty, before._lost
            before = before.record
        self._record = before or DirectivesRecord(
            link=link.name, topic_id=NO_TOPIC_ID, applied=-1, reason=None
        )
        self._measure_at = 0.0
        self._runs: dict[DirectiveKind, str] = {}  # commands that renew their directive
        self._cluster: str | None = None  # the source's id, once the source has answered
        self._not_chosen: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"direct {link.name}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def record(self) -> DirectivesRecord:
        """The record of the directives that are applied."""
        return self._record

    def carry_out(self) -> bool:
        """Resumes paused partitions, and lets go of partitions to restart. Returns whether a look
        has to follow."""
        self._intake.resume()
        with self._lock:
            scopes, adopts = set(self._requests.restarts), set(self._requests.adopts)
            translates, refills = set(self._requests.translates), dict(self._requests.refills)
        looks = set[Scope]()
        topics = {scope.topic: topic for scope, topic in refills.items() if scope.topic}
        if refills and self._intake.refill(topics):
            looks |= refills.keys()
        if scopes and self._intake.restart(scopes, adopts, translates):
            looks |= scopes
        # For the next look, renewed partitions are like a restart of the link.
        if self._intake.renew():
            looks.add(THE_LINK)
        with self._lock:
            # A loss that was acknowledged meanwhile needs another pass.
            later = (self._requests.adopts - adopts) | (self._requests.translates - translates)
            self._requests.restarts -= (looks & scopes) - later
            self._requests.adopts -= looks & adopts
            self._requests.translates -= looks & translates
            for scope in looks & refills.keys():
                self._requests.refills.pop(scope, None)
            if self._requests.chosen:
                self._requests.chosen = False
                looks.add(THE_LINK)
            self._requests.looking |= looks
        return bool(looks)

    def looked(self) -> None:
        """A look has followed `carry_out`."""
        with self._lock:
            self._requests.looking.clear()

    def restarting(self, for_s: float) -> bool:
        """Returns whether a restart, or the look after it, is still to come. False if the newest
        restart was requested more than `for_s` ago."""
        with self._lock:
            return self._requests.restarting(for_s)

    @property
    def directives(self) -> LinkDirectives:
        return self._log.directives

    @property
    def step_down(self) -> Directive | None:
        """The request to release the lead. Earlier requests are carried out first, unless that
        takes long: another driver may reach a cluster that this one cannot."""
        waits = self.restarting(_FIRST_S)
        with self._lock:
            asked = self._requests.step_down
            return None if asked is None or waits else asked[1]

    def stepped_down(self) -> None:
        """Marks the request as done, so that the next leader does not step down as well."""
        self.end()
        with self._lock:
            if self._requests.step_down is not None:
                applied = max(self._record.applied, self._requests.step_down[0] + 1)
                self._record, self._dirty = self._record.replace(applied=applied), True

    @property
    def problems(self) -> tuple[LinkProblem, ...]:
        """The reason why nothing is mirrored while the directives in force are not known."""
        unknown = None if self.known.is_set() else self._record.reason
        return () if unknown is None else (LinkProblem(topic="", reason=unknown),)

    @property
    def not_read(self) -> str | None:
        """The reason why directives are not read while the link is mirrored."""
        return f"pauses, fences and ends are not read: {self._not_read}" if self._not_read else None

    def take_dirty(self) -> list[DirectivesRecord]:
        """Returns the records to write; call `mark_all_dirty` if the write fails."""
        with self._lock:
            dirty, self._dirty = self._dirty, False
            return [self._record.replace(kinds=_KINDS, written_at=-1)] if dirty else []

    def mark_all_dirty(self) -> None:
        """Everything has to be written once more."""
        with self._lock:
            self._dirty = self._log.end >= 0 or self._record.applied >= 0

    def _run(self) -> None:
        while not self._over.is_set():
            not_read = None
            try:
                self._turn()
                if not self._over.is_set():
                    self._overdue.end(self._log.directives)
                strange = (
                    f"{self._log.strange} records of {self._log.topic} were not written by this "
                    "version"
                )
                reason = (
                    self._lost
                    or (strange if self._log.strange else None)
                    or self._overdue.reason
                    or self._not_chosen
                )
            except AuthorizationError as error:
                # A topic that existed before may contain the end of a mirror.
                if self._record.topic_id == NO_TOPIC_ID:
                    self.known.set()  # there are no requests for this link, as far as is known
                not_read = reason = str(error)
            except CausewayError as error:
                reason = str(error)
            except Exception as error:
                _log.error("internal error", exc_info=error, extra={"link": self._link.name})
                reason = f"internal error: {error!r}"
            self._not_read = not_read
            self._note_reason(reason)
            self._over.wait(_LOOK_S)

    def _note_reason(self, reason: str | None) -> None:
        with self._lock:
            new = reason != self._record.reason
            self._record, self._dirty = self._record.replace(reason=reason), self._dirty or new
        if new and reason is not None:
            about = {"link": self._link.name, "reason": reason}
            _log.warning("directives not read", extra=about)

    def _turn(self) -> None:
        come = self._log.look()
        if self._over.is_set() or not self._find_topic():
            return
        self._stop_after_loss()
        # The executor before a reload may have added directives that are not applied yet.
        for offset, directive in come:
            if offset >= max(self._record.applied, self._requests.read_to):
                self._act(offset, directive)
        self._choose_no_more()
        self._intake.pauses.update(self._log.directives)
        self._choose()
        limits = self._log.directives.limits(self._link.throttle_bytes_per_s)
        if limits != self._limits:
            self._on_limits(limits)
            self._limits = limits
        self.known.set()
        pauses = self._intake.pauses
        paused = pauses.pause()
        with self._lock:
            acts = self._requests.are_any
        applied = self._record.replace(applied=self._log.end, kinds=_KINDS)
        if acts or pauses.over() or pauses.renewed():
            self.wanted.set()
        elif paused and self._log.end >= 0 and applied != self._record:
            with self._lock:
                self._record, self._dirty = applied, True
        self._measure()

    def _choose_no_more(self) -> None:
        """Removes topics that are no longer chosen. This must happen before their pauses end: no
        record of these topics may be mirrored afterwards."""
        before = self._registry.chosen
        if self._link.way_back:
            return
        if left := before - geo_topics.chosen(self._log.directives).keys():
            self._registry.chosen = before - left
            with self._lock:
                self._requests.chosen = self.known.is_set()

    def _choose(self) -> None:
        """Has the link mirror the topics that people have chosen."""
        directives = self._log.directives
        names = frozenset(geo_topics.chosen(directives))
        try:
            if names and self._link.geo and self._cluster is None:
                self._cluster = self._sides.source.bootstrap_check(_SOURCE_S).cluster_id
            self._not_chosen = geo_topics.why_not(directives, self._link, self._cluster)
        except CausewayError as error:
            self._not_chosen = geo_topics.not_known(error)  # pauses are read nevertheless
            names = self._registry.chosen
        else:
            if self._not_chosen is not None or not self._link.geo:
                names = frozenset()
        if self._link.way_back:
            names = geo_topics.begun(directives)
        if self._not_chosen is not None and self._record.reason is None:
            self._note_reason(self._not_chosen)  # before the command learns that it was applied
        if names == self._registry.chosen:
            return
        _log.info("chosen", extra={"link": self._link.name, "topics": len(names)})
        self._registry.chosen = names
        with self._lock:
            # If the directives are not known yet, the first look is still to come.
            self._requests.chosen = self.known.is_set()

    def _stop_after_loss(self) -> None:
        """Stops mirrors that have ended if their directives are lost: they must not run again. Call
        this before other threads see the directives in force: to them a lost end looks like a
        withdrawn one."""
        if self._log.topic_id == NO_TOPIC_ID and self._record.topic_id != NO_TOPIC_ID:
            self._lost = _LOST
        directives = self._log.directives
        if self._lost is None or self._judged is directives:
            return
        self._judged = directives
        many = self._registry.stop_ended(
            lambda at: directives.has_ended(at) or directives.start_of(at) is not None, _END_LOST
        )
        if many:
            about = {"link": self._link.name, "partitions": many, "reason": _LOST}
            _log.warning("mirrors that have ended are stopped", extra=about)

    def _find_topic(self) -> bool:
        """False if the topic may exist although the brokers do not know it yet."""
        if self._log.topic_id == NO_TOPIC_ID:
            there = self._record.topic_id != NO_TOPIC_ID and self._log.end < 0
            patient = time.monotonic() < self._patient_until and not self.known.is_set()
            return not (there and patient)
        with self._lock:
            applied = self._record.applied
            if not same_topic(self._log.topic_id, self._record.topic_id):
                self._lost, applied, self._requests.read_to = _LOST, -1, -1
            elif self._log.end < applied:
                self._lost, applied = _LOST, self._log.end
            self._requests.read_to = min(self._requests.read_to, self._log.end)
            self._record = self._record.replace(topic_id=self._log.topic_id, applied=applied)
        return True

    def _act(self, offset: int, directive: Directive) -> None:
        with self._lock:
            self._requests.add(offset, directive)
        if isinstance(directive, CutoverDirective | EndDirective) and directive.run:
            if directive.run == self._runs.get(directive.kind):
                return  # the same command
            self._runs[directive.kind] = directive.run
        _log.info("directive", extra={"link": self._link.name, **_about(directive)})

    def _measure(self) -> None:
        """Asks for the source's ends of paused partitions, because no lane reads them."""
        now = time.monotonic()
        if now < self._measure_at or not self._intake.pauses.are_any:
            return
        rows = self._registry.rows(lambda row: row.progress.state in HELD - ENDED)
        places = [row.progress.source for row in rows]
        if places:
            committed = self._link.fetch.read_committed
            ends = open_transactions.known_ends(
                self._sides.source, places, read_committed=committed
            )
            self._registry.note_ends(ends)
        after = time.monotonic()
        self._measure_at = after + max(_ENDS_S, _ENDS_SHARE * (after - now))


def _about(directive: Directive) -> dict[str, str]:
    """Returns the fields of a directive in the list of events."""
    what = directive.kind.value
    if isinstance(directive, EndDirective):
        what = str(directive.how)
    elif isinstance(directive, PauseDirective) and not directive.paused:
        what = "resume"  # of a part of the paused scope
    elif isinstance(directive, RestartDirective):
        asked = ("adopt", "translate", "refill")
        what = " ".join([what, *(f"--{each}" for each in asked if getattr(directive, each))])
    about = {"what": what, "scope": str(directive.scope)}
    if isinstance(directive, ThrottleDirective):
        most = directive.bytes_per_s
        about["limit"] = "none" if most is None else f"{most:,} bytes/s"
    return {**about, "by": directive.by.removeprefix("by ")}
