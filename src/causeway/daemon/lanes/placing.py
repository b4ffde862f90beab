"""Decides which lane gets which partition, moves partitions between lanes, and splits throttles.

The weight of a partition is the bytes/s that it relays, plus a floor for the cost of an idle one. A
partition moves only if that removes a good part of a real imbalance, because it pauses meanwhile.

A stage costs a Spark task, two Python workers and seconds to warm up. So the partitions of a
transform stay together on the few lanes that the transform may have (its homes), and never move for
balance.

Each lane gets a share of each throttle. Lanes that lag get equal shares. A lane that keeps up gets
a little more than it uses. At any time, the sum of the shares is the limit.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeVar

from causeway.daemon.lanes.tracked import FLOOR, ConnectedLane, Key, Tracked
from causeway.model import State
from causeway.relay import Assign, Assignment, Rate, Revoke, StageSpec, StageSpecs, Throttle

_log = logging.getLogger("causeway.fleet")
TOLERANCE = 0.25  # of the average lane's load: a smaller difference is accepted
WORTH_A_PAUSE = 5_000_000.0  # bytes/s: a smaller difference is not worth a pause
FRESH = 2 * FLOOR  # the accepted difference if a lane has no partitions at all
MOVES_AT_ONCE = 50
ASSIGNED_AT_ONCE = 500  # assignments in a message
GATHER_S = 1.0
_REBALANCE_S = 10.0
RESPLIT_S: Final = 1.0
_IDLE: Final = 0.02  # of an equal share, for a lane that reads no records
_MORE: Final = 1.25  # times its use, for a lane that keeps up
_SAME: Final = 0.05  # a share that grows by less than this part is not sent
_AT_REST = (State.STOPPED, State.DONE)

_Scope = tuple[str, str | None]  # link, and topic of its source
K = TypeVar("K", bound=Hashable)


def spread(new: Iterable[tuple[K, float]], loads: Mapping[int, float]) -> dict[K, int]:
    """Returns a lane for each of `new` (key, weight). The heaviest comes first, and each goes to
    the lane with the least load.

    Equal weights keep their order, so that a topic's partitions are spread over the lanes.
    """
    running = dict(loads)
    placed: dict[K, int] = {}
    for key, heavy in sorted(new, key=lambda item: -item[1]):
        lane = min(running, key=lambda lane: (running[lane], lane))
        placed[key] = lane
        running[lane] += heavy
    return placed


def even_out(
    lanes: Mapping[int, Mapping[K, float]],
    limit: int = MOVES_AT_ONCE,
    least: float = FRESH,
    fixed: Mapping[int, float] = MappingProxyType({}),
) -> dict[K, int]:
    """Returns the partitions to move, each with its new lane. Empty if the load is even enough: no
    two lanes differ by more than `least` and by more than TOLERANCE. `fixed`: load of each lane
    that cannot move."""
    if len(lanes) < 2:
        return {}
    held = {lane: dict(partitions) for lane, partitions in lanes.items()}
    loads = {lane: sum(held[lane].values()) + fixed.get(lane, 0.0) for lane in held}
    tolerated = max(TOLERANCE * sum(loads.values()) / len(loads), least)
    found: dict[K, int] = {}
    while len(found) < limit:
        heaviest = max(loads, key=lambda lane: (loads[lane], -lane))
        lightest = min(loads, key=lambda lane: (loads[lane], lane))
        difference = loads[heaviest] - loads[lightest]
        if difference <= tolerated:
            break
        # The best move leaves the two lanes nearest to each other; half the difference is ideal.
        best = min(
            (key for key in held[heaviest] if key not in found),
            key=lambda key: abs(held[heaviest][key] - difference / 2),
            default=None,
        )
        if best is None or held[heaviest][best] > difference * 2 / 3:
            break  # the move of so heavy a partition would only reverse the imbalance
        found[best] = lightest
        heavy = held[heaviest].pop(best)
        held[lightest][best] = heavy
        loads[heaviest] -= heavy
        loads[lightest] += heavy
    return found


@dataclass(slots=True)
class _Home:
    stage: StageSpec
    lanes: int  # that share its partitions
    at: list[int] = field(default_factory=list)


class StageHomes:
    """The lanes of each stage, by the stage's key. A stage at a lane has its own key."""

    def __init__(self) -> None:
        self._homes: dict[str, _Home] = {}

    def open(self, stage: StageSpec, lanes: int) -> None:
        self._homes.setdefault(stage.key, _Home(stage, lanes))

    def __contains__(self, key: str) -> bool:
        return key in self._homes

    def at(self, key: str, usable: Collection[int]) -> Sequence[int]:
        """Returns the lanes of stage `key`: its earlier lanes that are still `usable`, and then the
        lanes that are home to the fewest stages."""
        home = self._homes[key]
        home.at = [lane for lane in home.at if lane in usable]
        for _ in range(min(home.lanes, len(usable)) - len(home.at)):
            others = [lane for lane in usable if lane not in home.at]
            guests = Counter(lane for each in self._homes.values() for lane in each.at)
            home.at.append(min(others, key=lambda lane: (guests[lane], lane)))
        return home.at

    def stage(self, key: str, lane: int) -> StageSpec:
        """Returns the message about the stage for `lane`."""
        return self._homes[key].stage.replace(key=at_lane(key, lane))


def at_lane(key: str, lane: int) -> str:
    return f"{key}/{lane}"


def without_lane(key: str) -> str:
    """Returns the reverse of `at_lane`."""
    return key.rpartition("/")[0]


class Gathering:
    """Lets partitions wait a moment for lanes that are about to connect or to reconnect.
    `expected`: how many lanes were launched. Not thread-safe."""

    def __init__(self) -> None:
        self.expected = 0
        self._until = 0.0

    def begin(self) -> None:
        """A lane is gone."""
        self._until = time.monotonic() + GATHER_S

    def waits_for_more(self, lanes: int) -> bool:
        """Returns whether partitions still wait if `lanes` lanes are connected."""
        if not lanes or lanes >= self.expected:
            self._until = 0.0
            return not lanes
        now = time.monotonic()
        if not self._until:
            self._until = now + GATHER_S
        return now < self._until


def place(
    waiting: Iterable[Key],
    tracked: Mapping[Key, Tracked],
    lanes: Mapping[int, ConnectedLane],
    homes: StageHomes,
) -> dict[Key, int]:
    """Returns a lane for each of `waiting`, except those whose stage is not open yet."""
    placed: dict[Key, int] = {}
    plain: list[Key] = []
    staged: dict[str, list[Key]] = {}
    for key in waiting:
        stage, going_to = tracked[key].assignment.transform, tracked[key].going_to
        if stage is not None:
            if stage in homes:
                staged.setdefault(stage, []).append(key)
        elif going_to is not None and going_to in lanes:
            placed[key] = going_to
        else:
            plain.append(key)
    for stage, keys in staged.items():
        loads = {number: _load(tracked, lanes[number], stage) for number in homes.at(stage, lanes)}
        placed |= spread([(key, tracked[key].weight) for key in keys], loads)
    loads = {number: _load(tracked, lane) for number, lane in lanes.items()}
    for key, number in placed.items():
        loads[number] += tracked[key].weight
    return placed | spread([(key, tracked[key].weight) for key in plain], loads)


def _load(tracked: Mapping[Key, Tracked], lane: ConnectedLane, stage: str | None = None) -> float:
    """Returns the weight of the lane's partitions that go through `stage`, or of all if None."""
    return sum(
        tracked[key].weight
        for key in lane.partitions
        if stage is None or tracked[key].assignment.transform == stage
    )


def hand_over(lane: ConnectedLane, assignments: Sequence[Assignment], homes: StageHomes) -> None:
    """Sends `assignments` to `lane`, after the stages that they need."""
    needed = {each.transform for each in assignments if each.transform is not None}
    if new := needed - lane.known_stages:
        stages = tuple(homes.stage(key, lane.number) for key in sorted(new))
        lane.connection.send(StageSpecs(stages=stages))
        lane.known_stages |= new
    for at in range(0, len(assignments), ASSIGNED_AT_ONCE):
        part = assignments[at : at + ASSIGNED_AT_ONCE]
        lane.connection.send(Assign(assignments=tuple(_at(each, lane.number) for each in part)))


def _at(assignment: Assignment, lane: int) -> Assignment:
    if assignment.transform is None:
        return assignment
    return assignment.replace(transform=at_lane(assignment.transform, lane))


def moves(tracked: Mapping[Key, Tracked], lanes: Mapping[int, ConnectedLane]) -> dict[Key, int]:
    """Returns the partitions that should move, each with the number of its new lane. Partitions
    that go through a stage do not move."""
    held: dict[int, dict[Key, float]] = {number: {} for number in lanes}
    fixed = dict.fromkeys(lanes, 0.0)
    for number, lane in lanes.items():
        for key in lane.partitions:
            one = tracked[key]
            if one.report is not None and one.report.state in _AT_REST:
                continue
            if one.assignment.transform is None:
                held[number][key] = one.weight
            else:
                fixed[number] += one.weight
    fresh = any(not held[number] and not fixed[number] for number in lanes)
    limit = len(tracked) if fresh else MOVES_AT_ONCE
    return even_out(held, limit, FRESH if fresh else WORTH_A_PAUSE, fixed)


class Rebalancing:
    """Moves partitions every ten seconds, in two steps: first their lanes let go of them. A round
    looks at all partitions. So a round is skipped if the last one found no move and nothing has
    changed since. Not thread-safe; times are monotonic."""

    def __init__(self) -> None:
        self._at = 0.0
        self._changed = False

    def note_change(self) -> None:
        """The lanes, the partitions or their rates have changed."""
        self._changed = True

    def soon(self, at: float) -> None:
        """Makes the next round happen at `at` at the latest."""
        self._at = min(self._at, at)
        self._changed = True

    def step(
        self, now: float, tracked: Mapping[Key, Tracked], lanes: Mapping[int, ConnectedLane]
    ) -> None:
        if now < self._at or not self._changed:
            return
        self._at = now + _REBALANCE_S
        if any(each.leaving for each in tracked.values()):
            return
        found = moves(tracked, lanes)
        self._changed = bool(found)
        revoked: dict[ConnectedLane, list[Key]] = {}
        for key, number in found.items():
            one = tracked[key]
            if one.lane is not None:
                one.leaving, one.going_to = True, number
                revoked.setdefault(one.lane, []).append(key)
        for lane, keys in revoked.items():
            _log.info("move partitions", extra={"from_lane": lane.number, "count": len(keys)})
            lane.connection.send(Revoke(keys=tuple(keys)))


@dataclass(frozen=True, slots=True)
class Use:
    """A lane's use of a throttle: the bytes/s that it reads, and whether it lags."""

    bytes_per_s: float = 0.0
    lags: bool = False


def split(limit: float, uses: Mapping[int, Use]) -> dict[int, float]:
    """Returns the bytes/s for each lane; their sum is `limit`."""
    even = limit / len(uses)
    lagging = [lane for lane, use in uses.items() if use.lags]
    if not lagging:
        return dict.fromkeys(uses, even)
    least = _IDLE * even
    shares = {
        lane: min(even, max(least, _MORE * use.bytes_per_s))
        for lane, use in uses.items()
        if not use.lags
    }
    rest = (limit - sum(shares.values())) / len(lagging)
    return shares | dict.fromkeys(lagging, rest)


class Throttling:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._limits: dict[_Scope, int] = {}
        self._sent: dict[ConnectedLane, dict[_Scope, float]] = {}

    def limit(self, link: str, limits: Mapping[str | None, int]) -> None:
        """Sets the limits of `link` by topic. The key None has the limit of the whole link."""
        kept = {scope: rate for scope, rate in self._limits.items() if scope[0] != link}
        self._limits = kept | {(link, topic): rate for topic, rate in limits.items()}

    def send_shares(
        self, lanes: Mapping[int, ConnectedLane], tracked: Mapping[Key, Tracked]
    ) -> None:
        """Sends each lane its shares, if they differ from the shares that it has."""
        if not lanes or not (self._limits or self._sent):
            return
        uses = self._uses(lanes, tracked)
        shares: dict[int, dict[_Scope, float]] = {number: {} for number in lanes}
        for scope, limit in self._limits.items():
            for number, share in split(limit, uses[scope]).items():
                shares[number][scope] = share
        sent, self._sent = self._sent, {}
        for number, lane in lanes.items():
            before, now = sent.get(lane, {}), shares[number]
            if _differ(before, now):
                rates = (
                    Rate(link=link, topic=topic, bytes_per_s=rate)
                    for (link, topic), rate in now.items()
                )
                lane.connection.send(Throttle(rates=tuple(rates)))
                before = now
            if before:
                self._sent[lane] = before

    def _uses(
        self, lanes: Mapping[int, ConnectedLane], tracked: Mapping[Key, Tracked]
    ) -> dict[_Scope, dict[int, Use]]:
        uses = {scope: dict.fromkeys(lanes, Use()) for scope in self._limits}
        for number, lane in lanes.items():
            for key in lane.partitions:
                one = tracked[key]
                for scope in ((key[0], None), (key[0], key[1])):
                    if (found := uses.get(scope)) is not None:
                        use = found[number]
                        found[number] = Use(
                            use.bytes_per_s + one.bytes_per_s, use.lags or _lags(one)
                        )
        return uses


def _lags(one: Tracked) -> bool:
    """Returns whether it lags. A partition without a report counts as lagging."""
    if one.report is None:
        return True
    return one.report.state is State.RUNNING and one.report.position < one.report.source_end


def _differ(before: Mapping[_Scope, float], now: Mapping[_Scope, float]) -> bool:
    if before.keys() != now.keys():
        return True
    return any(not 0 <= now[scope] - rate <= _SAME * rate for scope, rate in before.items())
