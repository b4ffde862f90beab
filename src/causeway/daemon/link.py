"""Leads one link of the file, in three threads that do not disturb other links.

    lead        takes the link, then writes progress and renews the lease
    discover    looks for topics and partitions repeatedly: discoverer.py
    direct      reads the requests of people: directive_executor.py

Once partitions are known, the tasks of the control plane run as well: tasks/control_plane.py.
A partition goes to a lane only after its progress record is durable: the next leader must find the
same producer ids.
"""

from __future__ import annotations

import logging
import threading
import time

from causeway.daemon.clients import Sides
from causeway.daemon.directive_executor import DirectiveExecutor
from causeway.daemon.discoverer import Discoverer, Term
from causeway.daemon.lanes import Fleet
from causeway.daemon.leadership import Leadership
from causeway.daemon.link_parts import LinkParts, LinkWork
from causeway.daemon.partitions import Found, Registry
from causeway.daemon.progress_writes import FINAL_S, ProgressWrites
from causeway.daemon.staging import Staging
from causeway.daemon.startup import OTHER_FILE, OtherFile, Patience
from causeway.daemon.tasks import FILE
from causeway.errors import BrokerError, CausewayError
from causeway.link_topics import LeadershipLostError, LeaseRecord, LinkDirectives, ProgressContents
from causeway.status import LinkProblem, LinkStatus, Role, lag
from causeway.wire import codes

_log = logging.getLogger("causeway.link")
_TICK_S = 0.1
_CALM_S = 0.25  # once all parts run
_SURPRISES = 3  # internal errors at the start that a run survives
_BACKOFF_S = (1.0, 60.0)
_ASIDE_S = 2.0  # a driver that stepped down waits for another leader for this time


class LinkDriver:
    def __init__(self, work: LinkWork, sides: Sides, fleet: Fleet, staging: Staging) -> None:
        link, run = work.link, work.run
        self._bounded = run.bounded
        self._sides, self._fleet, self._staging = sides, fleet, staging
        self.leadership = Leadership(sides.target, sides.target_admin, link, run.settings.lease_s)
        self.registry = Registry(link.name, link.on_data_loss)
        self._lock = threading.Lock()
        self._directing: DirectiveExecutor | None = None
        self._next: LinkWork | None = None  # replaces the present one
        self._not_in_force: str | None = None  # why the changed file is not in force
        self._install(self._parts_of(work))
        self._patience = Patience(link.name)
        self._other_file = OtherFile(link.name)
        self._role = Role.STARTING
        self._reason: str | None = None
        self._problems: tuple[LinkProblem, ...] = ()
        self._planned = False
        self._planned_at = 0.0
        self._writing = ProgressWrites(self.registry, self.leadership, staging)
        self._unfinished = False  # the last look at the clusters left work for another attempt
        self._stop = threading.Event()
        self._retiring = threading.Event()
        self._halt = threading.Event()  # stop, retire or change: nothing may wait any more
        self._term_events = Term()
        self._looked = threading.Event()  # set after the first look at the clusters in this term
        self._discoverer: Discoverer | None = None
        self._thread = threading.Thread(target=self._lead, name=f"lead {link.name}", daemon=True)
        self._surprises = 0
        self.failure: CausewayError | None = None  # retries do not help: a person must act
        fleet.attach(link.name, self.registry.take_reports, self.registry.wait)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the link, after its lanes were drained: it writes the last progress and releases the
        lease. `join` waits for the end."""
        self._stop.set()
        self._halt.set()
        self._term_events.over.set()

    def retire(self) -> None:
        """Ends this link while others go on: first takes its partitions from their lanes."""
        self._retiring.set()
        self._halt.set()

    def change(self, work: LinkWork) -> None:
        """Has the link go on with other settings, as soon as its current look at the clusters has
        ended. Lanes keep the partitions that the change does not concern."""
        with self._lock:
            self._next = work
        self._halt.set()

    def note_file(self, reason: str | None) -> None:
        """Shows in the status why the changed file is not in force. None if it is in force."""
        self._not_in_force = reason
        self._tasks.note_file(reason)

    @property
    def changing(self) -> bool:
        """Whether it still has the earlier settings."""
        return self._next is not None

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _parts_of(self, work: LinkWork) -> LinkParts:
        parts: LinkParts | None = None

        def term() -> int | None:
            return self.leadership.term if self._parts is parts else None

        parts = LinkParts.of(work, self._sides, self._fleet, self.registry, self.leadership, term)
        return parts

    def _install(self, parts: LinkParts) -> None:
        self._parts = parts
        self.settings, self._run = parts.work.link, parts.work.run.settings
        self._apis, self.control, self._tasks = parts.apis, parts.control, parts.tasks
        self._intake, self._tally = parts.intake, parts.tally
        self._new_directing = parts.new_directing
        self.leadership.settings = parts.work.fingerprint

    def _take_next(self) -> bool:
        """Installs parts for the newest settings. Returns False if there are no new settings."""
        if (work := self._next) is None:
            return False
        before, parts = self._parts, self._parts_of(work)
        self._install(parts)
        parts.follow(before)
        self.registry.on_data_loss = work.link.on_data_loss
        with self._lock:
            if self._next is work:
                self._next = None
        _log.info("settings changed", extra={"link": work.link.name})
        return True

    def status(self) -> LinkStatus:
        tasks = self._tasks.status()
        unavailable = lag.unavailable(tasks)
        silent_since = None if unavailable is None else lag.answered_at(tasks)
        partitions = self.registry.status(silent_since)
        counted = ((p.transform, p.transformed) for p in partitions if p.transform is not None)
        staging, directing = self._staging, self._directing
        transforms = self._tally.status(counted, staging.running(), staging.troubles())
        with self._lock:
            return LinkStatus(
                name=self.settings.name,
                source=self.settings.source.alias,
                target=self.settings.target.alias,
                role=self._role,
                reason=self._reason or (directing.not_read if directing else None),
                planned=self._planned,
                partitions=partitions,
                problems=(*self._problems, *(directing.problems if directing else ())),
                tasks=tasks,
                unavailable=unavailable,
                checkpoints=self.control.groups.timings(),
                progress_writes=self._writing.count,
                progress_write_failures=self._writing.failures,
                translation_fallbacks=self.control.translator.fallbacks,
                checkpoints_untimed=self.control.groups.untimed,
                transforms=transforms,
                groups=self.control.groups.statuses,
                directives=directing.directives if directing else LinkDirectives(),
            )

    def is_settled(self, for_good_s: float) -> bool:
        """Returns whether a bounded run need not wait for this link: each partition is done, is
        stopped, or has failed for `for_good_s`. False while another driver leads."""
        now = time.monotonic()
        with self._lock:
            if not self._looked.is_set():
                return self.failure is not None
            if self._problems and now - self._planned_at < for_good_s and self._unfinished:
                return False
            restarting = self._directing is not None and self._directing.restarting(for_good_s)
            return not restarting and self.registry.is_settled(for_good_s)

    def _lead(self) -> None:
        def on_standby(lease: LeaseRecord) -> None:
            differs = self._other_file.looks(lease.settings, self.leadership.settings)
            self._set_role(Role.STANDBY, f"led by {lease.owner}{OTHER_FILE if differs else ''}")

        pause = _BACKOFF_S[0]
        while True:
            self._halt.clear()
            if self._stop.is_set() or self._retiring.is_set():
                break
            self._take_next()
            try:
                self._apis.check()
                if (contents := self.leadership.acquire(self._halt, on_standby)) is None:
                    continue
                pause = _BACKOFF_S[0]
                self._term(contents)
                self._halt.clear()  # a change in the term has set it
                if not (self._stop.is_set() or self._retiring.is_set()):
                    self.leadership.let_others(self._halt, _ASIDE_S)
            except LeadershipLostError as error:
                self._abandon(Role.STANDBY, str(error))
            except Exception as error:
                self._abandon(Role.FAILED, str(self._fail(error)))
                self._halt.wait(pause)
                pause = min(2 * pause, _BACKOFF_S[1])
        self._set_role(Role.ENDED, None)

    def _fail(self, error: Exception) -> CausewayError:
        """Returns `error` as a CausewayError. A run that has just begun, or is bounded, keeps it as
        its failure."""
        if not isinstance(error, CausewayError):
            _log.error("internal error", exc_info=error, extra={"link": self.settings.name})
            self._surprises += 1
            error = CausewayError(
                "mirror",
                self.settings.name,
                f"internal error: {error!r}",
                retriable=self._surprises < _SURPRISES,
            )
        if not self._patience.may_pass(error) and (self._bounded or not self._planned):
            self.failure = error
        return error

    def _set_role(self, role: Role, reason: str | None) -> None:
        with self._lock:
            self._role, self._reason = role, reason

    def _term(self, contents: ProgressContents) -> None:
        """Leads the link until `stop`, a request to step down, or LeadershipLostError."""
        self._term_events.over.clear()
        self._term_events.lost.clear()
        if self._stop.is_set():
            self._term_events.over.set()
        self._writing.begin()
        self.registry.begin(contents)
        self._tasks.note_file(self._not_in_force, contents.tasks.get(FILE))
        self._intake.begin()
        self._tally.begin(contents.transforms)
        self._directing = directing = self._new_directing(contents.directives)
        self._set_role(Role.LEADING, None)
        self._discoverer = self._new_discoverer(directing)
        written_at = 0.0
        pause = _BACKOFF_S[0]
        try:
            while not self._stop.wait(_CALM_S if self._tasks.running else _TICK_S):
                if self._term_events.lost.is_set():
                    raise LeadershipLostError("lead", self.settings.name, "another driver does")
                if self._retiring.is_set():
                    if self._let_go_of_all():
                        self._finish()
                        self._forget(Role.ENDED, None)
                        return
                elif self._next is not None:
                    directing = self._go_on_with_next(directing)
                elif (wish := directing.step_down) is not None:
                    if self._let_go_of_all():
                        # No lane has a partition: the next leader can start its tasks at once.
                        directing.stepped_down()
                        self._tasks.stop()
                        self._writing.write_last(self._parts, directing)
                        self.leadership.release()
                        self._forget(Role.STANDBY, f"stepped down, {wish.by}")
                        return
                elif self._looked.is_set() and not self._tasks.running:
                    self._tasks.start()
                now = time.monotonic()
                if now - written_at < min(self._run.progress_interval_s, self._run.lease_s / 3):
                    continue
                throttled_s = self.leadership.throttled_s
                if throttled_s and not self.leadership.renewal_due:
                    continue  # the next lease contains the progress too; the broker accepts leases
                written_at = now
                try:
                    self._writing.write(self._parts, directing)
                    if self.leadership.renewal_due:
                        self.leadership.renew()
                except LeadershipLostError:
                    raise
                except CausewayError as error:
                    # The lanes go on: old progress stays true. Only a takeover ends a term.
                    self._set_role(Role.LEADING, str(error))
                    self._make_topic(error)
                    written_at = now + pause
                    pause = min(2 * pause, 10.0, self._run.lease_s / 3)
                else:
                    pause = _BACKOFF_S[0]
                    self._set_role(Role.LEADING, None)
            self._finish()
        finally:
            self._term_events.over.set()
            self._directing.end()
            self._tasks.stop()

    def _let_go_of_all(self) -> bool:
        """Returns whether no lane has a partition any more, and none will get one."""
        self._term_events.over.set()
        if self._discoverer is not None and self._discoverer.alive:
            return False
        return self._intake.revoke(self.registry.places(), _TICK_S)

    def _go_on_with_next(self, directing: DirectiveExecutor) -> DirectiveExecutor:
        """Installs new parts, once the threads of the earlier parts have ended. Until then the
        leading thread goes on, so the lease holds. Returns the executor in force."""
        self._term_events.over.set()
        directing.end()
        if directing.alive or (self._discoverer is not None and self._discoverer.alive):
            return directing
        if self._term_events.lost.is_set():
            raise LeadershipLostError("lead", self.settings.name, "another driver does")
        self._tasks.stop()
        if not self._take_next():
            return directing
        self._term_events = Term()
        if self._stop.is_set():
            self._term_events.over.set()
        self._directing = self._new_directing(directing)
        self._discoverer = self._new_discoverer(self._directing)
        return self._directing

    def _make_topic(self, error: CausewayError) -> None:
        """Creates the progress topic again if `error` shows that it was deleted."""
        if not isinstance(error, BrokerError) or error.code != codes.UNKNOWN_TOPIC_OR_PARTITION:
            return
        try:
            self.leadership.ensure_topic()
        except CausewayError as again:
            _log.debug("restore %s: %s", self.settings.progress_topic, again)

    def _finish(self) -> None:
        self._tasks.stop()
        directing = self._directing
        if directing is None or not self._writing.write_last(self._parts, directing):
            return
        self._tasks.join(FINAL_S)
        last = threading.Thread(target=self.control.finish, name="last tasks", daemon=True)
        last.start()
        last.join(FINAL_S)  # a cluster that is gone must not delay the next leader
        self.leadership.release()

    def _abandon(self, role: Role, reason: str) -> None:
        """Stops the relaying of this link. The next term reads all progress again."""
        self.leadership.lose()
        self._term_events.over.set()
        _log.warning("link not led", extra={"link": self.settings.name, "reason": reason})
        self._tasks.stop()
        self._intake.revoke(self.registry.places())
        if self._discoverer is not None:
            self._discoverer.join()  # it may have added partitions meanwhile, and adds no more
        self._intake.revoke(self.registry.places())
        self._forget(role, reason)

    def _forget(self, role: Role, reason: str | None) -> None:
        """Forgets all partitions. No lane has one."""
        self._set_role(role, reason)
        with self._lock:
            self._looked.clear()
            self.registry.clear()

    def _new_discoverer(self, directing: DirectiveExecutor) -> Discoverer:
        return Discoverer(
            self.settings,
            self._intake,
            self.registry,
            directing,
            self._term_events,
            again=self.settings.refresh_topics_enabled and not self._bounded,
            on_look=self._note,
            fail=self._fail,
        )

    def _note(self, found: Found | CausewayError) -> None:
        if isinstance(found, CausewayError):
            self._problems = (LinkProblem(topic="", reason=str(found)),)
            return
        with self._lock:
            before = {problem.topic for problem in self._problems}
            self._problems = tuple(found.problems)
            lasting = self._patience.lasting(found.errors)
            self._unfinished = len(lasting) < len(found.errors)
            if self.registry.places():
                self.failure = None
            elif found.errors and (not self._planned or self._patience.waits):
                self.failure = next(iter(lasting), None)  # no topic can be mirrored
            if not self._planned:
                self._planned, self._planned_at = True, time.monotonic()
            self._looked.set()
        for problem in found.problems:
            if problem.topic not in before:
                about = {"link": self.settings.name, "topic": problem.topic}
                _log.warning("topic trouble", extra={**about, "reason": problem.reason})
