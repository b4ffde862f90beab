"""Schemas from a registry, as the worker of a transform reads them.

A worker repeats a question until the registry answers: a registry that is out of reach, or that
denies access, says nothing about a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

from causeway.schemas import (
    CircularError,
    LateAnswers,
    Schema,
    SchemaRegistry,
    Trail,
    UnansweredError,
)

PAUSES_S = (0.2, 5.0)  # between tries, first and longest
CIRCULAR = "CIRCULAR"
_UNKNOWN_S = 10.0  # how long an unknown id is not looked up again

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")
Waiting = Callable[[str], None]  # called before each further try, with the reason


class NamedSchema(NamedTuple):
    """A schema that another one refers to by `name` (in Protobuf the path of the import)."""

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
    """Bytes or JSON do not fit a schema. The message never quotes the record."""


class WorkerRegistry:
    """Keeps all answers as long as the worker lives. Not thread-safe."""

    def __init__(self, settings: Mapping[str, Any], waiting: Waiting = lambda reason: None) -> None:
        """`settings`: RegistrySettings in JSON's types, as in Setup."""
        self._registry = SchemaRegistry(settings)
        self._waiting = waiting
        self._schemas: dict[int, ResolvedSchema] = {}
        self._unknown: dict[int, float] = {}
        self._patience = LateAnswers()

    def schema(self, id: int) -> ResolvedSchema | None:
        """None: the registry does not know it."""
        found = self._schemas.get(id)
        if found is None:
            if time.monotonic() < self._unknown.get(id, 0):
                return None
            schema = self._patience.ask(lambda: self._ask(self._registry.by_id, id))
            if schema is None:
                if len(self._unknown) > 10_000:
                    self._unknown.clear()
                self._unknown[id] = time.monotonic() + _UNKNOWN_S
                return None
            found = self._schemas[id] = self._resolved(id, schema)
        return found

    def relatives(self, id: int, preferred: str) -> list[ResolvedSchema]:
        """Returns the versions of the subjects that have the schema `id`: first those of the
        subject `preferred`, and of each subject the oldest first. So the schema that fits stays the
        same when more versions are registered."""
        listed = self._ask(self._registry.subjects_of, id, deleted=False)
        found: dict[int, ResolvedSchema] = {}
        for subject in sorted(
            {subject for subject, _ in listed}, key=lambda s: (s != preferred, s)
        ):
            for number in self._ask(self._registry.versions, subject):
                one = self._ask(self._registry.version, subject, number, deleted=False)
                if one is not None and one.id not in found:
                    found[one.id] = self._schemas.get(one.id) or self._resolved(one.id, one.schema)
        self._schemas |= found
        return list(found.values())

    def _resolved(self, id: int, schema: Schema) -> ResolvedSchema:
        references: dict[str, NamedSchema] = {}
        try:
            self._collect(schema, references, Trail(self._registry.url))
        except CircularError:
            return ResolvedSchema(id, CIRCULAR, schema.text)
        return ResolvedSchema(id, schema.kind, schema.text, tuple(references.values()))

    def _collect(self, schema: Schema, found: dict[str, NamedSchema], trail: Trail) -> None:
        for one in schema.references:
            if one.name in found:
                continue
            version = self._ask(self._registry.version, one.subject, one.version, deleted=False)
            if version is not None:
                with trail.into(one.subject, one.version):
                    self._collect(version.schema, found, trail)
                found[one.name] = NamedSchema(one.name, version.schema.text)

    def _ask(
        self, question: Callable[Asked, Answer], *args: Asked.args, **named: Asked.kwargs
    ) -> Answer:
        """Repeats `question` until it is answered, and until the answer is one of a registry: a
        proxy may answer in its own way, which says nothing about a record."""
        pause = PAUSES_S[0]
        while True:
            try:
                return question(*args, **named)
            except UnansweredError as error:
                reason = error.reason
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                reason = f"its answer cannot be understood ({type(error).__name__})"
            self._waiting(reason)
            time.sleep(pause)
            pause = min(pause * 2, PAUSES_S[1])


def indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Returns the indexes at the start of `data`, and their length in bytes. [0] is written as
    []."""
    count, at = _varint(data, 0)
    found = []
    for _ in range(count):
        index, at = _varint(data, at)
        found.append(index)
    return tuple(found) or (0,), at


def place_of(indexes: tuple[int, ...]) -> bytes:
    if indexes == (0,):
        return b"\0"
    found = bytearray()
    for number in (len(indexes), *indexes):
        rest = number << 1
        while rest >= 0x80:
            found.append(rest & 0x7F | 0x80)
            rest >>= 7
        found.append(rest)
    return bytes(found)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns a zigzag varint that is not negative, and the position of its end."""
    found = shift = 0
    while True:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    if found & 1:
        raise MisfitError
    return found >> 1, at
