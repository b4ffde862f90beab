"""Where a copy that keeps offsets goes on, over logs that live in memory.

The target's log end is the position, and nothing before it can be taken back: each test has a way
in which one of the two could be taken for another.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from causeway.cluster import ActiveProducer, Cluster, FetchedPartition
from causeway.errors import BrokerError, CausewayError, DivergedError
from causeway.link_topics import Outlet
from causeway.model import Pair, TopicPartition
from causeway.records import CONTROL, FILLER_KEY, BatchHeader, advance, decode
from causeway.relay import Assignment, Preserve
from causeway.relay.recovery import RecoveryRequest, ResumedOutlet, preserved, recover, survey
from causeway.relay.treatment import SkipHeader, Treatment, as_relayed, treated
from causeway.wire import broker_error, codes
from tests.harness.examples import examples
from tests.harness.raw_batches import ABORT, COMMIT, Rec, marker
from tests.harness.world import OURS, SOURCE, SOURCE_ID, TARGET, TARGET_ID, FakeCluster, Log

FILLS = 500  # the producer id of empty transactions


class Remembering(FakeCluster):
    """A target whose leader remembers `known`; `arrive` is called once the log's end was read."""

    def __init__(self, log: Log, known: Sequence[ActiveProducer] = ()) -> None:
        super().__init__(TARGET, TARGET_ID, {0: log}, compacted=False)
        self.log, self.known = log, tuple(known)
        self.arrive: Callable[[], None] = lambda: None
        self.fetches = 0

    def active_producers(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        return dict.fromkeys(places, self.known)

    def list_offsets(self, places: Collection[TopicPartition], *more: Any, **named: Any) -> Any:
        found = super().list_offsets(places, *more, **named)
        self.arrive()
        return found

    def fetch(self, *given: Any, **named: Any) -> FetchedPartition:
        self.fetches += 1
        return super().fetch(*given, **named)


def ours(epoch: int, last_sequence: int) -> ActiveProducer:
    return ActiveProducer(
        producer_id=OURS, producer_epoch=epoch, last_sequence=last_sequence, last_timestamp=0
    )


def records(start: int, stop: int) -> list[Rec]:
    return [Rec(offset=at, value=b"%d" % at) for at in range(start, stop)]


def put(log: Log, stop: int, **stamp: Any) -> None:
    """Records from the log's end on, as the source has them there."""
    log.append(records(log.end, stop), **stamp)


def put_transaction(
    log: Log, stop: int, *, ends_with: int = ABORT, key: bytes | None = None
) -> None:
    """Records of an application up to offset `stop` - 1, and the marker that ends them."""
    log.append(
        [replace(each, key=key) for each in records(log.end, stop)],
        producer_id=77,
        epoch=0,
        sequence=0,
        transactional=True,
    )
    put_marker(log, 77, kind=ends_with)


def put_marker(
    log: Log, producer_id: int, *, epoch: int = 0, leader_epoch: int = 0, kind: int = ABORT
) -> None:
    raw = bytearray(marker(log.end, producer_id, kind, leader_epoch=leader_epoch))
    raw[51:53] = epoch.to_bytes(2)
    log.batches.append((log.end, log.end, bytes(raw)))
    log.end += 1


def copied(log: Log, stop: int) -> Log:
    put(log, stop, producer_id=OURS, epoch=0, sequence=log.end)
    return log


def outlet_at(pair: Pair, epoch: int = 0) -> Outlet:
    return Outlet(
        topic=TARGET,
        partition=0,
        topic_id=TARGET_ID,
        producer_id=OURS,
        producer_epoch=epoch,
        pair=pair,
        exclusive=True,
    )


def answer_of(
    source: FakeCluster,
    target: FakeCluster,
    outlet: Outlet,
    *,
    leader_epoch: int = 0,
    unsettled: bool = False,
    filler_from: int | None = None,
    treatment: Treatment | None = None,
) -> ResumedOutlet | CausewayError:
    assignment = Assignment(
        link="A->B",
        source="a",
        target="b",
        topic="t",
        partition=0,
        topic_id=SOURCE_ID,
        leader_epoch=leader_epoch,
        outlets=(outlet,),
        preserve=Preserve(begin=0, gaps="markers", transactional_id="c", filler_from=filler_from),
        treated=treatment is not None,
    )
    series = as_relayed if treatment is None else treated(treatment, as_relayed)
    request = RecoveryRequest(assignment=assignment, unsettled=unsettled, series=series)
    answer = recover([request], cast(Cluster, source), cast(Cluster, target))[SOURCE]
    return answer if isinstance(answer, CausewayError) else answer.outlets[0]


def found_of(*given: Any, **named: Any) -> ResumedOutlet:
    answer = answer_of(*given, **named)
    assert isinstance(answer, ResumedOutlet), answer
    return answer


def source_of(log: Log, *, compacted: bool = False) -> FakeCluster:
    return FakeCluster("t", SOURCE_ID, {0: log}, compacted)


def log_to(stop: int) -> Log:
    log = Log()
    put(log, stop)
    return log


def test_a_batch_that_arrives_between_the_two_questions_is_noticed() -> None:
    """Else its records would be sent again, with the sequence behind it."""
    target = Remembering(copied(Log(), 10), [ours(0, 9)])

    def arrive() -> None:
        if target.log.end == 10:
            copied(target.log, 20)
            target.known = (ours(0, 19),)

    target.arrive = arrive

    answer = answer_of(source_of(log_to(30)), target, outlet_at(Pair(10, 10, 10)))

    assert isinstance(answer, BrokerError)
    assert answer.retriable
    found = found_of(source_of(log_to(30)), target, outlet_at(Pair(10, 10, 10)))
    assert found.pair == Pair(20, 20, 20)


def test_an_epoch_that_was_taken_once_is_never_left() -> None:
    """The outlet has reported epoch 2, of which nothing has arrived yet. A batch of it, with
    sequence 0, would be accepted behind any batch of epoch 0."""
    target = Remembering(copied(Log(), 10), [ours(0, 9)])

    found = found_of(source_of(log_to(30)), target, outlet_at(Pair(10, 10, 0), epoch=2))

    assert (found.producer_epoch, found.pair) == (2, Pair(10, 10, 0))


@pytest.mark.parametrize("filled_by", [OURS, FILLS])
def test_the_sequence_follows_from_the_log_if_the_leader_has_forgotten_it(filled_by: int) -> None:
    source, target = log_to(10), copied(Log(), 10)
    put_marker(source, 5)
    put_marker(target, filled_by, epoch=3)
    put(source, 30)
    epoch = 3 if filled_by == OURS else 0
    following = 0 if filled_by == OURS else 10

    found = found_of(source_of(source), Remembering(target), outlet_at(Pair(5, 5, 5)))

    assert (found.producer_epoch, found.pair) == (epoch, Pair(11, 11, following))


def test_a_new_claim_reads_no_more_than_the_end_of_a_long_log() -> None:
    target = Log()
    for stop in range(10, 1010, 10):
        put(target, stop, producer_id=77, epoch=0, sequence=0)
    cluster = Remembering(target)

    found = found_of(
        source_of(log_to(1000)), cluster, outlet_at(Pair(1000, 1000, 0)), unsettled=True
    )

    assert found.pair == Pair(1000, 1000, 0)
    assert cluster.fetches < 10


def test_the_epoch_is_that_of_the_marker_before_the_end() -> None:
    """The source's leader changed between the records and their marker. To the epoch of the
    records it would answer with an end before the marker, as if it was truncated."""
    source, target = Log(), copied(Log(), 10)
    put(source, 10, leader_epoch=3)
    put_marker(source, 5, leader_epoch=5)
    put(source, 20, leader_epoch=5)
    put_marker(target, OURS)

    found = found_of(
        source_of(source),
        Remembering(target, [ours(0, 9)]),
        outlet_at(Pair(4, 4, 4)),
        leader_epoch=3,
    )

    assert (found.pair, found.epoch) == (Pair(11, 11, 10), 5)


def test_what_a_target_lost_below_what_was_passed_over_comes_again() -> None:
    """The pair says that offsets 10 to 19 were passed over. The target lost those from 7 on."""
    target = Remembering(copied(Log(), 7), [ours(0, 6)])

    found = found_of(source_of(log_to(30)), target, outlet_at(Pair(20, 10, 10)))

    assert found.pair == Pair(7, 7, 7)


class Damaged(FakeCluster):
    """Offsets 10 to 19 cannot be read."""

    def fetch(self, place: Any, offset: int, *more: Any, **named: Any) -> FetchedPartition:
        if 10 <= offset < 20:
            raise broker_error(codes.CORRUPT_MESSAGE, "read", str(place))
        found = super().fetch(place, offset, *more, **named)
        before = [raw for base, _, raw in self.logs[0].batches if base < 10]
        readable = found.records if offset >= 20 else b"".join(before)
        return replace(found, records=readable)


@pytest.mark.parametrize("end", [13, 20, 25])
def test_what_was_passed_over_is_not_read_again(end: int) -> None:
    """A lane has filled it, and died before it reported more than the pair behind the damage."""
    target = copied(Log(), 10)
    while target.end < min(end, 20):
        put_marker(target, OURS)
    if end > 20:
        put(target, end, producer_id=OURS, epoch=0, sequence=10)
    last = 9 if end <= 20 else 14
    source = Damaged("t", SOURCE_ID, {0: damaged_log()}, compacted=False)

    found = found_of(source, Remembering(target, [ours(0, last)]), outlet_at(Pair(20, 10, 10)))

    assert found.pair == Pair(max(end, 20), end, last + 1)


def damaged_log() -> Log:
    log = log_to(10)
    put(log, 20)
    put(log, 30)
    return log


@pytest.mark.parametrize("known", [[ours(0, 9)], []])
@pytest.mark.parametrize("end", [20, 21])
def test_what_was_passed_over_is_not_read_again_once_the_pair_lies_behind_it(
    end: int, known: list[ActiveProducer]
) -> None:
    """Only markers came after it: for it, and perhaps for the end of a transaction."""
    source, target = damaged_log(), copied(Log(), 10)
    source.batches, source.end = source.batches[:2], 20
    put_marker(source, 5)
    put(source, 30)
    while target.end < end:
        put_marker(target, OURS)
    outlet = outlet_at(Pair(20, 20, 10)).replace(differs_to=20)
    damaged = Damaged("t", SOURCE_ID, {0: source}, compacted=False)

    found = found_of(damaged, Remembering(target, known), outlet, unsettled=True)

    assert found.pair == Pair(end, end, 10)


def test_damage_right_behind_the_last_record_does_not_hold_up_the_recovery() -> None:
    """Its lane has not yet found out that the damage lasts, and dies."""
    source = Damaged("t", SOURCE_ID, {0: damaged_log()}, compacted=False)

    found = found_of(source, Remembering(copied(Log(), 10)), outlet_at(Pair(5, 5, 5)))

    assert found.pair == Pair(10, 10, 10)


def test_records_that_lie_one_too_far_are_found_though_the_source_was_compacted() -> None:
    """The last one lies where the source has none any more. The one before it tells."""
    source, target = Log(), copied(Log(), 10)
    kept = [each for each in records(0, 20) if each.offset != 15]
    source.append(kept, span=20)
    put_marker(target, OURS)
    late = [replace(each, offset=each.offset + 1) for each in records(10, 15)]
    target.append(late, producer_id=OURS, epoch=0, sequence=10)

    answer = answer_of(
        source_of(source, compacted=True),
        Remembering(target, [ours(0, 14)]),
        outlet_at(Pair(11, 11, 10)),
    )

    assert isinstance(answer, DivergedError)
    assert "its record at offset 14 is not the source's" in str(answer)


@pytest.mark.parametrize("filler_from", [None, 2])
def test_a_transaction_of_others_is_found_where_the_source_has_no_record(
    filler_from: int | None,
) -> None:
    source, target = log_to(10), copied(Log(), 10)
    put_marker(source, 5)
    put_marker(source, 5)
    put(source, 20)
    put_transaction(target, 11)

    answer = answer_of(
        source_of(source),
        Remembering(target, [ours(0, 9)]),
        outlet_at(Pair(5, 5, 5)),
        filler_from=filler_from,
    )

    assert isinstance(answer, DivergedError)
    assert "another client wrote to it at offset 10" in str(answer)


@pytest.mark.parametrize("filler_from", [None, 2])
@pytest.mark.parametrize("ends_with", [COMMIT, ABORT])
def test_the_old_source_of_a_copy_goes_on_behind_its_own_transactions(
    ends_with: int, filler_from: int | None
) -> None:
    """After a failback. The new source has a copy: markers instead of records rolled back."""
    source, target = copied(Log(), 10), log_to(10)
    put_transaction(target, 12)
    put_transaction(target, 15, ends_with=ends_with)
    for _ in range(3):
        put_marker(source, OURS)
    if ends_with == COMMIT:
        put(source, 15, producer_id=OURS, epoch=0, sequence=10)
    while source.end < 16:
        put_marker(source, OURS)
    put(source, 20)

    found = found_of(
        source_of(source),
        Remembering(target),
        outlet_at(Pair(16, 16, 0)),
        unsettled=True,
        filler_from=filler_from,
    )

    assert found.pair == Pair(16, 16, 0)


@pytest.mark.parametrize("ends_with", [COMMIT, ABORT])
def test_a_transaction_with_records_that_are_not_the_source_s_is_no_copy(ends_with: int) -> None:
    source, target = log_to(20), Log()
    target.append(
        [Rec(offset=at, value=b"other") for at in range(4)],
        producer_id=77,
        epoch=0,
        sequence=0,
        transactional=True,
    )
    put_marker(target, 77, kind=ends_with)

    answer = answer_of(
        source_of(source), Remembering(target), outlet_at(Pair(5, 5, 0)), unsettled=True
    )

    assert isinstance(answer, DivergedError)


def test_a_record_that_the_source_has_compacted_since_is_no_difference() -> None:
    source, target = Log(), copied(Log(), 16)
    kept = [each for each in records(0, 20) if each.offset != 15]
    source.append(kept, span=20)

    found = found_of(
        source_of(source, compacted=True),
        Remembering(target, [ours(0, 15)]),
        outlet_at(Pair(11, 11, 11)),
    )

    assert found.pair == Pair(16, 16, 16)


@pytest.mark.parametrize("filled_with", ["markers", "filler"])
@pytest.mark.parametrize("left", [9, 0])
def test_markers_in_the_place_of_records_that_the_target_lost_are_found_below_the_pair(
    left: int, filled_with: str
) -> None:
    """The target had offset 9 and lost it, or all it had. Then markers or filler for the gap behind
    it were appended."""
    source, target = Log(), copied(Log(), left)
    put(source, 10)
    for _ in range(3):
        put_marker(source, FILLS)
    if filled_with == "markers":
        for _ in range(3):
            put_marker(target, OURS)
    else:
        put_transaction(target, target.end + 2, key=FILLER_KEY)
    put(source, 14)

    answer = answer_of(
        source_of(source),
        Remembering(target),
        outlet_at(Pair(10, 10, 10)),
        unsettled=True,
        filler_from=None if filled_with == "markers" else 2,
    )

    assert isinstance(answer, DivergedError)
    assert f"no record at offset {left}" in str(answer)


def test_a_marker_in_the_place_of_a_record_is_found_before_the_first_batch_of_its_epoch() -> None:
    """The target lost offset 9 after a fence. Then its end is that of the pair, and the sequence,
    which begins with 0 after a fence, says nothing about the records before."""
    source, target = log_to(10), copied(Log(), 9)
    put_marker(source, FILLS)
    put(source, 14)
    put_marker(target, OURS, epoch=1)

    answer = answer_of(
        source_of(source),
        Remembering(target, [ours(1, -1)]),
        outlet_at(Pair(10, 10, 0), epoch=1),
        unsettled=True,
    )

    assert isinstance(answer, DivergedError)
    assert "no record at offset 9" in str(answer)


@pytest.mark.parametrize("was", ["changed", "left out"])
def test_records_of_an_earlier_transform_are_not_compared(was: str) -> None:
    """The transform was removed from the file: the claim begins behind its records."""
    source, target = log_to(10), Log()
    put(target, 8, producer_id=77, epoch=0, sequence=0)
    if was == "changed":
        masked = [Rec(offset=at, value=b"***") for at in (8, 9)]
        target.append(masked, producer_id=77, epoch=0, sequence=8)
    while target.end < 10:
        put_marker(target, 77)
    outlet = outlet_at(Pair(10, 10, 0)).replace(differs_to=10)

    found = found_of(source_of(source), Remembering(target), outlet, unsettled=True)
    assert found.pair == Pair(10, 10, 0)

    put_marker(source, 5)
    put(source, 14)
    put_marker(target, OURS)
    put(target, 12, producer_id=OURS, epoch=0, sequence=0)
    known = Remembering(target, [ours(0, 0)])
    assert found_of(source_of(source), known, outlet).pair == Pair(12, 12, 1)
    put_marker(target, OURS)
    assert isinstance(answer_of(source_of(source), known, outlet), DivergedError)


SKIPS = SkipHeader("internal")


def treated_source() -> Log:
    """Offsets 8 to 10, and 12, are left out."""
    left_out = [
        replace(each, headers=[("internal", b"yes")])
        for each in records(0, 13)
        if each.offset in (8, 9, 10, 12)
    ]
    log = log_to(8)
    log.append(left_out[:3])
    put(log, 12)
    log.append(left_out[3:])
    put(log, 20)
    return log


def test_records_that_a_treatment_leaves_out_are_no_difference() -> None:
    target = copied(Log(), 8)
    while target.end < 11:
        put_marker(target, OURS)
    put(target, 12, producer_id=OURS, epoch=0, sequence=8)
    put_marker(target, OURS)

    found = found_of(
        source_of(treated_source()),
        Remembering(target, [ours(0, 8)]),
        outlet_at(Pair(11, 11, 8)),
        treatment=SKIPS,
    )

    assert found.pair == Pair(13, 13, 9)


@pytest.mark.parametrize("claimed_at", [0, 13])
def test_markers_in_the_place_of_records_are_found_behind_the_claim_of_a_treatment(
    claimed_at: int,
) -> None:
    """The target lost offset 11. Below the claim, the records may have been left out."""
    target = copied(Log(), 8)
    while target.end < 12:
        put_marker(target, OURS)
    outlet = outlet_at(Pair(12, 12, 9)).replace(claimed_at=claimed_at)

    answer = answer_of(
        source_of(treated_source()), Remembering(target), outlet, unsettled=True, treatment=SKIPS
    )

    assert isinstance(answer, DivergedError) is (claimed_at == 0)
    assert claimed_at or "no record at offset 11" in str(answer)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_batches_that_the_cleaner_left_without_records_are_neither_ours_nor_markers(
    in_transaction: bool,
) -> None:
    """After a failback to a compacted topic. Its last records were tombstones, and the new source
    still has them."""
    source, target = log_to(12), log_to(10)
    target.append([], 2, producer_id=77, epoch=0, sequence=10, transactional=in_transaction)
    for log in (source, target):
        put_marker(log, 77, kind=COMMIT)
    put(source, 20)

    found = found_of(
        source_of(source, compacted=True),
        Remembering(target),
        outlet_at(Pair(13, 13, 0)),
        unsettled=True,
        filler_from=2,
    )

    assert found.pair == Pair(13, 13, 0)


def test_filler_that_the_cleaner_left_without_records_is_ours() -> None:
    source, target = log_to(10), copied(Log(), 10)
    source.append([], 3)
    put(source, 20)
    target.append([], 2, producer_id=FILLS, epoch=0, sequence=0, transactional=True)
    put_marker(target, FILLS)

    found = found_of(
        source_of(source, compacted=True),
        Remembering(target, [ours(0, 9)]),
        outlet_at(Pair(10, 10, 10)),
        filler_from=2,
    )

    assert found.pair == Pair(13, 13, 10)


def test_a_transaction_that_is_too_large_to_unpack_is_not_taken_for_filler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("causeway.records.codec.UNPACKED_BYTES", 10_000)
    source, target = copied(Log(), 10), log_to(10)
    large = [Rec(offset=10, value=bytes(20_000))]
    source.append(large, compressed=True, producer_id=OURS, epoch=0, sequence=10)
    target.append(large, compressed=True, producer_id=77, epoch=0, sequence=0, transactional=True)
    for log in (source, target):
        put_marker(log, 77, kind=COMMIT)
    put(source, 20)

    found = found_of(
        source_of(source), Remembering(target), outlet_at(Pair(12, 12, 0)), unsettled=True
    )

    assert found.pair == Pair(12, 12, 0)


def test_a_target_that_sets_timestamps_is_a_copy() -> None:
    target = Log()
    stamps = {"producer_id": OURS, "epoch": 0, "append_time": 1_700_000_000_000}
    put(target, 10, sequence=0, **stamps)

    found = found_of(
        source_of(log_to(30)), Remembering(target, [ours(0, 9)]), outlet_at(Pair(5, 5, 5))
    )

    assert (found.pair, found.append_times) == (Pair(10, 10, 10), True)


def test_a_source_that_ends_below_the_markers_was_truncated() -> None:
    source, target = log_to(5), copied(Log(), 6)
    put_marker(target, OURS)
    put_marker(target, OURS)
    target.start = 6  # retention

    answer = answer_of(
        source_of(source), Remembering(target), outlet_at(Pair(8, 8, 6)), unsettled=True
    )

    assert isinstance(answer, DivergedError)
    assert "it was truncated" in str(answer)


def test_many_transactions_that_were_rolled_back_are_not_all_read() -> None:
    """The application of the old source failed again and again before the failback."""
    source, target = copied(Log(), 10), log_to(10)
    for _ in range(500):
        put_transaction(target, target.end + 1)
        put_marker(source, OURS)
        put_marker(source, OURS)
    cluster, end = Remembering(target), target.end

    found = found_of(source_of(source), cluster, outlet_at(Pair(end, end, 0)), unsettled=True)

    assert found.pair == Pair(end, end, 0)
    assert cluster.fetches < 300  # of two batches each


def test_only_the_newest_of_many_markers_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source has only transactions that were rolled back, so its copy has only markers."""
    source, target = Log(), Log()
    for _ in range(1_000):
        put_marker(source, 5)
        put_marker(target, OURS)
    monkeypatch.setattr(preserved, "LOOKED_BACK_BYTES", 10_000)
    monkeypatch.setattr(preserved, "COMPARED_BELOW", 50)
    here, there = Remembering(source), Remembering(target)
    here.topic, here.topic_id = "t", SOURCE_ID

    found = found_of(here, there, outlet_at(Pair(1_000, 1_000, 0)), unsettled=True)

    assert found.pair == Pair(1_000, 1_000, 0)
    assert here.fetches < 40  # of two batches each
    assert there.fetches < 300


class Copy:
    """A random source, and a copy that a lane makes of it; perhaps the target is the old source of
    a failback. Then the target may lose its newest batches, and the lane may write markers before
    it notices that. `pairs`: the pairs that the lane has reported, with their epochs."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.source, self.target = Log(), Log()
        self.epoch = self.sequence = 0
        self.way = self.chance.choice(["markers", "transactions", "filler"])
        firsts = []  # where no transaction is open
        for _ in range(self.chance.randint(1, 10)):
            firsts.append(len(self.source.batches))
            self._write_source()
        self.relayed = {
            record.offset
            for _, _, raw in self.source.batches
            if not BatchHeader.of(raw).attributes & CONTROL
            for record in decode(raw)
            if not any(first <= record.offset < last for _, first, last in self.source.aborted)
        }
        if self.chance.random() < 0.4:
            self.target.batches = self.source.batches[: self.chance.choice(firsts)]
            self.target.end = self.target.batches[-1][1] + 1 if self.target.batches else 0
        self.pairs = [(Pair(self.target.end, self.target.end, 0), 0)]
        self._relay(self.chance.randint(self.target.end, self.source.end))

    def _write_source(self) -> None:
        log, count = self.source, self.chance.randint(1, 5)
        match self.chance.choice(["plain", "plain", "marker", COMMIT, ABORT]):
            case "plain":
                put(log, log.end + count)
            case "marker":
                put_marker(log, FILLS)
            case kind:
                first = log.end
                put_transaction(log, first + count, ends_with=cast(int, kind))
                if kind == ABORT:
                    log.aborted.append((77, first, log.end - 1))

    def _gap(self, start: int, stop: int) -> int:
        """How many offsets from `start` on have no record, up to `stop`."""
        return next((at for at in range(start, stop) if at in self.relayed), stop) - start

    def _relay(self, stop: int) -> None:
        target = self.target
        while target.end < stop:
            if gap := self._gap(target.end, stop):
                if self.way == "markers" and self.chance.random() < 0.2:  # a lane died
                    self.epoch, self.sequence = self.epoch + 1, 0
                    self._report(target.end)
                self._fill(gap)
            else:
                put(
                    target,
                    target.end + 1,
                    producer_id=OURS,
                    epoch=self.epoch,
                    sequence=self.sequence,
                )
                self.sequence += 1
            self._report(target.end)

    def _fill(self, gap: int) -> None:
        if self.way == "filler" and gap > 1:
            put_transaction(self.target, self.target.end + gap - 1, key=FILLER_KEY)
        elif self.way == "markers":
            put_marker(self.target, OURS, epoch=self.epoch)
        else:
            put_marker(self.target, FILLS)

    def _report(self, end: int) -> None:
        self.pairs.append((Pair(end, end, self.sequence), self.epoch))

    def lose(self) -> bool:
        """Returns whether markers lie in the place of records after that."""
        target, view = self.target, self.target.end
        left = self.chance.randint(0, len(target.batches))
        target.batches = target.batches[:left]
        target.end = left = target.batches[-1][1] + 1 if target.batches else 0
        for _ in range(self.chance.randint(0, self._gap(view, self.source.end))):
            self._fill(1)
            view += 1
            if self.chance.random() < 0.5:
                self._report(view)
        return any(at in self.relayed for at in range(left, target.end))

    def recover(self) -> ResumedOutlet | CausewayError:
        known = []
        headers = [BatchHeader.of(raw) for _, _, raw in self.target.batches]
        for each in (header for header in headers if header.producer_id == OURS):
            if not each.attributes & CONTROL:
                known = [ours(each.producer_epoch, advance(each.following, -1))]
            elif not known or each.producer_epoch > known[0].producer_epoch:
                known = [ours(each.producer_epoch, -1)]
        pair, epoch = self.chance.choice(self.pairs)
        return answer_of(
            source_of(self.source),
            Remembering(self.target, known if self.chance.random() < 0.7 else ()),
            outlet_at(pair, epoch),
            unsettled=True,
            filler_from=2 if self.way == "filler" else None,
        )


@settings(max_examples=examples(300), phases=(Phase.explicit, Phase.generate))
@given(seed=st.integers(0, 2**32 - 1))
def test_a_copy_goes_on_at_its_end_unless_markers_lie_in_the_place_of_records(seed: int) -> None:
    copy = Copy(seed)
    is_whole = copy.chance.random() < 0.5 or not copy.lose()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survey, "SETTLE_S", 0.0)
        answer = copy.recover()

    if is_whole:
        assert isinstance(answer, ResumedOutlet), answer
        assert answer.pair.source == answer.pair.target == copy.target.end
    else:
        assert isinstance(answer, DivergedError)
        assert "no record at offset" in str(answer)
