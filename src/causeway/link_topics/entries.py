"""The entries of a progress topic, as values. records.py has their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, Literal, NamedTuple, Self, dataclass_transform

from msgspec import Struct, field, structs

from causeway.model import Dated, Loss, Pair, State, TopicPartition
from causeway.transform import plus

TRANSLATED = -2
EVENTS = 250  # the newest events of a link that the topic keeps


# This tells mypy that the fields of all subclasses are passed by name.
@dataclass_transform(frozen_default=True, kw_only_default=True)
class Value(Struct, frozen=True):
    """A frozen value. To build and compare it takes a fifth of a dataclass's time: each second, a
    driver and its lanes build one for each partition that moves. `dataclasses.replace` does not
    work with it, although mypy accepts that: use `replace`."""

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with other values for these fields."""
        return structs.replace(self, **changes)


class Outlet(Value, omit_defaults=True):
    """One target partition that a source partition feeds, with its producer id and epoch.

    A partition of a mirror has one outlet. If the target has another partition count (MirrorMaker
    1), it has an outlet for each target partition, each with its own sequences. `producer_id` is -1
    with at-least-once delivery.
    """

    topic: str
    partition: int
    topic_id: str  # of the target topic, 32 hex digits
    producer_id: int
    producer_epoch: int
    pair: Pair
    exclusive: bool = True  # all responses so far had the expected base offset: no foreign write
    # The topic to which a transform routes, by its name on the source; None for the mirror's topic.
    routed: str | None = None
    # The target's end at the claim: all records of this producer come after it. -1 if unknown.
    claimed_at: int = -1
    # Records below this target offset are a copy of the source that another tool has made.
    copied_to: int = 0
    # If offsets are kept: below this target offset, the log may have other records than the source,
    # or none. An earlier transform or treatment made them, or they were passed over.
    differs_to: int = 0
    # The producer ids of earlier claims of the same partition for this target, the newest one last.
    earlier: tuple[int, ...] = ()

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RuleCounts(NamedTuple):
    """The counts of one rule of a transform: `found`, the records with a value at the rule's path,
    and `missing`, the records without the path. `rule`: number and name, like `1 mask
    value.$.card`."""

    rule: str
    found: int
    missing: int


class Transformed(Value, omit_defaults=True):
    """The counts of a transform for the records of a partition, since a lane got the partition.

    `seen`: a bit for each rule whose path was in a record. Earlier versions did not count the
    following. `without_spark`, `through_spark`: the records that took each way. `found`, `missing`:
    for each rule, the records with a value at its path, and the records without the path."""

    records_in: int = 0
    records_out: int = 0
    dropped: int = 0
    refused: int = 0
    seen: int = 0
    without_spark: int = 0
    through_spark: int = 0
    found: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()

    def by_rule(self, names: Sequence[str]) -> tuple[RuleCounts, ...]:
        """Returns the counts of each rule. `names`: the names of the transform's rules, in their
        order."""
        pairs = zip_longest(self.found, self.missing, fillvalue=0)
        counted = zip_longest(names, islice(pairs, len(names)), fillvalue=(0, 0))
        return tuple(
            RuleCounts(f"{number} {name}", found, missing)
            for number, (name, (found, missing)) in enumerate(counted, 1)
        )

    def plus(self, other: Transformed) -> Transformed:
        """Returns the sum of both."""
        return Transformed(
            records_in=self.records_in + other.records_in,
            records_out=self.records_out + other.records_out,
            dropped=self.dropped + other.dropped,
            refused=self.refused + other.refused,
            seen=self.seen | other.seen,
            without_spark=self.without_spark + other.without_spark,
            through_spark=self.through_spark + other.through_spark,
            found=plus(self.found, other.found),
            missing=plus(self.missing, other.missing),
        )


class Filled(Value, omit_defaults=True):
    """The offsets of a partition that were filled because the source has no record there, since a
    lane got the partition. `gaps`: the number of gaps. `beginning`: the offsets below the first
    record, which are deleted again. The other fields: the offsets in gaps, by the way in which they
    were filled."""

    gaps: int = 0
    beginning: int = 0
    markers: int = 0
    transactions: int = 0
    filler: int = 0

    def plus(self, other: Filled) -> Filled:
        """Returns the sum of both."""
        return Filled(
            gaps=self.gaps + other.gaps,
            beginning=self.beginning + other.beginning,
            markers=self.markers + other.markers,
            transactions=self.transactions + other.transactions,
            filler=self.filler + other.filler,
        )


# The order of the fields below is their order in a record.


class PartitionProgress(Value, kw_only=True):
    """The progress of one source partition. Timestamps are ms since 1970; -1 means unknown.

    `topic_id` and `leader_epoch` belong to the source topic. A partition that stopped before it was
    claimed has position -1 and no outlets. `keys_from`: see daemon/partitions/routing.py.
    `transform`: the identity of its transform, see causeway.transform.identity; None if its records
    are relayed as they are. `dated`: the timestamp of the record at `position`, when it is known.
    `gone_at`: the time from which on the source does not have the topic, see
    daemon/partitions/deleted.py. `begun`: the directive that claimed it, see directives.py.

    `first_copy_end`, `loss`, `lost`, `acknowledged`: see control/claim_checks.py. `first_copy_end`
    is the source's end when the claim was made. `loss` says why a partition stopped. `lost` counts
    the source offsets that were passed over because they were lost. `acknowledged` counts how many
    of these a person has acknowledged.

    `offsets_from`: if the partition preserves offsets, each record from this offset on has the same
    offset on both sides; below, the target has filler or nothing. -1 if offsets are translated.
    TRANSLATED if they are translated, also if the file says otherwise, as long as the target topic
    is the same."""

    topic: str
    partition: int
    topic_id: str
    leader_epoch: int
    position: int
    outlets: tuple[Outlet, ...]
    keys_from: int = 0
    transform: str | None = None
    state: State
    reason: str | None = None
    source_end: int = -1
    last_timestamp: int = -1
    dated: Dated | None = None
    gone_at: int = -1
    begun: int = -1
    first_copy_end: int = -1
    loss: Loss | None = None
    lost: int = 0
    acknowledged: int = 0
    offsets_from: int = -1
    written_at: int = -1

    @property
    def preserves(self) -> bool:
        """Whether each record has the same offset on both sides."""
        return self.offsets_from >= 0

    @property
    def begins(self) -> bool:
        """Whether the target's log is still being filled up to the first record."""
        return self.position < self.offsets_from

    @property
    def mirrored_to(self) -> int:
        """The source offset from which on records are not mirrored; -1 if unknown."""
        return max(self.position, self.offsets_from)

    def reached(self, end: int) -> PartitionProgress:
        """Returns the progress of a partition that preserves offsets, if the target's log ends at
        `end`."""
        (outlet,) = self.outlets
        pair = outlet.pair._replace(source=end, target=end)
        return self.replace(position=end, outlets=(outlet.replace(pair=pair),))

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_mapped(self) -> bool:
        """Whether it has outlets, and keys do not decide the outlet of a record."""
        return len(self.outlets) == 1 or (self.transform is not None and bool(self.outlets))

    @property
    def first_unmirrored(self) -> int:
        """The timestamp (ms) of the first record that is not mirrored; -1 if unknown."""
        dated = self.dated
        return dated.timestamp if dated is not None and dated.offset == self.mirrored_to else -1


class LeaseRecord(Value, kw_only=True):
    """The leader of the link. The lease lasts for `lease_s` seconds after its reader has seen it,
    unless `released`.

    `owner`: the driver's name for people. `process` shows whether the driver is a process of this
    machine that has ended. `progress_lost` shows whether the topic was lost before (see
    daemon.leadership); None in a lease that only announces the next leader. `reached`: the end of
    the topic at that time; a lease at a lower offset is in a topic that was recreated.
    `source_cluster`, `target_cluster`: the ids of the link's clusters, None while unknown.
    `settings`: a hash of the link's settings in the driver's file, without secrets."""

    link: str
    owner: str
    process: str = ""
    producer_id: int
    producer_epoch: int
    lease_s: float
    released: bool = False
    progress_lost: bool | None = False
    reached: int = 0
    source_cluster: str | None = None
    target_cluster: str | None = None
    settings: str | None = None
    written_at: int = -1


class OffsetMapRecord(Value):
    """The points of one outlet's offset map, while the outlet has its producer id. The record may
    be old, or missing: the outlet's pair is true, and the logs show the rest. `to`: the target
    partition, None for a partition's first outlet. `since`: see OffsetMap."""

    topic: str
    partition: int
    producer_id: int
    points: tuple[Pair, ...]
    to: TopicPartition | None = None
    since: int | None = None

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class TaskRecord(Value):
    """The state of a task of the control plane. `reason`: why its last run failed, None if it did
    not. `items`: the items that failed, each with its reason. `figures`: its counts, by name.
    `done_at` (ms): the end of its last successful run."""

    name: str
    reason: str | None = None
    items: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, int] = field(default_factory=dict)
    done_at: int = -1
    written_at: int = -1


class TransformRecord(Value):
    """The counts of the transform with this `identity`, from the last driver that led. `reason`:
    why its stages fail, None if they do not."""

    name: str
    identity: str
    counts: Transformed
    reason: str | None = None
    written_at: int = -1


class DirectivesRecord(Value):
    """The leading driver has executed all directives below offset `applied` of the directives topic
    with this id. `reason`: why it cannot execute the next directive, None if it can. `kinds`: the
    kinds of directives that the driver knows; older drivers do not list them, and pass over unknown
    kinds."""

    link: str
    topic_id: str
    applied: int
    reason: str | None = None
    kinds: tuple[str, ...] = ()
    written_at: int = -1


class EventRecord(Value):
    """A log line of a leading driver about the link, at `at` (ms). `number`: its number among all
    events of the link. `level`: info, warning or error. `about`: details, for example the partition
    and the reason."""

    number: int
    at: int
    level: str
    event: str
    about: Mapping[str, str]


class Deletion(Value):
    """Removes a partition's progress ("topic") or an offset map ("offsets") from the topic. `to`:
    see OffsetMapRecord."""

    source: TopicPartition
    of: Literal["topic", "offsets"]
    to: TopicPartition | None = None


Entry = (
    PartitionProgress
    | LeaseRecord
    | OffsetMapRecord
    | TaskRecord
    | TransformRecord
    | DirectivesRecord
    | EventRecord
    | Deletion
)
