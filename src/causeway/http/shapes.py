"""What /api/v1 answers, in JSON. Offsets are the source's, times ms or ms since 1970; null is what
is not known (yet)."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Item = TypeVar("Item")


class Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Error(Shape):
    """As Connect tells of errors."""

    error_code: int = Field(description="The HTTP status.")
    message: str


class Page(Shape, Generic[Item]):
    """`items` from `offset` on, of `total` that fit the question."""

    items: list[Item]
    total: int
    offset: int
    limit: int
    taken_at_ms: int = Field(description="When the run was looked at.")


class Cluster(Shape):
    alias: str
    bootstrap: list[str]
    security_protocol: str
    source_of: list[str] = Field(description="Links that read from it.")
    target_of: list[str] = Field(description="Links that write to it.")


class AggregatePart(Shape):
    topic: str = Field(description="On the cluster of the aggregate.")
    link: str | None = Field(description="Which brings it; null: it is written there.")
    source: str | None
    source_topic: str | None


class Aggregate(Shape):
    """What several clusters call by one name, where it comes together."""

    cluster: str
    name: str
    parts: list[AggregatePart]


class Link(Shape):
    """Counts are of this run; lag and rates of all partitions together."""

    link: str
    source: str
    target: str
    state: str = Field(
        description="The worst state of its partitions: mirroring, paused, stopped, failed, source "
        "unavailable, promoting, promoted or failed over. Its role, if it has no partitions yet or "
        "another driver leads."
    )
    worst: str = Field(description="The same, but with a partition's own state; see ranking.")
    role: str = Field(description="starting, standby, leading, failed or ended.")
    reason: str | None = Field(description="On standby: who leads; failed: why.")
    planned: bool = Field(description="Its topics have been looked up.")
    topics: int
    partitions: int
    states: dict[str, int] = Field(description="How many partitions are in each state.")
    lag_records: int | None
    lag_ms: int | None = Field(description="Of the partition furthest behind.")
    records: int
    records_per_s: float
    bytes_per_s: float
    problems: int = Field(description="What keeps topics from being mirrored; see problems.")
    tasks_failing: int
    groups: int = Field(description="Consumer groups that are followed.")


class Overview(Shape):
    version: str
    started_at_ms: int
    taken_at_ms: int
    bounded: bool = Field(description="It ends by itself once it has caught up.")
    draining: bool = Field(description="It is coming to its end.")
    lanes: int = Field(description="Lanes that are connected.")
    lanes_wanted: int
    lane_trouble: str | None
    ranking: list[str] = Field(description="All states, the worst first.")
    links: list[Link]


class Topic(Shape):
    link: str
    topic: str
    target_topic: str
    transform: str | None
    state: str = Field(description="The worst of its partitions'.")
    partitions: int
    lag_records: int | None
    lag_ms: int | None = Field(description="Of the partition furthest behind.")
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
    mirrored_to: int | None = Field(description="The first offset that is not mirrored yet.")
    lag_records: int | None
    lag_bytes: int | None = Field(description="An estimate.")
    lag_ms: int | None = Field(description="Age of the first record not mirrored; 0: caught up.")
    held_records: int | None = Field(description="Behind an open transaction; no lag counts them.")
    held_ms: int
    newest_record_ms: int | None = Field(description="Time of the newest record mirrored.")
    records: int
    bytes: int
    records_per_s: float
    bytes_per_s: float
    recoveries: int
    failures: int
    lost_records: int = Field(
        description="Deleted at the source before they were mirrored, since it was claimed."
    )


class FileRule(Shape):
    key: str
    pattern: str | None = Field(description="Which of its list; null: none of them, or no list.")
    place: str | None = Field(description="The key with its line; null: the default counts.")


class Fact(Shape):
    about: str
    text: str


class Explanation(Shape):
    """Why something is mirrored or synced, or not."""

    link: str
    kind: str = Field(description="topic, partition or group.")
    name: str
    code: str
    done: bool | None = Field(description="Whether it is; null: that cannot be told.")
    answer: str
    rule: FileRule | None = Field(description="Of the file; null: no key of it decided.")
    target: str | None
    since_ms: int | None
    facts: list[Fact]
    to_do: list[str]
    unknown: list[str]


class Group(Shape):
    link: str
    group: str
    followed: bool
    partitions: int = Field(description="Of mirrored topics, with committed offsets.")
    reason: str | None = Field(description="Why it is not followed, or what is left undone.")


class Lane(Shape):
    lane: int
    host: str
    pid: int
    partitions: int
    bytes_per_s: float
    rss_bytes: int
    cpu_s: float


class Task(Shape):
    """A part of the control plane. Of a link that this process leads, or of heartbeats."""

    link: str
    task: str
    reason: str | None = Field(description="Why its last run failed; null: it did not.")
    items: dict[str, str] = Field(description="What could not be done, and why.")
    figures: dict[str, int] = Field(description="What it counts, such as subjects copied.")
    done_at_ms: int | None = Field(description="When it last ended well.")


class Directive(Shape):
    """What somebody asked of a link, topic or partition, and what stands until it is taken back."""

    link: str
    do: str = Field(description="pause, throttle, fence or cutover.")
    topic: str | None
    partition: int | None
    who: str
    why: str | None
    at_ms: int
    paused: bool | None = Field(None, description="Of a pause; false: not though a wider one is.")
    bytes_per_s: int | None = Field(None, description="Of a throttle; null: no limit.")
    until_ms: int | None = Field(None, description="When a fence, cutover or promotion ends.")


class GeoDestination(Shape):
    """A cluster that chosen topics are copied to, see `causeway geo`."""

    destination: str
    link: str
    origin: str
    role: str = Field(description="This process's: leading, standby, …")
    topics: int = Field(description="Chosen ones, as far as a leading process knows.")


class GeoTopic(Shape):
    """A topic that somebody has chosen. `state` is the worst of its partitions."""

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
    """What became of it. `acted`: the leading driver has carried it out; `refused`: why not."""

    destination: str
    action: str
    driver: str | None
    acted: bool | None
    refused: str | None
    topics: list[dict[str, Any]]


class Rule(Shape):
    """What a rule has found in the records of this run."""

    rule: str = Field(description="Its number and name.")
    found: int = Field(description="Records with something at its path.")
    missing: int = Field(description="Records that lack the path.")


class Transform(Shape):
    link: str
    transform: str
    partitions: int
    stages: int
    records_in: int
    records_out: int
    dropped: int
    refused: int
    without_spark: int = Field(description="Of the records that went in: a worker treated them.")
    through_spark: int = Field(description="Of the records that went in: Spark treated them.")
    rules: list[Rule]
    unseen: list[str] = Field(description="Rules that protect nothing so far.")
    troubles: list[str]


class Problem(Shape):
    """What keeps a topic from being mirrored as it should be; an empty topic: the whole link."""

    link: str
    topic: str
    reason: str


class Event(Shape):
    """A line of the run's log."""

    at_ms: int
    level: str = Field(description="info, warning or error.")
    event: str
    link: str | None = Field(description="What it is about, if it is one link.")
    about: dict[str, str] = Field(description="More of it, such as partition, reason or who.")


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


class Place(Shape):
    """`exact`: exactly the mirrored records come from `offset` on that were not read. Else it lies
    at or before that place, or is null; `why` and `note` say what is the matter."""

    topic: str
    partition: int
    offset: int | None
    exact: bool
    why: str | None
    note: str | None


class Translation(Shape):
    """`offset` as asked for, or what the timestamp stands for. Several `places` where a transform
    leads to several, or several partitions feed one."""

    link: str | None
    topic: str
    partition: int
    timestamp: int | None
    offset: int | None
    exact: bool
    why: str | None
    note: str | None
    places: list[Place]
