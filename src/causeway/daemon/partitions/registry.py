"""The partitions of one link, shared by its threads: rows by source partition, under a lock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from causeway.control import Held, OnDataLoss, claim_checks
from causeway.daemon.lanes import Key, ReportedPartition
from causeway.daemon.partitions.readings import IDLE, Readings
from causeway.daemon.partitions.rows import AT_REST, NOT_WRITTEN, Row
from causeway.link_topics import Deletion, Entry, PartitionProgress, ProgressContents
from causeway.model import ENDED, HELD, Dated, State, TopicPartition

_log = logging.getLogger("causeway.link")
_MAPS_S = 60.0  # between two writes of offset maps; missing points can be looked up


class Registry(Readings):
    """Thread-safe. `link`: its name in logs. `on_data_loss`: see control/claim_checks.py."""

    def __init__(self, link: str, on_data_loss: OnDataLoss = "stop") -> None:
        super().__init__()
        self._link = link
        self.on_data_loss = on_data_loss
        self._left = ProgressContents()  # records of the progress topic without a row
        self._left_dirty = False
        self._maps_written_at = 0.0
        self.wanted = threading.Event()  # a transform wants outlets
        self.passing = threading.Event()  # a partition may pass over a loss
        # Held while rows are written, from the moment when they are taken for that.
        self.writing = threading.Lock()

    def begin(self, contents: ProgressContents) -> None:
        with self._lock:
            self._left = contents
            self._left_dirty = False

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            self._rows_changed()
            self._moved.clear()

    def left(self) -> ProgressContents:
        """Returns a copy of the progress and offset maps of an earlier leader that no row has taken
        up yet."""
        with self._lock:
            return ProgressContents(
                partitions=dict(self._left.partitions), maps=dict(self._left.maps)
            )

    def known(self) -> dict[TopicPartition, PartitionProgress]:
        with self._lock:
            return {
                **self._left.partitions,
                **{at: row.progress for at, row in self._rows.items()},
            }

    @property
    def is_watched(self) -> bool:
        """Whether no partition waits for a lane or recovers. The progress topic does not show such
        states, and no lane reads the ends of these partitions."""
        with self._lock:
            begun = bool(self._rows) or not self._left.partitions
            states = {row.progress.state for row in self._rows.values()}
            return begun and not states & NOT_WRITTEN

    def add(self, rows: Iterable[Row]) -> None:
        with self._lock:
            self._rows_changed()
            for row in rows:
                at = row.progress.source
                self._rows[at] = row
                self._left.partitions.pop(at, None)
                self._left.maps.pop(at, None)
                if row.progress.state is State.STOPPED:
                    self._log_state(row)
                elif row.progress.position == row.stop_at:  # beyond it, a lane says why
                    row.finish()

    def stop(self, reasons: Mapping[TopicPartition, str]) -> None:
        """Stops rows by the driver's decision. A row that has stopped by itself meanwhile keeps its
        own reason."""
        with self._lock:
            for row, reason in self._with_rows(reasons):
                if row.progress.state is not State.STOPPED:
                    row.stop(claim_checks.stopped(row.progress, reason))
                    self._log_state(row)

    def let_go(self, rows: Iterable[Row], *, restart: bool = False) -> None:
        """Removes `rows`, so that the next look takes them up again from their progress. With
        `restart`, stopped rows as well: they pass all checks of a start. No lane may have these
        rows, and no thread may be writing them."""
        with self._lock:
            self._rows_changed()
            for row in rows:
                at, progress = row.progress.source, row.progress
                if restart:
                    progress = progress.replace(state=State.WAITING, reason=None)
                if self._rows.pop(at, None) is not None:
                    self._left.partitions[at] = progress
                    self._left.maps[at] = {record.to: record for record in row.map_records()}

    def note_gone(self, since: Mapping[TopicPartition, int]) -> list[Entry]:
        """Notes when (ms) the source lost the topics; -1 if they are back. Returns the records to
        write: they are for partitions without a row."""
        entries: list[Entry] = []
        with self._lock:
            for at, gone_at in since.items():
                row, left = self._rows.get(at), self._left.partitions.get(at)
                if row is not None:
                    if gone_at < 0 or row.progress.state is State.STOPPED:
                        row.progress, row.dirty = row.progress.replace(gone_at=gone_at), True
                elif left is not None:
                    # The state stays: later the topic id shows whether the same topic is back.
                    self._left.partitions[at] = left.replace(gone_at=gone_at)
                    entries.append(self._left.partitions[at])
        return entries

    def set_aside(self, places: Collection[TopicPartition]) -> list[Entry]:
        """Removes rows and offset maps of `places`. Returns the records to write."""
        entries: list[Entry] = []
        with self._lock:
            self._rows_changed()
            for at in places:
                row = self._rows.pop(at, None)
                if row is not None:
                    self._left.partitions[at] = row.progress
                    entries.append(row.progress)
                mapped = set(self._left.maps.pop(at, ()))
                if row is not None:
                    mapped |= {record.to for record in row.map_records()}
                entries += [Deletion(source=at, of="offsets", to=to) for to in mapped]
        return entries

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Drops the progress of `places`, which have no rows."""
        with self._lock:
            for at in places:
                self._left.partitions.pop(at, None)

    def stop_ended(self, ended: Callable[[TopicPartition], bool], reason: str) -> int:
        """Stops partitions whose mirror has ended by their progress, but not by the directives
        (`ended`). Returns their number. `reason` is the second half of the new reason."""

        def stopped(progress: PartitionProgress) -> PartitionProgress | None:
            if progress.state not in ENDED or ended(progress.source):
                return None
            why = f"its mirror was {progress.reason or progress.state}, {reason}"
            return progress.replace(state=State.STOPPED, reason=why)

        with self._lock:
            found = {at: after for at, p in self._left.partitions.items() if (after := stopped(p))}
            self._left.partitions.update(found)
            self._left_dirty |= bool(found)
            rows = [(row, after) for row in self._rows.values() if (after := stopped(row.progress))]
            for row, after in rows:
                row.stop(after)
                self._log_state(row)
            return len(found) + len(rows)

    def take_reports(self, reported: Sequence[ReportedPartition]) -> None:
        with self._lock:
            for one in reported:
                report = one.report
                row = self._rows.get(TopicPartition(report.topic, report.partition))
                if row is None:
                    continue
                before = row.progress.state
                row.take_report(one)
                self._moved[row.progress.source] = row
                if row.wants:
                    self.wanted.set()
                if row.progress.state is State.STOPPED and claim_checks.passes(
                    row.progress, self.on_data_loss
                ):
                    row.pass_over()
                    self.passing.set()
                elif report.state is not before and report.state in (State.FAILED, State.STOPPED):
                    self._log_state(row)

    def acknowledge(self, wanted: Callable[[Row], bool]) -> None:
        """Notes that a person acknowledges the losses of the `wanted` rows."""
        with self._lock:
            for row in self._rows.values():
                if wanted(row) and row.progress.acknowledged < row.progress.lost:
                    known = row.progress.lost
                    row.progress, row.dirty = row.progress.replace(acknowledged=known), True

    def hold(self, why: Mapping[TopicPartition, tuple[State, str]]) -> None:
        """Puts rows on hold: no lane has them or gets them. Offset maps of ended mirrors are
        written at once, because other tools continue from them."""
        with self._lock:
            for row, (state, reason) in self._with_rows(why):
                if row.progress.state in AT_REST and state not in ENDED:
                    continue
                row.put_on_hold(state, reason)
                if state is not State.PAUSED:
                    self._maps_written_at = -_MAPS_S

    def resume(self, places: Iterable[TopicPartition]) -> list[Row]:
        """Ends the hold of those of `places` that have not ended. They wait for lanes from now
        on."""
        with self._lock:
            found = self._with_rows(dict.fromkeys(places))
            rows = [row for row, _ in found if row.progress.state in HELD - ENDED]
            for row in rows:
                row.resume()
            return rows

    def note_ends(self, ends: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Notes the source's ends: the end for readers like us, and the high watermark. Does
        nothing for partitions that lanes mirror: the lanes know newer ends."""
        with self._lock:
            for row, (end, top) in self._with_rows(ends):
                row.note_end(end, top)

    def date(self, found: Mapping[TopicPartition, Dated]) -> None:
        """Notes the times of the first records that are not mirrored."""
        with self._lock:
            for row, dated in self._with_rows(found):
                row.date(dated)

    def wait(self, keys: Collection[Key]) -> None:
        """Notes that the lanes of `keys` are gone."""
        with self._lock:
            places = {TopicPartition(topic, partition): None for _, topic, partition in keys}
            for row, _ in self._with_rows(places):
                row.wait()

    def note_lack(self, why: Mapping[TopicPartition, str]) -> None:
        """Notes why outlets are not possible yet."""
        with self._lock:
            for row, reason in self._with_rows(why):
                if row.progress.state not in IDLE:
                    new = row.lack is None
                    row.note_lack(reason)
                    if new:
                        self._log_state(row)

    def claim(self, claimed: Iterable[PartitionProgress]) -> None:
        """Applies claims that are durable. No lane may have these partitions."""
        with self._lock:
            for row, progress in self._with_rows({each.source: each for each in claimed}):
                if row.progress.state is not State.STOPPED:
                    row.claim(progress)

    def _log_state(self, row: Row) -> None:
        self._log(row, row.progress.state.value, row.progress.reason)

    def _log(self, row: Row, what: str, reason: str | None) -> None:
        extra = {"link": self._link, "partition": str(row.progress.source), "reason": reason}
        _log.warning("partition %s", what, extra=extra)

    def take_dirty(self, *, final: bool = False) -> tuple[list[Row], list[Entry]]:
        """Returns the rows and records to write; `give_back` the rows if the write fails. `final`:
        the records include all changed offset maps."""
        with self._lock:
            dirty = [row for row in self._rows.values() if row.dirty]
            entries: list[Entry] = [row.progress for row in dirty]
            for row in dirty:
                row.dirty = False
            if self._left_dirty:
                entries += self._left.partitions.values()
                entries += (each for maps in self._left.maps.values() for each in maps.values())
                self._left_dirty = False
            now = time.monotonic()
            due = final or now - self._maps_written_at > _MAPS_S
            if due:
                self._maps_written_at = now
            # The next leader must not find a rewound map in its earlier form.
            for row in self._rows.values() if due else dirty:
                if due or row.rewinds != row.rewinds_written:
                    entries += row.map_records(changed=True)
                    row.rewinds_written = row.rewinds
                    for known in row.maps.values():
                        known.changed = False
            return dirty, entries

    def give_back(self, rows: Iterable[Row]) -> None:
        with self._lock:
            for row in rows:
                row.dirty = True
                if row.rewinds:
                    row.rewinds_written = -1
                    for known in row.maps.values():
                        known.changed = True

    def mark_all_dirty(self) -> None:
        """Marks everything as to be written again."""
        with self._lock:
            self._left_dirty = True
            for row in self._rows.values():
                row.dirty = True
                for known in row.maps.values():
                    known.changed = True
            self._maps_written_at = 0.0

    def explain(
        self, held: Mapping[TopicPartition, Held], why: Mapping[TopicPartition, str]
    ) -> None:
        """Notes the reason of each partition that is still `held` at the same offset."""
        with self._lock:
            for row, reason in self._with_rows(why):
                hold = row.hold
                if hold is not None and hold.stable == held[row.progress.source].stable:
                    if hold.reason is None:
                        self._log(row, "held", reason)
                    hold.reason = reason

    def trim(self, log_starts: Mapping[TopicPartition, int]) -> None:
        """Notes the offsets below which the source has no records left."""
        with self._lock:
            for row, start in self._with_rows(log_starts):
                for known in row.maps.values():
                    known.trim(start)
