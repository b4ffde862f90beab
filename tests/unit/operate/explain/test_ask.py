"""Of which kind a name is, and names that nothing can have."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest

from causeway.config import RunSettings, Settings
from causeway.errors import ConfigError
from causeway.operate.explain import SubjectKind, known
from tests.builders.settings import link

SETTINGS = Settings(links=(link("A", "B"),), run=RunSettings(), spark={})
GROUPS = {"team a: orders"}
TOPICS = {"orders"}


class Known:
    """What both clusters tell: the topic `orders` and the group `team a: orders`."""

    complete = True

    def __init__(self, link: Any, *_: object) -> None:
        self.link = link

    def has(self, kind: SubjectKind, name: str, partition: int | None) -> bool:
        if kind is SubjectKind.GROUP:
            return name in GROUPS
        return name in TOPICS and partition in (None, 0)

    def all_topics(self) -> set[str]:
        return TOPICS

    def all_groups(self) -> set[str]:
        return GROUPS

    def upstream(self, _: str) -> None:
        return None

    def explain(self, kind: SubjectKind, name: str, partition: int | None) -> str:
        return f"group {name}" if kind is SubjectKind.GROUP else f"topic {name}, {partition}"


@pytest.fixture(autouse=True)
def _clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def clusters() -> Any:
        yield None

    monkeypatch.setattr(known, "clusters", clusters)
    monkeypatch.setattr(known, "silent_clusters", lambda *_: {})
    monkeypatch.setattr(known, "Known", Known)


def explained(name: str, kind: SubjectKind | None = None) -> tuple[Any, ...]:
    return known.explain(SETTINGS, name, kind=kind)


@pytest.mark.parametrize("name", ["or/ders", "päckchen", "t" * 250, ".."])
def test_it_is_not_said_where_an_impossible_topic_would_go(name: str) -> None:
    with pytest.raises(ConfigError, match="no topic can have that name") as raised:
        explained(name)
    assert "would go to" not in str(raised.value)
    assert "there is no group with that name" in str(raised.value)

    with pytest.raises(ConfigError, match="no topic can have that name") as raised:
        explained(name, SubjectKind.TOPIC)
    assert "if it came" not in str(raised.value)


def test_an_empty_name_is_none() -> None:
    with pytest.raises(ConfigError, match="explain a name: it is empty"):
        explained("")


def test_a_misspelled_name_gets_the_similar_one_as_a_hint() -> None:
    with pytest.raises(ConfigError, match="like it: orders"):
        explained("orders$")


def test_a_group_may_have_any_name() -> None:
    assert explained("team a: orders") == ("group team a: orders",)


def test_a_topic_and_its_partition() -> None:
    assert explained("orders") == ("topic orders, None",)
    assert explained("orders-0") == ("topic orders, 0",)


def test_an_unknown_topic_is_shown_with_the_target_that_it_would_have() -> None:
    with pytest.raises(ConfigError, match=r"if it existed: on A->B it would go to A\.later"):
        explained("later")
