"""Figures of about the last minute, in two halves like Kafka's own metrics: `before` and `current`.
Half a minute after its first figure, the current half becomes `before`."""

from __future__ import annotations

from causeway.link_topics import Value
from causeway.model import Spread
from causeway.status import Timing

_HALF_S = 30.0
RECENT_S = 2 * _HALF_S  # older figures are not recent


class Recent(Value):
    """`now` and `begun` are monotonic seconds; `last`: the mean of the newest figures."""

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
    """`known` with the new `spread`, if there is one."""
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
