"""The facts about a partition that a leader finds, and the decisions about it, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from causeway.config import LinkSettings, RunSettings
from causeway.control import Copied, MirroredTopic
from causeway.link_topics import TRANSLATED, ClaimStart, PartitionProgress
from causeway.model import Loss, TopicPartition, same_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The offsets of one partition on both clusters. `end` is the end for readers like us: with
    read_committed the last stable offset. `high_watermark` may be higher; it differs from `end`
    only if MirrorMaker 2 has mirrored the partition. `start` is the beginning of a new mirror: by
    the time that a person has given, otherwise by the consumer's `auto.offset.reset`."""

    log_start: int
    end: int
    high_watermark: int
    start: int
    target_ends: Mapping[int, int]  # of each target partition that it may feed
    # The log starts of these partitions, if the source partition keeps its offsets; else 0.
    target_starts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The wish of a person on the command line, or by a directive."""

    start_from: int | None = None  # ms since 1970
    adopt: bool = False
    translate: bool = False  # a stopped partition goes on with translated offsets

    @property
    def acts(self) -> bool:
        return self.adopt or self.translate or self.start_from is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run goes. `bounded`: it ends by itself; `finish`: partitions only finish the records
    that an earlier process left in flight."""

    settings: RunSettings
    wish: Wish = field(default_factory=Wish)
    bounded: bool = False
    finish: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A partition that a leader finds, with all facts that decide how its mirror continues."""

    topic: MirroredTopic
    partition: int
    progress: PartitionProgress | None
    offsets: Offsets
    link: LinkSettings
    wish: Wish
    copied: Copied | None = None  # MirrorMaker 2's position
    progress_lost: bool = False  # see daemon.leadership
    transform: str | None = None  # identity of the present transform and treatment
    shared: bool = False  # transforms lead records of other partitions to its target as well
    others: bool = False  # other links of Causeway wrote all records of the target, see others.py
    start: ClaimStart | None = None  # the directive that says where the mirror begins
    reverse_ended: bool = False  # the mirror in the reverse direction has ended

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic.source, self.partition)

    @property
    def keeps(self) -> bool:
        """Whether it keeps its offsets. If a person has asked to translate them, that holds as long
        as the target topic is the same."""
        known, topic, start = self.progress, self.topic, self.start
        asked = self.wish.translate
        if start is not None and (known is None or known.begun != start.by):
            asked |= start.translated
        if known is not None and known.offsets_from == TRANSLATED:
            asked |= all(same_topic(o.topic_id, topic.target_id) for o in known.outlets)
        return topic.preserves and not asked

    @property
    def is_new(self) -> bool:
        """Whether the partition was never claimed."""
        return self.progress is None or not self.progress.outlets


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Relay from source offset `start`. `targets`: the target partitions that need outlets. `by`:
    the directive that says so, -1 if there is none. `first_copy_end`: that of the claim that it
    continues; None if it begins a first copy of all that the source has. `offsets_from`: see
    PartitionProgress. If `start` is below `offsets_from`, the beginning has to be filled."""

    start: int
    targets: tuple[int, ...]
    by: int = -1
    first_copy_end: int | None = None
    offsets_from: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Begin after the source record that is the last one of `target`, but not before `floor`, if
    there is one. If that record is not found, begin at `start`, or stop with `reason` if `start` is
    None."""

    start: int | None
    target: int
    reason: str
    floor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoOn:
    progress: PartitionProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class GoByKey:
    """Go on, by key from source offset `start` on. No lane has passed this offset."""

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
    """`loss`: the loss that a person must acknowledge before the partition goes on."""

    reason: str
    loss: Loss | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginBehind:
    """Begin right behind the records that were mirrored by `progress` through another transform.
    `otherwise`: the decision if the target does not show one source offset for all outlets."""

    progress: PartitionProgress
    otherwise: Begin | Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class IfSame:
    """Keep offsets. Do `then` if the target's last records before `end` are the source's at the
    same offsets, else `otherwise`. `marked`: headers may differ, and either side may lack
    records."""

    then: Begin | GoOn
    end: int
    otherwise: Stop
    marked: bool = False


Decision = Adopt | Begin | BeginBehind | GoByKey | GoOn | IfSame | PassOver | Stop
