"""Exact places over HTTP: what is asked reaches the function that the command calls, too, and many
who ask at once cost what one does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import HTTPException
from starlette.testclient import TestClient

from causeway.config import RunSettings, Settings
from causeway.errors import CausewayError, UnreachableError
from causeway.http import answers
from causeway.http import translating as module
from causeway.http.translating import Translating
from causeway.model import TopicPartition
from causeway.translation import Answer, MappedOffset, OffsetNote, Question
from tests.builders.served import client

PATH = "/api/v1/links/A-%3EB/translate"
SETTINGS = Settings(links=(), run=RunSettings(), spark={})
ORDERS: dict[str, Any] = {"topic": "orders", "partition": 0, "offset": 5}


class Clusters:
    """Places are ten behind what is asked for."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.error: CausewayError | None = None
        self.why: OffsetNote | None = None
        self.gate = threading.Event()
        self.gate.set()

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
        assert self.gate.wait(60)
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
    monkeypatch.setattr(module, "_REST", 0.0)
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


def test_all_who_ask_meanwhile_are_answered_together(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_MOST_WAITING", 201)

    async def ask() -> None:
        translating = Translating(SETTINGS)

        async def one(offset: int) -> int | None:
            question = Question(topic="orders", partition=0, offset=offset % 50)
            return (await translating.one(question, ("A->B", False))).places[0].offset

        clusters.gate.clear()
        first = asyncio.create_task(one(49))
        while not clusters.asked:
            await asyncio.sleep(0.01)
        others = [asyncio.create_task(one(offset)) for offset in range(200)]
        leaving = others.pop()
        await asyncio.sleep(0)
        with pytest.raises(HTTPException, match="requests wait"):
            await one(0)
        leaving.cancel()
        clusters.gate.set()
        assert await first == 59
        assert await asyncio.gather(*others) == [offset % 50 + 10 for offset in range(199)]

    asyncio.run(ask())
    assert [len(each["questions"]) for each in clusters.asked] == [1, 50]


def test_a_failure_is_told_to_all_who_ask_and_another_round_can_follow(
    clusters: Clusters,
) -> None:
    async def ask() -> None:
        translating = Translating(SETTINGS)
        question = Question(topic="orders", partition=0, offset=1)
        clusters.error = UnreachableError("reach", "B", "no broker answers")
        asking = [translating.one(question, ("A->B", False)) for _ in range(3)]
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert [each.status_code for each in found if isinstance(each, HTTPException)] == [503] * 3
        clusters.error = None
        assert (await translating.one(question, ("A->B", False))).places[0].offset == 11

    asyncio.run(ask())
