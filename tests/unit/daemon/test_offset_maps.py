"""Offset maps of partitions with one or several outlets, as a link keeps them."""

from __future__ import annotations

from causeway.daemon.partitions import Registry, Row
from causeway.link_topics import Deletion, OffsetMapRecord, Outlet, offset_maps_of
from causeway.model import Pair, State, TopicPartition
from causeway.relay import Trace
from causeway.translation import CourseKey
from tests.builders.daemon import outlet, row, says

SOURCE = TopicPartition("orders", 0)
OWN, PAID = TopicPartition("A.orders", 0), TopicPartition("A.paid", 2)


def paid(pair: Pair, producer_id: int = 2) -> Outlet:
    return outlet(0).replace(
        topic="A.paid", partition=2, producer_id=producer_id, pair=pair, routed="paid"
    )


def transformed(*outlets: Outlet, since: int | None = 0) -> Row:
    it = row(State.RUNNING)
    it.progress = it.progress.replace(transform="12ab", outlets=outlets)
    it.maps = offset_maps_of(it.progress, {}, since=since)
    return it


def hear(it: Row, *outlets: Outlet, traces: tuple[Trace, ...]) -> None:
    said = says(State.RUNNING, 100)
    update = {"outlets": outlets, "traces": traces}
    it.take_report(said.replace(report=said.report.replace(**update)))


def test_each_outlet_is_reported_by_its_own_trace() -> None:
    it = transformed(outlet(0), paid(Pair(10, 30, 0)))
    mine, routed = outlet(0), paid(Pair(100, 36, 6))
    mine = mine.replace(pair=Pair(100, 40, 40))
    traces = (
        Trace(breaks=(Pair(20, 8, 8),), newest=(99, 39)),
        Trace(breaks=(Pair(50, 33, 3),), newest=(98, 35)),
    )
    hear(it, mine, routed, traces=traces)

    assert it.maps[OWN].points == [Pair(0, 0, 0), Pair(20, 8, 8), Pair(100, 40, 40)]
    assert it.maps[PAID].points == [Pair(10, 30, 0), Pair(50, 33, 3), Pair(100, 36, 6)]
    assert it.newest == (99, 39), "for offset syncs: what the mirror itself has"
    registry = Registry("A->B")
    registry.add([it])
    assert registry.place(CourseKey(SOURCE, PAID), [0, 100]) == {0: 30, 100: 36}
    assert registry.end(CourseKey(SOURCE, PAID)) == 36
    assert registry.transforms
    assert [m.target for m in registry.courses()] == [OWN, PAID]

    lost = (Trace(), Trace(resumed=Pair(50, 33, 3)))
    hear(it, mine, paid(Pair(50, 33, 3)), traces=lost)
    assert it.maps[PAID].points[-1] == Pair(50, 33, 3), "one outlet's target has lost some"
    assert it.maps[OWN].points[-1] == Pair(100, 40, 40)
    _, entries = registry.take_dirty()
    assert {e.to for e in entries if isinstance(e, OffsetMapRecord)} >= {PAID}


def test_they_outlive_the_driver_and_are_valid_for_their_producer_ids() -> None:
    it = transformed(outlet(0), paid(Pair(10, 30, 0)))
    hear(it, outlet(0), paid(Pair(100, 36, 6)), traces=(Trace(), Trace()))
    records = {record.to: record for record in it.map_records()}
    assert records.keys() == {None, PAID}

    again = offset_maps_of(it.progress, records)
    assert {at: (m.points, m.since) for at, m in again.items()} == {
        at: (m.points, m.since) for at, m in it.maps.items()
    }
    anew = it.progress.replace(outlets=(outlet(0), paid(Pair(100, 36, 0), producer_id=9)))
    assert offset_maps_of(anew, records)[PAID].points == [Pair(100, 36, 0)]
    by_key = it.progress.replace(transform=None)
    assert offset_maps_of(by_key, records) == {}


def test_an_outlet_that_comes_later_knows_what_its_claim_knows() -> None:
    """An earlier transform may have fed it, from below the claim."""
    behind = outlet(0).replace(pair=Pair(50, 20, 0))
    for since, known in ((0, 30), (50, None)):
        it = transformed(behind, since=since)
        entries = it.grow(it.progress.replace(outlets=(behind, paid(Pair(70, 30, 0)))))
        assert entries[0] == it.progress
        assert {e.to for e in entries if isinstance(e, OffsetMapRecord)} == {PAID}
        assert (it.maps[PAID].place(69), it.maps[PAID].place(50)) == (30, 30)
        assert it.maps[PAID].place(49) == known


def test_a_map_that_was_rewound_is_written_with_the_outlet_that_comes() -> None:
    """The next leader must not find it as it was before."""
    it = transformed(outlet(0))
    far, back = (outlet(0).replace(pair=p) for p in (Pair(90, 40, 40), Pair(20, 8, 8)))
    hear(it, far, traces=(Trace(breaks=(Pair(20, 8, 8),)),))
    hear(it, back, traces=(Trace(resumed=Pair(20, 8, 8)),))
    entries = it.grow(it.progress.replace(outlets=(back, paid(Pair(70, 30, 0)))))
    assert {e.to for e in entries if isinstance(e, OffsetMapRecord)} == {None, PAID}


def test_what_rules_make_of_a_partition_needs_no_look_up() -> None:
    """They keep the number of records, or drop some; then as many as offsets are all of them."""
    it = transformed(outlet(0))
    for several in (True, False):
        known = offset_maps_of(it.progress, {}, multiplied=several)[OWN]
        known.reach(Pair(10, 10, 10))
        assert (known.place(4) == 4) is not several


def test_all_of_them_go_with_the_partition() -> None:
    it = transformed(outlet(0), paid(Pair(10, 30, 0)))
    registry = Registry("A->B")
    registry.add([it])
    entries = registry.set_aside([SOURCE])
    assert [e for e in entries if isinstance(e, Deletion)] in (
        [Deletion(source=SOURCE, of="offsets", to=to) for to in order]
        for order in ((None, PAID), (PAID, None))
    )


def preserving() -> Row:
    it = row(State.RUNNING)
    it.progress = it.progress.replace(offsets_from=50, position=50)
    it.maps = offset_maps_of(it.progress, {})
    return it


def test_preserved_offsets_need_no_map() -> None:
    it = preserving()
    registry = Registry("A->B")
    registry.add([it])

    registry.take_reports([says(State.RUNNING, 80)])

    assert registry.place(CourseKey(SOURCE, OWN), [50, 77, 80, 95]) == {
        50: 50,
        77: 77,
        80: 80,
        95: 80,
    }
    assert registry.end(CourseKey(SOURCE, OWN)) == 80
    assert not registry.courses()[0].begins
    registry.mark_all_dirty()
    _, entries = registry.take_dirty(final=True)
    assert entries == [it.progress], "no offset map is written"


def test_a_partition_begins_until_its_target_is_filled() -> None:
    it = preserving()
    it.progress = it.progress.replace(position=20)
    registry = Registry("A->B")
    registry.add([it])
    assert registry.courses()[0].begins
    registry.take_reports([says(State.RUNNING, 50)])
    assert not registry.courses()[0].begins
