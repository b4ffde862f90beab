"""Partitions whose topics were deleted, recreated or routed otherwise. If the source has deleted a
topic, its partitions leave the status after a while:

    gone from the source          the progress topic contains the time; running partitions stop
    back under its name           stopped partitions stay stopped; for the others the id shows
                                  whether it is the same topic
    gone for the retention time   removed from status and metrics, with the offset map
    target topic gone as well     forgotten: no record can be there twice

Until then the claim stays. So a topic that comes back is stopped, and is not copied behind the
records that the target has already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from causeway.control import claim_checks
from causeway.daemon.clients import Sides
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions import claims, discovery, routing
from causeway.daemon.partitions.claiming import Claimer
from causeway.daemon.partitions.discovery import Found
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.rows import Row
from causeway.errors import CausewayError
from causeway.link_topics import Deletion, Entry, LeadershipLostError, PartitionProgress
from causeway.model import TopicPartition


class Changes(NamedTuple):
    """`noted`: the time (ms) since which the topic is gone; -1 if it is back. `over`: partitions
    whose retention time is over."""

    noted: Mapping[TopicPartition, int]
    over: Mapping[TopicPartition, PartitionProgress]


def judge(
    known: Mapping[TopicPartition, PartitionProgress],
    gone: Collection[str],
    now_ms: int,
    retention_s: float | None,
) -> Changes:
    """`gone`: the deleted topics of the source. `retention_s`: None to keep them for ever."""
    noted, over = {}, {}
    for at, progress in known.items():
        if (at.topic in gone) == (progress.gone_at < 0):
            noted[at] = now_ms if at.topic in gone else -1
        elif claim_checks.is_over(progress, now_ms, retention_s):
            over[at] = progress
    return Changes(noted, over)


@dataclass(slots=True)
class Deleted:
    """The deleted topics of one link. Not thread-safe. `revoke` takes partitions from lanes."""

    sides: Sides
    registry: Registry
    leadership: Leadership
    claimer: Claimer
    revoke: Callable[[Iterable[TopicPartition]], bool]
    retention_s: float | None
    _lost_targets: frozenset[str] = frozenset()  # at the last look

    def look(self, gone: Collection[str], found: Found) -> None:
        """Handles deleted topics. `gone`: those that were mirrored until now. Work that is not
        possible now is noted in `found` and tried again. Raises LeadershipLostError."""
        try:
            self._look(gone, found)
        except LeadershipLostError:
            raise
        except CausewayError as error:
            found.trouble("deleted topics", error)

    def _look(self, gone: Collection[str], found: Found) -> None:
        known = self.registry.known()
        missing = {at.topic for at in known} - found.counts.keys() - set(gone)
        gone = {*gone, *discovery.absent(self.sides.source_admin, missing, found)}
        changes = judge(known, gone, int(time.time() * 1000), self.retention_s)
        if changes.noted:
            self._write(lambda: self.registry.note_gone(changes.noted))
        if changes.over and self.revoke(changes.over):
            self._write(lambda: self.registry.set_aside(changes.over))
        self._forget(changes.over)

    def _write(self, take: Callable[[], Sequence[Entry]]) -> None:
        with self.registry.writing:
            if entries := take():
                self.leadership.write(entries)

    def _forget(self, over: Mapping[TopicPartition, PartitionProgress]) -> None:
        """Forgets partitions whose target topics are gone as well."""
        before = self._lost_targets
        targets = {outlet.topic for progress in over.values() for outlet in progress.outlets}
        self._lost_targets = discovery.absent(self.sides.target_admin, targets)
        # A broker that has just started may not know all topics yet, so two looks must agree.
        lost = before & self._lost_targets
        places = [
            at for at, progress in over.items() if {o.topic for o in progress.outlets} <= lost
        ]
        if places:
            self.claimer.forget(places)
            with self.registry.writing:
                self.leadership.write([Deletion(source=at, of="topic") for at in places])
                self.registry.forget(places)


def changed(rows: Sequence[Row], found: Found, gone: Collection[str]) -> list[tuple[Row, str]]:
    """Returns those of `rows` whose topic or routing has changed, each with the reason to stop.
    `{}` in a reason is for the offset before which everything is mirrored. `gone`: source
    topics."""
    reasons = []
    for row in rows:
        name = row.progress.topic
        now = found.mirrored.get(name)
        if name in gone:
            reason = f"{name} was deleted on the source; all before offset {{}} is mirrored"
        elif name in found.lost_targets:
            reason = claims.target_deleted(row.progress, row.topic)
        elif now is None:
            continue
        elif why := claim_checks.why_another(row.progress, now):
            reason = why
        elif routing.is_other(now, row.progress) and not routing.keys_stay(now):
            reason = f"{routing.why_keys_move(now)} ({claim_checks.ACT})"
        else:
            continue
        reasons.append((row, reason))
    return reasons


def to_turn(rows: Sequence[Row], found: Found) -> list[Row]:
    """Returns those of `rows` that go by key from now on, and did not before."""
    mirrored = found.mirrored
    return [
        row
        for row in rows
        if (now := mirrored.get(row.progress.topic)) is not None
        and routing.is_other(now, row.progress)
    ]
