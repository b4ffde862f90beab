"""Exact places over HTTP: what is asked reaches the function that the command calls, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from causeway.config import Settings
from causeway.errors import CausewayError, UnreachableError
from causeway.http import translating as module
from causeway.model import TopicPartition
from causeway.translation import Answer, MappedOffset, OffsetNote, Question
from tests.builders.served import client

PATH = "/api/v1/links/A-%3EB/translate"
ORDERS: dict[str, Any] = {"topic": "orders", "partition": 0, "offset": 5}


class Clusters:
    """Places are ten behind what is asked for."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.error: CausewayError | None = None
        self.why: OffsetNote | None = None

    def __call__(
        self,
        _: Settings,
        questions: list[Question],
        *,
        link: str,
        back: bool,
        patience_s: float,
    ) -> tuple[Answer, ...]:
        assert patience_s < 10
        self.asked.append({"questions": questions, "link": link, "back": back})
        if self.error is not None:
            raise self.error
        return tuple(self._answer(question, link) for question in questions)

    def _answer(self, question: Question, link: str) -> Answer:
        if self.why is not None:
            return Answer(question=question, link=link, offset=None, why=self.why, note="no")
        offset = (question.offset or 0) + 10
        place = MappedOffset(TopicPartition("A.orders", 0), offset)
        return Answer(question=question, link=link, offset=question.offset, places=(place,))


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    found = Clusters()
    monkeypatch.setattr(module, "translate", found)
    return found


@pytest.fixture
def api(clusters: Clusters) -> Iterator[TestClient]:
    with client() as found:
        yield found


def test_a_place(api: TestClient, clusters: Clusters) -> None:
    found = api.get(PATH, params=ORDERS)
    assert found.status_code == 200
    assert found.json() == {
        "link": "A->B",
        "topic": "orders",
        "partition": 0,
        "timestamp": None,
        "offset": 5,
        "exact": True,
        "why": None,
        "note": None,
        "places": [
            {
                "topic": "A.orders",
                "partition": 0,
                "offset": 15,
                "exact": True,
                "why": None,
                "note": None,
            }
        ],
    }
    asked: dict[str, Any] = {"topic": "A.orders", "partition": 0, "timestamp": 7, "back": True}
    assert api.get(PATH, params=asked).status_code == 200
    assert clusters.asked[-1] == {
        "questions": [Question(topic="A.orders", partition=0, timestamp=7)],
        "link": "A->B",
        "back": True,
    }


@pytest.mark.parametrize(
    ("path", "more", "status"),
    [
        (PATH, {}, 400),
        (PATH, {"offset": 1, "timestamp": 1}, 400),
        (PATH, {"offset": -1}, 400),
        (PATH, {"offset": "x"}, 400),
        (PATH.replace("B", "C"), {"offset": 1}, 404),
    ],
)
def test_what_makes_no_sense_is_refused(
    api: TestClient, clusters: Clusters, path: str, more: dict[str, Any], status: int
) -> None:
    found = api.get(path, params={"topic": "orders", "partition": 0, **more})
    assert found.status_code == status
    assert found.json()["error_code"] == status
    assert not clusters.asked


def test_what_is_unknown_and_what_fails(api: TestClient, clusters: Clusters) -> None:
    clusters.why = OffsetNote.UNKNOWN
    assert api.get(PATH, params=ORDERS).status_code == 404
    clusters.why = OffsetNote.NOT_MIRRORED
    found = api.get(PATH, params=ORDERS)
    assert (found.status_code, found.json()["why"]) == (200, "not mirrored")
    clusters.error = UnreachableError("reach", "B", "no broker answers")
    found = api.get(PATH, params=ORDERS)
    assert (found.status_code, found.json()["message"]) == (503, "reach B: no broker answers")
