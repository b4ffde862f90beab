"""Chooses the partition of a record, once for both sides.

The names and hash functions are librdkafka's. As there, records without a key stay in one partition
for `sticky.partitioning.linger.ms`, so that they fill batches.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable
from functools import lru_cache, partial

Partitioner = Callable[[str, bytes | None, int], int]
"""Returns a partition for a topic, a key and the number of partitions."""

_CACHED_KEYS = 65_536  # murmur2 and FNV take microseconds in Python
_MASK = 0xFFFFFFFF


def partitioner(name: str, sticky_s: float) -> Partitioner | None:
    """Returns the partitioner with that name; None if there is none."""
    if name == "random":
        return _Sticky(sticky_s).choose
    hashing = _HASHES.get(name.removesuffix("_random"))
    if hashing is None:
        return None
    if not name.endswith("_random"):
        return partial(_by_key, hashing)
    # librdkafka's `consistent_random` treats an empty key as no key. Other partitioners do not.
    return partial(_by_key_or_random, hashing, _Sticky(sticky_s), hashing is zlib.crc32)


def _by_key(hashing: Callable[[bytes], int], topic: str, key: bytes | None, count: int) -> int:
    return hashing(key or b"") % count


def _by_key_or_random(
    hashing: Callable[[bytes], int],
    sticky: _Sticky,
    empty_is_none: bool,
    topic: str,
    key: bytes | None,
    count: int,
) -> int:
    if key is None or (empty_is_none and not key):
        return sticky.choose(topic, key, count)
    return hashing(key) % count


class _Sticky:
    def __init__(self, sticky_s: float) -> None:
        self._sticky_s = sticky_s
        self._chosen: dict[str, tuple[float, int]] = {}

    def choose(self, topic: str, key: bytes | None, count: int) -> int:
        now = time.monotonic()
        until, partition = self._chosen.get(topic, (0.0, 0))
        if now >= until or partition >= count:
            partition = random.randrange(count)  # noqa: S311
            self._chosen[topic] = (now + self._sticky_s, partition)
        return partition


@lru_cache(_CACHED_KEYS)
def _murmur2(key: bytes) -> int:
    """The hash of Java's DefaultPartitioner, which cuts off the sign."""
    multiplier = 0x5BD1E995
    found = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * multiplier & _MASK
        word = (word ^ word >> 24) * multiplier & _MASK
        found = (found * multiplier & _MASK) ^ word
    if rest := key[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & _MASK
    found = (found ^ found >> 13) * multiplier & _MASK
    return (found ^ found >> 15) & 0x7FFFFFFF


@lru_cache(_CACHED_KEYS)
def _fnv1a(key: bytes) -> int:
    """The hash of Sarama: the absolute value of a signed number of 32 bits."""
    found = 0x811C9DC5
    for byte in key:
        found = ((found ^ byte) * 0x01000193) & _MASK
    return found if found < 0x80000000 else 0x100000000 - found


_HASHES: dict[str, Callable[[bytes], int]] = {
    "consistent": zlib.crc32,
    "murmur2": _murmur2,
    "fnv1a": _fnv1a,
}
NAMES = ("random", *(name + end for name in _HASHES for end in ("", "_random")))
