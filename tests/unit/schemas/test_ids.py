"""Ids of schemas that nobody knows."""

from __future__ import annotations

import pytest

from causeway.schemas import IdLookup, Ids, SchemaRegistry, Unknown, ids
from tests.harness.registry_stand_in import registry_stand_in


def test_a_batch_of_more_made_up_ids_than_are_remembered_settles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where another one, with as many, is found out about between."""
    monkeypatch.setattr(ids, "_MOST", 3)
    monkeypatch.setattr("causeway.schemas.registry.LATE_S", ())
    with registry_stand_in() as source, registry_stand_in() as target:
        found = Ids(SchemaRegistry(source.settings), SchemaRegistry(target.settings), "source")

        def ask(first: int) -> list[object]:
            asked = (
                IdLookup(source="t", target="A.t", part="value", name=first + number)
                for number in range(10)
            )
            return [found.get(each, settled=True) for each in asked]

        for first in (100, 200):
            assert ask(first) == [None] * 10
            found.find_out()
        for first in (100, 200):
            assert all(isinstance(each, Unknown) and each.nowhere for each in ask(first))
        for first in range(300, 900, 100):
            ask(first)
            found.find_out()
        assert len(found._unknown) + len(found._unknown_before) <= 20
