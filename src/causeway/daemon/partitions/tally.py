"""Figures for the status: the counts of a link's transforms, which are also in the progress topic,
and figures of about the last minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, reduce

from causeway.control import Transform, Transforms
from causeway.daemon.lanes import plus
from causeway.link_topics import Transformed, TransformRecord, Value
from causeway.model import Spread
from causeway.status import Timing, TransformStatus

_HALF_S = 30.0
RECENT_S = 2 * _HALF_S  # older figures are not recent
_RECORD_S = 60.0  # between two records of counts; a first match or refusal is recorded at once
Counted = tuple[str, Transformed | None]  # the name of a partition's transform, and its counts


class TransformTally:
    """The counts of one link. Thread-safe. The status shows the counts of this run. The records
    continue the counts of an earlier driver while the transform stays the same."""

    def __init__(self, transforms: Transforms) -> None:
        self._transforms = transforms.all
        self._lock = threading.Lock()
        self._earlier: dict[str, Transformed] = {}
        self._recorded: dict[str, TransformRecord] = {}
        self._recorded_at = 0.0

    def begin(self, records: Mapping[str, TransformRecord]) -> None:
        """Begins a term of leading, with the records of the progress topic."""
        with self._lock:
            self._earlier.clear()
            self._recorded.clear()
            for transform in self._transforms:
                record = records.get(transform.name)
                if record is not None and record.identity == transform.identity:
                    self._earlier[transform.name] = record.counts
                    self._recorded[transform.name] = record

    def follow(self, before: TransformTally) -> None:
        """Continues within a term with changed transforms. Transforms that stay the same keep their
        counts."""
        identities = {each.name: each.identity for each in before._transforms}
        same = {
            each.name for each in self._transforms if identities.get(each.name) == each.identity
        }
        with before._lock:
            self._earlier = {n: c for n, c in before._earlier.items() if n in same}
            self._recorded = {n: r for n, r in before._recorded.items() if n in same}

    def status(
        self,
        counted: Iterable[Counted],
        stages: Mapping[str, int],
        troubles: Mapping[str, str],
    ) -> tuple[TransformStatus, ...]:
        """`counted`: the counts of each partition. `stages`: the number of wanted stages.
        `troubles`: why stages fail or wait. Both are by the transforms' keys."""
        if not self._transforms:
            return ()
        of: dict[str, list[Transformed | None]] = {each.name: [] for each in self._transforms}
        for name, counts in counted:
            if name in of:  # a partition with the settings before a reload may have another name
                of[name].append(counts)
        return tuple(
            TransformStatus(
                name=each.name,
                partitions=len(of[each.name]),
                counts=(total := reduce(plus, of[each.name], None) or Transformed()),
                rules=total.by_rule(_rules(each.settings.rules)),
                unseen=_unseen(each, self._with_earlier(each.name, total)),
                stages=stages.get(each.key, 0),
                troubles=(troubles[each.key],) if each.key in troubles else (),
            )
            for each in self._transforms
        )

    def take_dirty(
        self,
        count: Callable[[], Iterable[Counted]],
        troubles: Mapping[str, str],
        *,
        final: bool = False,
    ) -> list[TransformRecord]:
        """Returns the records to write; if `final`, all changed ones. `count` is only called if
        there are transforms."""
        if not self._transforms:
            return []
        now = time.monotonic()
        statuses = self.status(count(), {}, troubles)
        with self._lock:
            due = final or now - self._recorded_at > _RECORD_S
            if due:
                self._recorded_at = now
            dirty = []
            for transform, status in zip(self._transforms, statuses, strict=True):
                record = TransformRecord(
                    name=transform.name,
                    identity=transform.identity,
                    counts=self._with_earlier(transform.name, status.counts or Transformed()),
                    reason=next(iter(status.troubles), None),
                )
                known = self._recorded.get(transform.name)
                written_at = -1 if known is None else known.written_at
                changed = record.replace(written_at=written_at) != known
                if _is_news(record, known) or (due and changed):
                    self._recorded[transform.name] = record
                    dirty.append(record)
            return dirty

    def give_back(self, records: Sequence[TransformRecord]) -> None:
        """Marks records as changed because they could not be written."""
        with self._lock:
            for record in records:
                self._recorded.pop(record.name, None)

    def mark_all_dirty(self) -> None:
        """Marks everything as to be written again."""
        with self._lock:
            self._recorded.clear()
            self._recorded_at = 0.0

    def _with_earlier(self, name: str, counts: Transformed) -> Transformed:
        return plus(self._earlier.get(name), counts) or counts


def _unseen(transform: Transform, counts: Transformed) -> tuple[str, ...]:
    """Returns the rules that have not matched any record, although there were records."""
    names = _rules(transform.settings.rules) if counts.records_in else ()
    return tuple(name for bit, name in enumerate(names) if not counts.seen >> bit & 1)


@lru_cache
def _rules(rules: str | None) -> tuple[str, ...]:
    if rules is None:
        return ()
    from causeway.transform.rules import rule_names

    return rule_names(rules)


def _is_news(record: TransformRecord, known: TransformRecord | None) -> bool:
    """Returns whether the record has news that a person should see soon."""
    if known is None:
        return record.counts != Transformed() or record.reason is not None
    before, now = (
        (each.counts.seen, each.counts.refused > 0, each.reason) for each in (known, record)
    )
    return before != now


class Recent(Value):
    """Figures in two halves, like Kafka's own metrics: half a minute after its first figure,
    `current` becomes `before`. `now` and `begun` are monotonic seconds. `last`: the mean of the
    newest figures."""

    last: float
    begun: float  # when the first figure of `current` came
    current: Spread
    before: Spread | None = None

    @classmethod
    def of(cls, spread: Spread, now: float) -> Recent:
        return cls(last=_mean(spread), begun=now, current=spread)

    def plus(self, spread: Spread, now: float) -> Recent:
        age = now - self.begun
        if age < _HALF_S:
            return Recent(
                last=_mean(spread),
                begun=self.begun,
                current=_merged(self.current, spread),
                before=self.before,
            )
        before = self.current if age < RECENT_S else None
        return Recent(last=_mean(spread), begun=now, current=spread, before=before)

    def timing(self, now: float) -> Timing:
        age = now - self.begun
        recent: Spread | None = self.current
        if age >= RECENT_S:
            recent = None
        elif age < _HALF_S and self.before is not None:
            recent = _merged(self.before, self.current)
        return Timing(last=self.last, recent=recent)


def with_more(known: Recent | None, spread: Spread | None, now: float) -> Recent | None:
    """Returns `known` with the new `spread`, if there is one."""
    if spread is None:
        return known
    return Recent.of(spread, now) if known is None else known.plus(spread, now)


def _mean(spread: Spread) -> float:
    return spread.total / spread.seen


def _merged(one: Spread, other: Spread) -> Spread:
    return Spread(
        one.seen + other.seen,
        one.total + other.total,
        min(one.least, other.least),
        max(one.most, other.most),
    )
