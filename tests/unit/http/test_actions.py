"""What is asked for over HTTP reaches the functions that write it, and their answers come back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from causeway.config import Settings
from causeway.errors import (
    AuthorizationError,
    CausewayError,
    ConfigError,
    ConflictError,
    RefusedError,
    UnreachableError,
)
from causeway.link_topics import Scope
from causeway.operate import directives
from causeway.operate.directives import DirectiveOutcome
from tests.builders.served import TOKEN, client

LINK = "/api/v1/links/A-%3EB"
SOURCE = "/connectors/A->B.MirrorSourceConnector"


class Clusters:
    """Stand in for the directives topic: note what is asked, and answer `acted` or `error`."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.acted: bool | None = True
        self.refused: str | None = None
        self.error: CausewayError | None = None

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("pause", "resume", "restart", "throttle", "step_down"):
            monkeypatch.setattr(directives, name, self._door(name))

    def _door(self, action: str) -> Any:
        def ask(settings: Settings, **said: Any) -> tuple[DirectiveOutcome, ...]:
            assert [each.name for each in settings.links] == ["A->B"]
            if self.error is not None:
                raise self.error
            self.asked.append({"action": action, **said})
            scope = Scope(said.get("topic"), said.get("partition"))
            return (
                DirectiveOutcome(
                    link=said["link"],
                    action=action,
                    scope=scope,
                    changed=True,
                    driver="ops1",
                    acted=self.acted,
                    refused=self.refused,
                ),
            )

        return ask


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    found = Clusters()
    found.put_in(monkeypatch)
    return found


@pytest.fixture
def api(clusters: Clusters) -> Iterator[TestClient]:
    with client() as found:
        yield found


@pytest.mark.parametrize("action", ["pause", "resume", "restart"])
def test_a_link_a_topic_or_a_partition(api: TestClient, clusters: Clusters, action: str) -> None:
    wish = {"who": "anna", "reason": "moving house"}
    for path, scope in (
        ("", {}),
        ("/topics/orders", {"topic": "orders"}),
        ("/topics/orders/partitions/3", {"topic": "orders", "partition": 3}),
    ):
        answer = api.post(f"{LINK}{path}/{action}", json=wish)
        assert answer.status_code == 200, answer.text
        assert answer.json()["acted"] is True
        assert (answer.json()["link"], answer.json()["action"]) == ("A->B", action)
        assert clusters.asked.pop() == {
            "action": action,
            "who": "anna@testclient",
            "reason": "moving house",
            "wait_s": 10.0,
            "link": "A->B",
            **scope,
        }
    assert api.post(f"{LINK}/{action}").status_code == 200, "without a body, too"
    assert clusters.asked.pop()["who"] == "http@testclient"


def test_step_down(api: TestClient, clusters: Clusters) -> None:
    assert api.post(f"{LINK}/step-down", json={"reason": "upgrade"}).status_code == 200
    (asked,) = clusters.asked
    assert (asked["action"], asked["link"], asked["reason"]) == ("step_down", "A->B", "upgrade")
    assert api.post(f"{LINK}/topics/orders/step-down").status_code == 404


def test_throttle(api: TestClient, clusters: Clusters) -> None:
    assert api.post(f"{LINK}/throttle", json={"bytes_per_s": 1000}).status_code == 200
    assert api.post(f"{LINK}/topics/orders/throttle", json={"off": True}).status_code == 200
    assert api.post(f"{LINK}/throttle", json={"bytes_per_s": None}).status_code == 200
    found = [(each["bytes_per_s"], each["off"], each.get("topic")) for each in clusters.asked]
    assert found == [(1000, False, None), (None, True, "orders"), (None, False, None)]
    wrongs: list[Any] = [{}, {"bytes_per_s": 0}, {"bytes_per_s": "many"}, {"bytes": 5}, []]
    for wrong in wrongs:
        answer = api.post(f"{LINK}/throttle", json=wrong)
        assert answer.status_code == 400, wrong
        assert answer.json()["error_code"] == 400
    assert len(clusters.asked) == 3


def test_a_directive_that_no_driver_has_acted_on_is_accepted(
    api: TestClient, clusters: Clusters
) -> None:
    for clusters.acted in (False, None):
        assert api.post(f"{LINK}/pause").status_code == 202
    clusters.refused = "it cannot"
    answer = api.post(f"{LINK}/pause")
    assert (answer.status_code, answer.json()["message"]) == (409, "it cannot")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("pause", "topic odrers", "there is no topic of that name"), 404),
        (RefusedError("pause", "topic odrers", "its mirror was promoted by anna"), 409),
        (ConflictError("pause", "A->B", "anna acts at the same time"), 409),
        (AuthorizationError("write", "a topic", "not allowed"), 403),
        (UnreachableError("reach", "B"), 503),
        (CausewayError("pause", "A->B", "who knows"), 502),
    ],
)
def test_why_it_is_not_done(
    api: TestClient,
    clusters: Clusters,
    caplog: pytest.LogCaptureFixture,
    error: CausewayError,
    status: int,
) -> None:
    clusters.error = error
    answer = api.post(f"{LINK}/topics/odrers/pause")
    assert answer.status_code == status
    assert answer.json() == {"error_code": status, "message": str(error)}
    (told,) = [each for each in caplog.records if each.getMessage() == "not done"]
    assert vars(told)["reason"] == str(error)


def test_an_unknown_link(api: TestClient, clusters: Clusters) -> None:
    answer = api.post("/api/v1/links/A->C/pause")
    assert answer.status_code == 404
    assert "there is no link A->C: A->B" in answer.json()["message"]
    assert not clusters.asked


def test_who_asked_is_logged(
    api: TestClient, clusters: Clusters, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "causeway.http"):
        api.post(f"{LINK}/topics/orders/pause", json={"who": "anna"})
    (told,) = [vars(each) for each in caplog.records if each.getMessage() == "asked for"]
    assert (told["who"], told["action"]) == ("anna@testclient", "pause")
    assert (told["link"], told["topic"]) == ("A->B", "orders")


def test_nothing_is_asked_for_without_a_right(clusters: Clusters) -> None:
    with client(token=TOKEN) as api:
        assert api.post(f"{LINK}/pause").status_code == 401
        assert api.put(f"{SOURCE}/pause").status_code == 401
        right = {"authorization": f"Bearer {TOKEN}"}
        evil = {**right, "origin": "http://evil.example"}
        assert api.post(f"{LINK}/pause", headers=evil).status_code == 403
        assert api.get(f"{LINK}/pause", headers=right).status_code == 405
        assert not clusters.asked
        assert api.post(f"{LINK}/pause", headers=right).status_code == 200
        assert len(clusters.asked) == 1


@pytest.mark.parametrize(
    ("method", "path", "status", "action"),
    [
        ("PUT", "pause", 202, "pause"),
        ("PUT", "resume", 202, "resume"),
        ("PUT", "stop", 204, "pause"),
        ("POST", "restart", 204, "restart"),
        ("POST", "restart?includeTasks=false&onlyFailed=false", 204, "restart"),
        ("POST", "restart?includeTasks=true&onlyFailed=true", 202, "restart"),
        ("POST", "restart?onlyFailed=true", 202, "restart"),
        ("POST", "tasks/0/restart", 204, "restart"),
    ],
)
def test_connects_way(
    api: TestClient, clusters: Clusters, method: str, path: str, status: int, action: str
) -> None:
    answer = api.request(method, f"{SOURCE}/{path}")
    assert answer.status_code == status
    (asked,) = clusters.asked
    assert (asked["action"], asked["link"], asked["wait_s"]) == (action, "A->B", None)
    if "=true" in path:
        assert answer.json()["name"] == "A->B.MirrorSourceConnector"
    else:
        assert answer.content == b""
    beside = api.request(method, f"/connectors/A->B.MirrorHeartbeatConnector/{path}")
    assert beside.status_code == 405
    assert "it means the link A->B" in beside.json()["message"]
    assert api.request(method, f"/connectors/none/{path}").status_code == 404
    assert len(clusters.asked) == 1
