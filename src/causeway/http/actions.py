"""Administrative requests over HTTP: writes them to the directives topic, as the commands do.

Each request runs in its own thread with its own connections, and is logged with its author.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Body, HTTPException, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from causeway.config import Settings
from causeway.control import geo_topics
from causeway.errors import CausewayError, ConfigError
from causeway.http import shapes
from causeway.http.answers import Asking, answer
from causeway.operate import directives
from causeway.operate.directives import DirectiveOutcome

_log = logging.getLogger("causeway.http")
_AT_ONCE: Final = 4
_WAIT_S: Final = 10.0  # for the answer of the leading driver
T = TypeVar("T")


class RequestBody(BaseModel):
    """The author and the reason of a request. The status shows both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    who: str | None = Field(None, max_length=100, description="Your name.")
    reason: str | None = Field(None, max_length=directives.MOST_TEXT)


class Limit(RequestBody):
    bytes_per_s: int | None = Field(
        None, ge=1, description="The limit for reading from the source; null: no limit."
    )
    off: bool = Field(False, description="Removes the limit: the limit of the file applies again.")


class Retry(RequestBody):
    adopt: bool = Field(
        False,
        description="Accepts the loss of records: stopped partitions continue without them, or "
        "with the records on the target.",
    )


class Actions:
    """Executes requests on the links of `settings`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asking = Asking("act", _AT_ONCE)

    async def do(
        self, action: str, request: Request, wish: RequestBody, wait_s: float | None, **scope: Any
    ) -> tuple[DirectiveOutcome, ...]:
        """Waits at most `wait_s` until the leading driver has acted; None: does not wait. Raises
        HTTPException with the reason."""
        write: Callable[..., tuple[DirectiveOutcome, ...]] = getattr(directives, action)

        def call(**author: Any) -> tuple[DirectiveOutcome, ...]:
            known = geo_topics.with_chosen(self._settings, scope["link"])
            return write(known, wait_s=wait_s, **scope, **author)

        return await self.act(action, request, wish, call, scope)

    async def act(
        self,
        action: str,
        request: Request,
        wish: RequestBody,
        call: Callable[..., T],
        about: Mapping[str, Any],
        *,
        misnamed: int = 404,
    ) -> T:
        """Returns the result of `call`, which gets the author and the `reason`. Raises
        HTTPException. `misnamed`: the HTTP status for an unknown name."""
        client = request.client.host if request.client else "?"
        who = f"{wish.who or 'http'}@{client}"
        _log.info("asked for", extra={"action": action, "who": who, **_said(about)})
        try:
            # Everything except names is checked before.
            status = {ConfigError: misnamed, CausewayError: 502}
            return await self._asking.ask(partial(call, who=who, reason=wish.reason), status)
        except HTTPException as error:
            _log.warning("not done", extra={"action": action, "who": who, "reason": error.detail})
            raise


def _said(scope: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scope.items() if value is not None}


Body_ = Annotated[RequestBody | None, Body()]
_Retry = Annotated[Retry | None, Body()]


def router(actions: Actions, names: tuple[str, ...]) -> APIRouter:
    """POST on a link, a topic or a partition. `names` of the links."""
    api = APIRouter(prefix="/api/v1/links/{link}", tags=["acts"])

    async def done(
        action: str, request: Request, wish: RequestBody | None, **scope: Any
    ) -> Response:
        if scope["link"] not in names:
            raise HTTPException(404, f"there is no link {scope['link']}: {', '.join(names)}")
        if isinstance(wish, Retry) and wish.adopt:
            scope["adopt"] = True
        (outcome,) = await actions.do(action, request, wish or RequestBody(), _WAIT_S, **scope)
        if outcome.refused is not None:
            raise HTTPException(409, outcome.refused)
        # 202: recorded; the leading driver, or the next one, will act on it.
        return answer(directives.outcome_json(outcome), 200 if outcome.acted else 202)

    def add(action: str, meaning: str, body: object = Body_) -> None:
        async def on_link(request: Request, link: str, wish: Body_ = None) -> Response:
            return await done(action, request, wish, link=link)

        async def on_topic(request: Request, link: str, topic: str, wish: Body_ = None) -> Response:
            return await done(action, request, wish, link=link, topic=topic)

        async def on_partition(
            request: Request, link: str, topic: str, partition: int, wish: Body_ = None
        ) -> Response:
            where = {"link": link, "topic": topic, "partition": partition}
            return await done(action, request, wish, **where)

        for path, route, what in (
            ("", on_link, "a link"),
            ("/topics/{topic}", on_topic, "a topic"),
            ("/topics/{topic}/partitions/{partition}", on_partition, "a partition"),
        ):
            route.__annotations__["wish"] = body
            api.add_api_route(
                f"{path}/{action}",
                route,
                methods=["POST"],
                **shapes.answers(shapes.Asked),
                description=f"{meaning} ({what})",
                operation_id=f"{action}_{route.__name__}",
            )

    add("pause", "Stops mirroring until it is resumed.")
    add("resume", "Ends a pause.")
    add("restart", "Retries stopped and failed partitions now.", _Retry)

    @api.post("/step-down", **shapes.answers(shapes.Asked))
    async def step_down(request: Request, link: str, wish: Body_ = None) -> Response:
        """Hands the link over from the leading driver to a standby."""
        return await done("step_down", request, wish, link=link)

    @api.post("/throttle", **shapes.answers(shapes.Asked))
    async def throttle_link(request: Request, link: str, limit: Limit) -> Response:
        """Limits the rate at which the link reads from its source."""
        return await done("throttle", request, limit, link=link, **_limit(limit))

    @api.post("/topics/{topic}/throttle", **shapes.answers(shapes.Asked))
    async def throttle_topic(request: Request, link: str, topic: str, limit: Limit) -> Response:
        """Limits the rate at which the topic is read."""
        return await done("throttle", request, limit, link=link, topic=topic, **_limit(limit))

    return api


def _limit(limit: Limit) -> dict[str, Any]:
    if not {"bytes_per_s", "off"} & limit.model_fields_set:
        raise HTTPException(400, "give bytes_per_s (null: no limit), or off: true")
    return {"bytes_per_s": limit.bytes_per_s, "off": limit.off}
