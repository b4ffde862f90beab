"""/api/v1: the current state of the run, in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import Response
from msgspec import structs

from causeway.config import ClientSettings, LinkSettings
from causeway.control import geo_topics
from causeway.http import explaining, shapes
from causeway.http.aggregates import aggregates
from causeway.http.answers import answer, paged
from causeway.http.history import Events, History
from causeway.http.views import LinkView, SharedValue, View
from causeway.link_topics import Directive, TaskRecord, directive_as_json
from causeway.model import State
from causeway.operate.explain import Explanation
from causeway.status import (
    RANKING,
    PartitionStatus,
    TopicStatus,
    TransformStatus,
    counts_of,
    preserved,
    rank,
    rules_of,
    shaped,
)

VERSION = version("causeway")
MOST: int = 1000  # items of a page

Item = TypeVar("Item")

LinkName = Annotated[str | None, Query(description="Only this link, such as `A->B`.")]
Search = Annotated[
    str, Query(description="Part of the name; upper and lower case are the same.", max_length=249)
]
States = Annotated[list[State] | None, Query(description="Only these states.")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="Number of items to skip.")]
Limit = Annotated[int, Query(ge=1, le=MOST, description="Number of items of the page.")]
LinkPath = Annotated[str, Path(description="`A->B`, escaped as `A-%3EB`.")]
Level = Literal["info", "warning", "error"]
Order = Literal["name", "lag", "lag-time", "rate", "state"]

_ORDERS: dict[Order, Callable[[TopicStatus], float] | None] = {
    "name": None,
    "lag": lambda row: -1 if row.lag_records is None else row.lag_records,
    "lag-time": lambda row: -1 if row.lag_ms is None else row.lag_ms,
    "rate": lambda row: row.bytes_per_s,
    "state": lambda row: -rank(row.state),
}


def router(
    views: SharedValue[View], history: History, events: Events, links: Sequence[LinkSettings]
) -> APIRouter:
    """Every route answers at once, from the newest view."""
    api = APIRouter(prefix="/api/v1", tags=["run"])

    @api.get("/overview", **shapes.answers(shapes.Overview))
    async def overview() -> Response:
        """The process, with a summary of each link."""
        return answer(_overview(await views.newest()))

    @api.get("/clusters", **shapes.answers(shapes.Page[shapes.Cluster]))
    async def clusters(offset: Offset = 0, limit: Limit = 100) -> Response:
        """The clusters of all links, by alias."""
        view = await views.newest()
        return _cut(view, _clusters(links), offset, limit, lambda one: one)

    @api.get("/aggregates", **shapes.answers(shapes.Page[shapes.Aggregate]))
    async def all_aggregates(
        search: Search = "", offset: Offset = 0, limit: Limit = 100
    ) -> Response:
        """Aggregate topics: topics that several clusters feed, with their sources."""
        view = await views.newest()
        found = _named(aggregates(view, links), search, lambda one: one.name)
        return _cut(view, found, offset, limit, lambda one: one)

    @api.get("/links", **shapes.answers(shapes.Page[shapes.Link]))
    async def all_links(search: Search = "", offset: Offset = 0, limit: Limit = 100) -> Response:
        """All links, in the file's order."""
        view = await views.newest()
        found = _named(view.links.values(), search, lambda one: one.status.name)
        return _cut(view, found, offset, limit, _link_of)

    @api.get("/links/{link}", **shapes.answers(shapes.Link))
    async def one_link(link: LinkPath) -> Response:
        """One link."""
        return answer(_link_of(_link(await views.newest(), link)))

    @api.get("/topics", **shapes.answers(shapes.Page[shapes.Topic]))
    async def topics(
        link: LinkName = None,
        search: Search = "",
        state: States = None,
        order: Annotated[
            Order, Query(description="All orders except `name` are descending.")
        ] = "name",
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """The mirrored topics; `state` is the worst state of the partitions."""
        view = _checked(await views.newest(), link)
        found = [
            row
            for row in _named(
                (row for each in view.of(link) for row in each.topics),
                search,
                lambda row: row.topic,
            )
            if not state or row.state in state
        ]
        if (key := _ORDERS[order]) is not None:
            found.sort(key=key, reverse=True)
        return _cut(view, found, offset, limit, lambda row: shaped(shapes.Topic, row))

    @api.get("/links/{link}/topics/{topic}", **shapes.answers(shapes.Topic))
    async def one_topic(link: LinkPath, topic: str) -> Response:
        """One topic, by its name on the source."""
        row = _link(await views.newest(), link).topic(topic)
        if row is None:
            raise HTTPException(404, f"{link} mirrors no topic {topic}")
        return answer(shaped(shapes.Topic, row))

    @api.get("/partitions", **shapes.answers(shapes.Page[shapes.Partition]))
    async def partitions(
        link: LinkName = None,
        topic: Annotated[str | None, Query(description="Only this topic.")] = None,
        search: Search = "",
        state: States = None,
        lane: Annotated[int | None, Query(description="Only this lane.")] = None,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """The mirrored partitions by link, topic and number; `search` applies to topics."""
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
        items = [_partition(each.status.name, one) for each, one in page]
        return paged(items, total, offset, limit, view.now_ms)

    @api.get("/links/{link}/explain", **shapes.answers(Explanation))
    async def explain(
        link: LinkPath,
        topic: Annotated[
            str | None, Query(max_length=249, description="By its name on the source.")
        ] = None,
        partition: Annotated[
            int | None, Query(ge=0, description="A partition of the topic.")
        ] = None,
        group: Annotated[str | None, Query(max_length=1000)] = None,
    ) -> Response:
        """Explains why a topic or group is mirrored or synced, or not. Asks no cluster."""
        every = await views.newest()
        view = _link(every, link)
        known = [
            geo_topics.choosing(each, every.links[each.name].status.directives)
            for each in links
            if each.name in every.links
        ]
        settings = next(each for each in known if each.name == link)
        if (topic is None) == (group is None) or (partition is not None and topic is None):
            raise HTTPException(400, "give topic, with an optional partition, or group")
        if topic is not None:
            found = explaining.topic(settings, view, topic, partition, known)
        else:
            found = explaining.group(settings, view, group or "")
        return answer(found)

    @api.get(
        "/links/{link}/topics/{topic}/partitions/{partition}", **shapes.answers(shapes.Partition)
    )
    async def one_partition(link: LinkPath, topic: str, partition: int) -> Response:
        """One partition, by its topic on the source and its number."""
        view = await views.newest()
        found = _link(view, link).partition(topic, partition)
        if found is None:
            raise HTTPException(404, f"{link} mirrors no partition {topic}-{partition}")
        return answer(_partition(link, found))

    @api.get("/groups", **shapes.answers(shapes.Page[shapes.Group]))
    async def groups(
        link: LinkName = None,
        search: Search = "",
        followed: Annotated[
            bool | None, Query(description="Only followed groups, or only the others.")
        ] = None,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """The consumer groups of the sources, as the last run of the task `groups` found them."""
        view = _checked(await views.newest(), link)
        every = ((s.name, one) for s in view.statuses(link) for one in s.groups)
        found = [each for each in every if followed in (None, each[1].followed)]
        named = _named(found, search, lambda each: each[1].group)
        return _cut(
            view, named, offset, limit, lambda each: shaped(shapes.Group, each[1], link=each[0])
        )

    @api.get("/lanes", **shapes.answers(shapes.Page[shapes.Lane]))
    async def lanes(offset: Offset = 0, limit: Limit = 100) -> Response:
        """The connected lanes."""
        view = await views.newest()
        return _cut(view, view.snapshot.lanes, offset, limit, lambda one: shaped(shapes.Lane, one))

    @api.get("/tasks", **shapes.answers(shapes.Page[shapes.Task]))
    async def tasks(link: LinkName = None, offset: Offset = 0, limit: Limit = 100) -> Response:
        """The tasks of the control plane, with their results."""
        view = await views.newest()
        return _cut(view, _tasks(view, link), offset, limit, lambda each: _task(*each))

    @api.get("/directives", **shapes.answers(shapes.Page[shapes.Directive]))
    async def directives(link: LinkName = None, offset: Offset = 0, limit: Limit = 100) -> Response:
        """The active directives: pauses, limits, fences and cutovers."""
        view = _checked(await views.newest(), link)
        every = view.statuses(link)
        found = [
            (each.name, one) for each in every for one in geo_topics.without_chosen(each.directives)
        ]
        return _cut(view, found, offset, limit, lambda each: _directive(*each))

    @api.get("/transforms", **shapes.answers(shapes.Page[shapes.Transform]))
    async def transforms(link: LinkName = None, offset: Offset = 0, limit: Limit = 100) -> Response:
        """The transforms of the links, with the record counts of this run."""
        view = _checked(await views.newest(), link)
        found = [(s.name, one) for s in view.statuses(link) for one in s.transforms]
        return _cut(view, found, offset, limit, lambda each: _transform(*each))

    @api.get("/problems", **shapes.answers(shapes.Page[shapes.Problem]))
    async def problems(
        link: LinkName = None, search: Search = "", offset: Offset = 0, limit: Limit = 100
    ) -> Response:
        """The problems of topics and links."""
        view = _checked(await views.newest(), link)
        every = [(s.name, one) for s in view.statuses(link) for one in s.problems]
        named = _named(every, search, lambda each: each[1].topic)
        return _cut(
            view, named, offset, limit, lambda each: shaped(shapes.Problem, each[1], link=each[0])
        )

    @api.get("/events", **shapes.answers(shapes.Page[shapes.Event]))
    async def newest_events(
        link: LinkName = None,
        search: Search = "",
        level: Annotated[list[Level] | None, Query(description="Only these levels.")] = None,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Response:
        """The last 2,000 log events of this process, the newest first."""
        view = _checked(await views.newest(), link)
        page, total = events.newest(
            link=link, search=search, levels=tuple(level or ()), offset=offset, limit=limit
        )
        return paged(page, total, offset, limit, view.now_ms)

    @api.get("/history", **shapes.answers(shapes.History))
    async def figures(
        link: LinkName = None,
        since_ms: Annotated[int, Query(ge=0, description="Only later points.")] = 0,
        points: Annotated[int, Query(ge=1, le=4320, description="The most points.")] = 720,
    ) -> Response:
        """The throughput and lag of the last six hours, at most since the start of this process."""
        return answer(history.since(since_ms, link, points))

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


def _overview(view: View) -> shapes.Overview:
    snapshot = view.snapshot
    return shaped(
        shapes.Overview,
        snapshot,
        version=VERSION,
        started_at_ms=int(snapshot.started_at * 1000),
        taken_at_ms=view.now_ms,
        lanes=len(snapshot.lanes),
        ranking=RANKING,
        reload=None if snapshot.reload is None else shaped(shapes.Reload, snapshot.reload),
        links=[_link_of(each) for each in view.links.values()],
    )


def _link_of(each: LinkView) -> shapes.Link:
    status = each.status
    return shaped(
        shapes.Link,
        status,
        topics=len(each.topics),
        partitions=len(status.partitions),
        states=each.states,
        problems=len(status.problems),
        tasks_failing=sum(task.reason is not None for task in status.tasks),
        groups=sum(group.followed for group in status.groups),
        **structs.asdict(each.totals),
    )


def _partition(link: str, one: PartitionStatus) -> shapes.Partition:
    size = one.lag_bytes
    return shaped(
        shapes.Partition,
        one,
        link=link,
        lag_bytes=None if size is None else round(size),
        preserving=preserved(one.preserving),
    )


def _tasks(view: View, link: str | None) -> list[tuple[str, TaskRecord]]:
    """Returns the tasks of links, and of pairs of clusters without a flow."""
    by_link: dict[str, Iterable[TaskRecord]] = {
        name: each.status.tasks for name, each in view.links.items()
    }
    by_link |= view.snapshot.other_tasks
    return [(name, one) for name, some in by_link.items() if link in (None, name) for one in some]


def _task(link: str, one: TaskRecord) -> shapes.Task:
    return shaped(shapes.Task, one, link=link, done_at=one.done_at if one.done_at >= 0 else None)


def _transform(link: str, one: TransformStatus) -> shapes.Transform:
    return shaped(shapes.Transform, one, link=link, rules=rules_of(one.rules), **counts_of(one))


def _directive(link: str, one: Directive) -> shapes.Directive:
    known = directive_as_json(one)
    return shapes.Directive(
        link=link,
        **{name: known[name] for name in shapes.Directive.__struct_fields__ if name in known},
    )


def _clusters(links: Iterable[LinkSettings]) -> list[shapes.Cluster]:
    """Returns the clusters by alias, without credentials."""
    found: dict[str, shapes.Cluster] = {}
    for each in links:
        for client, side in ((each.source, "source_of"), (each.target, "target_of")):
            getattr(found.setdefault(client.alias, _cluster(client)), side).append(each.name)
    return [found[alias] for alias in sorted(found)]


def _cluster(client: ClientSettings) -> shapes.Cluster:
    return shapes.Cluster(
        alias=client.alias,
        bootstrap=[f"{host}:{port}" for host, port in client.bootstrap],
        security_protocol=client.protocol,
        source_of=[],
        target_of=[],
    )
