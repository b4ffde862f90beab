"""Translates offsets over HTTP, for consumers that store their own offsets.

Each answer reads the progress topic, and logs where it has to. So one question is answered at a
time: however many ask, the driver gives one thread to them.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import Response

from causeway.config import Settings
from causeway.control import geo_topics
from causeway.errors import CausewayError, ConfigError
from causeway.http import shapes
from causeway.http.answers import Asking, answer
from causeway.translation import Answer, OffsetNote, Question, answer_json, translate

_PATIENCE_S: Final = 3.0  # for reading logs


def router(settings: Settings) -> APIRouter:
    api = APIRouter(prefix="/api/v1", tags=["run"])
    asking = Asking("translate", at_once=1)
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

        def call() -> tuple[Answer, ...]:
            known = geo_topics.with_chosen(settings)
            return translate(known, [question], link=link, back=back, patience_s=_PATIENCE_S)

        (found,) = await asking.ask(call, {ConfigError: 400, CausewayError: 503})
        if found.why is OffsetNote.UNKNOWN:
            raise HTTPException(404, f"{topic}-{partition}: {found.note}")
        return answer(answer_json(found))

    return api
