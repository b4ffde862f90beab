"""The one lag in time: the age of the first record that is not mirrored, by its own timestamp.

source     partition     lag in time
answers    caught up     0
answers    lags          the age of the batch with the first unmirrored record
is silent  lagged        the same: the first missing record stays the same
is silent  was caught up the time since the source last answered: all later records are missing
any        any           unknown, if that time is unknown or not in ms

A producer gives a record its timestamp (CreateTime), unless the topic uses the broker's time
(LogAppendTime). So old records, for example of a restore, count as old while they wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from causeway.cluster import Cluster
from causeway.errors import CausewayError
from causeway.link_topics import PartitionProgress, TaskRecord
from causeway.model import State, TopicPartition, age_ms
from causeway.records import HEADER, HEADER_SIZE, LOG_APPEND_TIME

SOURCE_TASK: Final = "source"  # the task that checks every few seconds whether the source answers
_PROBES: Final = 16  # fetches at once, each of one batch
_PROBE_BYTES: Final = 4096  # a broker sends the whole first batch, of any size


def lag_records(end: int, position: int) -> int | None:
    """Returns how many source offsets are not mirrored; these are records if the source has no
    gaps. None if the source's end or the position is unknown (-1)."""
    return None if end < 0 or position < 0 else max(0, end - position)


def lag_ms(
    lag: int | None, first_unmirrored: int, now_ms: int, silent_since: int | None = None
) -> int | None:
    """Returns the lag in time, None if it is unknown. `lag`: the number of unmirrored source
    offsets, None if unknown. `first_unmirrored`: the timestamp (ms) of the first record there, -1
    if unknown. `silent_since`: when the source last answered (ms), None if it answers."""
    if lag == 0:
        return 0 if silent_since is None else age_ms(silent_since, now_ms)
    return None if lag is None else age_ms(first_unmirrored, now_ms)


def answered_at(tasks: Iterable[TaskRecord]) -> int:
    """Returns when the source last answered the leading driver (ms) while no partition was between
    two lanes; -1 if unknown."""
    return next((task.done_at for task in tasks if task.name == SOURCE_TASK), -1)


def unavailable(tasks: Iterable[TaskRecord]) -> str | None:
    """Returns why the source does not answer the leading driver; None if it answers."""
    return next((task.reason for task in tasks if task.name == SOURCE_TASK), None)


def seen_at(progress: PartitionProgress, answered_ms: int) -> int:
    """Returns when a driver last saw the partition's end (ms), -1 if unknown. A lane that mirrors
    the partition looks all the time, so in that case it is `answered_ms`, the source's last
    answer."""
    if progress.state is State.RUNNING or answered_ms < 0:
        return answered_ms
    return min(answered_ms, progress.written_at)


def timestamps_at(
    source: Cluster, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns the timestamp (ms) of the batch at each position. Leaves out a partition that
    fails."""
    if not positions:
        return {}
    with ThreadPoolExecutor(max_workers=_PROBES) as pool:
        found = pool.map(partial(_timestamp_at, source), positions.keys(), positions.values())
        return {tp: stamp for tp, stamp in zip(positions, found, strict=True) if stamp is not None}


def _timestamp_at(source: Cluster, tp: TopicPartition, position: int) -> int | None:
    try:
        fetched = source.fetch(tp, position, _PROBE_BYTES)
    except CausewayError:
        return None  # the partition's reason has the error of its end
    return first_timestamp(fetched.records)


def first_timestamp(records: bytes) -> int | None:
    """Returns the base timestamp, or the append time, of the first batch in a Fetch response."""
    if len(records) < HEADER_SIZE:
        return None
    fields = HEADER.unpack_from(records)
    attributes, base_timestamp, max_timestamp = fields[5], fields[7], fields[8]
    stamp: int = max_timestamp if attributes & LOG_APPEND_TIME else base_timestamp
    return stamp
