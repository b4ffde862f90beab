"""Translates offsets over HTTP, for consumers that store their own offsets.

Each answer reads the progress topic, and logs where it has to. So all who ask while one is under
way are answered together by the next, and between two there is a rest: however many they are, the
driver is not slowed down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import Response

from causeway.config import Settings
from causeway.control import geo_topics
from causeway.errors import AuthorizationError, CausewayError, ConfigError
from causeway.http import shapes
from causeway.http.answers import answer, in_thread
from causeway.translation import Answer, OffsetNote, Question, answer_json, translate

_MOST_WAITING: Final = 1000
_REST: Final = 4.0  # times the time of an answer
_MOST_REST_S: Final = 10.0  # an absent cluster takes long, and costs nothing
_PATIENCE_S: Final = 3.0  # for reading logs
_Ask = Callable[..., tuple[Answer, ...]]
# Questions of one request: one link, one direction.
_Way = tuple[str, bool]


class Translating:
    """On `settings`' links. Belongs to one event loop."""

    def __init__(self, settings: Settings, ask: _Ask = translate) -> None:
        self._settings, self._ask = settings, ask
        self._waiting: dict[_Way, dict[Question, list[asyncio.Future[Answer]]]] = {}
        self._many = 0
        self._round: asyncio.Task[None] | None = None

    async def one(self, question: Question, link: str, *, back: bool) -> Answer:
        """Raises CausewayError, or HTTPException if too many requests wait."""
        if self._many >= _MOST_WAITING:
            raise HTTPException(503, f"{self._many} requests wait for an answer: try again later")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        asked = self._waiting.setdefault((link, back), {})
        asked.setdefault(question, []).append(future)
        self._many += 1
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._answer_all())
        try:
            return await future
        finally:
            self._many -= 1

    def _translate(
        self, questions: Sequence[Question], *, link: str, back: bool
    ) -> tuple[Answer, ...]:
        settings = geo_topics.with_chosen(self._settings)
        return self._ask(settings, questions, link=link, back=back, patience_s=_PATIENCE_S)

    async def _answer_all(self) -> None:
        while self._waiting:
            way = next(iter(self._waiting))
            asked = self._waiting.pop(way)
            link, back = way
            began = time.monotonic()
            call = partial(self._translate, list(asked), link=link, back=back)
            try:
                answers = await in_thread(call, "translate")
            except Exception as error:
                _tell(asked.values(), error)
            else:
                for each in answers:
                    for future in asked[each.question]:
                        if not future.done():
                            future.set_result(each)
            await asyncio.sleep(min(_MOST_REST_S, _REST * (time.monotonic() - began)))


def _tell(waiting: Iterable[Iterable[asyncio.Future[Answer]]], error: Exception) -> None:
    for futures in waiting:
        for future in futures:
            if not future.done():
                future.set_exception(error)


def router(translating: Translating, names: tuple[str, ...]) -> APIRouter:
    """`names` of the links."""
    api = APIRouter(prefix="/api/v1", tags=["run"])

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
        try:
            found = await translating.one(question, link, back=back)
        except CausewayError as error:
            raise HTTPException(_status(error), str(error)) from error
        if found.why is OffsetNote.UNKNOWN:
            raise HTTPException(404, f"{topic}-{partition}: {found.note}")
        return answer(answer_json(found))

    return api


def _status(error: CausewayError) -> int:
    if isinstance(error, ConfigError):
        return 400
    return 403 if isinstance(error, AuthorizationError) else 503
