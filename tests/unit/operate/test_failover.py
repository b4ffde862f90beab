"""What is known of a mirror whose source is gone, in figures."""

from __future__ import annotations

from dataclasses import replace

from causeway.control.directives import THE_LINK
from causeway.model import TopicPartition
from causeway.operate.moves.failover import FailedOver, Known, topics_known
from tests.unit.daemon.test_rows import row


def known(newest_ms: int = 5_000, missing: int | None = 0, *, exact: bool = False) -> Known:
    return Known(
        topic="orders",
        target="orders",
        partitions=1,
        newest_ms=newest_ms,
        missing=missing,
        exact=exact,
    )


def found(*topics: Known) -> FailedOver:
    return FailedOver(
        link="A->B",
        target="B",
        scope=THE_LINK,
        changed=False,
        at_ms=9_000,
        topics=topics,
        failures={},
        cuts={},
    )


def test_what_is_missing_is_told_by_the_source_or_as_its_driver_last_saw_it() -> None:
    one = replace(row().progress, position=40, source_end=50, last_timestamp=1_000)
    two = replace(one, partition=1, position=45, source_end=45, last_timestamp=7_000)
    (told,) = topics_known([two, one], {})
    assert (told.missing, told.exact, told.newest_ms) == (10, False, 1_000), "what lags counts"
    ends = {TopicPartition(one.topic, 0): 100, TopicPartition(one.topic, 1): 45}
    (told,) = topics_known([two, one], ends)
    assert (told.missing, told.exact) == (60, True)
    (told,) = topics_known([replace(one, source_end=-1), two], {})
    assert told.missing is None
    assert topics_known([replace(one, position=50), two], {})[0].newest_ms == 7_000, "none lags"


def test_the_rpo_is_that_of_the_topic_that_is_furthest_behind() -> None:
    assert found(known(5_000), known(8_000)).rpo_ms == 4_000
    assert found(known(5_000, exact=True), known(8_000)).rpo_ms == 1_000, "one is whole, surely"
    assert found(known(5_000, exact=True)).rpo_ms == 0
    assert found(known(-1), known(8_000)).rpo_ms is None
