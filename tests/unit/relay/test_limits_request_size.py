"""How large requests to a broker may be, by what it answers and when it closes connections."""

from __future__ import annotations

from causeway.relay.lane.limits import LEAST_BYTES, RequestLimit

MB = 1_000_000


def test_one_loss_proves_nothing() -> None:
    limit = RequestLimit()
    assert limit.lost(4 * MB) == ", with a request of 4000000 bytes unanswered"
    limit.answered(4 * MB)
    assert limit.lost(5 * MB)
    assert not limit.lowered


def test_a_second_loss_halves_requests_and_each_one_after_it() -> None:
    limit = RequestLimit()
    limit.lost(4 * MB)
    assert "requests have at most 2000000 bytes from now on" in limit.lost(4 * MB)
    assert limit.lowered
    limit.lost(2 * MB)
    assert limit.most_bytes == 1 * MB
    limit.answered(1 * MB)
    assert limit.lost(1 * MB) == ""
    assert limit.most_bytes == 1 * MB


def test_what_the_broker_has_answered_is_not_too_large() -> None:
    limit = RequestLimit(3 * MB, answered_bytes=2 * MB)
    for _ in range(5):
        assert limit.lost(2 * MB) == ""
    limit.lost(3 * MB)
    limit.lost(3 * MB)
    assert limit.most_bytes == 2 * MB


def test_no_request_becomes_tiny() -> None:
    limit = RequestLimit()
    for _ in range(50):
        limit.lost(min(limit.most_bytes, 4 * MB))
    assert limit.most_bytes == LEAST_BYTES
