"""What the C library does with memory that a lane gives back."""

from __future__ import annotations

import ctypes

# The parameters of glibc's mallopt(3), from malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT_BYTES = 64 * 1024 * 1024


def keep_freed_memory() -> None:
    """Has this process keep up to 64 MiB that it has freed, for the next batches.

    glibc hands the end of its heap back to the kernel, and a large block, as soon as they are free;
    a lane that copies batches then spends a quarter of its time on getting new pages. Without
    glibc nothing is changed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_TOP_PAD, 1024 * 1024)
        mallopt(_MMAP_THRESHOLD, 32 * 1024 * 1024)  # the most that it takes
