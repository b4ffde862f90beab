"""As test_lane_under_fire.py, with lanes that fetch at a pace, as they do with many partitions."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.harness.examples import examples
from tests.harness.simulated_run import relay_under_fire
from tests.harness.simulated_setting import Kind

KINDS = {
    "several outlets": Kind(paced=True, partitions=10, outlets=(1, 3)),
    "offsets kept": Kind(paced=True, preserves="markers", begins=(0, 3)),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@settings(max_examples=examples(10), phases=(Phase.explicit, Phase.generate))
@given(seed=st.integers(0, 2**32 - 1))
def test_nothing_is_lost_or_doubled_and_reports_are_true(kind: Kind, seed: int) -> None:
    relay_under_fire(seed, kind)
