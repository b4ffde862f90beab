"""Ids of one registry in another: against two stand-ins whose ids clash."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from causeway.schemas import SchemaRegistry
from causeway.schemas.client import RegistryRefusedError
from causeway.schemas.copying import SubjectPair
from causeway.schemas.link import CopyRound, IdTranslator
from tests.harness.registry_stand_in import RegistryStandIn, registry_stand_in

ORDERS = SubjectPair(source="orders-value", target="A.orders-value")


@pytest.fixture
def source() -> Iterator[RegistryStandIn]:
    with registry_stand_in() as registry:
        yield registry


@pytest.fixture
def target() -> Iterator[RegistryStandIn]:
    with registry_stand_in() as registry:
        for number in range(3):
            registry.register("taken-value", f'"{number}"')
        yield registry


def translator(source: RegistryStandIn, target: RegistryStandIn) -> IdTranslator:
    return IdTranslator(SchemaRegistry(source.settings), SchemaRegistry(target.settings))


def test_ids_are_those_of_the_target_for_every_caller(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    source.register("orders-value", "a")
    source.register("orders-value", "b")
    second = translator(source, target).there(ORDERS, 2)
    first = translator(source, target).there(ORDERS, 1)
    again = translator(source, target).there(ORDERS, 2)
    assert first is not None
    assert second is not None
    assert (first.id, second.id) == (4, 5)
    assert again == second
    assert list(target.ids("A.orders-value").values()) == [4, 5]  # in the source's order


def test_what_was_found_is_not_asked_for_again(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    source.register("orders-value", "a")
    one = translator(source, target)
    one.there(ORDERS, 1)
    source.asked.clear()
    target.asked.clear()
    one.there(ORDERS, 1)
    assert source.asked == target.asked == []


def test_references_are_registered_first_and_numbered_as_there(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    target.register("money", "older")
    source.register("money", "money")
    reference = {"name": "m", "subject": "money", "version": 1}
    source.register("orders-value", "order", references=[reference])
    found = translator(source, target).there(ORDERS, 1)
    assert found is not None
    (moved,) = found.schema.references
    assert (moved.name, moved.subject, moved.version) == ("m", "money", 2)


def test_a_new_subject_gets_the_level_of_the_source_others_keep_theirs(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    source.register("orders-value", "a")
    source.register("users-value", "u")
    source.levels.update({"orders-value": "FULL", "users-value": "NONE"})
    target.register("A.users-value", "mine")
    users = SubjectPair(source="users-value", target="A.users-value")
    assert translator(source, target).run([ORDERS, users]) == CopyRound(copied=2)
    assert target.levels == {"A.orders-value": "FULL"}
    assert not target.modes


def test_a_refusal_is_reported(source: RegistryStandIn, target: RegistryStandIn) -> None:
    source.register("orders-value", "odd")
    target.incompatible.add("odd")
    with pytest.raises(RegistryRefusedError, match="incompatible"):
        translator(source, target).there(ORDERS, 1)


def test_what_is_missing_is_found_without_writing(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    source.register("money", "money")
    reference = {"name": "m", "subject": "money", "version": 1}
    source.register("orders-value", "order", references=[reference])
    one = translator(source, target)
    assert one.missing(ORDERS) == [1]
    assert not target.ids("A.orders-value")
    one.run([ORDERS])
    assert translator(source, target).missing(ORDERS) == []
