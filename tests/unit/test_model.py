"""Ages of records whose producers write what they like into the time."""

from __future__ import annotations

import pytest

from causeway.model import age_ms

NOW = 1_790_000_000_000


@pytest.mark.parametrize(
    ("timestamp", "age"),
    [
        (NOW - 5_000, 5_000),
        (NOW - 20 * 365 * 86_400_000, 20 * 365 * 86_400_000),
        (NOW + 60_000, 0),  # a clock that is ahead
        (-1, None),
        (0, None),
        (NOW // 1000, None),  # seconds
        (NOW * 1000, None),  # µs
        (NOW * 1_000_000, None),  # ns
    ],
)
def test_a_time_that_cannot_be_tells_no_age(timestamp: int, age: int | None) -> None:
    assert age_ms(timestamp, NOW) == age
