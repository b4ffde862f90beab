"""Copying between two registries, with the ids: against a stand-in that has modes and contexts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from causeway.schemas import SchemaRegistry, UnansweredError, check_registry
from causeway.schemas.copying import SubjectPair
from causeway.schemas.link import Copier, CopyRound
from tests.harness.registry_stand_in import RegistryStandIn, registry_stand_in

ORDERS = SubjectPair(source="orders-value", target="A.orders-value")


def record(*names: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Order",
        "fields": [{"name": name, "type": "long"} for name in names],
    }


@pytest.fixture
def source() -> Iterator[RegistryStandIn]:
    with registry_stand_in(first_id=40) as registry:
        yield registry


@pytest.fixture
def target() -> Iterator[RegistryStandIn]:
    with registry_stand_in() as registry:
        yield registry


@pytest.fixture
def copier(source: RegistryStandIn, target: RegistryStandIn) -> Copier:
    return Copier(SchemaRegistry(source.settings), SchemaRegistry(target.settings))


def writes(registry: RegistryStandIn) -> list[str]:
    return [line for line in registry.asked if not line.startswith("GET ")]


def test_all_versions_with_their_ids_and_the_level(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    first, second = (source.register("orders-value", record(*"ab"[:n])) for n in (1, 2))
    source.levels["orders-value"] = "FULL"
    assert copier.run([ORDERS]) == CopyRound(copied=1)
    assert target.ids("A.orders-value") == {1: first, 2: second}
    assert target.levels == {"A.orders-value": "FULL"}
    assert target.modes == {"A.orders-value": "IMPORT"}
    del source.levels["orders-value"]
    copier.forget()
    copier.run([ORDERS])
    assert target.levels == {}


def test_a_round_asks_one_question_a_subject_and_for_its_level_once_a_minute(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    now = 0.0
    copier = Copier(SchemaRegistry(source.settings), SchemaRegistry(target.settings), lambda: now)
    source.register("orders-value", record("a"))
    assert copier.run([ORDERS]) == CopyRound(copied=1)
    source.asked.clear()
    assert copier.run([ORDERS]) == CopyRound(copied=1)
    assert source.asked == ["GET /subjects/orders-value/versions"]
    source.register("orders-value", record("a", "b"))
    copier.run([ORDERS])
    source.delete("orders-value", 1)
    copier.run([ORDERS])
    assert target.deleted("A.orders-value") == [1]
    assert sorted(target.ids("A.orders-value")) == [1, 2]
    source.levels["orders-value"] = "FULL"
    copier.run([ORDERS])
    now += 61
    copier.run([ORDERS])
    assert target.levels == {"A.orders-value": "FULL"}


def test_a_round_with_nothing_new_writes_nothing_and_asks_the_target_nothing(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    source.register("orders-value", record("a"))
    copier.run([ORDERS])
    target.asked.clear()
    assert copier.run([ORDERS]) == CopyRound(copied=1)
    assert target.asked == []
    copier.forget()
    copier.run([ORDERS])
    assert target.asked
    assert writes(target) == []


def test_what_is_new_follows(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    source.register("orders-value", record("a"))
    copier.run([ORDERS])
    second = source.register("orders-value", record("a", "b"))
    copier.run([ORDERS])
    assert target.ids("A.orders-value")[2] == second


def test_soft_deletes_follow_and_ids_stay_known(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    first = source.register("orders-value", record("a"))
    source.register("orders-value", record("a", "b"))
    source.delete("orders-value", 1)
    assert copier.run([ORDERS]) == CopyRound(copied=1)
    assert target.deleted("A.orders-value") == [1]
    assert SchemaRegistry(target.settings).by_id(first) is not None
    source.delete("orders-value", 2)
    assert copier.run([ORDERS]) == CopyRound(copied=1)
    assert target.deleted("A.orders-value") == [1, 2]
    # The registry has forgotten the mode with the last version; what was deleted must not be lost.
    source.register("orders-value", record("a", "b", "c"))
    assert copier.run([ORDERS]) == CopyRound(copied=1)
    assert sorted(target.ids("A.orders-value")) == [1, 2, 3]


def test_what_is_deleted_for_good_stays(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    source.register("orders-value", record("a"))
    source.register("orders-value", record("a", "b"))
    copier.run([ORDERS])
    source.delete("orders-value", 1, permanent=True)
    copier.forget()
    assert copier.run([ORDERS]) == CopyRound(copied=1)
    assert sorted(target.ids("A.orders-value")) == [1, 2]


def test_a_subject_that_is_gone_leaves_its_copy_as_it_is(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    source.register("orders-value", record("a"))
    source.levels["orders-value"] = "FULL"
    copier.run([ORDERS])
    source.delete("orders-value", 1, permanent=True)
    copier.forget()
    assert copier.run([ORDERS]) == CopyRound(copied=1)  # it was there when subjects were listed
    assert target.levels == {"A.orders-value": "FULL"}


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_references_come_first_under_their_own_names(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier, kind: str
) -> None:
    money = source.register("z.money", "money", kind)
    reference = {"name": "money", "subject": "z.money", "version": 1}
    order = source.register("orders-value", "order", kind, [reference])
    assert copier.run([ORDERS]) == CopyRound(copied=2)
    assert target.ids("z.money") == {1: money}
    assert target.ids("A.orders-value") == {1: order}
    copied, own = (
        SchemaRegistry(each.settings).version(name, 1)
        for each, name in ((target, "A.orders-value"), (source, "orders-value"))
    )
    assert copied is not None
    assert own is not None
    assert copied.schema == own.schema
    assert copied.guid == own.guid


@pytest.mark.parametrize("names", [("amount", "money"), ("money", "amount")])
@pytest.mark.parametrize("turned", [False, True])
def test_a_reference_that_needs_another_reference_comes_after_it(
    source: RegistryStandIn,
    target: RegistryStandIn,
    copier: Copier,
    names: tuple[str, str],
    turned: bool,
) -> None:
    base, other = names
    of_base, of_other = ({"name": name, "subject": name, "version": 1} for name in names)
    source.register(base, base, "PROTOBUF")
    source.register(other, other, "PROTOBUF", [of_base])
    both = [of_other, of_base] if turned else [of_base, of_other]
    source.register("orders-value", "order", "PROTOBUF", both)
    assert copier.run([ORDERS]) == CopyRound(copied=3)


def test_an_id_that_means_another_schema_there_is_refused(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    for number in range(41):
        target.register("other-value", record(f"x{number}"))
    before = target.ids("other-value")
    source.register("orders-value", record("a"))
    found = copier.run([ORDERS])
    assert found.copied == 0
    assert found.clashing == {"A.orders-value"}
    assert found.items["A.orders-value"] == (
        "the id 40 of version 1 is another schema's there: copy into a context"
        " (causeway.schemas.context), or set causeway.schemas = translate"
    )
    assert target.ids("other-value") == before
    assert writes(target) == []


def test_others_go_on_where_one_clashes(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    source.register("orders-value", record("a"))
    source.register("users-value", record("u"))
    target.register("A.orders-value", record("foreign"))
    users = SubjectPair(source="users-value", target="A.users-value")
    found = copier.run([ORDERS, users])
    assert (found.copied, set(found.clashing)) == (1, {"A.orders-value"})
    assert (
        "version 1 is another schema there (id 1, on the source 40)"
        in (found.items["A.orders-value"])
    )
    assert target.ids("A.users-value") == {1: 41}
    assert target.ids("A.orders-value") == {1: 1}


def test_a_subject_that_others_may_register_in_is_left_alone(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    source.register("orders-value", record("a"))
    copier.run([ORDERS])
    del target.modes["A.orders-value"]  # as after a failover
    source.register("orders-value", record("a", "new"))
    found = copier.run([ORDERS])
    assert "it is in mode READWRITE there" in found.items["A.orders-value"]
    source.delete("orders-value", 2, permanent=True)
    target.register("A.orders-value", record("a", "there"))
    copier.forget()
    assert copier.run([ORDERS]) == CopyRound(copied=1)  # nothing is to be done
    source.register("orders-value", record("a", "b"))
    source.register("orders-value", record("a", "b", "c"))
    source.delete("orders-value", 1)
    target.asked.clear()
    found = copier.run([ORDERS])
    assert found.clashing == {"A.orders-value"}
    assert writes(target) == []


def test_soft_deleted_versions_of_others_are_not_deleted_for_good(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    target.register("A.orders-value", record("theirs"))
    target.delete("A.orders-value", 1)
    source.register("orders-value", record("a"))
    assert copier.run([ORDERS]).clashing == {"A.orders-value"}
    assert target.deleted("A.orders-value") == [1]


def test_into_a_context_what_has_the_same_id_there_does_not_matter(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    for number in range(41):
        target.register("other-value", record(f"x{number}"))
    order = source.register("orders-value", record("a"))
    into = SchemaRegistry(target.settings, "A")
    assert Copier(SchemaRegistry(source.settings), into).run([ORDERS]) == CopyRound(copied=1)
    assert target.ids(":.A:A.orders-value") == {1: order}
    assert into.subjects() == ["A.orders-value"]
    assert into.subjects_of(order) == [("A.orders-value", 1)]


def test_a_registry_that_gives_ids_of_its_own_is_found_out(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    target.gives_ids = True
    source.register("orders-value", record("a"))
    found = copier.run([ORDERS])
    assert found.clashing == {"A.orders-value"}
    assert "gives ids of its own" in found.items["A.orders-value"]
    assert target.deleted("A.orders-value") == list(target.ids("A.orders-value"))


def test_what_such_a_registry_had_already_is_not_taken_for_a_stray(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    source.register("orders-value", record("a"))
    target.register("A.orders-value", record("gone"))
    theirs = target.register("A.orders-value", record("a"))
    target.delete("A.orders-value", 1, permanent=True)
    target.modes["A.orders-value"] = "IMPORT"
    target.gives_ids = True
    assert copier.run([ORDERS]).clashing == {"A.orders-value"}
    assert target.ids("A.orders-value") == {2: theirs}
    assert target.deleted("A.orders-value") == []


def test_a_registry_that_is_down_is_reported_as_down(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    source.register("orders-value", record("a"))
    for registry in (source, target):
        registry.down = True
        with pytest.raises(UnansweredError, match="HTTP 503"):
            copier.run([ORDERS])
        registry.down = False
    assert copier.run([ORDERS]) == CopyRound(copied=1)


def test_a_registry_that_says_null_of_nothing_is_one(
    source: RegistryStandIn, target: RegistryStandIn, copier: Copier
) -> None:
    target.says_null = True
    check_registry(target.settings)
    assert SchemaRegistry(target.settings).subjects() == []
    source.register("orders-value", record("a"))
    assert copier.run([ORDERS]) == CopyRound(copied=1)
    assert SchemaRegistry(target.settings).subjects() == ["A.orders-value"]


@pytest.mark.parametrize("login", [{"login": ("ann", "hunter22")}, {"token": "a" * 20}])
def test_logging_in(login: dict[str, Any]) -> None:
    with registry_stand_in(**login) as source, registry_stand_in(**login) as target:
        source.register("orders-value", record("a"))
        copier = Copier(SchemaRegistry(source.settings), SchemaRegistry(target.settings))
        assert copier.run([ORDERS]) == CopyRound(copied=1)
