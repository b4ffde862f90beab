"""Which partition a record goes to: decided once, for both sides.

The names and what they do are librdkafka's. Records without a key stick to one partition for
`sticky.partitioning.linger.ms`, as there, so that they fill batches.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable
from functools import lru_cache

from kafka.partitioner.default import murmur2

Partitioner = Callable[[str, bytes | None, int], int]
"""From topic, key and the count of partitions to one of these."""

_REMEMBERED = 65_536  # keys whose hash is known: murmur2 and FNV take microseconds in Python


def named(name: str, sticky_s: float) -> Partitioner | None:
    """None where there is no partitioner of that name."""
    made: dict[str, Callable[[], Partitioner]] = {
        "random": lambda: _Sticky(sticky_s).any,
        "consistent": lambda: _keyed(zlib.crc32),
        "consistent_random": lambda: _or_random(zlib.crc32, sticky_s, empty_too=True),
        "murmur2": lambda: _keyed(_murmur2),
        "murmur2_random": lambda: _or_random(_murmur2, sticky_s),
        "fnv1a": lambda: _keyed(_fnv1a),
        "fnv1a_random": lambda: _or_random(_fnv1a, sticky_s),
    }
    make = made.get(name)
    return make() if make else None


NAMES = (
    "random",
    "consistent",
    "consistent_random",
    "murmur2",
    "murmur2_random",
    "fnv1a",
    "fnv1a_random",
)


def _keyed(hashed: Callable[[bytes], int]) -> Partitioner:
    return lambda topic, key, count: hashed(key or b"") % count


def _or_random(
    hashed: Callable[[bytes], int], sticky_s: float, *, empty_too: bool = False
) -> Partitioner:
    sticky = _Sticky(sticky_s).any

    def decide(topic: str, key: bytes | None, count: int) -> int:
        if key is None or (empty_too and not key):
            return sticky(topic, key, count)
        return hashed(key) % count

    return decide


class _Sticky:
    def __init__(self, sticky_s: float) -> None:
        self._sticky_s = sticky_s
        self._chosen: dict[str, tuple[float, int]] = {}

    def any(self, topic: str, key: bytes | None, count: int) -> int:
        now = time.monotonic()
        until, partition = self._chosen.get(topic, (0.0, 0))
        if now >= until or partition >= count:
            partition = random.randrange(count)  # noqa: S311
            self._chosen[topic] = (now + self._sticky_s, partition)
        return partition


@lru_cache(_REMEMBERED)
def _murmur2(key: bytes) -> int:
    """As Java's default partitioner: the sign is cut off."""
    return int(murmur2(key)) & 0x7FFFFFFF


@lru_cache(_REMEMBERED)
def _fnv1a(key: bytes) -> int:
    """As Sarama's: 32 bits, and the amount of it as a signed number."""
    found = 0x811C9DC5
    for byte in key:
        found = ((found ^ byte) * 0x01000193) & 0xFFFFFFFF
    return found if found < 0x80000000 else 0x100000000 - found
