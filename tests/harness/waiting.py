"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def await_until(
    condition: Callable[[], T | None], timeout_s: float = 120.0, what: str = "", poll_s: float = 0.1
) -> T:
    """Call `condition` until it returns something true, and return that. AssertionError, naming
    `what` and the last value, after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what or condition} not so within {timeout_s:g} s: {value!r}")
        time.sleep(poll_s)
