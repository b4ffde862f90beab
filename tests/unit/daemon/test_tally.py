"""What transforms have done: told of this run, recorded over all runs of the same transform."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from causeway.config import TransformSettings
from causeway.control import Transforms
from causeway.daemon.partitions import TransformTally
from causeway.daemon.partitions import tally as tallies
from causeway.daemon.partitions.tally import Counted
from causeway.filters import compile_patterns
from causeway.link_topics import Transformed, TransformRecord
from tests.builders.settings import LINK

PII = TransformSettings(
    name="pii", topics=compile_patterns(".*"), rules="mask value.$.a; drop value.$.b"
)
LINK_PII = replace(LINK, transforms=(PII,))
KEY = "A->B/pii@now"


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> TransformTally:
    monkeypatch.setattr(tallies, "_rules", lambda _: ("mask a", "drop b"))
    return TransformTally(Transforms(LINK_PII, {}, lambda *_: "now"))


def record(identity: str = "now", **counts: Any) -> TransformRecord:
    return TransformRecord(name="pii", identity=identity, counts=Transformed(**counts))


def counted(**counts: Any) -> list[Counted]:
    return [("pii", Transformed(**counts)), ("pii", None), ("pii", Transformed(records_in=1))]


def test_what_protects_nothing_so_far(tally: TransformTally) -> None:
    (idle,) = tally.status([("pii", None)], {}, {})
    assert idle.unseen == (), "without a record nobody can tell"
    (told,) = tally.status(counted(records_in=4, dropped=2, seen=2), {KEY: 1}, {KEY: "OOM"})
    assert (told.name, told.partitions, told.stages) == ("pii", 3, 1)
    assert told.counts == Transformed(records_in=5, dropped=2, seen=2)
    assert told.unseen == ("mask a",)
    assert told.troubles == ("OOM",)


def test_it_goes_on_where_an_earlier_driver_ended(tally: TransformTally) -> None:
    tally.begin({"pii": record(records_in=10, seen=1)})
    (told,) = tally.status(counted(records_in=4, seen=2), {}, {})
    assert told.counts == Transformed(records_in=5, seen=2), "of this run"
    assert told.unseen == ()
    (written,) = tally.take_dirty(lambda: counted(records_in=4, seen=2), {})
    assert written.counts == Transformed(records_in=15, seen=3)


def test_each_rule_says_how_many_records_had_its_path_and_how_many_did_not(
    tally: TransformTally,
) -> None:
    """One early match no longer hides the records without the path that follow."""
    tally.begin({"pii": record(records_in=10, seen=1, found=(1,), missing=(9,))})
    many = [("pii", Transformed(found=(1, 4), missing=(7,))), ("pii", Transformed(missing=(2, 1)))]
    (told,) = tally.status(many, {}, {})
    assert told.rules == (("1 mask a", 1, 9), ("2 drop b", 4, 1)), "of this run"
    (written,) = tally.take_dirty(lambda: many, {})
    assert (written.counts.found, written.counts.missing) == ((2, 4), (18, 1))
    (idle,) = tally.status([], {}, {})
    assert idle.rules == (("1 mask a", 0, 0), ("2 drop b", 0, 0))


def test_another_transform_starts_its_counts_at_zero(tally: TransformTally) -> None:
    tally.begin({"pii": record("old", records_in=10, seen=3)})
    (told,) = tally.status(counted(records_in=4), {}, {})
    assert told.unseen == ("mask a", "drop b")
    (written,) = tally.take_dirty(lambda: counted(records_in=4), {})
    assert written == record(records_in=5)


def test_only_news_is_written_at_once(tally: TransformTally) -> None:
    tally.begin({})
    first = tally.take_dirty(lambda: counted(records_in=4), {})
    assert first == [record(records_in=5)]
    more = counted(records_in=9)
    assert tally.take_dirty(lambda: more, {}) == []
    assert tally.take_dirty(lambda: more, {}, final=True) == [record(records_in=10)]
    assert tally.take_dirty(lambda: more, {}, final=True) == []
    assert tally.take_dirty(lambda: counted(records_in=9, refused=1), {})
    (troubled,) = tally.take_dirty(lambda: counted(records_in=9, refused=1), {KEY: "OOM"})
    assert troubled.reason == "OOM"


def test_what_was_not_written_or_got_lost_is_written_again(tally: TransformTally) -> None:
    tally.begin({})
    first = tally.take_dirty(lambda: counted(records_in=4), {})
    tally.give_back(first)
    assert tally.take_dirty(lambda: counted(records_in=4), {}) == first
    tally.mark_all_dirty()
    assert tally.take_dirty(lambda: counted(records_in=4), {}) == first


def test_a_link_without_transforms_counts_nothing() -> None:
    plain = TransformTally(Transforms(LINK, {}))
    assert plain.take_dirty(lambda: pytest.fail("it asked"), {}, final=True) == []
    assert plain.status((), {}, {}) == ()
