"""Records, their ids, and the form in which the spool holds them."""

from __future__ import annotations

import base64
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from causeway_producer import SettingsError
from causeway_producer.records import (
    ID_HEADER,
    Chunk,
    Record,
    decode,
    encode,
    first_position,
    message_of,
    position_of,
    record_id,
)

CONTENT = some.one_of(some.none(), some.binary(max_size=40))
HEADERS = some.lists(some.tuples(some.text(max_size=5), CONTENT), max_size=3)
TIME = some.integers(1, 1 << 62)
ROW = some.tuples(some.integers(0, 2), TIME, CONTENT, CONTENT, HEADERS)


def taken(rows: list[tuple[Any, ...]], life: int = 3) -> list[Record]:
    first = first_position(life) + 1
    return [
        (first + index, partition, time, key, value, headers or None)
        for index, (partition, time, key, value, headers) in enumerate(rows)
    ]


@given(some.lists(ROW, min_size=1, max_size=30))
def test_what_is_read_is_what_was_taken(rows: list[tuple[Any, ...]]) -> None:
    records = taken(rows)
    assert decode(encode(records)) == records


@given(some.lists(ROW, min_size=1, max_size=30))
def test_each_copy_carries_the_record_s_id(rows: list[tuple[Any, ...]]) -> None:
    chunk = Chunk(taken(rows))
    for record, headers in zip(chunk.records, chunk.columns("shop").headers, strict=True):
        assert headers[:-1] == (record[5] or [])
        assert headers[-1] == (ID_HEADER, record_id("shop", record[0]))


@given(some.integers(1, 2**20), some.integers(0, 2**40 - 1))
def test_an_id_says_which_record(life: int, number: int) -> None:
    position = first_position(life) + number
    marked = record_id("shop", position)
    assert marked == b"shop/%d-%d" % (life, number)
    assert position_of("shop", [("h", b"x"), (ID_HEADER, marked)]) == position
    assert position_of("other", [(ID_HEADER, marked)]) is None


@pytest.mark.parametrize("value", [b"", None, b"shop", b"shop/1", b"shop/1-2-3", b"shop/x-1"])
def test_what_is_not_an_id_is_passed_over(value: bytes | None) -> None:
    assert position_of("shop", [(ID_HEADER, value)]) is None
    assert position_of("shop", None) is None


# Chunks as causeway.producer wrote them, which compressed as the first side was configured to.
EARLIER = {
    "none": (
        "C;|Wg04N3k003zL0001UV*mgEhyefq00L`Jc6N4lc6N4lc6N4lc6N4lc6N4lc6N4lc6N4lc6N4lc6N4l"
        "c6N4l0v2Oob#rBRVR<fTWDs*`Z*VU&EipI%0s;bS0Rk3dVRdt5cVT%hX=D&{Xm4;YGc7Y|00000Yy$uQ"
        "003ypA1?-M0{{R30cgq}F9vfE00001000000{{R6000000{{Rh1^@s6X#xNM0COV%002Y)000311_EdS"
        "0%rm-7Gq&`b7gm7c`j*W5OZj6a4$10GHCz+003+Q00005Xv!Zi25bWW000GO${#NVa|i$c00IC200093"
        "00"
    ),
    "gzip": (
        "C;|Wg04N3k003zL0001UKL7v#ABzY80000000Zk_WME)m$_^+a5-^D+CzckcmM2!~Wu^!eXXF>?8|xZc"
        "FfcJOWiw)xGzI|87^SFV0001K0RR91Yy$uQ003ypA1?-M0{{R30cgq}F9vfE00001000000{{R600000"
        "0{{Rh1^@s6X#xNM0COV%002Y)000311_EdS0%rm-7Gq&`b7gm7c`j*W5OZj6a4$10GHCz+003+Q00005"
        "Xv!Zi25bWW000GO${#NVa|i$c00IC20009300"
    ),
    "snappy": (
        "C;|Wg04N3k003zL0001UMgRZ+f>TaGP*7O_00001000010000oV<3nD00002YfyHY0RVIY7Gq&`b7gm7"
        "c`j*W5OZj6a4$10F*pDM0s?CR0!|$O05fR<0001N0{{R30BFh|F9vJ_00001Xv!Zi26GSq0003100003"
        "0009300003001Zk0001K0ssI2b0Yu%07L))009670%!pOX96)6V_|i3Wp`nDE@@;Cb7*gHFEcGNX#fBK"
        "0Bi#Q000GO${#NVYy$uQ00n5uA1?-T2mk;80ssI200RI3"
    ),
    "lz4": (
        "C;|Wg04N3k003zL0001UM*si-1R_lsa6qjz0001=hyefq00L`Jb^!ns{SE>aV_|i3Wp`nDE@@;Cb7*gH"
        "FEcGMH~<0y0&4*s08nr*Gc7aKA=K;u0001K0{{R3Yy$uQ003ypA1?-M0{{R30cgq}F9vfE0000100000"
        "0{{R6000000{{Rh1^@s6X#xNM0COV%002Y)000311_EdS0%rm-7Gq&`b7gm7c`j*W5OZj6a4$10GHCz+"
        "003+Q00005Xv!Zi25bWW000GO${#NVa|i$c00IC20009300"
    ),
    "zstd": (
        "C;|Wg04N3k003zL0001UIsgCwD77#BAY+XI0CWO~0RR910&7rq0v2Oob#rBRVR<fTWDs*`Z*VU&EipI%"
        "0s;bS0W$&s0rfd0I09(|0001N0{{R30BFh|F9vJ_00001Xv!Zi26GSq00031000030009300003001Zk"
        "0001K0ssI2b0Yu%07L))009670%!pOX96)6V_|i3Wp`nDE@@;Cb7*gHFEcGNX#fBK0Bi#Q000GO${#NV"
        "Yy$uQ00n5uA1?-T2mk;80ssI200RI3"
    ),
}
WRITTEN = taken(
    [
        (1, 1_700_000_000_000, b"k", b"v" * 40, []),
        (2, 1_700_000_000_005, None, b"", [("h", None), ("g", b"1")]),
        (1, 1_700_000_000_001, b"k", None, []),
    ]
)


@pytest.mark.parametrize("codec", EARLIER)
def test_a_spool_of_an_earlier_version_is_read(codec: str) -> None:
    assert decode(base64.b85decode(EARLIER[codec])) == WRITTEN


@pytest.mark.parametrize("codec", EARLIER)
def test_without_the_package_that_unpacks_them_they_are_not_skipped(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    content = base64.b85decode(EARLIER[codec])
    if codec in ("none", "gzip"):
        assert decode(content) == WRITTEN
        return
    with pytest.raises(SettingsError, match="pip install cramjam"):
        decode(content)


def test_a_message_without_an_answer_is_as_confluent_s() -> None:
    (record,) = taken([(0, 77, b"k", None, [("h", None)])])
    message = message_of("orders", 2, record, "shop")
    assert (message.topic(), message.partition(), message.offset()) == ("orders", 2, None)
    assert (message.key(), message.value(), message.error()) == (b"k", None, None)
    assert message.timestamp() == (1, 77)
    assert message.headers() == [("h", None), (ID_HEADER, b"shop/3-1")]
