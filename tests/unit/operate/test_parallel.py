"""Links asked at once: what can be known of each is, and the exit code says what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from threading import Barrier
from typing import Any, cast

import pytest

from causeway.cli import lists
from causeway.cli import status as shown
from causeway.cli.common import console
from causeway.cluster import ask_each, reach, silent_clusters
from causeway.config import ClientSettings, LinkSettings, RunSettings, Settings
from causeway.errors import AuthenticationError, UnreachableError
from causeway.link_topics import EventRecord
from causeway.model import State
from causeway.operate import listing
from causeway.status import DriverStatus, LinkStatus, as_json, from_clusters, health
from tests.builders.settings import link
from tests.builders.status import partition_status
from tests.harness.statuses import ends

AWAY = UnreachableError("reach", "cluster A", "no broker answered in 10 s", retriable=True)
THERE = link()
BACK = replace(
    THERE,
    source=THERE.target,
    target=THERE.source,
    source_admin=THERE.target_admin,
    target_admin=THERE.source_admin,
)
BOTH = Settings(links=(THERE, BACK), run=RunSettings(), spark={})


def found_of(each: LinkSettings, *_: object) -> LinkStatus:
    """A is gone: what B has of A is known, what A has of B is not."""
    if each is BACK:
        raise AWAY
    driver = DriverStatus(owner="host-1", running=True, last_seen_ms=0)
    partitions = (partition_status("orders", state=State.RUNNING),)
    return LinkStatus(**ends(each), driver=driver, partitions=partitions, problems=())


class AtOnce:
    """A cluster that fails when all of them have been asked."""

    def __init__(self, barrier: Barrier) -> None:
        self._barrier = barrier

    def bootstrap_check(self, timeout_s: float) -> None:
        assert timeout_s == 10
        self._barrier.wait(30)
        raise AWAY


def test_all_are_asked_at_once() -> None:
    barrier = Barrier(2)

    def ask(each: LinkSettings) -> str:
        barrier.wait(30)
        return each.name

    assert ask_each((THERE, BACK), ask) == ["A->B", "B->A"]
    assert ask_each((), ask) == []


def test_silent_clusters_are_waited_for_once_and_at_once() -> None:
    cluster = AtOnce(Barrier(2))

    found = silent_clusters((THERE, BACK), cast(Any, lambda _: cluster))

    assert found == {"A": AWAY, "B": AWAY}


def test_who_is_not_let_in_is_not_silent() -> None:
    class Refusing:
        def bootstrap_check(self, _: float) -> None:
            raise AuthenticationError("log in")

    assert silent_clusters((THERE,), cast(Any, lambda _: Refusing())) == {}


def test_a_link_s_clusters_are_reached_at_once() -> None:
    cluster = AtOnce(Barrier(2))

    with pytest.raises(UnreachableError):
        from_clusters.status_of(THERE, cast(Any, lambda _: cluster), None)


def test_a_client_s_own_shorter_timeout_is_kept() -> None:
    class Hurried:
        def bootstrap_check(self, timeout_s: float) -> None:
            assert timeout_s == 2

    client = ClientSettings(alias="A", bootstrap=(("a", 1),), request_timeout_ms=2000)
    reach(cast(Any, lambda _: Hurried()), client)


def test_a_link_that_cannot_be_asked_says_so_and_the_other_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(from_clusters, "status_of", found_of)

    links = from_clusters.status(BOTH)

    assert [str(each.state) for each in links] == ["mirroring", "unknown"]
    there, back = as_json(links)["links"]
    assert (there["error"], len(there["partitions"])) == (None, 1)
    assert (back["state"], back["error"], back["driver"]) == ("unknown", str(AWAY), None)
    console().print(shown.render(links, 80))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("orders ") for line in lines)
    assert f"B->A: unknown {AWAY}" in lines
    assert health.unasked(links) == 3
    assert health.verdict(links) == 3
    assert health.unasked(links[:1]) == 0
    stopped = replace(links[0], driver=None)
    assert health.verdict((stopped, links[1])) == 9, "what is known counts more"


def test_where_no_link_can_be_asked_that_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_clusters, "status_of", found_of)

    with pytest.raises(UnreachableError, match="cluster A"):
        from_clusters.status(replace(BOTH, links=(BACK,)))


def noted_of(each: LinkSettings, _: object) -> list[listing.EventLine]:
    if each is BACK:
        raise AWAY
    event = EventRecord(number=1, at=5, level="info", event="leading", about={})
    return [listing.EventLine(link=each.name, event=event)]


@pytest.mark.parametrize(("command", "key"), [(lists.topics, "topics"), (lists.events, "events")])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_list_without_a_link_says_so(
    command: Callable[..., int],
    key: str,
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(listing, "status_of", found_of)
    monkeypatch.setattr(listing, "_events_of", noted_of)
    monkeypatch.setattr(lists, "load", lambda *_, **__: BOTH)
    more = {"limit": 50} if command is lists.events else {}

    assert command("mm2.properties", as_json=as_json, **more) == 3

    said = capsys.readouterr()
    if as_json:
        found = json.loads(said.out)
        assert [one["link"] for one in found[key]] == ["A->B"]
        assert found["errors"] == [{"link": "B->A", "error": str(AWAY)}]
    else:
        assert "A->B" in said.out
        assert said.err == f"causeway: error: B->A: {AWAY}\n"


def test_the_newest_events_are_of_all_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def noted(each: LinkSettings, _: object) -> list[listing.EventLine]:
        ats = (1, 4) if each is THERE else (2, 3)
        return [
            listing.EventLine(
                link=each.name,
                event=EventRecord(number=at, at=at, level="info", event="leading", about={}),
            )
            for at in ats
        ]

    monkeypatch.setattr(listing, "_events_of", noted)

    found = listing.events(BOTH, limit=3)

    assert [one.event.at for one in found.lines] == [2, 3, 4]
