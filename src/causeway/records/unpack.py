"""Unpacks compressed data up to a bound: a few kB from any writer may unpack to many GiB."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Final

import cramjam

from causeway.errors import ProtocolError, TooLargeError

_SCRATCH: Final = 1024 * 1024
# cramjam's messages for an output that is too short. The second one is from snappy.
_FULL: Final = ("failed to write whole buffer", "is smaller than required")
_XERIAL: Final = b"\x82SNAPPY\0"  # Java's framing of snappy: 16 bytes, then blocks with lengths
_XERIAL_HEADER: Final = 16
_LENGTH: Final = 4


class _UnpackState(threading.local):
    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(_SCRATCH))
        self.total = 0


_thread = _UnpackState()


def unpacked_total() -> int:
    """The bytes that this thread has unpacked so far, as a measure of its work. Attempts that
    failed count, too."""
    return _thread.total


def count_work(size: int) -> None:
    """Counts `size` bytes of other work on an unpacked batch."""
    _thread.total += size


def unpack(
    codec: int, front: memoryview, packed: memoryview, most: int, subject: str
) -> memoryview:
    """Returns `front`, followed by the unpacked content of `packed`, up to `most` bytes.

    The view is valid until this thread's next call. The buffer takes at most eight times the
    unpacked size, and no more than `front` and `most` bytes. Raises TooLargeError if the content is
    larger than `most`, ProtocolError if `packed` is not data of this codec. Both name `subject`.
    """
    into = _CODECS.get(codec)
    if into is None:
        raise ProtocolError("decode", subject, f"there is no codec {codec}")
    start = len(front)
    stop = start + most
    buffer = _thread.scratch
    while True:
        try:
            size = into(packed, buffer[start:stop])
            break
        except (cramjam.DecompressionError, ValueError) as error:
            cause = str(error)
            if not any(full in cause for full in _FULL):
                raise ProtocolError("decode", subject, cause) from error
        if len(buffer) >= stop:
            _thread.total += most
            cause = f"its {len(packed)} bytes unpack to more than {most}"
            raise TooLargeError("decode", subject, cause)
        buffer = memoryview(bytearray(min(stop, 8 * len(buffer))))
    _thread.total += size
    buffer[:start] = front
    return buffer[: start + size]


def _snappy(packed: memoryview, out: memoryview) -> int:
    into = cramjam.snappy.decompress_raw_into
    if bytes(packed[: len(_XERIAL)]) != _XERIAL:
        return into(packed, out)
    at, size = _XERIAL_HEADER, 0
    while at < len(packed):
        begin = at + _LENGTH
        at = begin + max(0, int.from_bytes(packed[at:begin], "big", signed=True))
        if at > len(packed):
            raise ValueError("its last block is cut off")
        size += into(packed[begin:at], out[size:])
    return size


_CODECS: Final[dict[int, Callable[[memoryview, memoryview], int]]] = {
    1: cramjam.gzip.decompress_into,
    2: _snappy,
    3: cramjam.lz4.decompress_into,
    4: cramjam.zstd.decompress_into,
}

# The parameters of glibc's mallopt(3), from malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT_BYTES = 64 * 1024 * 1024


def keep_freed_memory() -> None:
    """Makes this process keep up to 64 MiB of freed memory for the next batches.

    By default glibc gives the end of its heap and each large block back to the kernel as soon as
    they are free. A lane that copies batches then spends a quarter of its time on new pages.
    Without glibc, nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_TOP_PAD, 1024 * 1024)
        mallopt(_MMAP_THRESHOLD, 32 * 1024 * 1024)  # the largest value that mallopt accepts
