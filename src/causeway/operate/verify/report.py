"""What `verify` says, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from causeway.operate.verify.outcome import Difference
from causeway.operate.verify.plan import Left


class Verdict(StrEnum):
    AGREES = "agrees"
    IN_PART = "agrees in part"  # all that was compared agrees; something was not compared
    NOT_COMPARED = "not compared"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """Of one source partition, and one target partition that it feeds (None where there is none).

    Compared were source offsets `source_from` to `source_to` - 1 and the target's `target_from` to
    `target_to` - 1 (-1: none). `records`, `size` (bytes on the source) and `checksum` are of what
    agrees, `as_they_are` those of its records that were compared byte by byte, in whole batches;
    `before`: those that an earlier call found to agree, which is in them. `different`: how many
    records differ; `differences` may have room for fewer."""

    link: str
    topic: str
    partition: int
    target_topic: str
    target_partition: int | None
    verdict: Verdict
    source_from: int = -1
    source_to: int = -1
    target_from: int = -1
    target_to: int = -1
    records: int = 0
    as_they_are: int = 0
    before: int = 0
    size: int = 0
    checksum: int = 0
    different: int = 0
    differences: tuple[Difference, ...] = ()
    left: tuple[Left, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`began` in ms since 1970; `seconds` in all, `comparing_s` of them from when the lanes were
    up."""

    partitions: tuple[PartitionReport, ...]
    began: int
    seconds: float
    comparing_s: float = 0.0

    @property
    def differs(self) -> bool:
        """Whether there is a difference anywhere."""
        return any(one.verdict is Verdict.DIFFERS for one in self.partitions)

    @property
    def complete(self) -> bool:
        """Whether all was compared, and nothing had to be left out; not so where there was nothing
        to compare."""
        return bool(self.partitions) and not any(one.left for one in self.partitions)

    @property
    def agrees(self) -> bool:
        """Whether all was compared and agrees."""
        return self.complete and not self.differs

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.partitions)

    def count(self, verdict: Verdict) -> int:
        return sum(one.verdict is verdict for one in self.partitions)


def verdict_of(*, compared: bool, differs: bool, left: Iterable[Left]) -> Verdict:
    if differs:
        return Verdict.DIFFERS
    if not any(True for _ in left):
        return Verdict.AGREES
    return Verdict.IN_PART if compared else Verdict.NOT_COMPARED


def as_json(report: Report) -> dict[str, Any]:
    """For `--json`: stable keys; null where there is nothing to say."""
    return {
        "agrees": report.agrees,
        "differs": report.differs,
        "complete": report.complete,
        "began_ms": report.began,
        "seconds": round(report.seconds, 3),
        "comparing_seconds": round(report.comparing_s, 3),
        "records": report.records,
        "bytes": report.size,
        "partitions": [_partition_json(one) for one in report.partitions],
    }


def _partition_json(one: PartitionReport) -> dict[str, Any]:
    return {
        "link": one.link,
        "topic": one.topic,
        "partition": one.partition,
        "target_topic": one.target_topic or None,
        "target_partition": one.target_partition,
        "verdict": str(one.verdict),
        "source_offsets": _range(one.source_from, one.source_to),
        "target_offsets": _range(one.target_from, one.target_to),
        "records": one.records,
        "records_byte_by_byte": one.as_they_are,
        "records_before": one.before,
        "bytes": one.size,
        "checksum": f"{one.checksum:016x}",
        "records_different": one.different,
        "differences": [_difference_json(each) for each in one.differences],
        "not_compared": [{"why": str(each.why), "text": each.text} for each in one.left],
    }


def _range(start: int, end: int) -> list[int] | None:
    return None if start < 0 else [start, end]


def _difference_json(each: Difference) -> dict[str, Any]:
    return {
        "kind": str(each.kind),
        "source_offset": each.source if each.source >= 0 else None,
        "target_offset": each.target,
        "other": None if each.other is None else list(each.other),
        "records": each.records,
        "detail": each.detail or None,
    }
