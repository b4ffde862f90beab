"""What crashes and disks do to a broker's files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from causeway.dev import Broker
from tests.harness.kafka.cluster import LocalCluster

_BEGIN = struct.Struct(">qi")
_EPOCH = struct.Struct(">i")


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


def leader_epochs(cluster: LocalCluster, topic: str, partition: int) -> list[int]:
    """Of each batch of a log."""
    (broker,) = cluster.brokers.values()
    data = _newest_file(broker, topic, partition).read_bytes()
    return [_EPOCH.unpack_from(data, at + _BEGIN.size)[0] for _, at, _ in _batches(data)]


def lose_epoch(
    cluster: LocalCluster, topic: str, partition: int, epoch: int, *, instead: int | None = None
) -> None:
    """Take a leader epoch out of a log: its batches, as compaction and then a replica that copies
    what is left; or, with `instead`, have its batches written in that epoch, as those of another
    leader. Of a broker that does not run."""
    (broker,) = cluster.brokers.values()
    assert broker.pid is None, "the broker must not run"
    file = _newest_file(broker, topic, partition)
    data = bytearray(file.read_bytes())
    left = bytearray()
    for _, at, stop in _batches(bytes(data)):
        if _EPOCH.unpack_from(data, at + _BEGIN.size)[0] == epoch:
            if instead is None:
                continue
            _EPOCH.pack_into(data, at + _BEGIN.size, instead)  # no CRC covers it
        left += data[at:stop]
    file.write_bytes(left)
    for index in (file.with_suffix(".index"), file.with_suffix(".timeindex")):
        index.unlink()  # the broker makes them of the log
    checkpoint = file.with_name("leader-epoch-checkpoint")
    version, _, *entries = checkpoint.read_text().splitlines()
    kept = [entry for entry in entries if entry.split()[0] != str(epoch)]
    assert len(kept) == len(entries) - 1, entries
    checkpoint.write_text("\n".join([version, str(len(kept)), *kept, ""]))


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
