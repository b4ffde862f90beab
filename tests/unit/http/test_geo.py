"""ChosenTopics topics over HTTP: what is shown of them, and that what is asked for is done."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from causeway import geo
from causeway.config import LinkSettings
from causeway.errors import CausewayError, ConfigError, ConflictError, UnreachableError
from tests.builders.geo import GEO, Clusters, look
from tests.builders.served import TOKEN, client
from tests.harness.statuses import replace

API = "/api/v1/geo"


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    found = Clusters()
    found.put_in(monkeypatch)
    return found


@pytest.fixture
def api(clusters: Clusters) -> Iterator[TestClient]:
    with client(look, GEO) as found:
        yield found


def test_chosen_topics_are_shown_with_who_chose_them_and_how_far_they_are(api: TestClient) -> None:
    (to,) = api.get(API).json()["items"]
    assert to == {
        "destination": "B",
        "link": "A->B",
        "origin": "A",
        "role": "leading",
        "topics": 2,
    }
    bills, orders = api.get(f"{API}/topics").json()["items"]
    assert (orders["state"], orders["target_topic"], orders["who"]) == (
        "paused",
        "A.orders",
        "anna@ops",
    )
    assert (bills["state"], bills["partitions"], bills["target_topic"]) == ("waiting", 0, "A.bills")
    (found,) = api.get(f"{API}/topics?search=ORD&destination=B").json()["items"]
    assert found["topic"] == "orders"
    assert api.get(f"{API}/topics?destination=C").status_code == 404
    told = api.get("/api/v1/directives").json()
    assert [each["do"] for each in told["items"]] == ["pause"], "what is chosen is not asked for"


def test_a_run_of_a_file_has_no_destinations(clusters: Clusters) -> None:
    with client() as api:
        assert api.get(API).json()["total"] == 0
        assert api.get(f"{API}/topics").json()["items"] == []
        answer = api.post(f"{API}/destinations/B/topics", json={"topics": ["orders"]})
        assert answer.status_code == 404
    assert clusters.asked == []


def test_what_is_asked_for_is_done(api: TestClient, clusters: Clusters) -> None:
    wish = {"who": "anna", "reason": "Lyon"}
    said = {"who": "anna@testclient", "reason": "Lyon", "wait_s": 10.0}
    answer = api.post(f"{API}/destinations/B/topics", json={"topics": ["a", "b"], **wish})
    assert answer.status_code == 200, answer.text
    assert [each["topic"] for each in answer.json()["topics"]] == ["a", "b"]
    assert clusters.asked.pop() == {"action": "add", "names": ["a", "b"], **said}
    for action in ("pause", "resume", "remove"):
        answer = api.post(f"{API}/destinations/B/topics/a/{action}", json=wish)
        assert answer.status_code == 200, answer.text
        assert clusters.asked.pop() == {"action": action, "names": ["a"], **said}
    clusters.refused = "its file lets nobody choose"
    answer = api.post(f"{API}/destinations/B/topics", json={"topics": ["a"]})
    assert (answer.status_code, answer.json()["refused"]) == (202, clusters.refused)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("add", "topic a", "there is no topic of that name"), 400),
        (ConflictError("write directives", "A->B", "somebody else"), 409),
        (UnreachableError("connect", "B", "no broker answered"), 503),
    ],
)
def test_what_is_not_done_says_why(
    api: TestClient, clusters: Clusters, error: CausewayError, status: int
) -> None:
    clusters.error = error
    answer = api.post(f"{API}/destinations/B/topics", json={"topics": ["a"]})
    assert answer.status_code == status
    assert answer.json()["message"] == str(error)


@pytest.mark.parametrize("body", [{}, {"topics": []}, {"topics": "a"}, {"topics": ["a"] * 1001}])
def test_what_cannot_be_meant_is_refused(api: TestClient, clusters: Clusters, body: Any) -> None:
    assert api.post(f"{API}/destinations/B/topics", json=body).status_code == 400
    assert clusters.asked == []


def test_what_could_be_chosen(api: TestClient, clusters: Clusters) -> None:
    for search, found in (("", ["bills", "items", "users"]), ("ITE", ["items"]), ("x", [])):
        assert api.get(f"{API}/destinations/B/available?search={search}").json() == found
    assert api.get(f"{API}/destinations/B/available?limit=1").json() == ["bills"]
    clusters.error = UnreachableError("connect", "A", "no broker answered")
    assert api.get(f"{API}/destinations/B/available").status_code == 503
    assert api.get(f"{API}/destinations/C/available").status_code == 404


def test_a_choice_without_the_token_is_refused(clusters: Clusters) -> None:
    with client(look, GEO, token=TOKEN) as api:
        answer = api.post(f"{API}/destinations/B/topics", json={"topics": ["a"]})
        assert answer.status_code == 401
        assert api.get(f"{API}/topics").status_code == 401
    assert clusters.asked == []


def test_a_destination_that_does_not_answer_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()
    away = replace(GEO, target=replace(GEO.target, alias="C"))

    def ask(link: LinkSettings, _: str) -> Sequence[str]:
        if link is away:
            assert released.wait(60)
        return (link.name,)

    monkeypatch.setattr(geo, "available_topics", ask)
    with client(look, GEO, away) as api, ThreadPoolExecutor(5) as pool:
        paths = [f"{API}/destinations/{name}/available" for name in "CCCCB"]
        *waiting, other = [pool.submit(api.get, path) for path in paths]
        try:
            assert other.result(30).json() == [GEO.name]
        finally:
            released.set()
        assert [each.result().json() for each in waiting] == [[away.name]] * 4
