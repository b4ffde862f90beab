"""Compresses as Kafka's Java producers do: with their framing, their levels and their defaults.

    gzip     1 to 9, default 6 (Java says -1)
    snappy   no level; Java's framing (xerial), in blocks of 32 kB
    lz4      1 to 17, default 9: independent blocks, no checksum of the content
    zstd     -131072 to 22, default 3

Java's lz4 has two compressors. The default level uses the fast compressor. Each other level uses
the thorough one, which treats all levels above 12 as 12. Source: Apache Kafka's
Lz4BlockOutputStream.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from functools import cache
from typing import Final

import cramjam
from aiokafka.codec import snappy_encode

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4  # as in a batch's attributes
GZIP_LEVEL: Final = 6
LZ4_LEVEL: Final = 9
ZSTD_LEVEL: Final = 3
_GZIP_FRAME: Final = 31  # zlib's window bits, for a gzip header
_LZ4_FAST: Final = 0
_LZ4_THOROUGH: Final = range(3, 13)  # the levels of lz4's thorough compressor


def compress(codec: int, payload: bytes | memoryview, level: int | None = None) -> bytes:
    """Compresses `payload` with `codec` (1 to 4) at `level`, a level of Kafka's producers; None is
    their default. Snappy has no levels."""
    return _CODECS[codec](payload, level)


def _gzip(payload: bytes | memoryview, level: int | None) -> bytes:
    return zlib.compress(payload, GZIP_LEVEL if level in (None, -1) else level, _GZIP_FRAME)


def _snappy(payload: bytes | memoryview, _: int | None) -> bytes:
    return bytes(snappy_encode(payload))


def _lz4(payload: bytes | memoryview, level: int | None) -> bytes:
    if level in (None, LZ4_LEVEL):
        chosen = _LZ4_FAST
    else:
        chosen = max(_LZ4_THOROUGH.start, min(level, _LZ4_THOROUGH.stop - 1))
    frame = cramjam.lz4.Compressor(level=chosen, content_checksum=False, block_linked=False)
    frame.compress(bytes(payload))  # cramjam does not accept a memoryview
    return bytes(frame.finish())


def _zstd(payload: bytes | memoryview, level: int | None) -> bytes:
    compressor = _zstd_compressor(ZSTD_LEVEL if level is None else level)
    return compressor.compress(payload, zstd.ZstdCompressor.FLUSH_FRAME)


@cache
def _zstd_compressor(level: int) -> zstd.ZstdCompressor:
    """One compressor for all frames, because its tables cost more than a small frame. It has its
    own lock. An error ends the current frame, so the compressor can be used again."""
    return zstd.ZstdCompressor(level=level)


_CODECS: Final[dict[int, Callable[[bytes | memoryview, int | None], bytes]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
