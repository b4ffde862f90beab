"""Times of about the last minute."""

from __future__ import annotations

from causeway.daemon.partitions.tally import Recent, with_more
from causeway.model import Spread


def test_figures_add_up_and_are_forgotten_after_a_while() -> None:
    known = with_more(None, Spread(2, 30, 10, 20), 0.0)
    known = with_more(known, None, 5.0)
    known = with_more(known, Spread.of(60), 10.0)
    assert known is not None

    assert known.timing(20.0).recent == Spread(3, 90, 10, 60)
    known = known.plus(Spread.of(5), 31.0)
    assert known.timing(40.0).recent == Spread(4, 95, 5, 60), "half a minute more"
    assert known.timing(62.0).recent == Spread.of(5)
    assert known.timing(91.0).recent is None
    assert known.timing(10_000.0).last == 5.0, "the last one is kept"


def test_after_a_pause_the_older_half_is_not_the_one_before() -> None:
    known = Recent.of(Spread.of(9_000), 0.0).plus(Spread.of(5), 100.0)
    assert known.timing(101.0).recent == Spread.of(5)


def test_the_last_figure_is_the_mean_of_the_newest() -> None:
    known = Recent.of(Spread.of(100), 0.0).plus(Spread(4, 10, 1, 4), 1.0)
    assert known.timing(1.0).last == 2.5
