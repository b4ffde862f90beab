"""The JSON that /api/v1 answers. Offsets are the source's, times ms or ms since 1970; null is for
what is not known (yet).

Fields are named as the attributes of the values that they are made of, see `shaped`. The OpenAPI
document is made of these structs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, field

from causeway.link_topics import Value
from causeway.status import Rule

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
    """`items` from `offset` on, of `total` that match the question."""

    items: Sequence[Item]
    total: int
    offset: int
    limit: int
    taken_at_ms: Annotated[int, _about("When the run was looked at.")]


class Cluster(Shape):
    alias: str
    bootstrap: list[str]
    security_protocol: str
    source_of: Annotated[list[str], _about("Links that read from it.")]
    target_of: Annotated[list[str], _about("Links that write to it.")]


class AggregatePart(Shape):
    topic: Annotated[str, _about("On the cluster of the aggregate.")]
    link: Annotated[str | None, _about("The link that brings it; null: it is written there.")]
    source: str | None
    source_topic: str | None


class Aggregate(Shape):
    """Topics with one name from several clusters, on the cluster where they come together."""

    cluster: str
    name: str
    parts: list[AggregatePart]


class Link(Shape):
    """Counts are of this run; lag and rates of all partitions together."""

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
    reason: Annotated[str | None, _about("On standby: who leads; failed: why.")]
    planned: Annotated[bool, _about("Its topics have been looked up.")]
    topics: int
    partitions: int
    states: Annotated[Mapping[str, int], _about("How many partitions are in each state.")]
    lag_records: int | None
    lag_ms: Annotated[int | None, _about("Of the partition that lags most.")]
    records: int
    records_per_s: float
    bytes_per_s: float
    problems: Annotated[int, _about("What keeps topics from being mirrored; see problems.")]
    tasks_failing: int
    groups: Annotated[int, _about("Consumer groups that are followed.")]


class Overview(Shape):
    version: str
    started_at_ms: int
    taken_at_ms: int
    bounded: Annotated[bool, _about("It ends by itself once it has caught up.")]
    draining: Annotated[bool, _about("It is coming to its end.")]
    lanes: Annotated[int, _about("Lanes that are connected.")]
    lanes_wanted: int
    lane_trouble: str | None
    ranking: Annotated[Sequence[str], _about("All states, the worst first.")]
    links: list[Link]


class Topic(Shape):
    link: str
    topic: str
    target_topic: str
    transform: str | None
    state: Annotated[str, _about("The worst of its partitions'.")]
    partitions: int
    lag_records: int | None
    lag_ms: Annotated[int | None, _about("Of the partition that lags most.")]
    records: int
    records_per_s: float
    bytes_per_s: float


class Partition(Shape):
    link: str
    topic: str
    partition: int
    target_topic: str
    transform: str | None
    state: str
    reason: str | None
    lane: int | None
    source_end: int | None
    high_watermark: int | None
    mirrored_to: Annotated[int | None, _about("The first offset that is not mirrored yet.")]
    lag_records: int | None
    lag_bytes: Annotated[int | None, _about("An estimate.")]
    lag_ms: Annotated[int | None, _about("Age of the first record not mirrored; 0: caught up.")]
    held_records: Annotated[int | None, _about("Behind an open transaction; no lag counts them.")]
    held_ms: int
    newest_record_ms: Annotated[int | None, _about("Time of the newest record mirrored.")]
    records: int
    bytes: int
    records_per_s: float
    bytes_per_s: float
    recoveries: int
    failures: int
    lost: Annotated[
        int, _about("Deleted at the source before they were mirrored, since it was claimed.")
    ] = field(name="lost_records")


class Group(Shape):
    link: str
    group: str
    followed: bool
    partitions: Annotated[int, _about("Of mirrored topics, with committed offsets.")]
    reason: Annotated[str | None, _about("Why it is not followed, or what was not done.")]


class Lane(Shape):
    lane: int
    host: str
    pid: int
    partitions: int
    bytes_per_s: float
    rss_bytes: int
    cpu_s: float


class Directive(Shape):
    """What a person asked of a link, topic or partition, and what holds until it is taken back."""

    link: str
    do: Annotated[str, _about("pause, throttle, fence or cutover.")]
    topic: str | None
    partition: int | None
    who: str
    why: str | None
    at_ms: int
    paused: Annotated[bool | None, _about("Of a pause; false: not, though a wider one is.")] = None
    bytes_per_s: Annotated[int | None, _about("Of a throttle; null: no limit.")] = None
    until_ms: Annotated[int | None, _about("When a fence, cutover or promotion ends.")] = None


class GeoDestination(Shape):
    """A cluster that chosen topics are copied to, see `causeway geo`."""

    destination: str
    link: str
    origin: str
    role: Annotated[str, _about("This process's: leading, standby, …")]
    topics: Annotated[int, _about("Chosen ones, if this process leads.")]


class GeoTopic(Shape):
    """A topic that a person has chosen. `state` is the worst of its partitions."""

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
    """The result of a request. `acted`: the leading driver has carried it out; `refused`: why
    not."""

    destination: str
    action: str
    driver: str | None
    acted: bool | None
    refused: str | None
    topics: list[dict[str, Any]]


class Asked(Shape):
    """The result of a request. `acted`: the leading driver has carried it out."""

    link: str
    action: str
    topic: str | None
    partition: int | None
    changed: bool
    driver: str | None
    acted: bool | None
    refused: str | None


class Task(Shape):
    """A part of the control plane: of a link that this process leads, or of heartbeats."""

    link: str
    name: str = field(name="task")
    reason: Annotated[str | None, _about("Why its last run failed; null: it did not.")]
    items: Annotated[Mapping[str, str], _about("What could not be done, and why.")]
    figures: Annotated[Mapping[str, int], _about("What it counts, such as subjects copied.")]
    done_at: Annotated[int | None, _about("When it last ended well.")] = field(name="done_at_ms")


class Transform(Shape):
    link: str
    name: str = field(name="transform")
    partitions: int
    stages: int
    records_in: int
    records_out: int
    dropped: int
    refused: int
    without_spark: Annotated[int, _about("Of the records that went in: a worker treated them.")]
    through_spark: Annotated[int, _about("Of the records that went in: Spark treated them.")]
    rules: list[Rule]
    unseen: Annotated[Sequence[str], _about("Rules that protect nothing so far.")]
    troubles: Sequence[str]


class Problem(Shape):
    """Why a topic is not mirrored as it should be; an empty topic: the whole link."""

    link: str
    topic: str
    reason: str


class Event(Shape):
    """A line of the run's log."""

    at_ms: int
    level: Annotated[str, _about("info, warning or error.")]
    event: str
    link: Annotated[str | None, _about("What it is about, if it is one link.")]
    about: Annotated[Mapping[str, str], _about("More, such as partition, reason or who.")]


class Series(Shape):
    """One link's figures, a point each `interval_ms` or more."""

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
    """`exact`: exactly the mirrored records that were not read come from `offset` on. Otherwise it
    lies at or before that place, or is null; `why` and `note` say the reason."""

    topic: str
    partition: int
    offset: int | None
    exact: bool
    why: str | None
    note: str | None


class Translation(Shape):
    """`offset` as asked for, or the one of the timestamp. Several `places` if a transform leads to
    several, or several partitions feed one."""

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
    """Declares, as arguments of a route's decorator, that the route answers `shape`."""
    (schema,), _ = msgspec.json.schema_components([shape], ref_template=_REF)
    _DECLARED.append(shape)
    return {"responses": {200: {"content": {"application/json": {"schema": schema}}}}}


def components() -> dict[str, Any]:
    """The schemas of all shapes that routes have declared, for the OpenAPI document."""
    _, found = msgspec.json.schema_components([Error, *_DECLARED], ref_template=_REF)
    return found
