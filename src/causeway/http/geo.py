"""/api/v1/geo: chosen topics and destinations, as in `causeway geo`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response
from pydantic import Field

from causeway import geo
from causeway.config import LinkSettings
from causeway.control import geo_topics
from causeway.errors import CausewayError
from causeway.http import shapes
from causeway.http.actions import Actions, Body_, RequestBody
from causeway.http.answers import Asking, answer, paged
from causeway.http.api import Limit, Offset, Search
from causeway.http.views import LinkView, SharedValue, View
from causeway.link_topics import Directive
from causeway.model import State
from causeway.status import Role, TopicStatus, shaped

_WAIT_S: Final = 10.0  # for the answer of the leading driver
_AT_ONCE: Final = 4  # requests for the available topics of a destination

Act = Callable[..., geo.Done]
DestinationName = Annotated[str | None, Query(description="Only this destination.")]


class Choice(RequestBody):
    topics: list[str] = Field(min_length=1, max_length=geo.MOST_TOPICS)


def router(views: SharedValue[View], links: Sequence[LinkSettings], actions: Actions) -> APIRouter:
    """Without links of chosen topics, there are no destinations."""
    by_name = {each.target.alias: each for each in links if each.geo}
    # A destination that does not answer delays no other.
    available = {name: Asking("available", _AT_ONCE) for name in by_name}
    api = APIRouter(prefix="/api/v1/geo", tags=["geo"])

    def link_to(name: str) -> LinkSettings:
        if name not in by_name:
            names = ", ".join(by_name) or "none"
            raise HTTPException(
                404, f"there is no destination {name}; the destinations are {names}"
            )
        return by_name[name]

    @api.get("", **shapes.answers(shapes.Page[shapes.GeoDestination]))
    async def destinations(offset: Offset = 0, limit: Limit = 100) -> Response:
        """The destinations of this process; none if it is no `causeway geo run`."""
        view = await views.newest()
        found = [_destination(each, view.links.get(each.name)) for each in by_name.values()]
        return paged(found[offset : offset + limit], len(found), offset, limit, view.now_ms)

    @api.get("/topics", **shapes.answers(shapes.Page[shapes.GeoTopic]))
    async def chosen_topics(
        destination: DestinationName = None,
        search: Search = "",
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """The chosen topics, with author and lag."""
        view = await views.newest()
        some = by_name.values() if destination is None else [link_to(destination)]
        every = [
            (each, found, directive)
            for each in some
            if (found := view.links.get(each.name)) is not None
            for directive in _chosen(found, search)
        ]
        items = [_topic(*each) for each in every[offset : offset + limit]]
        return paged(items, len(every), offset, limit, view.now_ms)

    @api.get("/destinations/{destination}/available", **shapes.answers(list[str]))
    async def could_be_chosen(destination: str, search: Search = "", limit: Limit = 50) -> Response:
        """The topics of the origin that can be chosen and are not. Asks the clusters."""
        call = partial(geo.available_topics, link_to(destination), search)
        found = await available[destination].ask(call, {CausewayError: 503})
        return answer(found[:limit])

    async def done(
        action: str, act: Act, request: Request, name: str, wish: RequestBody, names: Sequence[str]
    ) -> Response:
        link = link_to(name)
        call = partial(act, link, names, wait_s=_WAIT_S)
        about: Mapping[str, Any] = {"link": link.name, "topics": ", ".join(names)}
        outcome = await actions.act(action, request, wish, call, about, misnamed=400)
        # 202: recorded; the leading driver, or the next one, will act on it.
        settled = outcome.acted and outcome.refused is None
        return answer(outcome.as_json(), 200 if settled else 202)

    @api.post("/destinations/{destination}/topics", **shapes.answers(shapes.GeoAsked))
    async def add(request: Request, destination: str, choice: Choice) -> Response:
        """Copies topics from their first record or their position on: all of them, or none."""
        return await done("add", geo.add_topics, request, destination, choice, choice.topics)

    def of_topic(action: str, act: Act, meaning: str) -> None:
        async def on_topic(
            request: Request, destination: str, topic: str, wish: Body_ = None
        ) -> Response:
            return await done(action, act, request, destination, wish or RequestBody(), [topic])

        api.add_api_route(
            f"/destinations/{{destination}}/topics/{{topic}}/{action}",
            on_topic,
            methods=["POST"],
            **shapes.answers(shapes.GeoAsked),
            description=meaning,
            operation_id=f"geo_{action}",
        )

    of_topic("pause", geo.pause_topics, "Stops copying the topic until it is resumed.")
    of_topic("resume", geo.resume_topics, "Continues the topic at its position.")
    of_topic(
        "remove", geo.remove_topics, "Stops copying the topic. The copy on the destination stays."
    )
    return api


def _chosen(view: LinkView, search: str = "") -> list[Directive]:
    directives = view.status.directives
    wanted = search.casefold()
    found = sorted(geo_topics.chosen(directives).items())
    return [each for name, each in found if wanted in name.casefold()]


def _destination(link: LinkSettings, view: LinkView | None) -> shapes.GeoDestination:
    return shapes.GeoDestination(
        destination=link.target.alias,
        link=link.name,
        origin=link.source.alias,
        role=Role.STARTING if view is None or view.status.role is None else view.status.role,
        topics=0 if view is None else len(_chosen(view)),
    )


def _topic(link: LinkSettings, view: LinkView, directive: Directive) -> shapes.GeoTopic:
    name = str(directive.scope.topic)
    row = view.topic(name) or TopicStatus(
        link=link.name,
        topic=name,
        target_topic=geo.target_of(link, name),
        transform=None,
        partitions=0,
        state=State.WAITING,
        states={},
        reasons=(),
    )
    return shaped(
        shapes.GeoTopic,
        row,
        destination=link.target.alias,
        who=directive.who,
        why=directive.why,
        at_ms=directive.at,
    )
