"""The status of links, topics and partitions, for driver, commands, API and page."""

from causeway.status import lag
from causeway.status.from_clusters import contents_of, status, status_of
from causeway.status.health import LAGS, NOT_RUNNING, that_end, unasked, verdict
from causeway.status.judging import by_progress, driver_of
from causeway.status.states import (
    MIRRORING,
    NO_DRIVER,
    RANKING,
    SOURCE_UNAVAILABLE,
    UNKNOWN,
    rank,
    word,
    worst,
)
from causeway.status.summaries import TopicStatus, Totals, topic_of, topics_of, totals
from causeway.status.to_json import (
    Preserved,
    Rule,
    as_json,
    counts_of,
    picked,
    preserved,
    rules_of,
    shaped,
)
from causeway.status.values import (
    CheckpointTiming,
    DriverStatus,
    GroupStatus,
    LaneStatus,
    LinkProblem,
    LinkStatus,
    Look,
    PartitionStatus,
    Preserving,
    ReloadResult,
    ReloadStatus,
    Role,
    Snapshot,
    Timing,
    TransformStatus,
)
