"""One link of the file, led by this process: two threads that disturb no other link.

    lead        takes the link, then writes progress and renews the lease
    discover    looks for topics and partitions, claims the new ones, hands them to the fleet

A partition goes to a lane only after its progress record is durably written: whoever leads next
must find the same producer ids.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Sequence

from causeway.config.settings import LinkSettings, RunSettings
from causeway.daemon import claims, discovery
from causeway.daemon.claiming import Claimer, changed
from causeway.daemon.claims import Wish
from causeway.daemon.discovery import Found, Sides
from causeway.daemon.fleet import Fleet
from causeway.daemon.leadership import Leadership
from causeway.daemon.rows import Row
from causeway.daemon.status import LinkStatus, Role, Trouble
from causeway.daemon.tracked import Key, Standing
from causeway.errors import BrokerError, CausewayError
from causeway.model import State, TopicPartition
from causeway.relay.progress import Contents, LeadershipLostError, LeaseRecord, Progress
from causeway.wire.codes import UNKNOWN_TOPIC_OR_PARTITION

_log = logging.getLogger("causeway.link")
_TICK_S = 0.1
_BACKOFF_S = (1.0, 60.0)
_FINAL_S = 5.0  # so long the last progress is tried to be written


class Link:
    """`source_key` and `target_key` name its clusters to lanes."""

    def __init__(
        self,
        link: LinkSettings,
        run: RunSettings,
        sides: Sides,
        fleet: Fleet,
        *,
        source_key: str,
        target_key: str,
        wish: Wish,
        bounded: bool,
    ) -> None:
        self.settings = link
        self._run = run
        self._sides = sides
        self._fleet = fleet
        self._source_key, self._target_key = source_key, target_key
        self._wish = wish
        self._bounded = bounded
        self._leadership = Leadership(sides.target, sides.target_admin, link, run.lease_s)
        self._claimer = Claimer(sides, link, wish, self._leadership)
        self._lock = threading.Lock()
        self._rows: dict[TopicPartition, Row] = {}
        self._left: dict[TopicPartition, Progress] = {}  # progress that no row has taken yet
        self._ends: dict[TopicPartition, int] = {}
        self._role = Role.STARTING
        self._reason: str | None = None
        self._troubles: tuple[Trouble, ...] = ()
        self._planned = False
        self._planned_at = 0.0
        self._unfinished = False  # the last look at the clusters left something to be tried again
        self._stop = threading.Event()
        self._lost = threading.Event()  # this term of leading is over
        self._discoverer: threading.Thread | None = None
        self._thread = threading.Thread(target=self._lead, name=f"lead {link.name}", daemon=True)
        # An error of the start that no retry mends: a person should hear of it at once.
        self.failure: CausewayError | None = None
        fleet.attach(link.name, self._hear, self._wait)

    # -- from outside -----------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Has the last progress written and the lease released; `join` waits for it."""
        self._stop.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def status(self) -> LinkStatus:
        now = time.monotonic()
        with self._lock:
            rows = sorted(self._rows.items())
            return LinkStatus(
                name=self.settings.name,
                role=self._role,
                reason=self._reason,
                planned=self._planned,
                partitions=tuple(row.status(now) for _, row in rows),
                troubles=self._troubles,
            )

    def is_settled(self, for_good_s: float) -> bool:
        """Whether a bounded run has nothing more to wait for here: each partition is done, or
        stopped, or has failed for `for_good_s`."""
        now = time.monotonic()
        with self._lock:
            if not self._planned:
                return self.failure is not None
            if self._troubles and now - self._planned_at < for_good_s and self._unfinished:
                return False
            return all(row.is_settled(now, for_good_s) for row in self._rows.values())

    # -- from the fleet, which holds its lock -----------------------------------------------------

    def _hear(self, standings: Sequence[Standing]) -> None:
        with self._lock:
            for standing in standings:
                report = standing.report
                row = self._rows.get(TopicPartition(report.topic, report.partition))
                if row is None:
                    continue
                before = row.progress.state
                row.hear(standing)
                if report.state is not before and report.state in (State.FAILED, State.STOPPED):
                    self._log_state(row)

    def _wait(self, keys: Collection[Key]) -> None:
        with self._lock:
            for _, topic, partition in keys:
                row = self._rows.get(TopicPartition(topic, partition))
                if row is not None:
                    row.wait()

    def _log_state(self, row: Row) -> None:
        _log.warning(
            "partition %s",
            row.progress.state.value,
            extra={
                "link": self.settings.name,
                "partition": str(row.progress.source),
                "reason": row.progress.reason,
            },
        )

    # -- leading ----------------------------------------------------------------------------------

    def _lead(self) -> None:
        pause = _BACKOFF_S[0]
        while not self._stop.is_set():
            try:
                contents = self._leadership.acquire(self._stop, self._on_standby)
                if contents is None:
                    break
                pause = _BACKOFF_S[0]
                self._term(contents)
            except LeadershipLostError as error:
                self._abandon(Role.STANDBY, str(error))
            except Exception as error:
                self._abandon(Role.FAILED, str(self._fail(error)))
                self._stop.wait(pause)
                pause = min(2 * pause, _BACKOFF_S[1])
        self._set_role(Role.ENDED, None)

    def _fail(self, error: Exception) -> CausewayError:
        """`error` as one of ours. Tried again either way; one of the start that no retry mends is
        told to the run."""
        if not isinstance(error, CausewayError):
            _log.error("internal error", exc_info=error, extra={"link": self.settings.name})
            error = CausewayError("mirror", self.settings.name, f"internal error: {error!r}")
        if not error.retriable and not self._planned:
            self.failure = error
        return error

    def _on_standby(self, lease: LeaseRecord) -> None:
        self._set_role(Role.STANDBY, f"led by {lease.owner}")

    def _set_role(self, role: Role, reason: str | None) -> None:
        with self._lock:
            self._role, self._reason = role, reason

    def _term(self, contents: Contents) -> None:
        """One time of leading, from taking the link to `stop` or LeadershipLostError."""
        self._lost.clear()
        with self._lock:
            self._left = dict(contents.partitions)
        self._set_role(Role.LEADING, None)
        self._discoverer = threading.Thread(
            target=self._discover, name=f"discover {self.settings.name}", daemon=True
        )
        self._discoverer.start()
        written_at = 0.0
        pause = _BACKOFF_S[0]
        try:
            while not self._stop.wait(_TICK_S):
                if self._lost.is_set():
                    raise LeadershipLostError("lead", self.settings.name, "another driver does")
                now = time.monotonic()
                if now - written_at < self._run.progress_interval_s:
                    continue
                written_at = now
                try:
                    self._write_dirty()
                    if self._leadership.renewal_due:
                        self._leadership.renew()
                except LeadershipLostError:
                    raise
                except CausewayError as error:
                    # The lanes go on: any old progress is true. Only a takeover ends a term.
                    self._set_role(Role.LEADING, str(error))
                    self._restore_topic(error)
                    written_at = now + pause
                    pause = min(2 * pause, 10.0)
                else:
                    pause = _BACKOFF_S[0]
                    self._set_role(Role.LEADING, None)
            self._finish()
        finally:
            self._lost.set()

    def _restore_topic(self, error: CausewayError) -> None:
        """Where somebody deleted the progress topic: we know all that was in it."""
        if not isinstance(error, BrokerError) or error.code != UNKNOWN_TOPIC_OR_PARTITION:
            return
        try:
            self._leadership.ensure_topic()
        except CausewayError as again:
            _log.debug("restore %s: %s", self.settings.progress_topic, again)
            return  # and try again with the next write, which fails likewise
        with self._lock:
            for row in self._rows.values():
                row.dirty = True

    def _finish(self) -> None:
        deadline = time.monotonic() + _FINAL_S
        while True:
            try:
                self._write_dirty()
                break
            except LeadershipLostError:
                return
            except CausewayError as error:
                if time.monotonic() > deadline:
                    _log.warning(
                        "last progress not written",
                        extra={"link": self.settings.name, "reason": str(error)},
                    )
                    return
                time.sleep(0.2)
        self._leadership.release()

    def _write_dirty(self) -> None:
        with self._lock:
            dirty = [row for row in self._rows.values() if row.dirty]
            entries = [row.progress for row in dirty]
            for row in dirty:
                row.dirty = False
        if not entries:
            return
        try:
            self._leadership.write(entries)
        except CausewayError:
            with self._lock:
                for row in dirty:
                    row.dirty = True
            raise

    def _abandon(self, role: Role, reason: str) -> None:
        """Stops this link's relaying; what is known of it is read again when we lead again."""
        self._leadership.lose()
        self._set_role(role, reason)
        _log.warning("link not led", extra={"link": self.settings.name, "reason": reason})
        self._revoke_all()
        if self._discoverer is not None:
            self._discoverer.join()  # it may have added some meanwhile, and adds no more
        self._revoke_all()
        with self._lock:
            self._rows.clear()

    def _revoke_all(self) -> None:
        with self._lock:
            keys = [self._key(at) for at in self._rows]
        self._fleet.remove(keys, self._run.lease_s)

    def _key(self, at: TopicPartition) -> Key:
        return (self.settings.name, at.topic, at.partition)

    # -- discovering ------------------------------------------------------------------------------

    def _discover(self) -> None:
        pause = _BACKOFF_S[0]
        while not (self._lost.is_set() or self._stop.is_set()):
            try:
                found = self._discover_once()
            except LeadershipLostError:
                self._lost.set()
                return
            except Exception as error:
                again = True
                reason = str(self._fail(error))
                with self._lock:
                    self._troubles = (Trouble(topic="", reason=reason),)
            else:
                again = found.unfinished
                self._note(found)
            if again:
                self._sleep(pause)
                pause = min(2 * pause, _BACKOFF_S[1], self.settings.refresh_topics_interval_s)
            elif self._bounded or not self.settings.refresh_topics_enabled:
                return
            else:
                pause = _BACKOFF_S[0]
                self._sleep(self.settings.refresh_topics_interval_s)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stop.wait(_TICK_S):
            if self._lost.is_set():
                return

    def _note(self, found: Found) -> None:
        with self._lock:
            before = {trouble.topic for trouble in self._troubles}
            self._troubles = tuple(found.troubles)
            if not self._planned and not self._rows and found.errors:
                # Nothing at all can be mirrored; the first reason is as good as any.
                self.failure = next((e for e in found.errors if not e.retriable), None)
            self._unfinished = any(error.retriable for error in found.errors)
            if not self._planned:
                self._planned, self._planned_at = True, time.monotonic()
        for trouble in found.troubles:
            if trouble.topic not in before:
                _log.warning(
                    "topic trouble",
                    extra={
                        "link": self.settings.name,
                        "topic": trouble.topic,
                        "reason": trouble.reason,
                    },
                )

    def _discover_once(self) -> Found:
        with self._lock:
            known = {**self._left, **{at: row.progress for at, row in self._rows.items()}}
        found = discovery.look(self._sides, self.settings, known, self._wish)
        self._check_known(found)
        with self._lock:
            left = dict(self._left)
            wanted = [
                (topic, partition)
                for topic in found.mirrored.values()
                for partition in range(topic.partitions)
                if TopicPartition(topic.source, partition) not in self._rows
            ]
        taken = self._claimer.take_up(wanted, left, found)
        with self._lock:
            for at, (row, end) in taken.items():
                row.stop_at = self._ends.setdefault(at, end) if self._bounded else None
                self._rows[at] = row
                self._left.pop(at, None)
                if row.progress.state is State.STOPPED:
                    self._log_state(row)
                elif row.stop_at is not None and row.progress.position >= row.stop_at:
                    row.finish()
        self._assign([row for row, _ in taken.values() if row.progress.state is State.WAITING])
        return found

    def _assign(self, rows: Sequence[Row]) -> None:
        self._fleet.add(
            claims.assignment(
                row.topic,
                row.progress,
                self.settings,
                source_key=self._source_key,
                target_key=self._target_key,
                stop_at=row.stop_at,
            )
            for row in rows
        )

    def _check_known(self, found: Found) -> None:
        """Stops the partitions whose topic is no longer the one that was mirrored."""
        with self._lock:
            live = [row for row in self._rows.values() if row.progress.state is not State.STOPPED]
        gone = discovery.gone(self._sides.source_admin, {r.progress.topic for r in live}, found)
        reasons = changed(live, found, gone)
        if not reasons:
            return
        keys = [self._key(row.progress.source) for row, _ in reasons]
        self._fleet.remove(keys, self._run.lease_s)
        with self._lock:
            for row, reason in reasons:
                before = row.progress
                if before.state is State.STOPPED:
                    continue  # its lane has found the same meanwhile
                why = reason.format(before.position)
                row.stop(claims.stopped(row.topic, before.partition, before, why))
                self._log_state(row)
