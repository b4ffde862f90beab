"""References that form a circle are an error wherever references are followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from causeway.schemas import CircularError, IdLookup, Ids, SchemaRegistry, Unknown
from causeway.schemas.copying import SubjectPair
from causeway.schemas.link import Copier, IdTranslator
from causeway.transform.schema_formats import Schemas
from causeway.transform.schema_formats import registry as transforms
from causeway.transform.schema_formats.codecs import REFERS_TO_ITSELF
from tests.harness.registry_stand_in import RegistryStandIn, registry_stand_in

A, B, GOOD = (SubjectPair(source=name, target=name) for name in ("a", "b", "good"))


def reference(subject: str, version: int = 1) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "version": version}


@pytest.fixture
def source() -> Iterator[RegistryStandIn]:
    """Where a and b refer to each other, and a is known as id 1."""
    with registry_stand_in() as registry:
        registry.register("a", "a")
        registry.register("b", "b", references=[reference("a")])
        registry.register("good", '"int"')
        registry.refer("a", 1, [reference("b")])
        yield registry


@pytest.fixture
def target() -> Iterator[RegistryStandIn]:
    with registry_stand_in() as registry:
        yield registry


def test_ids_are_not_translated(source: RegistryStandIn, target: RegistryStandIn) -> None:
    one = IdTranslator(SchemaRegistry(source.settings), SchemaRegistry(target.settings))
    with pytest.raises(CircularError, match="a version 1 -> b version 1 -> a version 1"):
        one.there(A, 1)
    with pytest.raises(CircularError):
        one.missing(A)
    done = one.run([A, B, GOOD])
    assert (done.copied, done.clashing, done.waiting) == (1, set("ab"), set())
    assert "refers to itself: b version 1 -> a version 1 -> b version 1" in done.items["b"]


def test_records_get_the_reason(source: RegistryStandIn, target: RegistryStandIn) -> None:
    ids = Ids(SchemaRegistry(source.settings), SchemaRegistry(target.settings), "source")
    asked = IdLookup(source="t", target="t", part="value", name=1)
    ids.get(asked)
    ids.find_out()
    found = ids.get(asked)
    assert isinstance(found, Unknown)
    assert found.reason.startswith(f"the registry {source.url}: its schema refers to itself")


def test_copies_clash(source: RegistryStandIn, target: RegistryStandIn) -> None:
    done = Copier(SchemaRegistry(source.settings), SchemaRegistry(target.settings)).run([A, GOOD])
    assert (done.copied, done.clashing, done.waiting) == (1, set("ab"), set())
    assert "refers to itself: a version 1 -> b version 1 -> a version 1" in done.items["a"]
    assert list(target.ids("good")) == [1]


def test_a_transform_refuses_the_record(source: RegistryStandIn) -> None:
    client = transforms.WorkerRegistry(source.settings.as_json())
    schemas = Schemas(client, {"value": "avro"})
    assert schemas.decode("value", b"\0\0\0\0\1x") == (None, REFERS_TO_ITSELF.format("value"))


def test_more_levels_than_any_schema_has_are_an_error_too(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    for level in range(300):
        below = [reference(f"s{level - 1}")] if level else []
        source.register(f"s{level}", f'"{level}"', references=below)
    top = SubjectPair(source="s299", target="s299")
    one = IdTranslator(SchemaRegistry(source.settings), SchemaRegistry(target.settings))
    assert "levels of references" in one.run([top]).items["s299"]
    done = Copier(SchemaRegistry(source.settings), SchemaRegistry(target.settings)).run([top])
    assert "levels of references" in done.items["s299"]


def test_schemas_that_share_what_they_refer_to_are_no_circle(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    """And what many paths lead to is asked for once."""
    source.register("d0", "0")
    for level in range(1, 20):
        twice = [reference(f"d{level - 1}"), {**reference(f"d{level - 1}"), "name": "again"}]
        source.register(f"d{level}", f"{level}", references=twice)
    top = SubjectPair(source="d19", target="d19")
    one = IdTranslator(SchemaRegistry(source.settings), SchemaRegistry(target.settings))
    assert one.missing(top) == [1]
    assert one.run([top]).copied == 1
    assert one.missing(top) == []
    assert len(source.asked) < 200
