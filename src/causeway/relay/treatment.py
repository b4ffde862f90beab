"""A link's treatment of its records: some are left out, some are changed.

    source log ─► keep ─► treat ─► by key, or the stage of a transform ─► outlets

The relayed series is then a function of the source's log and of the treatment. So that lanes and
recovery number the same records alike, a treatment is pure: its result depends on the record and
the settings alone, on every machine and at any time. A partition's claim holds all that decides
(`decides` in TreatmentSettings): another treatment gets a claim of its own. One record becomes one
or none; it keeps its timestamp and its place.

For a link without a treatment nothing here runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from causeway.errors import CausewayError
from causeway.records import UNPACKED_BYTES, Batch, Kept, Record, build, records_of, unpacked_total
from causeway.relay.messages import Assignment, TreatmentStep

Records = Sequence[Record | None]


class TreatmentNotReadyError(CausewayError):
    """`treat` cannot tell yet what becomes of a record: `prepare` has to find out first. The
    partition waits, says so, and is tried again."""


class Topics(NamedTuple):
    """A topic's name on the source, and its mirror's on the target."""

    source: str
    target: str


class Treatment(Protocol):
    """One object serves all partitions of a link on a lane, from several threads."""

    def treat(self, topics: Topics, records: Sequence[Record]) -> Records:
        """What becomes of each of `records`, in their order and number: the same object where it
        stays as it is, None where it is left out, else a `Changed` of it. `topics`: where they
        come from and go to.

        Quick, and never blocks: a lane's loop waits for it. Raises TreatmentNotReadyError;
        DivergedError for a batch that a person must decide on, which stops the partition."""
        ...

    def prepare(self) -> None:
        """Finds out what `treat` lacked when it raised TreatmentNotReadyError. May block: it runs
        in a helper's thread. Raises CausewayError if that is not available now: the partition shows
        the error, and is tried again after a while."""
        ...


class Changed(NamedTuple):
    """A record with other bytes than the source's. `offset`, `timestamp`: the source's."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def topics_of(assignment: Assignment) -> Topics:
    own = next(each for each in assignment.outlets if each.routed is None)
    return Topics(assignment.topic, own.topic)


# Each kind's module, imported only where it is used; its `build` makes a Treatment of settings.
_KINDS = {
    "skip-header": "causeway.relay.provenance",
    "provenance": "causeway.relay.provenance",
    "schema-ids": "causeway.relay.schema_ids",
}


def treatment_of(steps: Sequence[TreatmentStep]) -> Treatment:
    """Raises CausewayError for one that this version does not know, or whose settings are wrong."""
    made = [_step(step) for step in steps]
    return made[0] if len(made) == 1 else _Several(made)


def _step(step: TreatmentStep) -> Treatment:
    if step.kind not in _KINDS:
        raise CausewayError("treat records by", step.kind, "this lane does not know how")
    make: Callable[[str, Mapping[str, Any]], Treatment] = import_module(_KINDS[step.kind]).build
    return make(step.kind, step.settings)


class _Several:
    """One after the other."""

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
    """What becomes of it: `batch` itself where nothing does, None where nothing is left of it.
    Raises CausewayError, TooLargeError where it takes too much room unpacked."""
    before = records_of(batch)
    after = treatment.treat(topics, before)
    if all(one is other for one, other in zip(before, after, strict=True)):
        return batch
    left = [(at, record) for at, record in enumerate(after) if record is not None]
    if not left:
        return None
    offsets = [batch.source_offset(at) for at, _ in left]
    dense = len(left) == len(before) and batch.offsets is None
    return build(
        [record for _, record in left],
        codec=batch.codec,
        first=offsets[0],
        next=batch.next,
        leader_epoch=batch.leader_epoch,
        offsets=None if dense else offsets,
    )


def treat_kept(kept: Kept, treatment: Treatment, topics: Topics) -> Kept:
    """As `source.keep`, it leaves to the next fetch what follows once UNPACKED_BYTES have been
    unpacked, and what cannot be treated, where something before it could. Raises CausewayError."""
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
    """A lane's, by link, made as they are needed. Not thread-safe."""

    def __init__(self, steps: Mapping[str, Sequence[TreatmentStep]]) -> None:
        self._steps = steps
        self._made: dict[str, Treatment] = {}

    def get(self, link: str) -> Treatment:
        """Raises CausewayError."""
        if link not in self._made:
            self._made[link] = treatment_of(self._steps.get(link, ()))
        return self._made[link]
