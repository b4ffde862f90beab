"""The task that keeps a registry copied: what it counts, says, and tries again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from causeway.config import SchemaSettings
from causeway.control import MirroredTopic
from causeway.daemon.tasks.control_plane import schemas_task
from causeway.errors import AuthenticationError, UnreachableError
from causeway.filters import compile_patterns
from tests.harness.registry_stand_in import RegistryStandIn, registry_stand_in


@pytest.fixture
def source() -> Iterator[RegistryStandIn]:
    with registry_stand_in(first_id=40) as registry:
        yield registry


@pytest.fixture
def target() -> Iterator[RegistryStandIn]:
    with registry_stand_in() as registry:
        yield registry


def topics() -> list[MirroredTopic]:
    return [
        MirroredTopic(
            source=name,
            target=f"A.{name}",
            partitions=1,
            source_id="0" * 32,
            target_id="1" * 32,
            target_partitions=1,
            max_message_bytes=1,
        )
        for name in ("orders", "users")
    ]


def test_only_subjects_of_mirrored_topics_and_those_that_patterns_name(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    for subject in ("orders-key", "orders-value", "private-value", "com.shop.Money"):
        source.register(subject, {"type": "fixed", "name": subject[:3], "size": len(subject)})
    settings = SchemaSettings(
        mode="copy",
        source=source.settings,
        target=target.settings,
        subjects=compile_patterns("com[.].*"),
    )
    done = schemas_task(settings, topics).run()
    assert done.figures == {"copied": 3, "waiting": 0, "clashing": 0}
    assert not done.items
    assert not done.unfinished
    copied = {"A.orders-key", "A.orders-value", "com.shop.Money"}
    assert {name for name in copied if target.ids(name)} == copied
    assert not target.ids("private-value")
    assert not target.ids("orders-value")


@pytest.mark.parametrize("names", ["source", "both"])
def test_names_of_the_source(source: RegistryStandIn, target: RegistryStandIn, names: str) -> None:
    source.register("orders-value", "1")
    settings = SchemaSettings(
        mode="copy",
        source=source.settings,
        target=target.settings,
        names="both" if names == "both" else "source",
    )
    schemas_task(settings, topics).run()
    assert target.ids("orders-value") == {1: 40}
    assert bool(target.ids("A.orders-value")) == (names == "both")


@pytest.mark.parametrize("mode", ["copy", "translate"])
def test_a_clash_or_refusal_is_an_item_and_others_go_on(
    source: RegistryStandIn, target: RegistryStandIn, mode: str
) -> None:
    source.register("orders-value", "odd")
    source.register("users-value", "fine")
    target.register("A.orders-value", "other")
    target.incompatible.add("odd")
    settings = SchemaSettings(
        mode="copy" if mode == "copy" else "translate",
        source=source.settings,
        target=target.settings,
    )
    done = schemas_task(settings, topics).run()
    assert done.figures == {"copied": 1, "waiting": 0, "clashing": 1}
    assert set(done.items) == {"A.orders-value"}
    assert len(target.ids("A.users-value")) == 1


def test_it_waits_for_topics(source: RegistryStandIn, target: RegistryStandIn) -> None:
    settings = SchemaSettings(mode="copy", source=source.settings, target=target.settings)
    assert not schemas_task(settings, list).ready()
    assert schemas_task(settings, topics).ready()


def test_a_registry_that_is_down_is_named_and_tried_again(
    source: RegistryStandIn, target: RegistryStandIn
) -> None:
    source.register("orders-value", "1")
    settings = SchemaSettings(mode="copy", source=source.settings, target=target.settings)
    work = schemas_task(settings, topics)
    target.down = True
    with pytest.raises(UnreachableError) as caught:
        work.run()
    assert f"copy schemas by the registry {target.url}: it answered (HTTP 503)" in str(caught.value)
    target.down = False
    assert work.run().figures["copied"] == 1


def test_a_registry_that_refuses_the_login(target: RegistryStandIn) -> None:
    with registry_stand_in(token="a" * 20) as closed:
        settings = SchemaSettings(mode="copy", source=target.settings, target=target.settings)
        object.__setattr__(settings, "source", closed.settings)
        closed._token = "another" * 4
        with pytest.raises(AuthenticationError, match="denies access"):
            schemas_task(settings, topics).run()
