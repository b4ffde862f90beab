"""A link's treatment of its records: some are left out, some are changed.

    source log ─► keep ─► treat ─► by key, or the stage of a transform ─► outlets

The relayed series is then a function of the source's log and of the treatment. Lanes and recovery
must number the same records alike, so a treatment is pure: on each machine and at any time, its
result depends only on the record and the settings. A partition's claim has all settings that decide
(`decides` in TreatmentSettings), so another treatment gets its own claim. One record becomes one
record or none; it keeps its timestamp and its place.

A link without a treatment runs none of this code.

A treatment names the source of a record in its headers, leaves out records by their headers, or
translates schema ids (schema_ids.py).

    provenance     a header names the source. Records that have been on the target are left out, or
                   (`local`) all records that have been mirrored before
    skip-header    records with a header of that name are left out: they are on both sides

    written on A ─► B: A/orders ─► C: A/orders, B/orders        left out on the way to A or B

The first of these headers names the cluster on which a record was written. The others name the
clusters that it has come through, in order. The first header alone would stop a record that comes
back to the cluster on which it was written, but not a record that goes back and forth between two
other clusters.

Each header also names the topic that the mirror has written to. Programs such as Kafka Streams copy
a record's headers to records in other topics. There the headers belong to another record.

A `Series` gives the records of a source partition as each of its outlets gets them. Without a
treatment or a transform the records stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from importlib import import_module
from typing import NamedTuple, Protocol

from kafka.partitioner.default import murmur2

from causeway.errors import CausewayError, DivergedError
from causeway.records import (
    UNPACKED_BYTES,
    Batch,
    Kept,
    Record,
    part_of,
    records_of,
    unpacked_total,
)
from causeway.relay.messages import Assignment, TreatmentStep
from causeway.relay.offset_lookup import Becomes, unchanged

Records = Sequence[Record | None]
Header = tuple[str, bytes | None]
ORIGIN = "causeway.origin"


class TreatmentNotReadyError(CausewayError):
    """`treat` cannot treat a record before `prepare` has found out something. The partition shows
    that it waits, and is tried again."""


class Topics(NamedTuple):
    """A topic's name on the source, and the name of its mirror on the target."""

    source: str
    target: str


class Treatment(Protocol):
    """One object serves all partitions of a link on a lane, from several threads."""

    def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
        """Returns the result for each of `records`, in their order: the same object if the record
        does not change, None if it is left out, otherwise a `Changed`. `topics`: the topics that
        the records come from and go to.

        It is quick and never blocks, because a lane's loop waits for it. Raises
        TreatmentNotReadyError. Raises DivergedError, which stops the partition, for a batch that a
        person must decide on."""
        ...

    def prepare(self) -> None:
        """Gets the data that `treat` needed when it raised TreatmentNotReadyError. It may block: it
        runs in a helper's thread. Raises CausewayError if that is not possible now: the partition
        shows the error, and is tried again after a while."""
        ...


class Changed(NamedTuple):
    """A record with other bytes than on the source. `offset`, `timestamp`: the same as there."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def topics_of(assignment: Assignment) -> Topics:
    own = next(each for each in assignment.outlets if each.routed is None)
    return Topics(assignment.topic, own.topic)


def treatment_of(steps: Sequence[TreatmentStep]) -> Treatment:
    """Raises CausewayError for a step that this version does not know, or with wrong settings."""
    made = [_step(step) for step in steps]
    return made[0] if len(made) == 1 else _Several(made)


def _step(step: TreatmentStep) -> Treatment:
    settings = step.settings
    match step.kind:
        case "skip-header":
            return SkipHeader(settings["name"])
        case "provenance":
            local = settings.get("local", False)
            return Provenance(settings["source"], settings["target"], local=local)
        case "schema-ids":
            # That module loads an HTTP client, and imports this module.
            made: Treatment = import_module("causeway.relay.schema_ids").build(settings)
            return made
        case _:
            raise CausewayError("treat records by", step.kind, "this lane does not know how")


class _Several:
    """Several treatments, one after the other."""

    def __init__(self, steps: Sequence[Treatment]) -> None:
        self._steps = steps

    def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
        return reduce(lambda left, step: _treat_left(step, topics, left), self._steps, records)

    def prepare(self) -> None:
        for step in self._steps:
            step.prepare()


def _treat_left(step: Treatment, topics: Topics, records: Records) -> Records:
    left = [record for record in records if record is not None]
    treated = iter(step.treat(topics, left))
    return [None if record is None else next(treated) for record in records]


def treat_batch(batch: Batch, treatment: Treatment, topics: Topics) -> Batch | None:
    """Returns the treated batch: `batch` itself if nothing changes, None if no record is left.
    Raises CausewayError; TooLargeError if the batch takes too much memory unpacked."""
    before = records_of(batch)
    after = treatment.treat(topics, before)
    if all(one is other for one, other in zip(before, after, strict=True)):
        return batch
    left = [(at, record) for at, record in enumerate(after) if record is not None]
    if not left:
        return None
    offsets = [batch.source_offset(at) for at, _ in left]
    dense = len(left) == len(before) and batch.offsets is None
    part = part_of(batch, [record for _, record in left], offsets)
    return part._replace(offsets=None) if dense else part


def steps_become(steps: Sequence[TreatmentStep], topics: Topics) -> Becomes:
    """Returns a function that applies `steps` to relayed batches. No step may need `prepare`."""
    if not steps:
        return unchanged
    treatment = treatment_of(steps)

    def becomes(batches: Iterator[Batch]) -> Iterator[Batch]:
        treated = (treat_batch(batch, treatment, topics) for batch in batches)
        return (batch for batch in treated if batch is not None)

    return becomes


def treat_kept(kept: Kept, treatment: Treatment, topics: Topics) -> Kept:
    """Treats the `kept` batches. Once UNPACKED_BYTES have been unpacked, it leaves the next batches
    to the next fetch, as `keep` does. So is a batch left that cannot be treated, if something
    before it could. Raises CausewayError."""
    treated: list[Batch] = []
    most_unpacked = unpacked_total() + UNPACKED_BYTES
    for number, batch in enumerate(kept.batches):
        try:
            left = treat_batch(batch, treatment, topics)
        except CausewayError:
            if not number:
                raise
            before = kept.batches[number - 1]
            return Kept(before.next, treated, before.leader_epoch)
        if left is not None:
            treated.append(left)
        if unpacked_total() >= most_unpacked and number + 1 < len(kept.batches):
            return Kept(batch.next, treated, batch.leader_epoch)
    return Kept(kept.position, treated, kept.leader_epoch)


class Treatments:
    """The treatments of a lane by link, made when they are needed. Not thread-safe."""

    def __init__(self, steps: Mapping[str, Sequence[TreatmentStep]]) -> None:
        self._steps = steps
        self._made: dict[str, Treatment] = {}

    def renew(self, steps: Mapping[str, Sequence[TreatmentStep]]) -> None:
        """Uses `steps` for each treatment that `get` returns from now on."""
        before, self._steps = self._steps, steps
        for link in [each for each in self._made if steps.get(each) != before.get(each)]:
            del self._made[link]

    def get(self, link: str) -> Treatment:
        """Raises CausewayError, also if the link has no treatment: the partition's claim has a
        treatment."""
        if link not in self._made:
            if not (steps := self._steps.get(link)):
                raise CausewayError("treat the records of", link, "this lane knows no treatment")
            self._made[link] = treatment_of(steps)
        return self._made[link]


class _Ready:
    def prepare(self) -> None:
        """Does nothing: `treat` needs no preparation."""


class SkipHeader(_Ready):
    def __init__(self, name: str) -> None:
        self._name = name

    def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
        name = self._name
        return [
            None if any(header[0] == name for header in record.headers) else record
            for record in records
        ]


class Provenance(_Ready):
    """`source`, `target`: the aliases of the clusters. `local`: relay only records that were
    written on the source."""

    def __init__(self, source: str, target: str, *, local: bool = False) -> None:
        self._source, self._target, self._local = source, target, local

    def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
        mark = (ORIGIN, _value(self._source, topics.target))
        from_target = (ORIGIN, _value(self._target, topics.source))
        renamed = topics.source != topics.target
        treated: list[Record | None] = []
        for record in records:
            headers = record.headers
            if from_target in headers or (self._local and _is_mirrored(headers, topics)):
                treated.append(None)
                continue
            earlier = [_renamed(header, topics) for header in headers] if renamed else headers
            treated.append(
                Changed(record.offset, record.timestamp, record.key, record.value, [*earlier, mark])
            )
        return treated


def _is_mirrored(headers: Sequence[Header], topics: Topics) -> bool:
    ending = b"/" + topics.source.encode()
    return any(name == ORIGIN and value and value.endswith(ending) for name, value in headers)


@lru_cache(1_000)
def _value(alias: str, topic: str) -> bytes:
    return f"{alias}/{topic}".encode()


def _renamed(header: Header, topics: Topics) -> Header:
    """Returns the header of an earlier mirror, with the topic's name on the target."""
    name, value = header
    if name == ORIGIN and value is not None:
        alias, _, topic = value.partition(b"/")
        if topic == topics.source.encode():
            return name, alias + b"/" + topics.target.encode()
    return header


# Takes batches as they are relayed, and yields the part of each outlet, None if an outlet gets
# nothing. All records that one source record becomes for an outlet are in one part. The series ends
# before a record that is refused.
Series = Callable[[Assignment, Iterator[Batch]], Iterator[Sequence[Batch | None]]]


def gone(assignment: Assignment, batches: Iterator[Batch]) -> Iterator[Sequence[Batch | None]]:
    """Yields the series of a transform that no longer exists. Raises DivergedError when it is
    needed."""
    raise DivergedError(
        "resume",
        f"{assignment.link} {assignment.source_partition}",
        "the output of an earlier transform for its records cannot be made again",
    )


def as_relayed(
    assignment: Assignment, batches: Iterator[Batch]
) -> Iterator[Sequence[Batch | None]]:
    """Yields the batches byte for byte if there is one outlet, otherwise shared out by key."""
    if len(assignment.outlets) == 1:
        return ([batch] for batch in batches)
    return (shares(batch, assignment) for batch in batches)


def treated(treatment: Treatment, series: Series) -> Series:
    """`series` of the treated records. It blocks if the treatment has to prepare, so a helper's
    thread uses it."""

    def both(assignment: Assignment, batches: Iterator[Batch]) -> Iterator[Sequence[Batch | None]]:
        topics = topics_of(assignment)
        left = (_prepared(batch, treatment, topics) for batch in batches)
        return series(assignment, (batch for batch in left if batch is not None))

    return both


def _prepared(batch: Batch, treatment: Treatment, topics: Topics) -> Batch | None:
    while True:
        try:
            return treat_batch(batch, treatment, topics)
        except TreatmentNotReadyError:
            treatment.prepare()


KEYLESS_RUN = 128  # neighbouring source offsets without a key stay together: batches stay large


def shares(batch: Batch, assignment: Assignment) -> list[Batch | None]:
    """Returns the records for each of the assignment's outlets, as batches in the same codec.

    All records below `keys_from` go to the outlet of the partition's number. From `keys_from` on,
    the key decides by the hash of Java's default partitioner. Without a key, the source offset
    decides, so each lane sends the record to the same outlet.
    """
    count, keys_from = len(assignment.outlets), assignment.keys_from
    if batch.source_offset(batch.records - 1) < keys_from:
        return [batch if at == assignment.partition else None for at in range(count)]
    parts: list[tuple[list[Record], list[int]]] = [([], []) for _ in range(count)]
    for index, record in enumerate(records_of(batch)):
        offset = batch.source_offset(index)
        by_key = offset >= keys_from
        at = partition_of(record.key, offset, count) if by_key else assignment.partition
        records, offsets = parts[at]
        records.append(record)
        offsets.append(offset)
    return [part_of(batch, *part) if part[0] else None for part in parts]


def partition_of(key: bytes | None, source_offset: int, count: int) -> int:
    if key is None:
        return (source_offset // KEYLESS_RUN) % count
    hashed: int = murmur2(key)
    return (hashed & 0x7FFFFFFF) % count
