"""The paths of rules through schemas, whose records must not pass because the schema changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from causeway.transform.rules import Step, parse
from causeway.transform.schema_formats.avro import Avro
from causeway.transform.schema_formats.protobuf import Protobuf
from causeway.transform.schema_formats.registry import MisfitError


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


PERSON = record("Person", field("name", "string"), field("email", ["null", "string"]))
COMPANY = record("Company", field("name", "string"), field("vat", "string"))
LAB = record("Lab", field("name", "string"), field("email", "string"))


def whole(*branches: Any) -> dict[str, Any]:
    return record("Customer", field("id", "int"), field("who", list(branches)))


def paths(*texts: str) -> list[tuple[Step, ...]]:
    return [rule.path.steps or () for text in texts for rule in parse(f"mask {text}")]


def seen(schema: Any, value: Any, *texts: str) -> tuple[Any, list[bool]]:
    """What rules on these paths see of `value`, JSON as queries see it, and what the schema lacks.
    What they see is written back as it was."""
    text = json.dumps(schema)
    avro = Avro(text, (), paths(*texts))
    data = Avro(text).encode(json.dumps(value))
    found = avro.decode(data)
    assert avro.encode(found) == data
    return json.loads(found), list(avro.lacks)


def test_a_union_that_gains_an_object_keeps_the_path() -> None:
    ada = {"name": "Ada", "email": "ada@x.org"}
    wanted = {"id": 1, "who": ada}
    assert seen(whole("null", PERSON), wanted, "value.$.who.email") == (wanted, [False])
    of_two = {"id": 1, "who": {"Person": ada}}
    found, lacks = seen(whole("null", PERSON, COMPANY), of_two, "value.$.who.email")
    assert found["who"] == {"causeway.branch": "Person", **ada}
    assert lacks == [False]
    acme = {"name": "Acme", "vat": "1"}
    found, _ = seen(
        whole("null", PERSON, COMPANY), {"id": 1, "who": {"Company": acme}}, "value.$.who.email"
    )
    assert found["who"] == {"causeway.branch": "Company", **acme}
    assert seen(whole("null", COMPANY), {"id": 1, "who": acme}, "value.$.who.email")[1] == [True]


def test_branches_of_the_same_form_are_written_back_as_what_they_were() -> None:
    schema = json.dumps(whole(LAB, record("Shop", *LAB["fields"])))
    avro = Avro(schema, (), paths("value.$.who.email"))
    for branch in ("Lab", "Shop"):
        value = {"id": 1, "who": {branch: {"name": "a", "email": "b"}}}
        found = json.loads(avro.decode(Avro(schema).encode(json.dumps(value))))
        assert found["who"].pop("email") == "b"
        found["who"]["email"] = "*"
        after = Avro(schema).decode(avro.encode(json.dumps(found)))
        assert json.loads(after)["who"] == {branch: {"name": "a", "email": "*"}}


def test_paths_that_name_branches_see_them_as_queries_do() -> None:
    value = {"id": 1, "who": {"Person": {"name": "Ada", "email": "ada@x.org"}}}
    schema = whole("null", PERSON, COMPANY)
    assert seen(schema, value, "value.$.who.Person.email") == (value, [False])
    found, lacks = seen(schema, value, "value.$.who.Person.email", "value.$.who.email")
    assert "causeway.branch" in found["who"]
    assert lacks == [True, False]


def test_a_string_that_gets_an_enum_beside_it_stays_a_string() -> None:
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED"]}
    schema = whole("null", "string", colour)
    found, lacks = seen(schema, {"id": 1, "who": {"string": "RED"}}, "value.$.who")
    assert (found["who"], lacks) == ("RED", [False])
    found, _ = seen(schema, {"id": 1, "who": {"Colour": "RED"}}, "value.$.who")
    assert found["who"] == {"Colour": "RED"}


def test_a_field_that_was_renamed_with_an_alias_is_seen_under_it() -> None:
    renamed = field("mail", "string", aliases=["email"])
    schema = record("Customer", field("id", "int"), renamed)
    value = {"id": 1, "mail": "ada@x.org"}
    assert seen(schema, value, "value.$.email") == ({"id": 1, "email": "ada@x.org"}, [False])
    assert seen(schema, value, "value.$.mail") == (value, [False])
    assert seen(schema, value, "value.$.mail", "value.$.email") == (value, [False, True])
    without = record("Customer", field("id", "int"), field("mail", "string"))
    assert seen(without, value, "value.$.email") == (value, [True])
    inner = whole("null", record("P", renamed), COMPANY)
    found, lacks = seen(inner, {"id": 1, "who": {"P": {"mail": "a"}}}, "value.$.who.email")
    assert (found["who"], lacks) == ({"causeway.branch": "P", "email": "a"}, [False])


def test_paths_go_through_arrays_maps_and_types_that_name_themselves() -> None:
    node = record("Node", field("email", "string"), field("next", ["null", "Node"]))
    schema = record(
        "Customer",
        field("list", {"type": "array", "items": node}),
        field("map", {"type": "map", "values": ["null", "Node"]}),
    )
    wanted = {
        "value.$.list[*].email": False,
        "value.$.list[0].next.next.email": False,
        "value.$.map.any.email": False,
        "value.$.map.*.next": False,
        "value.$.list.email": True,
        "value.$.list[*].mail": True,
        "value.$.map[0]": True,
        "value.$.list[*].email.x": True,
        "value.$.*.*.email": False,
    }
    found = Avro(json.dumps(schema), (), paths(*wanted)).lacks
    assert dict(zip(wanted, found, strict=True)) == wanted


def test_a_field_like_the_one_that_names_a_branch_is_refused() -> None:
    schema = json.dumps(whole(PERSON, {"type": "map", "values": "string"}))
    data = Avro(schema).encode('{"id":1,"who":{"map":{"causeway.branch":"Person"}}}')
    with pytest.raises(MisfitError):
        Avro(schema, (), paths("value.$.who.email")).decode(data)


PROTO = """
syntax = "proto3";
import "google/protobuf/struct.proto";
message Customer {
  message Person { string email = 1; Person boss = 2; }
  oneof who { Person person = 1; string company = 2; }
  repeated Person staff = 3;
  map<string, Person> by_name = 4;
  google.protobuf.Struct free = 5;
}
"""


def test_paths_through_messages() -> None:
    wanted = {
        "value.$.person.email": False,
        "value.$.person.boss.boss.email": False,
        "value.$.staff[*].email": False,
        "value.$.by_name.ada.email": False,
        "value.$.by_name.*.email": False,
        "value.$.free.any.thing": False,
        "value.$.company": False,
        "value.$.company.email": True,
        "value.$.person.mail": True,
        "value.$.staff.email": True,
        "value.$.by_name.email.x": True,
        "value.$.email": True,
    }
    found = Protobuf(PROTO, (), paths(*wanted)).message(b"\0").lacks
    assert dict(zip(wanted, found, strict=True)) == wanted
