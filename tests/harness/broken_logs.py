"""What crashes and disks do to a broker's files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from causeway.dev.broker import Broker
from causeway.dev.cluster import LocalCluster

_BEGIN = struct.Struct(">qi")


def cut_off_batches(cluster: LocalCluster, topic: str, partition: int, count: int = 1) -> int:
    """Take the last `count` batches out of a log, as an unclean leader election does to what the
    new leader had not seen. Returns the offset where the log ends now. Of a broker that does not
    run."""
    (broker,) = cluster.brokers.values()
    assert broker.pid is None, "the broker must not run"
    file = _newest_file(broker, topic, partition)
    data = file.read_bytes()
    starts = list(_batches(data))
    assert len(starts) > count, f"{file} has but {len(starts)} batches"
    offset, at, _ = starts[-count]
    file.write_bytes(data[:at])
    return offset


def flip_bit(cluster: LocalCluster, topic: str, partition: int, offset: int) -> None:
    """Flip a bit in the records of the batch that begins at `offset`, as a disk may; done twice, it
    is mended. The broker may run: it sends what the file has."""
    (broker,) = cluster.brokers.values()
    file = _newest_file(broker, topic, partition)
    stop = {first: stop for first, _, stop in _batches(file.read_bytes())}[offset]
    with file.open("r+b") as log:
        log.seek(stop - 1)
        (last,) = log.read(1)
        log.seek(stop - 1)
        log.write(bytes([last ^ 1]))


def _newest_file(broker: Broker, topic: str, partition: int) -> Path:
    return max((broker.directory / "data" / f"{topic}-{partition}").glob("*.log"))


def _batches(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Of each batch the offset of its first record, where it begins and where it ends."""
    at = 0
    while at + _BEGIN.size <= len(data):
        offset, length = _BEGIN.unpack_from(data, at)
        stop = at + _BEGIN.size + length
        yield offset, at, stop
        at = stop
