from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from causeway.records import PlainRecord, Record
from causeway.relay import Topics
from causeway.relay.treatment import ORIGIN, Provenance, SkipHeader

Header = tuple[str, bytes | None]
ORDERS = Topics("orders", "orders")


def _record(headers: Sequence[Header] = (), topic: str = "") -> PlainRecord:
    return PlainRecord(5, 1_700, b"k", None, list(headers))


def _mirror(
    record: Record, source: str, target: str, topics: Topics = ORDERS, *, local: bool = False
) -> Record | None:
    (after,) = Provenance(source, target, local=local).treat(topics, [record])
    return after


def test_a_record_is_marked_and_stays_what_it_is_otherwise() -> None:
    after = _mirror(_record([("a", b"1"), ("a", None)]), "A", "B")
    assert after is not None
    assert (after.timestamp, after.key, after.value) == (1_700, b"k", None)
    assert after.headers == [("a", b"1"), ("a", None), (ORIGIN, b"A/orders")]


def test_what_came_from_the_target_is_left_out() -> None:
    there = _mirror(_record(), "A", "B")
    assert there is not None
    assert _mirror(there, "B", "A") is None


def test_the_first_origin_stays_the_first() -> None:
    on_b = _mirror(_record(), "A", "B")
    assert on_b is not None
    on_c = _mirror(on_b, "B", "C")
    assert on_c is not None
    assert on_c.headers == [(ORIGIN, b"A/orders"), (ORIGIN, b"B/orders")]


@given(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=12))
def test_no_record_reaches_a_cluster_twice_on_any_path(way: list[str]) -> None:
    """Each step a mirror from where the record is, through rings and to and fro."""
    at, record, been = "A", _record(), {"A"}
    for following in way:
        if following == at:
            continue
        after = _mirror(record, at, following)
        assert (after is None) == (following in been)
        if after is not None:
            at, record = following, after  # type: ignore[assignment]
            been.add(at)


def test_headers_that_a_program_has_handed_on_to_another_topic_tell_of_another_record() -> None:
    """As Kafka Streams does: what it wrote on B out of A's orders is B's."""
    there = _mirror(_record(), "A", "B")
    assert there is not None
    written = _record(there.headers)
    back = _mirror(written, "B", "A", Topics("enriched", "enriched"))
    assert back is not None
    assert back.headers == [(ORIGIN, b"A/orders"), (ORIGIN, b"B/enriched")]
    assert _mirror(back, "A", "B", Topics("enriched", "enriched")) is None


def test_marks_follow_a_topic_through_its_names() -> None:
    to_b, to_c, to_a = Topics("x", "y"), Topics("y", "z"), Topics("z", "x")
    on_b = _mirror(_record(), "A", "B", to_b)
    assert on_b is not None
    on_c = _mirror(on_b, "B", "C", to_c)
    assert on_c is not None
    assert _mirror(on_c, "C", "A", to_a) is None
    assert _mirror(on_c, "C", "B", Topics("z", "y")) is None


def test_an_unknown_mark_is_left_alone() -> None:
    after = _mirror(_record([(ORIGIN, None), (ORIGIN, b""), (ORIGIN, b"A")]), "B", "A")
    assert after is not None
    assert len(after.headers) == 4


def test_records_with_the_header_are_left_out_for_every_value() -> None:
    keeps = _record([("other", b"x-id")])
    records = [_record([("x-id", None)]), keeps, _record([("a", b""), ("x-id", b"7")])]
    assert SkipHeader("x-id").treat(ORDERS, records) == [None, keeps, None]


def test_of_a_mesh_each_flow_takes_what_was_written_on_its_source_alone() -> None:
    on_b = _mirror(_record(), "A", "B", local=True)
    assert on_b is not None
    assert _mirror(on_b, "B", "C", local=True) is None
    handed_on = Topics("enriched", "enriched")
    assert _mirror(_record(on_b.headers), "B", "C", handed_on, local=True) is not None
