"""Which lane gets which partition. Pure.

A partition weighs what it relays in bytes/s, and a floor for what an idle one costs. Placement is
sticky: a partition moves only where that takes a good part of a real imbalance away, because a
moved partition pauses for a moment.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

FLOOR = 20_000.0  # bytes/s that an idle partition counts for
TOLERANCE = 0.25  # of the average lane's load: a smaller difference stays
WORTH_A_PAUSE = 5_000_000.0  # bytes/s: nor is a smaller difference worth a moved one's pause
FRESH = 2 * FLOOR  # unless a lane has nothing at all
MOVES_AT_ONCE = 50

K = TypeVar("K", bound=Hashable)


def weight(bytes_per_s: float) -> float:
    return FLOOR + bytes_per_s


def place(new: Iterable[tuple[K, float]], loads: Mapping[int, float]) -> dict[K, int]:
    """A lane for each of `new` (key, weight): the heaviest first, each to the least loaded lane.

    Equal weights keep their order, so that a topic's partitions are spread over the lanes.
    """
    running = dict(loads)
    placed: dict[K, int] = {}
    for key, heavy in sorted(new, key=lambda item: -item[1]):
        lane = min(running, key=lambda lane: (running[lane], lane))
        placed[key] = lane
        running[lane] += heavy
    return placed


def moves(
    lanes: Mapping[int, Mapping[K, float]],
    limit: int = MOVES_AT_ONCE,
    least: float = FRESH,
    fixed: Mapping[int, float] = MappingProxyType({}),
) -> dict[K, int]:
    """Partitions to move, with the lane each goes to; empty where the load is even enough: no two
    lanes differ by more than `least` and by more than TOLERANCE. `fixed`: loads that stay."""
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
        # The move that leaves the two nearest to each other; half the difference is perfect.
        best = min(
            (key for key in held[heaviest] if key not in found),
            key=lambda key: abs(held[heaviest][key] - difference / 2),
            default=None,
        )
        if best is None or held[heaviest][best] > difference * 2 / 3:
            break  # a heavy partition, which would hardly do more than change the side
        found[best] = lightest
        heavy = held[heaviest].pop(best)
        held[lightest][best] = heavy
        loads[heaviest] -= heavy
        loads[lightest] += heavy
    return found
