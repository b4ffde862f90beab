"""The CRC-32C of a payload behind another header, without a look at the payload.

The CRC is linear: of two headers of one length before the same `size` bytes,

    crc(new + payload) ^ crc(old + payload) = (crc(new) ^ crc(old)) · x^(8 size)    mod Castagnoli

so what damage did to the one CRC it does to the other. The product is taken in steps: up to 4 kB of
zeros go through google_crc32c, the rest is looked up in tables, by digits of the length. They are
made when they are first needed: 0.1 ms and 40 kB each, for all lengths below 256 kB 63 of them.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from google_crc32c import extend

_TURNED: Final = 0xFFFFFFFF  # a CRC's bits are, before and after
_UNIT_BITS: Final = 12
_UNIT: Final = (1 << _UNIT_BITS) - 1
_DIGIT_BITS: Final = 6
_DIGIT: Final = (1 << _DIGIT_BITS) - 1
_ZEROS: Final = bytes(1 << _UNIT_BITS)

_Table = tuple[list[int], list[int], list[int], list[int]]  # by byte of a CRC, the lowest first


def carried(difference: int, size: int) -> int:
    """How two CRCs differ behind `size` bytes (below 1 GiB) that both have read, where before them
    they differed by `difference`."""
    crc: int = extend(difference ^ _TURNED, _ZEROS[: size & _UNIT]) ^ _TURNED
    size >>= _UNIT_BITS
    level = 0
    while size:
        if digit := size & _DIGIT:
            a, b, c, d = _table(level, digit)
            crc = a[crc & 255] ^ b[crc >> 8 & 255] ^ c[crc >> 16 & 255] ^ d[crc >> 24]
        size >>= _DIGIT_BITS
        level += 1
    return crc


@cache
def _table(level: int, digit: int) -> _Table:
    """Of so many units: `digit` · 64 ** `level`."""
    if digit > 1:
        steps = [_table(level, digit // 2), _table(level, digit - digit // 2)]
    elif level:
        steps = [_table(level - 1, (_DIGIT + 1) // 2)] * 2
    else:
        steps = []
    bits = [1 << bit for bit in range(32)]
    if not steps:
        bits = [extend(bit ^ _TURNED, _ZEROS) ^ _TURNED for bit in bits]
    for a, b, c, d in steps:
        bits = [a[v & 255] ^ b[v >> 8 & 255] ^ c[v >> 16 & 255] ^ d[v >> 24] for v in bits]
    return _of(bits[:8]), _of(bits[8:16]), _of(bits[16:24]), _of(bits[24:])


def _of(bits: list[int]) -> list[int]:
    """What each byte becomes, where each of its bits becomes one of `bits`."""
    table = [0]
    for bit in bits:
        table += [bit ^ one for one in table]
    return table
