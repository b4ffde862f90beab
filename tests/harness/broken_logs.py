"""What crashes do to a broker's files: for a broker that does not run."""

from __future__ import annotations

import struct
from pathlib import Path

from causeway.dev.cluster import LocalCluster

_BEGIN = struct.Struct(">qi")


def cut_off_batches(cluster: LocalCluster, topic: str, partition: int, count: int = 1) -> int:
    """Take the last `count` batches out of a log, as an unclean leader election does to what the
    new leader had not seen. Returns the offset where the log ends now."""
    files = sorted(_directory(cluster, topic, partition).glob("*.log"))
    data = files[-1].read_bytes()
    starts: list[tuple[int, int]] = []
    at = 0
    while at + _BEGIN.size <= len(data):
        offset, length = _BEGIN.unpack_from(data, at)
        starts.append((offset, at))
        at += _BEGIN.size + length
    assert len(starts) > count, f"{files[-1]} has but {len(starts)} batches"
    offset, at = starts[-count]
    files[-1].write_bytes(data[:at])
    return offset


def _directory(cluster: LocalCluster, topic: str, partition: int) -> Path:
    (broker,) = cluster.brokers.values()
    assert broker.pid is None, "the broker must not run"
    return broker.directory / "data" / f"{topic}-{partition}"
