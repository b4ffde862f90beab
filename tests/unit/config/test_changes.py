"""What differs between two settings of a process: each value has an answer, and no secret shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from causeway.config import (
    KerberosSettings,
    KeyTable,
    OAuthSettings,
    SaslSettings,
    Secret,
    SettingChange,
    Settings,
    TicketRenewal,
    TlsSettings,
    changes,
    rows_of,
)
from causeway.config.clients import ClientKeys, ProducerKeys
from causeway.config.key_table import AS_AT_START, LIVE, Applies, key
from causeway.config.keys import FlowSwitch
from causeway.config.values import BOOL
from causeway.filters import compile_patterns
from causeway.formats import load

WHOLE = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
A->B.topics = orders, payments
A->B.causeway.transforms = mask
A->B.causeway.transform.mask.topics = orders
A->B.causeway.transform.mask.sql = SELECT * FROM records
A->B.causeway.transform.mask.value.format = avro
A->B.causeway.transform.mask.registry.url = http://a:8081
A->B.causeway.transform.mask.secret.pepper = pepper-of-the-transform
A->B.causeway.schemas = copy
A.causeway.registry.url = http://a:8081
A.causeway.registry.password = password-of-a
A.causeway.registry.username = ann
B.causeway.registry.url = http://b:8081
B.causeway.registry.token = token-of-the-registry
causeway.webhook.url = https://hooks/of-a-secret
causeway.webhook.token = token-of-the-webhook
causeway.http.token = token-of-the-server
spark.master = local[2]
spark.authenticate.secret = secret-of-spark
"""
# Fields that follow from other keys of the file, or do not come from the file.
FOLLOWS = {
    "Settings": {"warnings", "rereading", "links", "heartbeat_links"},  # their items do not
    "LinkSettings": {
        "policy",  # replication.policy.*, causeway.rename
        "policy_class",
        "enabled",
        "causeway_transforms",  # transforms
        "partitioning",  # the form of the file
        "sole_writer",  # causeway.sole.writer, and the policy
        "joins",
        "stops_on_data",
        "records_paused",  # causeway.paused
        "treatments",  # causeway.provenance, causeway.skip.header, causeway.schemas
        "chosen",  # directives
        "dead_letters",  # transforms of all flows
        "renaming",  # causeway.rename of all flows
        "reverse",  # causeway.provenance and other keys of the flow back
        "places",
    },
    "ControlSettings": {"heartbeats", "mm2_aliases"},  # heartbeats of the pair; aliases of the flow
    "HeartbeatSettings": {"source", "topic"},
    "ClientSettings": {"alias"},
    "OAuthSettings": {"files"},  # their contents
    "TicketRenewal": {"path"},  # its content
    "RegistrySettings": {"timeout_ms", "place"},
    "TransformSettings": {"name", "place", "dead_letters", "registry"},  # its keys
    "TreatmentSettings": {"kind", "decides", "needs", "text"},
}
SECRET_PARTS = (
    "pepper-of-the-transform",
    "password-of-a",
    "token-of",
    "of-a-secret",
    "secret-of-spark",
    "PRIVATE",
    "a-password",
    "client-secret",
)


def settings(directory: Path, more: str = "", text: str = WHOLE) -> Settings:
    path = directory / "mm2.properties"
    path.write_text(text + more)
    return load(path)


@pytest.fixture
def whole(tmp_path: Path) -> Settings:
    """Settings with all parts that a file can have."""
    found = settings(tmp_path)
    (link,) = found.links
    secured: dict[str, Any] = {
        "tls": TlsSettings(ca_pem="CA", cert_pem="CHAIN", key_pem=Secret("PRIVATE")),
        "sasl": SaslSettings(
            mechanism="OAUTHBEARER",
            username="ann",
            password=Secret("a-password"),
            oauth=OAuthSettings(
                token_endpoint="https://a", client_id="c", client_secret=Secret("client-secret")
            ),
            kerberos=KerberosSettings(service="kafka", renewal=TicketRenewal(path="cache")),
        ),
    }
    assert link.schemas is not None
    registry = replace(link.schemas.source, ca_pem="CA")
    transform = replace(link.transforms[0], registry=registry)
    clients = {
        side: replace(getattr(link, side), **secured)
        for side in ("source", "target", "source_admin", "target_admin")
    }
    pairs = tuple(
        replace(pair, target=replace(pair.target, **secured)) for pair in found.heartbeat_links
    )
    link = replace(link, **clients, transforms=(transform,), group_id="g")
    return replace(found, links=(link,), heartbeat_links=pairs)


def mutated(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case Secret():
            return Secret("another")
        case None:
            return "x"
        case tuple():
            return value[:-1] if value else compile_patterns("x")
        case Mapping():
            return {**value, "x": Secret("x")}
    raise AssertionError(f"{value!r}: how does a test change it?")


Rebuild = Callable[[Any], Settings]


def places(value: Any, rebuild: Rebuild) -> Iterator[tuple[str, str, Any, Rebuild]]:
    """The class and the name of each field below `value`, its value, and the whole settings with
    another value in its place."""
    for each in fields(value):
        old = getattr(value, each.name)

        def put(new: Any, name: str = each.name) -> Settings:
            return rebuild(replace(value, **{name: new}))

        yield type(value).__name__, each.name, old, put
        if isinstance(old, tuple):
            for index, item in enumerate(old):
                if is_dataclass(item) and type(item).__name__ != "Pattern":

                    def put_item(new: Any, put: Any = put, old: Any = old, at: int = index) -> Any:
                        return put((*old[:at], new, *old[at + 1 :]))

                    yield from places(item, put_item)
        elif is_dataclass(old) and each.name not in FOLLOWS.get(type(value).__name__, ()):
            yield from places(old, put)


def test_a_changed_value_of_each_field_is_a_change(whole: Settings) -> None:
    """A new field of the settings must be a row, or be listed with what it follows from."""
    silent, seen = [], set()
    for owner, name, old, put in places(whole, lambda root: root):
        seen.add((owner, name))
        if is_dataclass(old) or name in FOLLOWS.get(owner, ()):
            continue
        if not changes(whole, put(mutated(old))):
            silent.append(f"{owner}.{name}")
    assert silent == []
    assert {(owner, name) for owner, names in FOLLOWS.items() for name in names} <= seen | {
        ("TreatmentSettings", name) for name in FOLLOWS["TreatmentSettings"]
    }


def tables(of: type[KeyTable] = KeyTable) -> Iterator[type[KeyTable]]:
    for each in of.__subclasses__():
        if each.__module__.startswith("causeway."):
            yield each
        yield from tables(each)


def test_each_key_of_each_table_is_compared(whole: Settings) -> None:
    names = {name for rows in rows_of(whole).values() for name in rows}
    compared = {name.removeprefix("causeway.transform.mask.") for name in names}
    found = {one.name: table.__name__ for table in tables() for one in table.all_keys()}
    assert {name: table for name, table in found.items() if name not in compared} == {}
    assert {FlowSwitch, ClientKeys, ProducerKeys} <= set(tables())


def test_certificates_of_a_registry_are_compared(whole: Settings) -> None:
    (link,) = whole.links
    (transform,) = link.transforms
    assert transform.registry is not None
    registry = replace(transform.registry, ca_pem="ANOTHER")
    other = replace(link, transforms=(replace(transform, registry=registry),))
    assert told(changes(whole, replace(whole, links=(other,)))) == [
        (
            "A->B.causeway.transform.mask.registry.ssl.truststore.certificates",
            "(hidden)",
            "(changed)",
        )
    ]


def test_a_key_without_an_answer_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match=r"a\.key must say when a running process applies"):

        class Forgetful(KeyTable):
            a: bool = key("a.key", BOOL, False, "A key.")

    class Careful(KeyTable, applies=LIVE):
        a: bool = key("a.key", BOOL, False, "A key.")
        b: bool = key("b.key", BOOL, False, "Another key.", applies=AS_AT_START)

    assert Careful is not None


def test_no_secret_is_shown(whole: Settings) -> None:
    for owner, name, old, put in places(whole, lambda root: root):
        if is_dataclass(old) or name in FOLLOWS.get(owner, ()):
            continue
        for found in (changes(whole, put(mutated(old))), changes(put(mutated(old)), whole)):
            assert not [part for part in SECRET_PARTS if part in repr(found)], f"{owner}.{name}"


def told(found: tuple[SettingChange, ...]) -> list[tuple[str, str | None, str | None]]:
    return [(each.place, each.before, each.after) for each in found]


def test_equal_settings_have_no_changes(tmp_path: Path) -> None:
    assert changes(settings(tmp_path), settings(tmp_path)) == ()


def test_values_are_as_a_file_has_them(tmp_path: Path) -> None:
    found = changes(
        settings(tmp_path),
        settings(
            tmp_path,
            """
A->B.topics = orders, invoices
A->B.refresh.topics.interval.seconds = 5
A->B.causeway.throttle.bytes.per.second = 1000
causeway.lease.ms = 20000
A.consumer.isolation.level = read_uncommitted
causeway.http.port = -1
causeway.webhook.token = another-token-of-it
""",
        ),
    )
    assert told(found) == [
        ("causeway.lease.ms", "10000", "20000"),
        ("causeway.http.port", "8490", "-1"),
        ("causeway.webhook.token", "(hidden)", "(changed)"),
        ("A.consumer.isolation.level", "read_committed", "read_uncommitted"),
        ("A->B.topics", "orders,payments", "orders,invoices"),
        ("A->B.refresh.topics.interval.seconds", "600", "5"),
        ("A->B.causeway.throttle.bytes.per.second", None, "1000"),
    ]


def test_what_applies_when(tmp_path: Path) -> None:
    found = changes(
        settings(tmp_path),
        settings(
            tmp_path,
            """
spark.master = local[4]
A->B.causeway.offsets = preserve
A->B.groups = billing
""",
        ),
    )
    assert {each.place: each.applies for each in found} == {
        "spark.master": Applies(restart="Spark reads its settings when it starts"),
        "A->B.causeway.offsets": AS_AT_START,
        "A->B.groups": LIVE,
    }


def test_a_change_of_all_clients_belongs_to_the_cluster(tmp_path: Path) -> None:
    both = "B->A.enabled = true\nB->A.topics = x\nreplication.policy.separator = .\n"
    before = settings(tmp_path, both)
    assert told(changes(before, settings(tmp_path, f"{both}A.bootstrap.servers = z:9092\n"))) == [
        ("A.bootstrap.servers", "a:9092", "z:9092")
    ]
    assert told(changes(before, settings(tmp_path, f"{both}A.consumer.client.id = r\n"))) == [
        ("A.consumer.client.id", "causeway", "r")
    ]
    assert told(
        changes(before, settings(tmp_path, f"{both}B->A.producer.override.client.id = w\n"))
    ) == [("A.producer.client.id", "causeway", "w")]


def test_a_change_of_one_client_belongs_to_its_flow(tmp_path: Path) -> None:
    both = "clusters = A, B, C\nC.bootstrap.servers = c:9092\nA->C.enabled = true\n"
    before = settings(tmp_path, both)
    after = settings(tmp_path, f"{both}A->C.source.consumer.fetch.max.bytes = 77\n")
    assert told(changes(before, after)) == [
        ("A->C.source.consumer.fetch.max.bytes", "52428800", "77")
    ]


def test_added_and_removed_flows_and_clusters(tmp_path: Path) -> None:
    before = settings(tmp_path)
    after = settings(
        tmp_path, "clusters = A, B, C\nC.bootstrap.servers = c:9092\nA->C.enabled = true\n"
    )
    added = [
        ("C.bootstrap.servers", None, "c:9092"),
        ("A->C.enabled", "false", "true"),
        ("A->C.emit.heartbeats.enabled", "false", "true"),
        ("B->C.emit.heartbeats.enabled", "false", "true"),
        ("C->A.emit.heartbeats.enabled", "false", "true"),
        ("C->B.emit.heartbeats.enabled", "false", "true"),
    ]
    assert told(changes(before, after)) == added
    assert told(changes(after, before)) == [(place, new, old) for place, old, new in added]


def test_added_and_changed_transforms(tmp_path: Path) -> None:
    before = settings(tmp_path)
    after = settings(
        tmp_path,
        """
A->B.causeway.transforms = mask, drop
A->B.causeway.transform.drop.topics = payments
A->B.causeway.transform.drop.sql = SELECT * FROM records WHERE false
A->B.causeway.transform.mask.secret.pepper = another
""",
    )
    assert told(changes(before, after)) == [
        ("A->B.causeway.transforms", "mask", "mask,drop"),
        ("A->B.causeway.transform.mask.secret.pepper", "(hidden)", "(changed)"),
    ]
