"""/api/v1: the run as it is, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import Response

from causeway.config import LinkSettings
from causeway.control import geo_topics
from causeway.http import explaining, shapes, shaping
from causeway.http.aggregates import aggregates
from causeway.http.answers import answer, paged
from causeway.http.coalesced_cache import Paced
from causeway.http.events import Events
from causeway.http.history import Memory
from causeway.http.shapes import Page
from causeway.http.view import LinkView, View
from causeway.model import State
from causeway.operate.explain.values import as_json_of
from causeway.status.states import rank
from causeway.status.topics import TopicRow

MOST: int = 1000  # items of a page

Item = TypeVar("Item")

LinkName = Annotated[str | None, Query(description="Of this link alone: `A->B`.")]
Search = Annotated[str, Query(description="Part of the name, in any case.", max_length=249)]
States = Annotated[list[State] | None, Query(description="In one of these states.")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="Leave out so many.")]
Limit = Annotated[int, Query(ge=1, le=MOST, description="Items of the page.")]
LinkPath = Annotated[str, Path(description="`A->B`, escaped as `A-%3EB`.")]
Level = Literal["info", "warning", "error"]
Order = Literal["name", "lag", "lag-time", "rate", "state"]

_ORDERS: dict[Order, Callable[[TopicRow], float] | None] = {
    "name": None,
    "lag": lambda row: -1 if row.lag_records is None else row.lag_records,
    "lag-time": lambda row: -1 if row.lag_ms is None else row.lag_ms,
    "rate": lambda row: row.bytes_per_s,
    "state": lambda row: -rank(row.state),
}


def router(
    views: Paced[View], memory: Memory, events: Events, links: Sequence[LinkSettings]
) -> APIRouter:
    """Every route answers from the newest view, at once."""
    api = APIRouter(prefix="/api/v1", tags=["run"])

    @api.get("/overview", response_model=shapes.Overview)
    async def overview() -> Response:
        """The process, and each of its links in short."""
        return answer(shaping.overview(await views.newest()))

    @api.get("/clusters", response_model=Page[shapes.Cluster])
    async def clusters(offset: Offset = 0, limit: Limit = 100) -> Response:
        """The clusters of all links, by alias."""
        view = await views.newest()
        return _cut(view, shaping.clusters(links), offset, limit, lambda one: one)

    @api.get("/aggregates", response_model=Page[shapes.Aggregate])
    async def all_aggregates(
        search: Search = "", offset: Offset = 0, limit: Limit = 100
    ) -> Response:
        """Where topics of one name from several clusters come together, and from where."""
        view = await views.newest()
        found = _named(aggregates(view, links), search, lambda one: one.name)
        return _cut(view, found, offset, limit, lambda one: one)

    @api.get("/links", response_model=Page[shapes.Link])
    async def all_links(search: Search = "", offset: Offset = 0, limit: Limit = 100) -> Response:
        """All links, in the file's order."""
        view = await views.newest()
        found = _named(view.links.values(), search, lambda one: one.status.name)
        return _cut(view, found, offset, limit, shaping.link)

    @api.get("/links/{link}", response_model=shapes.Link)
    async def one_link(link: LinkPath) -> Response:
        """One link."""
        return answer(shaping.link(_link(await views.newest(), link)))

    @api.get("/topics", response_model=Page[shapes.Topic])
    async def topics(
        link: LinkName = None,
        search: Search = "",
        state: States = None,
        order: Annotated[Order, Query(description="All but `name`: the greatest first.")] = "name",
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """Topics that are mirrored; `state` is the worst of a topic's partitions."""
        view = _checked(await views.newest(), link)
        page, total = view.topics(
            link=link,
            search=search,
            states=state or (),
            order=_ORDERS[order],
            offset=offset,
            limit=limit,
        )
        items = [shaping.topic(each.status.name, row) for each, row in page]
        return paged(items, total, offset, limit, view.now_ms)

    @api.get("/links/{link}/topics/{topic}", response_model=shapes.Topic)
    async def one_topic(link: LinkPath, topic: str) -> Response:
        """One topic, by its name on the source."""
        row = _link(await views.newest(), link).topic(topic)
        if row is None:
            raise HTTPException(404, f"{link} mirrors no topic {topic}")
        return answer(shaping.topic(link, row))

    @api.get("/partitions", response_model=Page[shapes.Partition])
    async def partitions(
        link: LinkName = None,
        topic: Annotated[str | None, Query(description="Of this topic alone.")] = None,
        search: Search = "",
        state: States = None,
        lane: Annotated[int | None, Query(description="On this lane.")] = None,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """Partitions that are mirrored, by link, topic and number; `search` is for topics."""
        view = _checked(await views.newest(), link)
        page, total = view.partitions(
            link=link,
            topic=topic,
            search=search,
            states=state or (),
            lane=lane,
            offset=offset,
            limit=limit,
        )
        items = [shaping.partition(each.status, one, view.now_ms) for each, one in page]
        return paged(items, total, offset, limit, view.now_ms)

    @api.get("/links/{link}/explain", response_model=shapes.Explanation)
    async def explain(
        link: LinkPath,
        topic: Annotated[str | None, Query(max_length=249, description="As on the source.")] = None,
        partition: Annotated[int | None, Query(ge=0, description="Of that topic.")] = None,
        group: Annotated[str | None, Query(max_length=1000)] = None,
    ) -> Response:
        """Why a topic or a group is mirrored or synced, or not, as far as this process knows."""
        view = _link(await views.newest(), link)
        settings = next(each for each in links if each.name == link)
        if (topic is None) == (group is None) or (partition is not None and topic is None):
            raise HTTPException(400, "say topic, perhaps with partition, or group")
        if topic is not None:
            found = explaining.topic(settings, view, topic, partition, links)
        else:
            found = explaining.group(settings, view, group or "")
        return answer(shapes.Explanation(**as_json_of(found)))

    @api.get("/links/{link}/topics/{topic}/partitions/{partition}", response_model=shapes.Partition)
    async def one_partition(link: LinkPath, topic: str, partition: int) -> Response:
        """One partition, by its place on the source."""
        view = await views.newest()
        found = _link(view, link).partition(topic, partition)
        if found is None:
            raise HTTPException(404, f"{link} mirrors no partition {topic}-{partition}")
        return answer(shaping.partition(view.links[link].status, found, view.now_ms))

    @api.get("/groups", response_model=Page[shapes.Group])
    async def groups(
        link: LinkName = None,
        search: Search = "",
        followed: Annotated[bool | None, Query(description="Only those, or the others.")] = None,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """Consumer groups of the sources, as the last round of the task `groups` found them."""
        view = _checked(await views.newest(), link)
        every = ((s.name, one) for s in shaping.statuses(view, link) for one in s.groups)
        found = [each for each in every if followed in (None, each[1].followed)]
        named = _named(found, search, lambda each: each[1].group)
        return _cut(view, named, offset, limit, lambda each: shaping.group(*each))

    @api.get("/lanes", response_model=Page[shapes.Lane])
    async def lanes(offset: Offset = 0, limit: Limit = 100) -> Response:
        """Lanes that are connected."""
        view = await views.newest()
        return _cut(view, view.snapshot.lanes, offset, limit, shaping.lane)

    @api.get("/tasks", response_model=Page[shapes.Task])
    async def tasks(link: LinkName = None, offset: Offset = 0, limit: Limit = 100) -> Response:
        """The control plane's tasks, and how they fare."""
        view = await views.newest()
        return _cut(view, shaping.tasks(view, link), offset, limit, lambda one: one)

    @api.get("/directives", response_model=Page[shapes.Directive])
    async def directives(link: LinkName = None, offset: Offset = 0, limit: Limit = 100) -> Response:
        """What people asked for, and what stands until it is taken back: pauses and limits."""
        view = _checked(await views.newest(), link)
        every = shaping.statuses(view, link)
        found = [(each.name, one) for each in every for one in geo_topics.asked(each.directives)]
        return _cut(view, found, offset, limit, lambda each: shaping.directive(*each))

    @api.get("/transforms", response_model=Page[shapes.Transform])
    async def transforms(link: LinkName = None, offset: Offset = 0, limit: Limit = 100) -> Response:
        """Transforms of the links, and what became of records in this run."""
        view = _checked(await views.newest(), link)
        found = [(s.name, one) for s in shaping.statuses(view, link) for one in s.transforms]
        return _cut(view, found, offset, limit, lambda each: shaping.transform(*each))

    @api.get("/problems", response_model=Page[shapes.Problem])
    async def problems(
        link: LinkName = None, search: Search = "", offset: Offset = 0, limit: Limit = 100
    ) -> Response:
        """What keeps topics from being mirrored as they should be."""
        view = _checked(await views.newest(), link)
        every = [(s.name, one) for s in shaping.statuses(view, link) for one in s.troubles]
        named = _named(every, search, lambda each: each[1].topic)
        return _cut(view, named, offset, limit, lambda each: shaping.problem(*each))

    @api.get("/events", response_model=Page[shapes.Event])
    async def newest_events(
        link: LinkName = None,
        search: Search = "",
        level: Annotated[list[Level] | None, Query(description="Of these kinds.")] = None,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """What this process has logged, the newest first; the last 2,000 events are kept."""
        view = _checked(await views.newest(), link)
        page, total = events.newest(
            link=link, search=search, levels=tuple(level or ()), offset=offset, limit=limit
        )
        return paged(page, total, offset, limit, view.now_ms)

    @api.get("/history", response_model=shapes.History)
    async def history(
        link: LinkName = None,
        since_ms: Annotated[int, Query(ge=0, description="Only points later than that.")] = 0,
        points: Annotated[int, Query(ge=1, le=4320, description="At the most.")] = 720,
    ) -> Response:
        """Figures of the last six hours at the most, since the start of this process."""
        return answer(memory.since(since_ms, link, points))

    return api


def _link(view: View, name: str) -> LinkView:
    if name not in view.links:
        raise HTTPException(404, f"there is no link {name}: {', '.join(view.links)}")
    return view.links[name]


def _checked(view: View, link: str | None) -> View:
    if link is not None:
        _link(view, link)
    return view


def _named(items: Iterable[Item], search: str, name: Callable[[Item], str]) -> list[Item]:
    wanted = search.casefold()
    return [one for one in items if wanted in name(one).casefold()]


def _cut(
    view: View,
    items: Sequence[Item],
    offset: int,
    limit: int,
    shape: Callable[[Item], shapes.Shape],
) -> Response:
    cut = [shape(one) for one in items[offset : offset + limit]]
    return paged(cut, len(items), offset, limit, view.now_ms)
