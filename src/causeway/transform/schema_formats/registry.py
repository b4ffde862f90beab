"""Schemas from a registry, as a transform's worker has them.

A worker asks again until it has an answer: a registry that is out of reach, or lets nobody in, says
nothing of a record. One of several instances may not have heard of a schema that was
registered a moment ago: so it is asked for some seconds, but not for each id that somebody made up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from causeway.schemas import CircularError, RegistryClient, Trail, UnansweredError

PAUSES_S = (0.2, 5.0)  # between tries, first and longest
LATE_S = (0.2, 0.4, 0.8, 1.6)  # before an id that it does not know is asked for again
LATE_EVERY_S = 60.0  # at most so often
CIRCULAR = "CIRCULAR"
_UNKNOWN_S = 10.0  # so long an id that the registry does not know is not asked for again

Waiting = Callable[[str], None]  # told before each further try, with what came of the last


class NamedSchema(NamedTuple):
    """Another schema, that one names `name` (in Protobuf the path that it imports)."""

    name: str
    text: str


class ResolvedSchema(NamedTuple):
    """`format`: AVRO, PROTOBUF or JSON; CIRCULAR if its references form a circle, so that it cannot
    be read. `references`: all schemas that it needs, each after those that it needs itself."""

    id: int
    format: str
    text: str
    references: tuple[NamedSchema, ...] = ()


class MisfitError(Exception):
    """Bytes or JSON do not fit a schema. Says nothing, as it would quote a record."""


class WorkerRegistry:
    """A worker's client; keeps what it has heard as long as it lives. Not thread-safe."""

    def __init__(self, settings: Mapping[str, Any], waiting: Waiting = lambda reason: None) -> None:
        """`settings`: RegistrySettings in JSON's types, as in Setup."""
        self._client = RegistryClient(settings)
        self._waiting = waiting
        self._schemas: dict[int, ResolvedSchema] = {}
        self._unknown: dict[int, float] = {}
        self._late_at = -LATE_EVERY_S
        self._subjects: dict[int, tuple[tuple[str, int], ...]] = {}

    def schema(self, id: int) -> ResolvedSchema | None:
        """None: the registry does not know it."""
        found = self._schemas.get(id)
        if found is None:
            if time.monotonic() < self._unknown.get(id, 0):
                return None
            answer = self._newest(id)
            if answer is None:
                if len(self._unknown) > 10_000:
                    self._unknown.clear()
                self._unknown[id] = time.monotonic() + _UNKNOWN_S
                return None
            found = self._schemas[id] = self._read(id, answer)
        return found

    def _newest(self, id: int) -> Any:
        """The schema `id`, None for one that all instances had time to hear of."""
        path = f"/schemas/ids/{id}"
        answer = self._ask(path, "schema")
        if answer is None and time.monotonic() - self._late_at >= LATE_EVERY_S:
            for pause in LATE_S:
                time.sleep(pause)
                if (answer := self._ask(path, "schema")) is not None:
                    return answer
            self._late_at = time.monotonic()
        return answer

    def relatives(self, id: int, preferred: str) -> list[ResolvedSchema]:
        """The versions of the subjects that have the schema `id`, those of the subject `preferred`
        first, of each the oldest first: so what fits remains the same when more are registered."""
        versions = self._ask(f"/schemas/ids/{id}/versions") or []
        subjects = sorted({str(one["subject"]) for one in versions})
        subjects.sort(key=lambda subject: subject != preferred)
        found: dict[int, ResolvedSchema] = {}
        for subject in subjects:
            name = quote(subject, safe="")
            for version in sorted(self._ask(f"/subjects/{name}/versions") or []):
                one = self._ask(f"/subjects/{name}/versions/{version}", "schema")
                if one is not None and one["id"] not in found:
                    found[one["id"]] = self._schemas.get(one["id"]) or self._read(one["id"], one)
        self._schemas |= found
        return list(found.values())

    def _read(self, id: int, answer: Mapping[str, Any]) -> ResolvedSchema:
        references: dict[str, NamedSchema] = {}
        try:
            self._collect(answer.get("references") or (), references, Trail(self._client.url))
        except CircularError:
            return ResolvedSchema(id, CIRCULAR, answer["schema"])
        kind = answer.get("schemaType") or "AVRO"
        return ResolvedSchema(id, kind, answer["schema"], tuple(references.values()))

    def _collect(self, listed: Any, found: dict[str, NamedSchema], trail: Trail) -> None:
        for one in listed:
            name = one["name"]
            if name in found:
                continue
            subject = quote(one["subject"], safe="")
            answer = self._ask(f"/subjects/{subject}/versions/{one['version']}", "schema")
            if answer is not None:
                with trail.into(one["subject"], one["version"]):
                    self._collect(answer.get("references") or (), found, trail)
                found[name] = NamedSchema(name, answer["schema"])

    def _ask(self, path: str, has: str = "") -> Any:
        """The answer, None for what it does not know; waits for one that `has` what was asked for
        as long as it takes: what stands between may answer in its own way, which says nothing of a
        record."""
        pause = PAUSES_S[0]
        while True:
            try:
                answer = self._client.get(path)
            except UnansweredError as error:
                self._waiting(error.reason)
            else:
                if not has or answer is None or (isinstance(answer, dict) and has in answer):
                    return answer
                self._waiting(f"its answer has no {has}")
            time.sleep(pause)
            pause = min(pause * 2, PAUSES_S[1])
