"""What a transform was found to be when it was checked is what its stages run."""

from __future__ import annotations

from typing import Any

import pytest

from causeway.daemon.staging import _Prepare
from causeway.transform import plan
from tests.harness.transforms import settings


def test_a_transform_is_analysed_once_for_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, Any]] = []

    def prepare(session: Any, transform: Any) -> object:
        asked.append((session, transform))
        return object()

    monkeypatch.setattr(plan, "prepare", prepare)
    prepared, first, second = _Prepare(), object(), object()
    one, other = settings("SELECT 1"), settings("SELECT 1")
    found = prepared(first, one)
    assert prepared(first, one) is found
    assert prepared(first, other) is not found
    assert prepared(second, one) is not found  # Spark was started anew
    assert [session for session, _ in asked] == [first, first, second]
