"""Records that come uncompressed, compressed on the way by each system with the same key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from bench import throughput
from bench.source import SHAPES, Shape
from bench.stage import Stage
from bench.throughput import Throughput

PREFIX = "codec-"
CODECS = ("zstd", "lz4")
_SIZE = 1000

Say = Callable[[str], None]


@cache
def _records() -> Sequence[tuple[bytes | None, bytes]]:
    """Values of about 1 kB: as many flights in JSON, one a line, as that takes."""
    values: list[bytes] = []
    lines: list[bytes] = []
    for _, value in SHAPES[0].records():
        lines.append(value)
        if sum(map(len, lines)) >= _SIZE:
            values.append(b"\n".join(lines))
            lines = []
    return [(None, value) for value in values]


def shape(codec: str) -> Shape:
    return Shape(
        name=f"{PREFIX}{codec}",
        title=f"1 kB of JSON, uncompressed, 64 KiB batches, 4 partitions, to {codec}",
        records=_records,
        producer={"compression.type": "none", "batch.size": 65_536, "linger.ms": 500},
        mirror={"batch.size": "65536", "linger.ms": "50"},
        backlog=1_500_000,
        warm_up=500_000,
    )


def measure(
    codec: str, of: Shape, settle_s: float, stage: Stage, name: str, say: Say
) -> Throughput:
    key = {"target.producer.compression.type": codec}
    return throughput.measure(stage, name, of, say, settle_s=settle_s, keys=lambda _: key)
