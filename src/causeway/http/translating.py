"""Translates offsets over HTTP, for consumers that store their own offsets.

Each answer reads the progress topic, and logs if needed. Requests that arrive while clusters are
asked are answered together by the next round. A rest follows each round. So any number of requests
does not slow the driver down.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import Response

from causeway.config import Settings
from causeway.control import geo_topics
from causeway.errors import CausewayError, ConfigError
from causeway.http import shapes
from causeway.http.answers import Asking, answer
from causeway.translation import Answer, OffsetNote, Question, answer_json, translate

_REST: Final = 4.0  # times the time of a round
_MOST_REST_S: Final = 10.0  # if a cluster is down, a round is long but uses no CPU
_PATIENCE_S: Final = 3.0  # for reading logs
# The link and the direction of a round.
_Way = tuple[str, bool]
_Round = dict[Question, None]
_Answers = dict[Question, Answer]


class Translating:
    """Answers questions about the links of `settings`. Belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asking = Asking("translate", at_once=1)
        self._turn = asyncio.Lock()
        self._rounds: dict[_Way, tuple[_Round, asyncio.Task[_Answers]]] = {}  # not begun
        self._rest_until = 0.0  # monotonic

    async def one(self, question: Question, way: _Way) -> Answer:
        """Raises HTTPException."""
        with self._asking.waiting():
            if way not in self._rounds:
                self._rounds[way] = ({}, asyncio.create_task(self._answers(way)))
            questions, answers = self._rounds[way]
            questions[question] = None
            # If a request ends, its round goes on for the others.
            return (await asyncio.shield(answers))[question]

    async def _answers(self, way: _Way) -> _Answers:
        async with self._turn:
            await asyncio.sleep(self._rest_until - time.monotonic())
            questions, _ = self._rounds.pop(way)

            def call() -> tuple[Answer, ...]:
                link, back = way
                known = geo_topics.with_chosen(self._settings, link)
                asked = list(questions)
                return translate(known, asked, link=link, back=back, patience_s=_PATIENCE_S)

            began = time.monotonic()
            try:
                found = await self._asking.ask_for_many(
                    call, {ConfigError: 400, CausewayError: 503}
                )
            finally:
                now = time.monotonic()
                self._rest_until = now + min(_MOST_REST_S, _REST * (now - began))
            return {each.question: each for each in found}


def router(settings: Settings) -> APIRouter:
    api = APIRouter(prefix="/api/v1", tags=["run"])
    translating = Translating(settings)
    names = [each.name for each in settings.links]

    @api.get("/links/{link}/translate", **shapes.answers(shapes.Translation))
    async def translation(
        link: str,
        topic: Annotated[
            str, Query(max_length=249, description="The topic on the cluster of the offset.")
        ],
        partition: Annotated[int, Query(ge=0, le=2**31 - 1)],
        offset: Annotated[
            int | None, Query(ge=0, le=2**63 - 1, description="The next offset to read.")
        ] = None,
        timestamp: Annotated[
            int | None,
            Query(
                ge=0, le=2**63 - 1, description="Or the first record of this time or later, in ms."
            ),
        ] = None,
        back: Annotated[bool, Query(description="From the target to the source.")] = False,
    ) -> Response:
        """Translates an offset to the other cluster. Reads the progress topic, and logs if needed:
        an answer may take seconds."""
        if link not in names:
            raise HTTPException(404, f"there is no link {link}: {', '.join(names)}")
        if (offset is None) == (timestamp is None):
            raise HTTPException(400, "give either offset or timestamp")
        question = Question(topic=topic, partition=partition, offset=offset, timestamp=timestamp)
        found = await translating.one(question, (link, back))
        if found.why is OffsetNote.UNKNOWN:
            raise HTTPException(404, f"{topic}-{partition}: {found.note}")
        return answer(answer_json(found))

    return api
