"""Incremental fetch sessions of a broker (KIP-227): between requests it keeps what is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.cluster import errors
from tests.simulation.cluster.errors import Refused

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

WITH_IDS: Final = 13
_INITIAL, _FINAL = 0, -1
_LAST_EPOCH: Final = (1 << 31) - 1

FetchPlace = tuple[Any, int]
"""Topic, as the version names it (id or name), and partition."""


@dataclass(slots=True)
class ReadPartition:
    """Where a client reads, and what it was told last. `topic`: its name as a session found it by
    its id."""

    leader_epoch: int
    offset: int
    last_epoch: int
    max_bytes: int
    high_watermark: int = -1
    log_start: int = -1
    topic: str | None = None


class FetchContext:
    """Of one request. `id`: of its session, 0 without one. `is_full`: it names all partitions, and
    so does its answer."""

    def __init__(
        self, session_id: int, parts: dict[FetchPlace, ReadPartition], *, is_full: bool
    ) -> None:
        self.id, self.parts, self.is_full = session_id, parts, is_full


@dataclass(slots=True)
class _Session:
    parts: dict[FetchPlace, ReadPartition]
    epoch: int
    with_ids: bool


class FetchSessions:
    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._sessions: dict[int, _Session] = {}

    def clear(self) -> None:
        self._sessions.clear()

    def context(self, request: Any) -> FetchContext:
        """Raises Refused for an error of the whole request."""
        version = request.API_VERSION
        session_id = request.session_id if version >= 7 else 0
        epoch = request.session_epoch if version >= 7 else _FINAL
        if epoch in (_INITIAL, _FINAL):
            self._sessions.pop(session_id, None)
            parts = _parts(request)
            session_id = self._begin(request, parts) if epoch == _INITIAL and parts else 0
            return FetchContext(session_id, parts, is_full=True)
        session = self._sessions.get(session_id)
        if session is None:
            raise Refused(errors.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            raise Refused(errors.INVALID_FETCH_SESSION_EPOCH)
        if session.with_ids != (version >= WITH_IDS):
            raise Refused(errors.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = epoch + 1 if epoch < _LAST_EPOCH else 1
        for place, part in _parts(request).items():
            known = session.parts.get(place)
            if known is not None:
                part.high_watermark, part.log_start = known.high_watermark, known.log_start
                part.topic = known.topic
            session.parts[place] = part
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.parts.pop((_name(topic, version), index), None)
        return FetchContext(session_id, session.parts, is_full=False)

    def _begin(self, request: Any, parts: dict[FetchPlace, ReadPartition]) -> int:
        slots = self._node.cluster.settings.max_incremental_fetch_session_cache_slots
        if len(self._sessions) >= slots:
            return 0
        session_id = self._node.world.random.randint(1, (1 << 31) - 1)
        self._sessions[session_id] = _Session(parts, 1, request.API_VERSION >= WITH_IDS)
        return session_id

    def lose(self) -> None:
        """As a broker that needs the room for others."""
        self._sessions.clear()


def _name(topic: Any, version: int) -> Any:
    return topic.topic_id if version >= WITH_IDS else topic.topic


def _parts(request: Any) -> dict[FetchPlace, ReadPartition]:
    version = request.API_VERSION
    has_epochs, has_last_epochs = version >= 9, version >= 12
    return {
        (_name(topic, version), part.partition): ReadPartition(
            part.current_leader_epoch if has_epochs else -1,
            part.fetch_offset,
            part.last_fetched_epoch if has_last_epochs else -1,
            part.partition_max_bytes,
        )
        for topic in request.topics
        for part in topic.partitions
    }
