"""Which lanes have which transforms' partitions.

A stage costs a Spark task, two Python workers and seconds to warm up, so a transform's partitions
stay together on as few lanes as it is to have, its homes, and are never moved for balance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from causeway.relay import StageSpec

# Its records pass the lane twice, to the stage and back.
HEAVIER = 2.0


@dataclass(slots=True)
class _Home:
    stage: StageSpec
    lanes: int  # so many are to share its partitions
    at: list[int] = field(default_factory=list)


class Homes:
    """By stages' keys. A stage at a lane has a key of its own."""

    def __init__(self) -> None:
        self._homes: dict[str, _Home] = {}

    def open(self, stage: StageSpec, lanes: int) -> None:
        self._homes.setdefault(stage.key, _Home(stage, lanes))

    def __contains__(self, key: str) -> bool:
        return key in self._homes

    def at(self, key: str, usable: Collection[int]) -> Sequence[int]:
        """The lanes of stage `key`: where it was, as far as these are `usable`, and else those that
        are home to the fewest stages."""
        home = self._homes[key]
        home.at = [lane for lane in home.at if lane in usable]
        for _ in range(min(home.lanes, len(usable)) - len(home.at)):
            others = [lane for lane in usable if lane not in home.at]
            home.at.append(min(others, key=lambda lane: (self._guests(lane), lane)))
        return home.at

    def stage(self, key: str, lane: int) -> StageSpec:
        """As `lane` is told of it."""
        stage = self._homes[key].stage
        return stage.replace(key=at_lane(key, lane))

    def _guests(self, lane: int) -> int:
        return sum(lane in home.at for home in self._homes.values())


def at_lane(key: str, lane: int) -> str:
    return f"{key}/{lane}"


def without_lane(key: str) -> str:
    """The reverse of `at_lane`."""
    return key.rpartition("/")[0]
