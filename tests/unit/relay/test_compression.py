"""Batches that a lane compresses before it sends them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import pytest

from causeway.records import (
    CODEC_MASK,
    GZIP,
    HEADER,
    LZ4,
    SNAPPY,
    ZSTD,
    Batch,
    Unread,
    as_is,
    keep,
    records_of,
    repack,
    unpacked_size,
)
from causeway.relay import Compression
from causeway.relay.lane import target
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.outlet import OutletState, next_batch, send_smaller
from causeway.relay.lane.target import COMPRESS_S
from tests.builders.relay import Bench
from tests.harness.raw_batches import Rec, damaged, raw_batch
from tests.harness.simulated_run import simulated
from tests.harness.simulated_setting import Kind

LIMIT = 1_000_000


def _batch(first: int, count: int = 1, size: int = 3000, value: bytes = b"x", **more: Any) -> Batch:
    records = [
        Rec(offset=first + i, value=b"%d " % (first + i) + value * size) for i in range(count)
    ]
    return as_is(raw_batch(records, **more))


def _random(first: int, size: int) -> Batch:
    return as_is(raw_batch([Rec(offset=first, value=os.urandom(size))]))


def _flow(compression: Compression | None, bench: Bench | None = None) -> Flow:
    flow = (bench or Bench()).flow()
    return Flow.of(flow.assignment.replace(compression=compression))


def _outlet(compression: Compression | None, *batches: Batch) -> OutletState:
    (outlet,) = _flow(compression).outlets
    for batch in batches:
        outlet.put(batch)
    return outlet


def _all(outlet: OutletState, limit: int = LIMIT) -> list[Batch]:
    found = []
    while outlet.pending:
        found.append(next_batch(outlet, limit))
    assert outlet.pending_bytes == outlet.copied_bytes == 0
    return found


def _values(batches: Sequence[Batch]) -> list[bytes | None]:
    return [record.value for batch in batches for record in records_of(batch)]


# -- which batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_plain_batch_is_compressed_and_all_else_stays(codec: int) -> None:
    gzip = _batch(5, 3, compressed=True)
    before = [_batch(0, 5), gzip]
    found = _all(_outlet(Compression(codec=codec), *before))
    assert [batch.codec for batch in found] == [codec, GZIP]
    assert found[0].size < before[0].size
    assert found[1] is gzip
    assert _values(found) == _values(before)
    assert [(b.first, b.next, b.records) for b in found] == [(0, 5, 5), (5, 8, 3)]


def test_always_means_other_codecs_too() -> None:
    before = [_batch(0, 5), _batch(5, 300, compressed=True)]
    found = _all(_outlet(Compression(codec=ZSTD, always=True), *before))
    assert [batch.codec for batch in found] == [ZSTD, ZSTD]
    assert _values(found) == _values(before)
    same = _batch(5, 300, compressed=True)
    assert next_batch(_outlet(Compression(codec=GZIP, always=True), same), LIMIT) is same


def test_without_the_setting_nothing_is_compressed() -> None:
    plain, gzip = _batch(0, 5), _batch(5, 300, compressed=True)
    assert _all(_outlet(None, plain, gzip)) == [plain, gzip]


def test_what_compression_makes_larger_stays_as_it_came() -> None:
    random = _random(0, 5_000)
    assert next_batch(_outlet(Compression(codec=LZ4), random), LIMIT) is random


def test_the_level_counts() -> None:
    def size(level: int) -> int:
        plain = _batch(0, 200, 40, value=b"some words %d ")
        return next_batch(_outlet(Compression(codec=ZSTD, level=level), plain), LIMIT).size

    assert size(19) < size(-50)


# -- merged and cut --------------------------------------------------------------------------------


def test_small_neighbours_are_merged_before() -> None:
    small = [_batch(i, size=100) for i in range(20)]
    found = _all(_outlet(Compression(codec=ZSTD), *small))
    assert [(batch.codec, batch.records) for batch in found] == [(ZSTD, 20)]
    assert _values(found) == _values(small)


def test_a_batch_above_the_limit_goes_whole_if_it_fits_compressed() -> None:
    plain = _batch(0, 40)
    found = _all(_outlet(Compression(codec=LZ4), plain), 20_000)
    assert [batch.records for batch in found] == [40]


def test_else_it_is_cut_and_each_part_is_compressed() -> None:
    records = [Rec(offset=i, value=os.urandom(1500) + b"x" * 1500) for i in range(40)]
    plain = as_is(raw_batch(records))
    found = _all(_outlet(Compression(codec=ZSTD), plain), 20_000)
    assert 4 <= len(found) <= 6
    assert all(batch.size <= 20_000 for batch in found)
    assert {batch.codec for batch in found} == {ZSTD}
    assert _values(found) == [record.value for record in records]
    assert [b.first for b in found[1:]] == [b.next for b in found[:-1]]


def test_the_level_counts_for_parts_too() -> None:
    records = [Rec(offset=i, value=os.urandom(1500) + b"some words %d" % i * 99) for i in range(20)]
    plain = as_is(raw_batch(records))
    found = _all(_outlet(Compression(codec=GZIP, level=1), plain), 20_000)
    assert len(found) > 1
    for part in found:
        alone = as_is(raw_batch(records[part.first : part.next]))
        assert part.payload == repack(alone, GZIP, 1).payload


def test_a_batch_that_fits_only_in_its_own_codec_stays() -> None:
    """So that it is sent whole: what comes next may rely on its newest time."""
    gzip = _batch(0, 300, compressed=True)
    outlet = _outlet(Compression(codec=SNAPPY, always=True), gzip)
    assert next_batch(outlet, gzip.size) is gzip


def test_a_target_that_compresses_again_gets_smaller_batches() -> None:
    """It refuses a batch by its size without compression, and that is where parts end."""
    compression = Compression(codec=ZSTD)
    outlet = _outlet(compression, plain := _batch(0, 40))
    sent = outlet.sent(next_batch(outlet, 20_000))
    assert (sent.codec, sent.records) == (ZSTD, 40)
    assert send_smaller(outlet, sent, 20_000)
    outlet.put(plain)
    found = _all(outlet, 20_000)
    assert len(found) >= 6
    assert all(unpacked_size(batch) <= 20_000 for batch in found)
    assert {batch.codec for batch in found} == {ZSTD}
    assert _values(found) == _values([plain])


def test_a_batch_that_was_put_back_is_not_compressed_again() -> None:
    outlet = _outlet(Compression(codec=ZSTD), _batch(0, 5))
    once = next_batch(outlet, LIMIT)
    outlet.put_back(once)
    assert next_batch(outlet, LIMIT) is once


def test_a_batch_that_cannot_be_unpacked_goes_as_it_is() -> None:
    bad = _batch(0, 5)._replace(codec=GZIP)
    assert next_batch(_outlet(Compression(codec=ZSTD, always=True), bad), LIMIT) is bad


# -- read before -----------------------------------------------------------------------------------


def _kept(raw: bytes, compression: Compression | None) -> Batch:
    codecs = _outlet(compression).as_is_codecs
    data = memoryview(bytearray(raw))
    (batch,) = keep(data, 0, [], "A.t-0", Unread(1 << 20, 0, 1, codecs)).batches
    return batch


@pytest.mark.parametrize(
    ("compression", "plain", "gzip"),
    [
        (None, True, True),
        (Compression(codec=ZSTD), False, True),
        (Compression(codec=ZSTD, always=True), False, False),
        (Compression(codec=GZIP, always=True), False, True),
    ],
)
def test_what_is_compressed_is_read_and_all_else_is_passed_on_unread(
    compression: Compression | None, plain: bool, gzip: bool
) -> None:
    records = [Rec(offset=i, value=os.urandom(900)) for i in range(5)]
    for compressed, expected in ((False, plain), (True, gzip)):
        raw = raw_batch(records, compressed=compressed)
        assert (_kept(raw, compression).unread is not None) == expected


def test_a_damaged_batch_is_refused_before_it_is_unpacked() -> None:
    raw = damaged(raw_batch([Rec(offset=i, value=b"x" * 900) for i in range(5)]))
    with pytest.raises(Exception, match="wrong CRC"):
        _kept(raw, Compression(codec=ZSTD))


# -- sending ---------------------------------------------------------------------------------------


def test_what_is_sent_has_its_codec_and_its_sequence() -> None:
    bench = Bench()
    flow = _flow(Compression(codec=LZ4), bench)
    bench.offer(flow, flow.outlets[0], _batch(0, 5), _batch(5, 3), _random(8, 4000))
    sent = []
    while requests := bench.send():
        sent += [raw for request in requests for raw in request.values()]
        for request in bench.wire.requests[-len(requests) :]:
            bench.wire.answer(request)
        bench.receive()
    fields = [HEADER.unpack_from(raw) for raw in sent]
    assert [each[5] & CODEC_MASK for each in fields] == [LZ4, LZ4, 0]
    first = 2**31 - 2
    assert [each[11] for each in fields] == [first, 3, 6]
    assert _values([as_is(raw) for raw in sent]) == _values(
        [_batch(0, 5), _batch(5, 3), *[as_is(sent[2])]]
    )


class SlowCodec:
    """Takes two thirds of the time that a turn may compress, for each batch."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        patch.setattr(time, "monotonic", lambda: self.now)
        patch.setattr(target, "next_batch", self._next_batch)

    def _next_batch(self, outlet: OutletState, most: int) -> Batch:
        self.now += COMPRESS_S * 2 / 3
        return next_batch(outlet, most)


def _many(compression: Compression | None) -> tuple[Bench, OutletState]:
    """Several batches may be in flight."""
    bench = Bench(requests=100)
    flow = _flow(compression, bench)
    (outlet,) = flow.outlets
    bench.offer(flow, outlet, *(_batch(i) for i in range(6)))
    bench.send()
    bench.wire.answer(bench.wire.requests[0])
    bench.receive()
    return bench, outlet


def test_a_turn_compresses_for_so_long_and_goes_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    SlowCodec(monkeypatch)
    bench, outlet = _many(Compression(codec=ZSTD))
    sent = []
    while outlet.pending:
        sent.append(len(bench.send()))  # what was compressed is on its way before there is more
        assert bench.target.unfinished == bool(outlet.pending)
    assert sent == [2, 2, 1]


def test_so_long_counts_only_where_it_compresses(monkeypatch: pytest.MonkeyPatch) -> None:
    SlowCodec(monkeypatch)
    bench, _ = _many(None)
    assert len(bench.send()) == 5
    assert not bench.target.unfinished


def test_a_lane_that_may_not_send_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    SlowCodec(monkeypatch)
    bench, _ = _many(Compression(codec=ZSTD))
    bench.send()
    assert bench.target.unfinished
    bench.lease.renew(0.0)
    bench.send()
    assert not bench.target.unfinished


def test_the_simulation_under_fire_compresses() -> None:
    codecs = set()
    for seed in range(4):
        with simulated(seed, Kind(recompressed=True)) as driver:
            driver.relay_the_rest()
            for log in driver.brokers.targets.values():
                codecs |= log.codecs
    assert codecs >= {GZIP, LZ4, ZSTD}
