"""How a partition begins that keeps its offsets, and where it stops instead."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import Cluster
from causeway.config import TreatmentSettings
from causeway.control import topic_configs
from causeway.daemon.partitions import (
    Adopt,
    Begin,
    BeginBehind,
    Decision,
    Found,
    GoOn,
    Stop,
    assignment,
    beginnings,
    others,
)
from causeway.daemon.partitions.decisions import Candidate, IfSame, Offsets, Wish
from causeway.errors import AuthorizationError
from causeway.link_topics import (
    TRANSLATED,
    ClaimStart,
    PartitionProgress,
    decode_entry,
    encode_entry,
)
from causeway.model import Loss, Pair, State, TopicPartition
from tests.builders import decisions
from tests.builders.records import ADOPT, EMPTY, FROM, NO_WISH, TOPIC, progress
from tests.builders.settings import link
from tests.harness.raw_batches import ABORT, Rec, marker
from tests.harness.world import SOURCE, SOURCE_ID, TARGET_ID, FakeCluster, Log

KEPT = replace(TOPIC, preserves=True)
LINK = link(offsets="preserve")
LATER = replace(EMPTY, log_start=200, start=200)  # the source begins at 200, and ends at 500


def decide(
    offsets: Offsets,
    known: PartitionProgress | None = None,
    wish: Wish = NO_WISH,
    topic: Any = KEPT,
    **more: Any,
) -> Decision:
    return decisions.decide(topic, 0, known, offsets, LINK, wish, **more)


def filled(end: int, first: int = 0, offsets: Offsets = EMPTY) -> Offsets:
    return replace(offsets, target_ends={0: end}, target_starts={0: first})


def kept(**changes: Any) -> PartitionProgress:
    known = progress(position=60, offsets_from=0)
    (outlet,) = known.outlets
    pair = Pair(source=60, target=60, sequence=60)
    return known.replace(outlets=(outlet.replace(pair=pair),)).replace(**changes)


def test_an_empty_target_begins_at_its_end_and_is_filled_up_to_the_source_s_start() -> None:
    assert decide(EMPTY) == Begin(start=0, targets=(0,), offsets_from=0)
    begin = decide(LATER)
    assert begin == Begin(start=0, targets=(0,), offsets_from=200)
    assert decide(filled(150, 150, LATER)) == Begin(start=150, targets=(0,), offsets_from=200)
    claim = decisions.claim(KEPT, 0, begin, LATER, {0: (7, 0)}, LINK)
    assert (claim.position, claim.offsets_from) == (0, 200)
    assert claim.outlets[0].pair == (0, 0, 0)
    assert claim.outlets[0].exclusive
    assert decode_entry(*encode_entry(claim, claim.written_at)) == claim


def test_an_empty_target_that_ends_higher_stops_with_both_ways_on() -> None:
    found = decide(filled(300, 300, LATER))
    assert isinstance(found, Stop)
    for word in ("ends at 300, above offset 200", "--refill orders", "--translate orders"):
        assert word in found.reason


def test_records_that_are_there_must_be_the_source_s() -> None:
    found = decide(filled(80, 20))
    assert isinstance(found, IfSame)
    assert found.then == Begin(start=80, targets=(0,), offsets_from=20)
    assert "not those of orders-0" in found.otherwise.reason
    # Also if a person says how to go on: an offset that is taken stays taken.
    assert isinstance(decide(filled(80, 20), None, ADOPT), IfSame)
    assert isinstance(decide(filled(80, 20), None, FROM), IfSame)


@pytest.mark.parametrize(
    ("offsets", "more", "word"),
    [
        (filled(501), {}, "ends at 501, and orders-0 at 500"),
        (filled(100, 50, LATER), {}, "now begins at 200"),
        (filled(80), {"transform": "ff"}, "a transform or treatment made them"),
        (filled(0), {"shared": True}, "transforms lead records"),
    ],
)
def test_a_log_that_cannot_be_the_source_s_stops(
    offsets: Offsets, more: dict[str, Any], word: str
) -> None:
    found = decide(offsets, **more)
    assert isinstance(found, Stop)
    assert word in found.reason


def test_a_failback_goes_on_at_the_cut_if_the_old_source_has_no_more() -> None:
    cut = ClaimStart(offset=80, by=3, of=TOPIC.source_id)
    found = decide(filled(80, 20), start=cut)
    assert isinstance(found, IfSame)
    assert found.then == Begin(start=80, targets=(0,), offsets_from=20, by=3)
    # Its records are gone by retention; the directive says what they were.
    emptied = decide(filled(80, 80), start=cut)
    assert emptied == Begin(start=80, targets=(0,), offsets_from=80, by=3)
    more = decide(filled(510, 20), start=cut)
    assert isinstance(more, Stop)
    assert "never mirrored" in more.reason
    # A topic that was deleted and created again is filled from the source's start.
    refilled = decide(filled(0, 0), start=cut)
    assert refilled == Begin(start=0, targets=(0,), offsets_from=0, by=3)


def test_progress_goes_on_and_a_stop_stays() -> None:
    assert decide(filled(60), kept()) == GoOn(progress=kept())
    stopped = kept(state=State.STOPPED, reason="offset 61 at the target")
    assert decide(filled(60), stopped) == Stop(reason="offset 61 at the target")
    assert isinstance(decide(filled(60), stopped, ADOPT), IfSame)


def test_translated_progress_keeps_offsets_only_if_both_logs_are_the_same() -> None:
    known = kept(offsets_from=-1)
    found = decide(filled(60, 5), known)
    assert isinstance(found, IfSame)
    assert found.then == GoOn(progress=known.replace(offsets_from=5))
    (outlet,) = known.outlets
    moved = known.replace(outlets=(outlet.replace(pair=Pair(60, 61, 60)),))
    other = decide(filled(61), moved)
    assert isinstance(other, Stop)
    assert "translated offsets" in other.reason
    assert isinstance(decide(filled(60), known, transform="ff"), Stop)


def test_an_empty_mirror_keeps_offsets_from_now_on_if_it_ends_where_the_next_record_lies() -> None:
    """Also one whose records are all deleted by now."""
    known = kept(offsets_from=-1)
    assert decide(filled(60, 60), known) == GoOn(progress=known.replace(offsets_from=60))
    other = decide(filled(61, 61), known)
    assert isinstance(other, Stop)
    assert "translated offsets" in other.reason


def test_a_partition_that_a_transform_led_to_more_topics_cannot_keep_its_offsets() -> None:
    """Its transform is gone, and only that partition stops."""
    known = kept(offsets_from=-1, transform="ff")
    (own,) = known.outlets
    led = own.replace(topic="A.bills", partition=3, routed="orders", producer_id=8)
    found = decide(filled(60), known.replace(outlets=(own, led)))
    assert isinstance(found, Stop)
    assert "translated offsets" in found.reason


def test_preserved_progress_goes_on_translated_behind_what_is_there() -> None:
    found = decide(filled(60), kept(), topic=TOPIC)
    assert isinstance(found, BeginBehind)
    assert found.progress == kept()
    # A mismatch: its offsets are not the source's any more, but its records are.
    stopped = kept(state=State.STOPPED, reason="mismatch")
    found = decide(filled(61), stopped, topic=TOPIC)
    assert found == Adopt(start=None, target=0, reason="mismatch")
    filling = kept(position=60, offsets_from=200)
    assert decide(filled(60, 0, LATER), filling, topic=TOPIC) == Begin(start=200, targets=(0,))


def test_a_loss_is_passed_over_by_a_gap() -> None:
    lost = kept(state=State.STOPPED, reason="lost", loss=Loss(60, 90, "deleted"))
    assert decide(filled(60), lost) == Stop(reason="lost", loss=lost.loss)
    over = decide(filled(60), lost, ADOPT)
    assert getattr(over, "to", None) == 90


def test_lanes_get_all_they_need() -> None:
    settings = link(offsets="preserve", offset_filler="stop", sole_writer=False)
    sent = assignment(KEPT, kept(offsets_from=7), settings, way="markers")
    assert sent.preserve is not None
    assert (sent.preserve.begin, sent.preserve.gaps) == (7, "markers")
    assert sent.preserve.transactional_id == "causeway.A.B.offsets"
    assert (sent.preserve.filler_from, sent.preserve.stops) == (None, True)
    assert sent.sole_writer
    compacted = assignment(replace(KEPT, compacted=True), kept(), settings)
    assert compacted.preserve is not None
    assert (compacted.preserve.filler_from, compacted.preserve.gaps) == (10_000, "transactions")
    assert assignment(TOPIC, progress(), settings).preserve is None


def log(*records: tuple[int, bytes]) -> Log:
    found = Log()
    for offset, value in records:
        found.end = offset
        found.append([Rec(offset=offset, timestamp=1_600_000_000_000, value=value)])
    return found


def same(source: Log, target: Log, *, compacted: bool = False, marked: bool = False) -> bool:
    return others.is_same_log(
        cast(Cluster, FakeCluster("t", SOURCE_ID, {0: source}, False)),
        SOURCE,
        cast(Cluster, FakeCluster("t", TARGET_ID, {0: target}, False)),
        SOURCE,
        target.end,
        compacted=compacted,
        marked=marked,
    )


def test_logs_are_the_same_by_records_at_the_same_offsets() -> None:
    source = log((0, b"a"), (3, b"b"), (4, b"c"), (9, b"d"))
    assert same(source, log((0, b"a"), (3, b"b"), (4, b"c")))
    assert not same(source, log((0, b"a"), (3, b"b"), (4, b"x")))
    assert not same(source, log((0, b"a"), (2, b"b"), (5, b"c")))
    assert not same(source, log((0, b"a"), (4, b"c")))


@pytest.mark.parametrize("compacted", [False, True])
def test_logs_without_a_record_are_the_same(compacted: bool) -> None:
    """As after a failback, if all transactions of the old source were rolled back."""
    rolled_back = Log()
    rolled_back.append([Rec(offset=0)], producer_id=7, epoch=0, sequence=0, transactional=True)
    rolled_back.aborted.append((7, 0, 1))
    rolled_back.batches.append((1, 1, bytes(marker(1, 7, ABORT))))
    rolled_back.end = 2
    assert same(log((2, b"a")), rolled_back, compacted=compacted)
    assert same(rolled_back, rolled_back, compacted=compacted)
    assert not same(log((1, b"a"), (2, b"b")), rolled_back, compacted=compacted)
    deleted = log((2, b"a"))
    deleted.start = 2
    assert same(deleted, rolled_back, compacted=compacted)


def test_marks_in_headers_do_not_count() -> None:
    """As after a failback with causeway.provenance: the old source's records have no mark."""
    own = log((0, b"a"), (3, b"b"))
    copied = Log()
    for offset, value in ((0, b"a"), (3, b"b")):
        copied.end = offset
        headers: list[tuple[str, bytes | None]] = [("causeway.origin", b"A")]
        record = Rec(offset=offset, timestamp=1_600_000_000_000, value=value, headers=headers)
        copied.append([record])
    assert not same(copied, own)
    assert same(copied, own, marked=True)
    assert not same(copied, log((0, b"a"), (3, b"x")), marked=True)


def test_a_treatment_that_only_marks_can_be_compared() -> None:
    step = TreatmentSettings(kind="provenance", decides={}, text="")
    marking = replace(LINK, treatments=(step,))
    found = decisions.decide(KEPT, 0, None, filled(80), marking, NO_WISH, transform="ff")
    assert isinstance(found, IfSame)
    assert found.marked
    known = kept(offsets_from=-1, transform="ff")
    turned = decisions.decide(KEPT, 0, known, filled(60), marking, NO_WISH, transform="ff")
    assert isinstance(turned, IfSame)
    assert turned.marked
    changing = replace(LINK, treatments=(step, replace(step, kind="schema-ids")))
    assert isinstance(
        decisions.decide(KEPT, 0, None, filled(80), changing, NO_WISH, transform="ff"), Stop
    )


def test_either_side_may_have_compacted_records() -> None:
    source = log((0, b"a"), (3, b"b"), (4, b"c"), (9, b"d"))
    assert same(source, log((0, b"a"), (4, b"c"), (5, b"gone")), compacted=True)
    assert not same(source, log((0, b"a"), (4, b"x"), (5, b"gone")), compacted=True)
    assert not same(source, log((1, b"gone"), (2, b"gone")), compacted=True)


class Alters:
    def __init__(self, error: Any = None) -> None:
        self.asked: dict[str, Any] = {}
        self._error = error

    def alter_configs(self, changes: Any) -> dict[str, Any]:
        self.asked |= changes
        return dict.fromkeys(changes, self._error)


def made_room(begin: Begin, target: Alters, *, deletes: bool = False) -> tuple[list[Begin], Found]:
    one = Candidate(
        topic=replace(KEPT, compacted=True, deletes=deletes),
        partition=0,
        progress=None,
        offsets=LATER,
        link=LINK,
        wish=NO_WISH,
    )
    empty = Log()
    empty.start = empty.end = LATER.log_start
    log_of = FakeCluster("t", SOURCE_ID, {0: empty}, False)
    sides = SimpleNamespace(source=log_of, target_admin=target)
    found = Found()
    begins = [beginnings.Beginning(one, begin, never_fed=True, taken_over=False)]
    return [each.begin for each in beginnings.prepared(begins, cast(Any, sides), found)], found


def test_a_large_gap_at_the_start_of_a_compacted_log_is_a_part_of_the_beginning() -> None:
    begin = Begin(start=0, targets=(0,), offsets_from=200)
    for first, begins_at in ((12_000, 12_000), (9_000, 200)):
        source = log((first, b"a"))
        source.start = 200
        claimed = replace(LATER, end=source.end)
        one = Candidate(
            topic=replace(KEPT, compacted=True),
            partition=0,
            progress=None,
            offsets=claimed,
            link=LINK,
            wish=NO_WISH,
        )
        sides = SimpleNamespace(source=FakeCluster("t", SOURCE_ID, {0: source}, False))
        sides.target_admin = Alters()
        given = [beginnings.Beginning(one, begin, never_fed=True, taken_over=False)]
        (after,) = beginnings.prepared(given, cast(Any, sides), Found())
        assert after.begin.offsets_from == begins_at


def test_a_compacted_topic_takes_deletion_while_its_beginning_is_filled() -> None:
    begin, target = Begin(start=0, targets=(0,), offsets_from=200), Alters()
    assert made_room(begin, target)[0] == [begin]
    assert target.asked == {"A.orders": topic_configs.WITH_DELETION}
    for done in (replace(begin, start=200), replace(begin, offsets_from=-1)):
        assert made_room(done, untouched := Alters())[0] == [done]
        assert untouched.asked == {}
    assert made_room(begin, untouched := Alters(), deletes=True)[0] == [begin]
    assert untouched.asked == {}
    refused = Alters(AuthorizationError("alter configs of", "A.orders"))
    left, found = made_room(begin, refused)
    assert left == []
    assert [each.topic for each in found.problems] == [str(TopicPartition("orders", 0))]


TRANSLATE = Wish(translate=True)


def test_a_person_lets_a_stopped_partition_go_on_translated() -> None:
    """Its records show where it has come to, as its offsets do not."""
    stopped = kept(state=State.STOPPED, reason="mismatch")
    adopt = Adopt(start=None, target=0, reason="mismatch")
    assert decide(filled(61), stopped, TRANSLATE) == adopt
    lost = stopped.replace(loss=Loss(60, 90, "deleted"))
    assert decide(filled(61), lost, TRANSLATE) == adopt
    new = decide(filled(510), None, TRANSLATE)
    assert isinstance(new, Adopt)
    assert new.start is None
    # A partition that was translated before only goes on.
    before = kept(offsets_from=-1, state=State.STOPPED, reason="was mirrored with translated")
    found = decide(filled(60), before, TRANSLATE)
    assert found == GoOn(progress=before.replace(offsets_from=TRANSLATED))


def test_that_wish_outlives_the_driver_but_not_the_topic() -> None:
    known = progress(offsets_from=TRANSLATED)
    assert decide(filled(70), known) == GoOn(progress=known)
    assert decode_entry(*encode_entry(known, known.written_at)) == known
    assert assignment(KEPT, known, LINK).preserve is None
    recreated = replace(KEPT, target_id="dd" * 16)
    stopped = known.replace(state=State.STOPPED, reason="deleted")
    assert decide(filled(0), stopped, ADOPT, topic=recreated) == Begin(
        start=0, targets=(0,), offsets_from=0
    )


def test_a_stop_of_the_other_mode_is_over_with_it() -> None:
    reason = decide(filled(61), kept(offsets_from=-1), transform="ff")
    assert isinstance(reason, Stop)
    stopped = kept(offsets_from=-1, state=State.STOPPED, reason=reason.reason)
    assert isinstance(decide(filled(60), stopped, topic=TOPIC), GoOn)
    assert isinstance(decide(filled(60), stopped), IfSame)  # tried again with each start


def test_a_failback_may_ask_for_translated_offsets_once() -> None:
    """What it asked for lasts as long as its claim, not as long as the directive."""
    cut = ClaimStart(offset=80, by=3, of=KEPT.source_id, translated=True)
    assert decide(filled(95, 20), start=cut) == Begin(start=80, targets=(0,), by=3)
    claimed = progress(begun=3, offsets_from=TRANSLATED)
    assert isinstance(decide(filled(95, 20), claimed, start=cut), GoOn)
    refilled = decide(EMPTY, progress(begun=3, outlets=()), start=cut)
    assert refilled == Begin(start=0, targets=(0,), offsets_from=0)
