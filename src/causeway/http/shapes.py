"""The JSON answers of /api/v1, and the source of the OpenAPI document.

Offsets are the source's, times are ms or ms since 1970, null means unknown. Fields have the names
of the attributes that `shaped` copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, field

from causeway.config import DescribedSetting
from causeway.link_topics import Value
from causeway.status import Preserved, Rule

Item = TypeVar("Item")
_REF: Final = "#/components/schemas/{name}"
_DECLARED: list[Any] = []  # by routes


class Shape(Value, kw_only=True):
    """A part of an answer."""


def _about(text: str) -> Meta:
    return Meta(description=text)


class Error(Shape):
    """An error, as Kafka Connect reports it."""

    error_code: Annotated[int, _about("The HTTP status.")]
    message: str


class Page(Shape, Generic[Item]):
    """`items` from `offset` on, of `total` matching items."""

    items: Sequence[Item]
    total: int
    offset: int
    limit: int
    taken_at_ms: Annotated[int, _about("The time of the snapshot.")]


class Cluster(Shape):
    alias: str
    bootstrap: list[str]
    security_protocol: str
    source_of: Annotated[list[str], _about("Links that read from this cluster.")]
    target_of: Annotated[list[str], _about("Links that write to this cluster.")]


class AggregatePart(Shape):
    topic: Annotated[str, _about("The topic on the cluster of the aggregate.")]
    link: Annotated[str | None, _about("The link that mirrors it; null: producers write it there.")]
    source: str | None
    source_topic: str | None


class Aggregate(Shape):
    """A topic name that several clusters feed, on the cluster that has all of these topics."""

    cluster: str
    name: str
    parts: list[AggregatePart]


class Link(Shape):
    """A link. Counts are of this run; lag and rates are of all partitions."""

    name: str = field(name="link")
    source: str
    target: str
    state: Annotated[
        str,
        _about(
            "The worst state of its partitions: mirroring, paused, stopped, failed, source "
            "unavailable, promoting, promoted or failed over. Its role, if it has no partitions "
            "yet or another driver leads."
        ),
    ]
    worst: Annotated[str, _about("The same, but with a partition's own state; see ranking.")]
    role: Annotated[str, _about("starting, standby, leading, failed or ended.")]
    reason: Annotated[str | None, _about("Standby: the leader. Failed: the reason.")]
    planned: Annotated[bool, _about("The topics of the link are known.")]
    topics: int
    partitions: int
    states: Annotated[Mapping[str, int], _about("The number of partitions in each state.")]
    lag_records: int | None
    lag_ms: Annotated[int | None, _about("The largest lag in time of a partition.")]
    records: int
    records_per_s: float
    bytes_per_s: float
    problems: Annotated[int, _about("The number of problems; see problems.")]
    tasks_failing: int
    groups: Annotated[int, _about("The number of followed consumer groups.")]


class Reload(Shape):
    """The file in force, and the last attempt to put a changed one in force."""

    in_force_since_ms: int
    pending: Annotated[bool, _about("The file has changed since, and is not in force.")]
    tried_ms: Annotated[int | None, _about("The time of the last attempt; null: there was none.")]
    by: Annotated[str | None, _about("Who or what asked for it.")]
    result: Annotated[str | None, _about("`applied`, `unchanged`, `refused` or `needs-restart`.")]
    reason: Annotated[str | None, _about("Why the changed file is not in force.")]
    changes: Annotated[Sequence[str], _about("What it changes, without secrets.")]


class Overview(Shape):
    version: str
    started_at_ms: int
    taken_at_ms: int
    bounded: Annotated[bool, _about("The run ends after it has caught up.")]
    draining: Annotated[bool, _about("The run is draining.")]
    lanes: Annotated[int, _about("The number of connected lanes.")]
    lanes_wanted: int
    lane_trouble: str | None
    ranking: Annotated[Sequence[str], _about("All states, the worst first.")]
    reload: Annotated[Reload | None, _about("null: the settings do not come from a file.")]
    links: list[Link]


class Topic(Shape):
    link: str
    topic: str
    target_topic: str
    transform: str | None
    state: Annotated[str, _about("The worst state of the partitions.")]
    partitions: int
    lag_records: int | None
    lag_ms: Annotated[int | None, _about("The largest lag in time of a partition.")]
    records: int
    records_per_s: float
    bytes_per_s: float


class Partition(Shape):
    link: str
    topic: str
    partition: int
    target_topic: str
    transform: str | None
    preserving: Annotated[
        Preserved | None,
        _about(
            "Null: offsets are translated. Else each record from offsets_from on has the same "
            "offset on both sides; filled_to and left_s (an estimate) while the offsets below are "
            "filled; the offsets and gaps that were filled in this run, by the way."
        ),
    ]
    state: str
    reason: str | None
    lane: int | None
    source_end: int | None
    high_watermark: int | None
    mirrored_to: Annotated[int | None, _about("The first offset that is not mirrored yet.")]
    lag_records: int | None
    lag_bytes: Annotated[int | None, _about("An estimate.")]
    lag_ms: Annotated[int | None, _about("Age of the first record not mirrored; 0: caught up.")]
    held_records: Annotated[
        int | None, _about("Records in open transactions; the lag does not count them.")
    ]
    held_ms: int
    newest_record_ms: Annotated[int | None, _about("Timestamp of the newest mirrored record.")]
    records: int
    bytes: int
    records_per_s: float
    bytes_per_s: float
    recoveries: int
    failures: int
    lost: Annotated[int, _about("Records that the source deleted before they were mirrored.")] = (
        field(name="lost_records")
    )


class Group(Shape):
    link: str
    group: str
    followed: bool
    partitions: Annotated[int, _about("Partitions of mirrored topics with committed offsets.")]
    reason: Annotated[str | None, _about("Why the group is not followed, or what was not done.")]
    again: Annotated[
        int,
        _about(
            "The most records that the group would read again on the target, because programs write"
            " to both clusters."
        ),
    ]


class Lane(Shape):
    lane: int
    host: str
    pid: int
    partitions: int
    bytes_per_s: float
    rss_bytes: int
    cpu_s: float


class Directive(Shape):
    """An active directive for a link, topic or partition."""

    link: str
    do: Annotated[str, _about("pause, throttle, fence or cutover.")]
    topic: str | None
    partition: int | None
    who: str
    why: str | None
    at_ms: int
    paused: Annotated[
        bool | None, _about("Of a pause; false: an exception from a wider pause.")
    ] = None
    bytes_per_s: Annotated[int | None, _about("The limit of a throttle; null: no limit.")] = None
    until_ms: Annotated[int | None, _about("The end of a fence, cutover or promotion.")] = None


class GeoDestination(Shape):
    """A cluster that receives copies of chosen topics; see `causeway geo`."""

    destination: str
    link: str
    origin: str
    role: Annotated[str, _about("The role of this process: leading, standby, …")]
    topics: Annotated[int, _about("The number of chosen topics, if this process leads.")]


class GeoTopic(Shape):
    """A chosen topic. `state` is the worst state of its partitions."""

    destination: str
    link: str
    topic: str
    target_topic: str
    state: str
    partitions: int
    lag_records: int | None
    lag_ms: int | None
    who: str
    why: str | None
    at_ms: int


class GeoAsked(Shape):
    """The result of a request. `acted`: the leading driver has executed it. `refused`: why
    not."""

    destination: str
    action: str
    driver: str | None
    acted: bool | None
    refused: str | None
    topics: list[dict[str, Any]]


class Asked(Shape):
    """The result of a request. `acted`: the leading driver has executed it."""

    link: str
    action: str
    topic: str | None
    partition: int | None
    changed: bool
    driver: str | None
    acted: bool | None
    refused: str | None


class SettingsInForce(Shape):
    version: str
    settings: Sequence[DescribedSetting]


class EqualSecrets(Shape):
    """The ids of the hidden settings whose values have the digests that were sent."""

    equal: list[str]


class Task(Shape):
    """A task of the control plane: of a link that this process leads, or of heartbeats."""

    link: str
    name: str = field(name="task")
    reason: Annotated[str | None, _about("Why the last run failed; null: it succeeded.")]
    items: Annotated[Mapping[str, str], _about("Items that were not done, with reasons.")]
    figures: Annotated[Mapping[str, int], _about("Counts of the task, such as copied subjects.")]
    done_at: Annotated[int | None, _about("The time of the last success.")] = field(
        name="done_at_ms"
    )


class Transform(Shape):
    link: str
    name: str = field(name="transform")
    partitions: int
    stages: int
    records_in: int
    records_out: int
    dropped: int
    refused: int
    without_spark: Annotated[int, _about("Input records that a worker transformed.")]
    through_spark: Annotated[int, _about("Input records that Spark transformed.")]
    rules: list[Rule]
    unseen: Annotated[Sequence[str], _about("Rules that protect nothing so far.")]
    troubles: Sequence[str]


class Problem(Shape):
    """A problem of a topic; an empty topic means the whole link."""

    link: str
    topic: str
    reason: str


class Event(Shape):
    """A line of the run's log."""

    at_ms: int
    level: Annotated[str, _about("info, warning or error.")]
    event: str
    link: Annotated[str | None, _about("The link of the event, if it has one.")]
    about: Annotated[Mapping[str, str], _about("Other fields, such as partition, reason or who.")]


class Series(Shape):
    """The throughput and lag of a link, a point for each `interval_ms` or more."""

    link: str
    at_ms: list[int]
    records_per_s: list[float]
    bytes_per_s: list[float]
    lag_records: list[int | None]
    lag_ms: list[int | None]


class History(Shape):
    interval_ms: int
    series: list[Series]


class TranslatedPlace(Shape):
    """`exact`: a consumer that starts at `offset` reads all unread records and no other. Otherwise
    `offset` is earlier, or null; `why` and `note` give the reason."""

    topic: str
    partition: int
    offset: int | None
    exact: bool
    why: str | None
    note: str | None


class Translation(Shape):
    """`offset`: the requested one, or that of the timestamp. There are several `places` if a
    transform writes to several partitions, or several partitions feed one."""

    link: str | None
    topic: str
    partition: int
    timestamp: int | None
    offset: int | None
    exact: bool
    why: str | None
    note: str | None
    places: list[TranslatedPlace]


def answers(shape: Any) -> dict[str, Any]:
    """Arguments of a route's decorator that declare the shape of its answer."""
    (schema,), _ = msgspec.json.schema_components([shape], ref_template=_REF)
    _DECLARED.append(shape)
    return {"responses": {200: {"content": {"application/json": {"schema": schema}}}}}


def components() -> dict[str, Any]:
    """Returns the schemas of all declared shapes, for the OpenAPI document."""
    _, found = msgspec.json.schema_components([Error, *_DECLARED], ref_template=_REF)
    return found
