"""How a limit is split over lanes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.daemon.lanes.placing import Use, split

uses = st.dictionaries(
    st.integers(0, 20), st.builds(Use, st.floats(0, 1e9), st.booleans()), min_size=1
)


@given(st.floats(1, 1e9), uses)
def test_all_shares_together_are_the_limit_at_the_most(limit: float, of: dict[int, Use]) -> None:
    shares = split(limit, of)
    assert shares.keys() == of.keys()
    assert all(share > 0 for share in shares.values())
    assert sum(shares.values()) <= limit * 1.000001


@given(st.floats(1, 1e9), uses)
def test_lanes_that_lag_get_nearly_all_that_the_others_do_not_use(
    limit: float, of: dict[int, Use]
) -> None:
    lagging = [lane for lane, use in of.items() if use.lags]
    if not lagging:
        return
    shares = split(limit, of)
    used = sum(1.25 * use.bytes_per_s for use in of.values() if not use.lags)
    assert (
        sum(shares[lane] for lane in lagging)
        >= 0.98 * limit - min(used, limit * (len(of) - len(lagging)) / len(of)) - limit * 1e-6
    )


def test_those_that_lag_share_alike() -> None:
    found = split(1_000, {0: Use(9, True), 1: Use(0, True), 2: Use(0, False), 3: Use(80, False)})
    assert found[0] == found[1]
    assert found[3] == 100
    assert found[2] == pytest.approx(5)
    assert sum(found.values()) == pytest.approx(1_000)


def test_where_none_lags_all_have_the_same() -> None:
    assert split(900, {0: Use(), 1: Use(300, False), 2: Use()}) == {0: 300, 1: 300, 2: 300}
