"""Kafka Connect's paths, for scripts made for MirrorMaker 2. Each link is three connectors, with
Strimzi's names.

    A->B.MirrorSourceConnector        a task for each lane
    A->B.MirrorCheckpointConnector    the task `groups`
    A->B.MirrorHeartbeatConnector     the task `heartbeats`

Forms and states are Connect's. To pause, resume, stop or restart the first connector does the same
with the link. The other two follow the link, and refuse these requests. Requests that would change
a connector are refused in Connect's form of errors: only the file defines a link.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response

from causeway.config import ControlSettings, FlowKeys, HeartbeatKeys, LinkSettings
from causeway.http.actions import Actions, RequestBody
from causeway.http.answers import answer
from causeway.http.api import VERSION
from causeway.http.views import SharedValue, View
from causeway.link_topics import TaskRecord
from causeway.model import ENDED, State
from causeway.naming import HEARTBEATS
from causeway.status import LinkStatus, Role

SOURCE: Final = "MirrorSourceConnector"
CHECKPOINT: Final = "MirrorCheckpointConnector"
HEARTBEAT: Final = "MirrorHeartbeatConnector"
_PACKAGE: Final = "org.apache.kafka.connect.mirror."
# MirrorMaker 2's keys in the config of each connector.
_KEYS: Final = {
    SOURCE: (
        "topics",
        "topics.exclude",
        "config.properties.exclude",
        "replication.factor",
        "refresh.topics.enabled",
        "refresh.topics.interval.seconds",
        "sync.topic.configs.enabled",
        "sync.topic.configs.interval.seconds",
        "sync.topic.acls.enabled",
        "sync.topic.acls.interval.seconds",
        "emit.offset-syncs.enabled",
        "offset.lag.max",
        "offset-syncs.topic.location",
        "offset-syncs.topic.replication.factor",
    ),
    CHECKPOINT: (
        "groups",
        "groups.exclude",
        "refresh.groups.enabled",
        "refresh.groups.interval.seconds",
        "emit.checkpoints.enabled",
        "emit.checkpoints.interval.seconds",
        "checkpoints.topic.replication.factor",
        "sync.group.offsets.enabled",
        "sync.group.offsets.interval.seconds",
    ),
    HEARTBEAT: (
        "emit.heartbeats.enabled",
        "emit.heartbeats.interval.seconds",
        "heartbeats.topic.replication.factor",
    ),
}
_SETTING_OF: Final = {
    key.name: (attrgetter(part + field), key.kind.text)
    for part, keys in (
        ("", FlowKeys),
        ("control.", ControlSettings),
        ("control.heartbeats.", HeartbeatKeys),
    )
    for field, key in keys.table().items()
}
_STATES: Final = {
    Role.STARTING: "UNASSIGNED",
    Role.STANDBY: "UNASSIGNED",
    Role.LEADING: "RUNNING",
    Role.FAILED: "FAILED",
    Role.ENDED: "STOPPED",
}
_FAILED: Final = frozenset({State.STOPPED, State.FAILED})
_BY_FILE: Final = (
    "connectors are the flows of the file of this run: change the file, which the run takes over as"
    " causeway.reload says"
)
_OF_SOURCE: Final = (
    "only MirrorSourceConnector can be paused, resumed, stopped and restarted: it means "
    "the link {}, and groups and heartbeats follow it"
)
_BY_LOGS: Final = (
    "offsets cannot be set: they follow from the logs of both clusters; docs/how-to/strimzi.md has"
    " the commands that skip records, mirror them again, or begin later"
)
# The other paths of Connect.
_REFUSED: Final = (
    ("/connectors", ("POST",), _BY_FILE),
    ("/connectors/{name}", ("DELETE",), _BY_FILE),
    ("/connectors/{name}/config", ("PUT", "PATCH"), _BY_FILE),
    ("/connectors/{name}/offsets", ("PATCH", "DELETE"), _BY_LOGS),
    ("/connectors/{name}/topics/reset", ("PUT",), _BY_FILE),
)


@dataclass(frozen=True)
class Connector:
    """A connector of a link. `settings`: of the file. `worker`: host and port of this process."""

    kind: str  # the last part of its class
    link: LinkStatus
    settings: LinkSettings
    worker: str
    lanes: int

    @property
    def name(self) -> str:
        return f"{self.link.name}.{self.kind}"

    @cached_property
    def _states(self) -> frozenset[str]:
        """The partitions of the link; only the source connector has any."""
        partitions = self.link.partitions if self.kind == SOURCE else ()
        return frozenset(each.state for each in partitions)

    @property
    def state(self) -> str:
        """The state; a mirror that has ended is a stopped connector."""
        if self._states and self._states <= ENDED:
            return "STOPPED"
        return (
            "PAUSED" if self._states == {State.PAUSED} else _STATES[self.link.role or Role.STARTING]
        )

    def tasks(self) -> list[dict[str, Any]]:
        """Returns the tasks with id, state and worker, and with a trace if they failed."""
        if self.link.role is not Role.LEADING:
            return []
        if self.kind == SOURCE:
            own = {"state": self.state, "worker_id": self.worker} | self._failure()
            return [{"id": number, **own} for number in range(self.lanes)]
        record = self._record()
        if record is None:
            return []
        found = {"id": 0, "state": "RUNNING", "worker_id": self.worker}
        if record.reason is not None:
            found |= {"state": "FAILED", "trace": record.reason}
        return [found]

    def _failure(self) -> dict[str, str]:
        """Returns the failure of its tasks, if all partitions have stopped or failed; else {}."""
        if not self._states or not self._states <= _FAILED:
            return {}
        found = (each for each in self.link.partitions if each.reason)
        trace = next((f"{each.topic}-{each.partition}: {each.reason}" for each in found), "")
        return {"state": "FAILED", "trace": trace}

    def _record(self) -> TaskRecord | None:
        name = "groups" if self.kind == CHECKPOINT else "heartbeats"
        return next((task for task in self.link.tasks if task.name == name), None)

    def info(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "config": self.config(),
            "tasks": [{"connector": self.name, "task": task["id"]} for task in self.tasks()],
            "type": "source",
        }

    def config(self) -> dict[str, str]:
        """Returns the config with MirrorMaker 2's keys, without credentials, keys and
        certificates."""
        link = self.settings
        found = {
            "name": self.name,
            "connector.class": _PACKAGE + self.kind,
            "source.cluster.alias": link.source.alias,
            "target.cluster.alias": link.target.alias,
        }
        for side, client in (("source", link.source), ("target", link.target)):
            servers = ",".join(f"{host}:{port}" for host, port in client.bootstrap)
            found[f"{side}.cluster.bootstrap.servers"] = servers
            found[f"{side}.cluster.security.protocol"] = client.protocol
        found["replication.policy.separator"] = link.policy.separator
        settings = ((key, *_SETTING_OF[key]) for key in _KEYS[self.kind])
        return found | {key: text(value_of(link)) for key, value_of, text in settings}

    def status(self) -> dict[str, Any]:
        own = {"state": self.state, "worker_id": self.worker}
        if self.link.role is Role.FAILED:
            own["trace"] = self.link.reason or ""
        return {"name": self.name, "connector": own, "tasks": self.tasks(), "type": "source"}

    def topics(self) -> list[str]:
        """Returns the topics that the connector writes to, on the target."""
        if self.kind == SOURCE:
            return sorted({each.target_topic for each in self.link.partitions})
        if self.kind == CHECKPOINT:
            return [self.settings.checkpoints_topic]
        return [HEARTBEATS]

    def offsets(self) -> list[dict[str, Any]]:
        """Returns the last copied source offsets, in MirrorMaker 2's form."""
        if self.kind != SOURCE:
            return []
        return [
            {
                "partition": {
                    "cluster": self.link.source,
                    "partition": each.partition,
                    "topic": each.topic,
                },
                "offset": {"offset": each.mirrored_to - 1},
            }
            for each in self.link.partitions
            if each.mirrored_to
        ]


def connectors(view: View, links: Iterable[LinkSettings], worker: str) -> Mapping[str, Connector]:
    """Returns the connectors by name."""
    lanes = len(view.snapshot.lanes)
    found = (
        Connector(kind, view.links[link.name].status, link, worker, lanes)
        for link in links
        if link.name in view.links
        for kind in _KEYS
    )
    return {each.name: each for each in found}


def router(
    views: SharedValue[View], links: Sequence[LinkSettings], worker: str, actions: Actions
) -> APIRouter:
    connect = APIRouter(tags=["Kafka Connect"])

    async def every() -> Mapping[str, Connector]:
        return connectors(await views.newest(), links, worker)

    async def named(name: str) -> Connector:
        found = (await every()).get(name)
        if found is None:
            raise HTTPException(404, f"Connector {name} not found")
        return found

    @connect.get("/connectors")
    async def all_connectors(
        expand: Annotated[list[str] | None, Query(description="`status`, `info` or both.")] = None,
    ) -> Response:
        """The names of the connectors; with `expand` also their status and info."""
        found = await every()
        if not expand:
            return answer(list(found))
        return answer(
            {
                name: {
                    **({"status": each.status()} if "status" in expand else {}),
                    **({"info": each.info()} if "info" in expand else {}),
                }
                for name, each in found.items()
            }
        )

    @connect.get("/connectors/{name}")
    async def connector(name: str) -> Response:
        """The config and the tasks of a connector."""
        return answer((await named(name)).info())

    @connect.get("/connectors/{name}/config")
    async def config(name: str) -> Response:
        """The config of a connector with MirrorMaker 2's keys, without credentials."""
        return answer((await named(name)).config())

    @connect.get("/connectors/{name}/status")
    async def status(name: str) -> Response:
        """The states of the connector and its tasks."""
        return answer((await named(name)).status())

    @connect.get("/connectors/{name}/tasks")
    async def tasks(name: str) -> Response:
        """The tasks of a connector; all have its config."""
        each = await named(name)
        return answer(
            [
                {"id": {"connector": name, "task": task["id"]}, "config": each.config()}
                for task in each.tasks()
            ]
        )

    @connect.get("/connectors/{name}/tasks/{task}/status")
    async def task_status(name: str, task: int) -> Response:
        """The state of a task."""
        found = next((t for t in (await named(name)).tasks() if t["id"] == task), None)
        if found is None:
            raise HTTPException(404, f"No status found for task {name}-{task}")
        return answer(found)

    @connect.get("/connectors/{name}/topics")
    async def topics(name: str) -> Response:
        """The topics that a connector writes to, on the target."""
        each = await named(name)
        return await _made(lambda: {name: {"topics": each.topics()}})

    @connect.get("/connectors/{name}/offsets")
    async def offsets(name: str) -> Response:
        """The last copied source offset of each partition, in MirrorMaker 2's form."""
        each = await named(name)
        return await _made(lambda: {"offsets": each.offsets()})

    @connect.get("/connector-plugins")
    async def plugins() -> Response:
        """The connector classes."""
        return answer(
            [{"class": _PACKAGE + kind, "type": "source", "version": VERSION} for kind in _KEYS]
        )

    async def act(action: str, name: str, request: Request, why: str | None = None) -> None:
        """Records the request and does not wait, because Connect does not wait either."""
        each = await named(name)
        if each.kind != SOURCE:
            raise HTTPException(405, _OF_SOURCE.format(each.link.name))
        await actions.do(action, request, RequestBody(reason=why), None, link=each.link.name)

    @connect.put("/connectors/{name}/pause", status_code=202, response_class=Response)
    async def pause(name: str, request: Request) -> Response:
        """Pauses the link."""
        await act("pause", name, request)
        return Response(status_code=202)

    @connect.put("/connectors/{name}/resume", status_code=202, response_class=Response)
    async def resume(name: str, request: Request) -> Response:
        """Resumes the link."""
        await act("resume", name, request)
        return Response(status_code=202)

    @connect.put("/connectors/{name}/stop", status_code=204, response_class=Response)
    async def stop(name: str, request: Request) -> Response:
        """Pauses the link: a stopped connector would do the same."""
        await act("pause", name, request, "stopped as a connector")
        return Response(status_code=204)

    @connect.post("/connectors/{name}/restart", status_code=204, response_class=Response)
    async def restart(name: str, request: Request) -> Response:
        """Retries the stopped and failed partitions of the link; the parameters change nothing."""
        await act("restart", name, request)
        asked = [request.query_params.get(each, "") for each in ("includeTasks", "onlyFailed")]
        if "true" in map(str.lower, asked):
            return answer((await named(name)).status(), 202)
        return Response(status_code=204)

    @connect.post(
        "/connectors/{name}/tasks/{task}/restart", status_code=204, response_class=Response
    )
    async def restart_task(name: str, task: int, request: Request) -> Response:
        """Retries the stopped and failed partitions of the link: partitions move between lanes."""
        each = await named(name)
        if each.kind == SOURCE and task not in {known["id"] for known in each.tasks()}:
            raise HTTPException(404, f"Unknown task: {name}-{task}")
        await act("restart", name, request)
        return Response(status_code=204)

    def refusal(reason: str) -> Callable[..., Awaitable[Response]]:
        async def refuse(name: str = "") -> Response:
            if name:
                await named(name)
            raise HTTPException(405, reason)

        return refuse

    for path, methods, reason in _REFUSED:
        route = refusal(reason)
        connect.add_api_route(path, route, methods=list(methods), include_in_schema=False)
    return connect


async def _made(content: Callable[[], Any]) -> Response:
    """Answers in a thread: Connect has no pages, so 100,000 partitions take a second."""
    return await asyncio.to_thread(lambda: answer(content()))


def server_info() -> dict[str, Any]:
    """Returns the answer of `GET /` to clients that do not accept HTML."""
    return {"version": VERSION, "commit": "causeway", "kafka_cluster_id": ""}
