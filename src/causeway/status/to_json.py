"""The JSON of `causeway status`: stable keys, no secrets, null for unknown values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from causeway.control import geo_topics
from causeway.link_topics import RuleCounts, Value, directive_as_json
from causeway.status.values import (
    DriverStatus,
    LinkProblem,
    LinkStatus,
    Preserving,
    TransformStatus,
)

S = TypeVar("S", bound=Struct)


class _Filled(Value, kw_only=True):
    gaps: int
    beginning: int
    markers: int
    transactions: int
    filler: int


class Preserved(Value, kw_only=True):
    offsets_from: int
    filled_to: int | None
    per_s: float | None = field(name="filled_per_s")
    left_s: float | None
    filled: _Filled | None


class _Partition(Value, kw_only=True):
    topic: str
    partition: int
    target_topic: str
    source_end: int | None
    high_watermark: int | None
    mirrored_to: int | None
    lag_records: int | None
    held_records: int | None
    lag_ms: int | None
    unacknowledged: int = field(name="lost_records")
    preserving: Preserved | None
    state: str
    reason: str | None


class _Task(Value, kw_only=True):
    name: str = field(name="task")
    reason: str | None
    items: Mapping[str, str]
    figures: Mapping[str, int]
    done_at: int | None = field(name="done_at_ms")


class Rule(Value, kw_only=True):
    rule: str
    found: int
    missing: int


class _Transform(Value, kw_only=True):
    name: str = field(name="transform")
    kind: str
    partitions: int
    records_in: int | None
    records_out: int | None
    dropped: int | None
    refused: int | None
    without_spark: int | None
    through_spark: int | None
    rules: list[Rule]
    unseen: list[str] = field(name="unseen_rules")
    reason: str | None


class _Treatment(Value, kw_only=True):
    kind: str
    text: str


class _Note(Value, kw_only=True):
    target_topic: str
    note: str


class _Link(Value, kw_only=True):
    name: str = field(name="link")
    source: str
    target: str
    state: str
    unavailable: str | None = field(name="source_reason")
    error: str | None
    driver: DriverStatus | None
    partitions: list[_Partition]
    tasks: list[_Task]
    transforms: list[_Transform]
    treatments: list[_Treatment]
    directives: list[dict[str, Any]]
    directives_reason: str | None
    notes: list[_Note]
    problems: list[LinkProblem]


def as_json(links: Collection[LinkStatus]) -> dict[str, Any]:
    """Returns JSON for `--json`."""
    return {"links": [msgspec.to_builtins(_link(each)) for each in links]}


def shaped(shape: type[S], value: object, **more: Any) -> S:
    """Returns `shape` with the attributes of `value` that its fields name, and with `more`."""
    for name in shape.__struct_fields__:
        if name not in more:
            more[name] = getattr(value, name)
    return shape(**more)


def picked(of: object, names: str, **more: Any) -> dict[str, Any]:
    """Returns the attributes with these names, and `more`. `key=name`: the attribute under another
    key."""
    pairs = (name.rpartition("=") for name in names.split())
    return {key or name: getattr(of, name) for key, _, name in pairs} | more


def preserved(found: Preserving | None) -> Preserved | None:
    if found is None:
        return None
    filled = None if found.filled is None else shaped(_Filled, found.filled)
    return shaped(Preserved, found, filled=filled)


def rules_of(counts: Collection[RuleCounts]) -> list[Rule]:
    return [shaped(Rule, each) for each in counts]


def counts_of(transform: TransformStatus) -> dict[str, int | None]:
    """Returns the counts of the transform's records; each is None if unknown."""
    names = ("records_in", "records_out", "dropped", "refused", "without_spark", "through_spark")
    return {name: getattr(transform.counts, name, None) for name in names}


def _link(each: LinkStatus) -> _Link:
    return shaped(
        _Link,
        each,
        error=None if each.error is None else str(each.error),
        partitions=[
            shaped(_Partition, one, preserving=preserved(one.preserving)) for one in each.partitions
        ],
        tasks=[
            shaped(_Task, one, done_at=one.done_at if one.done_at >= 0 else None)
            for one in each.tasks
        ],
        transforms=[_transform(one) for one in each.transforms],
        treatments=[shaped(_Treatment, one) for one in each.treatments],
        directives=[directive_as_json(one) for one in geo_topics.without_chosen(each.directives)],
        problems=list(each.problems),
        notes=[_Note(target_topic=topic, note=note) for topic, note in each.notes],
    )


def _transform(one: TransformStatus) -> _Transform:
    return shaped(
        _Transform,
        one,
        rules=rules_of(one.rules),
        unseen=list(one.unseen),
        reason=next(iter(one.troubles), None),
        **counts_of(one),
    )
