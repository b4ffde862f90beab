"""Which links a person means by the names that he said."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import Connect
from causeway.config import ClientSettings, LinkSettings, RunSettings, Settings, links_of, unknown
from causeway.errors import ConfigError, UnreachableError
from causeway.link_topics import LinkDirectives, PauseDirective, ProgressContents, Scope
from causeway.model import TopicPartition
from causeway.operate.directives import Wanted, choose, choose_answering, scopes
from tests.builders.settings import link

SOURCE = {"orders": 2, "bills": 1, "secrets": 1}  # as A has them; B has none
MIRRORED = {TopicPartition("gone", 0), TopicPartition("orders", 0)}


A_B, A_C = (link("A", target, topics_exclude="secrets") for target in "BC")
SETTINGS = Settings(links=(A_B, A_C), run=RunSettings(), spark={})
ASKED = PauseDirective(scope=Scope("soon"), who="anna@ops", at=0)


@pytest.fixture(autouse=True)
def _topics(monkeypatch: pytest.MonkeyPatch) -> None:
    class Progress:
        def __init__(self, target: Any, topic: str) -> None:
            self._is_b = topic == "__causeway.A.B.progress"

        def exists(self) -> bool:
            return self._is_b

        def read(self) -> ProgressContents:
            return ProgressContents(partitions=cast(Any, dict.fromkeys(MIRRORED)))

    class Log:
        def __init__(self, target: Any, topic: str) -> None:
            self.directives = LinkDirectives()
            if topic == "__causeway.A.C.directives":
                self.directives = LinkDirectives({ASKED.key: ASKED})

        def look(self) -> None: ...

    monkeypatch.setattr(scopes, "ProgressTopic", Progress)
    monkeypatch.setattr(scopes, "DirectiveLog", Log)


def chosen(
    link: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    *,
    ahead: bool = False,
) -> list[str]:
    topics = {name: SimpleNamespace(partitions=range(n)) for name, n in SOURCE.items()}
    cluster = SimpleNamespace(metadata=lambda _: SimpleNamespace(topics=topics))
    connect = cast(Connect, lambda _: cluster)
    wanted = Wanted(link, topic, partition, ahead)
    return [each.name for each in choose(SETTINGS, wanted, connect, "pause")]


def test_all_links_that_have_it() -> None:
    assert chosen() == ["A->B", "A->C"]
    assert chosen(link="A->C") == ["A->C"]
    assert chosen(topic="orders", partition=1) == ["A->B", "A->C"]
    assert chosen(topic="gone") == ["A->B"], "only the progress knows it by now"
    assert chosen(topic="soon") == ["A->C"], "somebody has asked something of it"
    assert chosen(topic="later", ahead=True) == ["A->B", "A->C"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"link": "A->b"}, "there is no flow of that name; like it: A->C, A->B"),
        ({"topic": "order"}, "no topic of that name; like it: orders .*named as on the source"),
        ({"topic": "secrets"}, "no topic of that name"),
        ({"topic": "orders", "partition": 7}, "it has 2 partitions, numbered from 0"),
        ({"partition": 0}, "of which topic"),
        ({"topic": "orders", "partition": -1}, "of which topic"),
        ({"topic": "secrets", "ahead": True}, "it will not be mirrored"),
    ],
)
def test_unknown_names_are_refused(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        chosen(**wanted)


def test_an_unknown_link_is_refused_with_the_names_of_all_links() -> None:
    assert links_of(SETTINGS, None, "list") == SETTINGS.links
    assert links_of(SETTINGS, "A->C", "list") == SETTINGS.links[1:]
    with pytest.raises(ConfigError, match=r"no flow of that name; there is A->B, A->C$"):
        links_of(SETTINGS, "elsewhere", "list")


def test_a_link_whose_sign_the_shell_took_is_to_be_quoted() -> None:
    """`--link A->C` without quotes: the command gets `A-`, and its output goes to the file C."""
    with pytest.raises(ConfigError, match=r"quote it: --link 'A->B'.*the file B") as raised:
        links_of(SETTINGS, "A-", "show the status of")
    assert raised.value.exit_code == 2


def test_of_many_names_the_first_are_listed() -> None:
    names = [f"topic-{number:02}" for number in range(40)]
    said = unknown("wait", "topic", "zebra", names).cause
    assert said.endswith("there is " + ", ".join(names[:10]) + " and 30 more")


def test_a_name_is_put_right_with_the_source_gone() -> None:
    def nobody(_: object) -> Any:
        raise UnreachableError("reach", "A")

    connect = cast(Connect, lambda _: SimpleNamespace(metadata=nobody))
    with pytest.raises(ConfigError, match="like it: orders"):
        choose(SETTINGS, Wanted("A->B", "odrers", None, False), connect, "fail over")
    with pytest.raises(UnreachableError):
        choose(SETTINGS, Wanted("A->B", "bills", None, False), connect, "fail over")
    with pytest.raises(UnreachableError):
        choose(SETTINGS, Wanted(None, "orders", None, False), connect, "pause")
    assert choose(SETTINGS, Wanted("A->B", "orders", None, False), connect, "fail over")


def answering(silent: str, wanted: Wanted) -> tuple[list[str], list[str]]:
    """Of A->B and A->C: the links that can be asked, and those that are left."""
    topics = {name: SimpleNamespace(partitions=range(n)) for name, n in SOURCE.items()}

    def connect(client: ClientSettings) -> Any:
        def check(_: float) -> None:
            if client.alias in silent:
                raise UnreachableError("reach", client.alias)

        def metadata(_: object) -> Any:
            assert client.alias not in silent, "it is not waited for a second time"
            return SimpleNamespace(topics=topics)

        return SimpleNamespace(bootstrap_check=check, metadata=metadata)

    found = choose_answering(SETTINGS, wanted, cast(Connect, connect), "pause")
    return [each.name for each in found.links], list(found.left)


def test_links_that_cannot_be_asked_are_left() -> None:
    whole, orders = Wanted(None, None, None, False), Wanted(None, "orders", None, False)
    assert answering("C", whole) == (["A->B"], ["A->C"])
    assert answering("A", whole) == (["A->B", "A->C"], []), "the source is not needed"
    assert answering("C", orders) == (["A->B"], ["A->C"])
    assert answering("A", orders) == (["A->B"], ["A->C"]), "only the source knows of A->C"
    with pytest.raises(ConfigError, match="no topic of that name"):
        answering("C", Wanted(None, "secrets", None, False))
    with pytest.raises(UnreachableError):
        answering("BC", whole)
    with pytest.raises(UnreachableError):
        answering("C", Wanted("A->C", None, None, False))


def test_a_target_is_waited_for_as_long_as_targets_are() -> None:
    """A failover hurries sources: B is the source of one link and the target of another one."""

    def hurried(each: LinkSettings) -> LinkSettings:
        return replace(each, source_admin=replace(each.source_admin, request_timeout_ms=4000))

    waited: dict[str, float] = {}

    def connect(client: ClientSettings) -> Any:
        def check(timeout_s: float) -> None:
            waited[client.alias] = timeout_s

        topics = {"orders": SimpleNamespace(partitions=range(1))}
        metadata = SimpleNamespace(topics=topics)
        return SimpleNamespace(bootstrap_check=check, metadata=lambda _: metadata)

    both = replace(SETTINGS, links=(hurried(A_B), hurried(link("B", "C"))))
    orders = Wanted(None, "orders", None, False)
    choose_answering(both, orders, cast(Connect, connect), "fail over", patience_s=5)
    assert waited == {"A": 4, "B": 5, "C": 5}
    alone = replace(orders, link="A->B")
    choose_answering(both, alone, cast(Connect, connect), "fail over", patience_s=5)
    assert waited["B"] == 10, "there is no other link that waits"


def test_nothing_can_be_asked_of_a_file_without_flows() -> None:
    nothing = Settings(links=(), run=RunSettings(), spark={})
    with pytest.raises(ConfigError, match="no flow is enabled"):
        choose(nothing, Wanted(None, None, None, False), cast(Connect, None), "pause")
