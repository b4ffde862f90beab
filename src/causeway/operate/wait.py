"""Waits until partitions have a wanted lag or state. Asks only the clusters.

The lag is relative to the ends of the source when they are read. If records keep arriving, lag 0
means that no record was left at that moment.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from causeway.cluster import Connect, ask_each, clusters
from causeway.config import LinkSettings, Settings, unknown
from causeway.errors import (
    CausewayError,
    ConfigError,
    NobodyLeadsError,
    PartitionsFailedError,
    UnreachableError,
)
from causeway.model import ENDED, State
from causeway.operate.directives import Wanted, choose
from causeway.status import (
    LAGS,
    MIRRORING,
    RANKING,
    LinkStatus,
    PartitionStatus,
    picked,
    status_of,
    that_end,
    word,
)

_PATIENCE_S: Final = 60.0  # with failures that are retried
UNDRIVEN_S: Final = 600.0  # without a driver, if there is no timeout
_LOOK_S: Final = 0.5  # the shortest pause between two reads
_REST: Final = 2.0  # the pause as a multiple of a read's duration, to limit the brokers' load
_RATE_S: Final = 30.0  # the time over which the rate is measured
_TROUBLE: Final = ENDED | {State.STOPPED, State.FAILED}
_STATES: Final = frozenset({*RANKING, MIRRORING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """The goal. `lag`: the most records that a partition may lack, None for any number. `state`:
    the state of all partitions, None for any state."""

    lag: int | None = 0
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The progress at one time. `behind`: partitions that have not reached the goal. `lag_records`:
    the sum of the known lags. `held_records`: records after open transactions, which no lag counts.
    `stuck`: partitions and topics that need an action, each with the reason. `eta_s`: None if it is
    unknown, or if the lag does not shrink."""

    at_ms: int
    partitions: int
    behind: tuple[tuple[str, PartitionStatus], ...]
    lag_records: int
    held_records: int
    stuck: tuple[str, ...]
    reached: bool
    stopped: bool  # some of `stuck` needs an operator
    driven: bool  # each link has a running driver
    records_per_s: float | None = None
    eta_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """The result. `code`: 0 reached, 7 stopped or failed, 9 no driver, 11 timeout. `reason`: why
    the goal was not reached."""

    code: int
    last: Waiting
    waited_s: float
    reason: str | None = None


def wait(
    settings: Settings,
    want: Want,
    *,
    link: str | None = None,
    topic: str | None = None,
    timeout_s: float | None = None,
    on_look: Callable[[Waiting | CausewayError], None] = lambda _: None,
) -> Waited:
    """Waits until all partitions (of `link`, `topic`) have reached the goal, one of them needs an
    operator, or `timeout_s` is over. Without a timeout it ends when no driver has run for
    UNDRIVEN_S. `on_look` is called with the progress or error of each read.

    It waits one minute for failures that are retried. Raises ConfigError for an unknown name, or if
    nothing is mirrored; CausewayError if the first or the last read fails.
    """
    if want.state is not None and want.state not in _STATES:
        raise unknown("wait", "state", want.state, _STATES, fixed=True)
    begun = time.monotonic()
    deadline = None if timeout_s is None else begun + timeout_s
    last: Waiting | None = None
    troubled_since: float | None = None
    undriven_since: float | None = None
    pace = _Pace()
    with clusters() as connect:
        links = choose(settings, Wanted(link, topic), connect, "wait")
        while True:
            looked = time.monotonic()
            failure: CausewayError | None = None
            try:
                last = pace.of(_look(links, connect, settings, topic, want))
            except CausewayError as error:
                if last is None or not error.retriable:
                    raise
                failure = error
            now = time.monotonic()
            if last.reached and failure is None:
                return Waited(code=0, last=last, waited_s=now - begun)
            on_look(failure or last)
            troubled_since = (troubled_since or now) if last.stuck else None
            undriven_since = None if last.driven else undriven_since or now
            if deadline is None and now - (undriven_since or now) >= UNDRIVEN_S:
                return _not_reached(last, now - begun, undriven=True)
            late = deadline is not None and now >= deadline
            if late and failure is not None:
                raise failure
            if last.stopped or late or now - (troubled_since or now) >= _PATIENCE_S:
                return _not_reached(last, now - begun)
            rest = max(_LOOK_S, _REST * (now - looked))
            time.sleep(rest if deadline is None else min(rest, deadline - now))


def _not_reached(last: Waiting, waited_s: float, *, undriven: bool = False) -> Waited:
    if undriven:
        code = NobodyLeadsError.exit_code
        reason = f"no driver has run for {UNDRIVEN_S / 60:.0f} minutes, so nothing is mirrored"
    elif last.stuck:
        code, reason = PartitionsFailedError.exit_code, last.stuck[0]
    else:
        code, reason = LAGS, f"{len(last.behind)} of {last.partitions} partitions are not there yet"
        if not last.driven:
            reason += "; no driver runs"
    return Waited(code=code, last=last, waited_s=waited_s, reason=reason)


def _look(
    links: Collection[LinkSettings],
    connect: Connect,
    settings: Settings,
    topic: str | None,
    want: Want,
) -> Waiting:
    retention_s = settings.run.deleted_topics_retention_s
    only = None if topic is None else {topic}
    looked = ask_each(list(links), lambda link: status_of(link, connect, retention_s, only))
    found = []
    for each in looked:
        if isinstance(each, CausewayError):
            raise each
        if each.unavailable is not None and want.lag is not None:
            # The known ends are those of the last driver: a lag of 0 proves nothing.
            where = f"{each.source} for {each.name}"
            cause = f"it does not answer: {each.unavailable}"
            raise UnreachableError("wait for the lag of", where, cause, retriable=True)
        found.append(each)
    return judge(found, want, int(time.time() * 1000))


def judge(links: Sequence[LinkStatus], want: Want, now_ms: int) -> Waiting:
    """Compares the status with the goal. Heartbeats topics never end, so they count only if there
    are no other topics. Raises ConfigError if nothing is mirrored."""
    seen = [(each.name, one) for each in links for one in that_end(each) if one.gone_ms is None]
    there = {(name, one.topic) for name, one in seen}
    missing = [
        f"{each.name} {problem.topic}: {problem.reason}"
        for each in links
        for problem in each.problems
        if (each.name, problem.topic) not in there
    ]
    if not seen and not missing:
        names = ", ".join(each.name for each in links)
        raise ConfigError("wait", f"for {names}", "it mirrors nothing there")
    behind = tuple((name, one) for name, one in seen if not _is_there(one, want))
    troubled = [(name, one) for name, one in behind if one.state in _TROUBLE]
    stuck = [
        f"{name} {one.topic}-{one.partition} {one.state}: {one.reason}" for name, one in troubled
    ]
    return Waiting(
        at_ms=now_ms,
        partitions=len(seen),
        behind=behind,
        lag_records=sum(one.lag_records or 0 for _, one in seen),
        held_records=sum(one.held_records or 0 for _, one in seen),
        stuck=(*stuck, *missing),
        reached=not behind and not missing,
        stopped=any(one.state != State.FAILED for _, one in troubled),
        driven=all(each.runs for each in links),
    )


def _is_there(one: PartitionStatus, want: Want) -> bool:
    if want.state is not None and want.state not in (one.state, word(one.state)):
        return False
    if want.lag is None:
        return True
    if one.state == State.STOPPED and want.state is None:
        return False  # it may lack records that the lag does not count
    if one.preserving is not None and one.preserving.filled_to is not None:
        return False  # its first record comes after the offsets that are being filled
    return one.lag_records is not None and one.lag_records <= want.lag


class _Pace:
    """Measures how fast the lag shrinks."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def of(self, seen: Waiting) -> Waiting:
        """Returns `seen` with the rate and the remaining time."""
        now, lag = time.monotonic(), seen.lag_records
        self._looks.append((now, lag))
        while now - self._looks[0][0] > _RATE_S and len(self._looks) > 2:
            self._looks.popleft()
        since, before = self._looks[0]
        if now <= since:
            return seen
        rate = (before - lag) / (now - since)
        return replace(seen, records_per_s=rate, eta_s=lag / rate if rate > 0 else None)


def as_json(waited: Waited) -> dict[str, Any]:
    """JSON for `--json`: stable keys."""
    return picked(
        waited.last,
        "looked_at_ms=at_ms partitions lag_records held_records running=driven",
        reached=waited.code == 0,
        reason=waited.reason,
        waited_s=round(waited.waited_s, 3),
        behind=[
            picked(one, "topic partition state reason lag_records lag_ms", link=name)
            for name, one in waited.last.behind
        ],
    )
