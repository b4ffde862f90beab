"""The ids of schemas in records, on the way: what is written anew, what waits, what passes."""

from __future__ import annotations

import struct
import threading
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from causeway.errors import CausewayError, UnreachableError
from causeway.records import PlainRecord
from causeway.relay import Topics, TreatmentStep, treatment_of
from causeway.relay.treatment import Treatment, TreatmentNotReadyError
from causeway.schemas import SchemaRegistry, UnansweredError, ids
from tests.harness.registry_stand_in import RegistryStandIn, registry_stand_in

TOPICS = Topics("orders", "A.orders")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("causeway.schemas.registry.LATE_S", ())


@pytest.fixture
def source() -> Iterator[RegistryStandIn]:
    with registry_stand_in() as registry:
        yield registry


@pytest.fixture
def target() -> Iterator[RegistryStandIn]:
    """Its ids 1, 2 and 3 are other schemas."""
    with registry_stand_in() as registry:
        for number in range(3):
            registry.register("taken-value", f'"{number}"')
        yield registry


def made(source: RegistryStandIn, target: RegistryStandIn, **more: Any) -> Treatment:
    registries = {"source": source.settings.as_json(), "target": target.settings.as_json()}
    settings = {
        "registries": registries,
        "context": "",
        "names": "mirror",
        "parts": ["key", "value"],
        "unknown": "stop",
    }
    return treatment_of([TreatmentStep(kind="schema-ids", settings=settings | more)])


def framed(id: int, data: bytes = b"data") -> bytes:
    return struct.pack(">bI", 0, id) + data


def record(value: bytes | None, key: bytes | None = None, *headers: Any) -> PlainRecord:
    return PlainRecord(17, 1_000, key, value, list(headers))


def through(treatment: Treatment, *records: PlainRecord) -> list[Any]:
    """As a lane does it: what lacks is found out, once."""
    try:
        return list(treatment.treat(TOPICS, records))
    except TreatmentNotReadyError:
        treatment.prepare()
        return list(treatment.treat(TOPICS, records))


def test_ids_that_clash_become_the_targets_and_the_rest_stays(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    key = source.register("orders-key", '"string"')
    value = source.register("orders-value", '"long"')
    assert (key, value) == (1, 2)
    before = record(framed(value, b"v"), framed(key, b"k"), ("h", b"\0"), ("n", None))
    (after,) = through(made(source, target), before)
    there = {part: target.ids(f"A.orders-{part}")[1] for part in ("key", "value")}
    assert set(there.values()) == {4, 5}
    assert after.value == framed(there["value"], b"v")
    assert after.key == framed(there["key"], b"k")
    assert (after.offset, after.timestamp, after.headers) == (17, 1_000, before.headers)


def test_another_lane_comes_to_the_same(source: RegistryStandIn, target: RegistryStandIn) -> None:
    old, new = (source.register("orders-value", f'"{kind}"') for kind in ("int", "long"))
    one = through(made(source, target), record(framed(new)), record(framed(old)))
    other = through(made(source, target), record(framed(new)), record(framed(old)))
    assert [each.value for each in one] == [each.value for each in other]
    assert list(target.ids("A.orders-value").values()) == [4, 5]


def test_what_has_no_id_or_the_same_is_the_same_object(source: RegistryStandIn) -> None:
    with registry_stand_in() as alike:
        id = source.register("orders-value", '"long"')
        records = [record(None), record(b""), record(b"\1abcdefgh"), record(framed(id))]
        after = through(made(source, alike), *records)
        assert all(one is other for one, other in zip(records, after, strict=True))


def test_small_numbers_are_no_ids(source: RegistryStandIn, target: RegistryStandIn) -> None:
    """Their first five bytes are zero, and no registry gives the id 0."""
    small = [record(struct.pack(">q", number), struct.pack(">q", number)) for number in (0, 5)]
    after = made(source, target).treat(TOPICS, small)
    assert all(one is other for one, other in zip(small, after, strict=True))


def test_a_known_schema_id_needs_no_request(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    id = source.register("orders-value", '"long"')
    treatment = made(source, target)
    through(treatment, record(framed(id)))
    source.down = target.down = True
    (after,) = treatment.treat(TOPICS, [record(framed(id, b"more"))])
    assert after is not None
    assert after.value == framed(4, b"more")


def test_ids_and_guids_in_headers(source: RegistryStandIn, target: RegistryStandIn) -> None:
    reference = {"name": "m", "subject": "money", "version": 1}
    source.register("money", "money")
    target.register("money", "older")  # so it has another number there
    id = source.register("orders-value", "order", "PROTOBUF", [reference])
    version = SchemaRegistry(source.settings).version("orders-value", 1)
    assert version is not None
    assert version.guid is not None
    guid = b"\1" + uuid.UUID(version.guid).bytes + b"\2\1"
    name = "__value_schema_id"
    by_guid = record(b"\0no id", None, ("a", b"1"), (name, b"earlier"), (name, guid))
    by_id = record(b"data", None, (name, framed(id, b"\0")))
    by_null = record(framed(id), None, (name, None))
    one, two, three = through(made(source, target), by_guid, by_id, by_null)
    there = SchemaRegistry(target.settings).version("A.orders-value", 1)
    assert there is not None
    assert there.guid not in (None, version.guid)
    expected = b"\1" + uuid.UUID(there.guid).bytes + b"\2\1"
    assert one.headers == [("a", b"1"), (name, b"earlier"), (name, expected)]
    assert one.value == b"\0no id"
    assert (two.headers, two.value) == ([(name, framed(there.id, b"\0"))], b"data")
    assert (three.headers, three.value) == ([(name, None)], framed(there.id))


def test_a_guid_is_that_of_its_context(source: RegistryStandIn, target: RegistryStandIn) -> None:
    """In another context, the id that it has there is another schema's here."""
    source.register(":.X:orders-value", "wanted")
    source.register("orders-value", "another")
    source.register("orders-value", "wanted")
    versions = [
        SchemaRegistry(source.settings).version("orders-value", number) for number in (1, 2)
    ]
    another, wanted = (version for version in versions if version is not None)
    elsewhere = SchemaRegistry(source.settings, "X").version("orders-value", 1)
    assert elsewhere is not None
    assert wanted.guid is not None
    assert (elsewhere.id, elsewhere.guid) == (another.id, wanted.guid)
    name = "__value_schema_id"
    guid = b"\1" + uuid.UUID(wanted.guid).bytes
    (after,) = through(made(source, target), record(b"data", None, (name, guid)))
    assert after.headers == [(name, guid)]  # the same schema has the same there
    assert target.ids("A.orders-value") == {1: 4, 2: 5}


def test_an_unknown_id_waits_and_says_why_without_quoting_it(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    treatment = made(source, target)
    for _ in range(2):
        with pytest.raises(
            TreatmentNotReadyError, match="the value at offset 17 of orders"
        ) as caught:
            treatment.treat(TOPICS, [record(framed(77777))])
        with pytest.raises(CausewayError, match="does not know its schema"):
            treatment.prepare()
        assert "77777" not in str(caught.value)
    with pytest.raises(TreatmentNotReadyError, match="does not know its schema"):
        treatment.treat(TOPICS, [record(framed(77777))])


def test_one_that_waits_holds_up_no_other(source: RegistryStandIn, target: RegistryStandIn) -> None:
    """`prepare` is called for all flows of a link at once, by another thread than met them."""
    id = source.register("orders-value", '"long"')
    treatment = made(source, target)

    def meet() -> None:
        for value in (framed(77777), framed(id)):
            with pytest.raises(TreatmentNotReadyError):
                treatment.treat(TOPICS, [record(value)])

    lane = threading.Thread(target=meet)
    lane.start()
    lane.join()
    treatment.prepare()
    (after,) = treatment.treat(TOPICS, [record(framed(id))])
    assert after is not None
    assert after.value == framed(4)


def test_an_answer_that_makes_no_sense_holds_up_no_other(
    source: RegistryStandIn, target: RegistryStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd, id = (source.register("orders-value", f'"{kind}"') for kind in ("int", "long"))
    treatment = made(source, target)
    answers = SchemaRegistry.subjects_of

    def without_subject(registry: SchemaRegistry, id: int) -> list[tuple[str, int]]:
        if id == odd:
            raise KeyError("subject")
        return answers(registry, id)

    monkeypatch.setattr(SchemaRegistry, "subjects_of", without_subject)
    with pytest.raises(CausewayError, match="cannot be understood"):
        through(treatment, record(framed(odd)))
    (after,) = through(treatment, record(framed(id)))
    assert after.value == framed(target.ids("A.orders-value")[2])


def test_an_id_that_becomes_known_goes_on(source: RegistryStandIn, target: RegistryStandIn) -> None:
    treatment = made(source, target)
    with pytest.raises(CausewayError, match="does not know"):
        through(treatment, record(framed(1)))
    source.register("orders-value", '"long"')
    (after,) = through(treatment, record(framed(1)))
    assert after.value == framed(4)


def test_unknown_ids_pass_if_that_is_wanted_others_do_not_suffer(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    id = source.register("orders-value", '"long"')
    treatment = made(source, target, unknown="pass")
    odd = record(framed(77777))
    with pytest.raises(TreatmentNotReadyError):
        treatment.treat(TOPICS, [odd])
    treatment.prepare()
    assert treatment.treat(TOPICS, [odd])[0] is odd
    (after,) = through(treatment, record(framed(id)))
    assert after.value == framed(4)


def test_keys_that_are_numbers_are_left_alone_by_parts(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    id = source.register("orders-value", '"long"')
    number = struct.pack(">q", 77777)
    (after,) = through(made(source, target, parts=["value"]), record(framed(id), number))
    assert (after.key, after.value) == (number, framed(4))


@pytest.mark.parametrize("unknown", ["stop", "pass"])
def test_a_registry_that_is_down_is_waited_for(
    source: RegistryStandIn, target: RegistryStandIn, unknown: str
) -> None:
    id = source.register("orders-value", '"long"')
    treatment = made(source, target, unknown=unknown)
    for registry in (source, target):
        registry.down = True
        with pytest.raises(UnreachableError, match=f"by the registry {registry.url}"):
            through(treatment, record(framed(id)))
        registry.down = False
    (after,) = through(treatment, record(framed(id)))
    assert after.value == framed(4)


@pytest.mark.parametrize("unknown", ["stop", "pass"])
def test_a_schema_that_the_target_refuses_never_passes(
    source: RegistryStandIn, target: RegistryStandIn, unknown: str
) -> None:
    id = source.register("orders-value", "odd")
    target.incompatible.add("odd")
    with pytest.raises(CausewayError, match=r"refuses the schema: .*incompatible"):
        through(made(source, target, unknown=unknown), record(framed(id)))


def test_the_subject_of_the_topic_comes_first_others_keep_their_names(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    """The same schema has one id, whatever subjects it is in."""
    id = source.register("a.Order", '"long"')
    assert source.register("orders-value", '"long"') == id
    other = source.register("b.Order", '"int"')
    through(made(source, target), record(framed(id)), record(framed(other)))
    assert target.ids("A.orders-value") == {1: 4}
    assert target.ids("a.Order") == {}
    assert target.ids("b.Order") == {1: 5}


def test_the_subject_of_another_topic_follows_that_topic(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    """As of records that were put into a topic for those to be tried again."""
    id = source.register("payments-value", '"long"')
    own = target.register("payments-value", '"mine"')
    through(made(source, target), record(framed(id)))
    assert target.ids("payments-value") == {1: own}
    assert target.ids("A.payments-value") == {1: own + 1}


def test_a_registry_that_is_silent_is_not_waited_for_by_one_flow_after_the_other(
    source: RegistryStandIn, target: RegistryStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def silent(*_: Any) -> None:
        nonlocal now
        now += 10
        raise UnansweredError("it does not answer in time", passing=True)

    known = source.register("orders-value", '"long"')
    treatment = made(source, target)
    with monkeypatch.context() as patched:
        patched.setattr(ids, "time", SimpleNamespace(monotonic=lambda: now))
        patched.setattr(SchemaRegistry, "subjects_of", silent)
        for _ in range(64):
            with pytest.raises(UnreachableError, match="does not answer in time"):
                through(treatment, record(framed(known)))
        assert now == 10
        now += 10
        patched.undo()
        patched.setattr(ids, "time", SimpleNamespace(monotonic=lambda: now))
        (after,) = through(treatment, record(framed(known)))
    assert after.value == framed(4)


def test_a_recreated_subject_is_another_one(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    """Its versions are numbered from 1 again; ids go on."""
    first = source.register("orders-value", '"long"')
    treatment = made(source, target)
    through(treatment, record(framed(first)))
    source.register("taken-value", '"other"')  # so that ids go on
    source.delete("orders-value", 1, permanent=True)
    second = source.register("orders-value", '"int"')
    assert second != first
    old, new = through(treatment, record(framed(first)), record(framed(second)))
    there = SchemaRegistry(target.settings).version("A.orders-value", 2)
    assert there is not None
    assert there.schema.text == '"int"'
    assert (old.value, new.value) == (framed(4), framed(there.id))


def test_ids_of_versions_that_were_deleted_are_still_known(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    id = source.register("orders-value", '"long"')
    source.register("orders-value", '"int"')
    source.delete("orders-value", 1)
    (after,) = through(made(source, target), record(framed(id)))
    assert after.value == framed(4)
