"""Cuts: where the mirror of a topic has ended, as values and as JSON. Pure.

    source  0 ………………… S │ …            of a partition: everything before source offset S lies on the
    target  0 ………………… T │ …            target before offset T, and nothing of the mirror behind T

A cut stands in the directive that ends the mirror (directives.py), so it is durable with it. It is
where a mirror the other way begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from causeway.model import NO_TOPIC_ID, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPoint:
    """Of one source partition. `source`: S, or -1 of one that had never begun; `targets`: T of each
    target partition that it fed: behind the last record of the mirror, whatever others have written
    since. `exact` false: the mirror ended without a last word, and more from behind S lies, or may
    lie, before T."""

    partition: int
    source: int
    targets: tuple[tuple[TopicPartition, int], ...]
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Of one topic, named as on the source; `target` as on the target. The ids tell whether either
    was made anew since."""

    target: str
    source_id: str = NO_TOPIC_ID
    target_id: str = NO_TOPIC_ID
    points: tuple[CutPoint, ...] = ()

    def point(self, partition: int) -> CutPoint | None:
        return next((each for each in self.points if each.partition == partition), None)


def as_json(cut: Cut) -> dict[str, Any]:
    return {
        "target": cut.target,
        "source_id": cut.source_id,
        "target_id": cut.target_id,
        "points": [
            {
                "partition": each.partition,
                "source": each.source,
                "targets": [[*at, offset] for at, offset in each.targets],
                "exact": each.exact,
            }
            for each in cut.points
        ],
    }


def of_json(value: dict[str, Any]) -> Cut:
    """The reverse. Raises KeyError, TypeError or ValueError for what is none."""
    return Cut(
        target=str(value["target"]),
        source_id=str(value["source_id"]),
        target_id=str(value["target_id"]),
        points=tuple(
            CutPoint(
                partition=int(each["partition"]),
                source=int(each["source"]),
                targets=tuple(
                    (TopicPartition(str(topic), int(partition)), int(offset))
                    for topic, partition, offset in each["targets"]
                ),
                exact=bool(each["exact"]),
            )
            for each in value["points"]
        ),
    )
