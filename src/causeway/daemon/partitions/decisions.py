"""The possible decisions about a partition that a leader finds; `claims` decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from causeway.link_topics import PartitionProgress
from causeway.model import Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Relay from source offset `start`; `targets` are the partitions it needs outlets for. `by`:
    the directive that says so, -1 for none. `first_copy_end`: of the claim that it goes on with;
    None: it begins a first copy, of all that the source has."""

    start: int
    targets: tuple[int, ...]
    by: int = -1
    first_copy_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Begin after the source record that `target` ends with, but not before `floor`, if there is
    one. If that record can't be found: at `start`, or stop with `reason` if `start` is None."""

    start: int | None
    target: int
    reason: str
    floor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoOn:
    progress: PartitionProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class GoByKey:
    """Go on, by key from source offset `start` on: no lane has come past it."""

    progress: PartitionProgress
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOver:
    """Go on at source offset `to`, behind a loss. `adopted`: a person has acknowledged the loss."""

    progress: PartitionProgress
    to: int
    adopted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """`loss`: a loss that a person has yet to acknowledge."""

    reason: str
    loss: Loss | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginBehind:
    """Begin right behind the records that were mirrored by `progress`, which another transform has
    made. `otherwise`: if the target does not show one place for all of its outlets."""

    progress: PartitionProgress
    otherwise: Begin | Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The offsets of one partition on both clusters. `end` is the end for readers like us: with
    read_committed the last stable offset. `high_watermark` may lie beyond; it is asked for if
    MirrorMaker 2 has mirrored the partition, and else is `end`. `start` is the beginning of a new
    mirror: by the time that a person named, else by the consumer's `auto.offset.reset`."""

    log_start: int
    end: int
    high_watermark: int
    start: int
    target_ends: Mapping[int, int]  # of each target partition it may feed


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The wish of a person on the command line."""

    start_from: int | None = None  # ms since 1970
    adopt: bool = False

    @property
    def acts(self) -> bool:
        return self.adopt or self.start_from is not None


Decision = Adopt | Begin | BeginBehind | GoByKey | GoOn | PassOver | Stop


def is_new(progress: PartitionProgress | None) -> bool:
    """Whether a partition was never claimed."""
    return progress is None or not progress.outlets
