"""Schema ids in records, and their translation to the target's registry, for the threads of a lane.

    0 | id, 4 bytes | data                  at the beginning of key or value
    0 | id, 4 bytes |  …                    in a header `__key_schema_id`, `__value_schema_id`
    1 | GUID, 16 bytes | …                  in that header, from newer clients: a hash of the schema

The last header of that name counts; if it is null, the part itself counts. In Protobuf the indexes
of the message follow the id; they are the same for the same schema.

`get` is fast and does no I/O. It notes unknown ids, and `find_out` asks the registries for them.
Answers are cached without end. Ids that the source's registry does not know are asked for again."""

from __future__ import annotations

import struct
import threading
import time
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from causeway.schemas.client import RegistryRefusedError, UnansweredError, unanswered
from causeway.schemas.copying import PARTS, SubjectPair, names, subject_of
from causeway.schemas.link import IdTranslator
from causeway.schemas.registry import LateAnswers, SchemaRegistry, SubjectVersion

_ID = struct.Struct(">bI")
_GUID_BYTES = 17
HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}
Header = tuple[str, bytes | None]


class SchemaId(NamedTuple):
    """`name`: an id, or a GUID as text. `header`: the index of the record's header that has it,
    None if the part itself has it."""

    name: int | str
    header: int | None


def find_schema_id(part: str, data: bytes | None, headers: Sequence[Header]) -> SchemaId | None:
    """Returns the schema id of the key or value `data`; None if it has none."""
    at = _header(HEADERS[part], headers) if headers else None
    if at is not None:
        header = headers[at][1] or b""
        if len(header) >= _GUID_BYTES and header[0] == 1:
            return SchemaId(str(uuid.UUID(bytes=header[1:_GUID_BYTES])), at)
        return None if (id := _id(header)) is None else SchemaId(id, at)
    return None if data is None or (id := _id(data)) is None else SchemaId(id, None)


def with_schema_id(data: bytes, name: int | str) -> bytes:
    """Returns `data` with another id of the same kind. `data`: a part or header in which
    `find_schema_id` has found an id."""
    if isinstance(name, int):
        return _ID.pack(0, name) + data[_ID.size :]
    return b"\1" + uuid.UUID(name).bytes + data[_GUID_BYTES:]


def _id(data: bytes) -> int | None:
    """Returns the id. No registry gives the id 0, which small numbers of 8 bytes would have."""
    if len(data) < _ID.size or data[0]:
        return None
    return _ID.unpack_from(data)[1] or None


def _header(name: str, headers: Sequence[Header]) -> int | None:
    for at in range(len(headers) - 1, -1, -1):
        if headers[at][0] == name:
            return None if headers[at][1] is None else at
    return None


_LONG_S = 2.0  # before a registry counts as slow
_MOST = 10_000  # unknown ids that are cached
_OPERATION = "translate the ids of schemas"
_OF_TOPICS = tuple(subject_of("", part) for part in PARTS)


class IdLookup(NamedTuple):
    """An id or GUID in the key or value (`part`) of a record of a topic (its name on both
    sides)."""

    source: str
    target: str
    part: str
    name: int | str


class Unknown(NamedTuple):
    """Why there is no answer. `nowhere`: the source's registry does not know the id."""

    reason: str
    nowhere: bool = False


class Ids:
    """Thread-safe. `called`: see `SchemaSettings.names`."""

    def __init__(self, source: SchemaRegistry, target: SchemaRegistry, called: str) -> None:
        self._source = source
        self._called = called
        self._translator = IdTranslator(self._source, target)
        self._found: dict[IdLookup, int | str] = {}
        self._unknown: dict[IdLookup, Unknown] = {}
        self._unknown_before: dict[IdLookup, Unknown] = {}  # the previous generation
        self._lacking: dict[IdLookup, None] = {}  # in the order of `get`
        self._lock = threading.Lock()  # for the four above
        self._asking = threading.Lock()
        self._patience = LateAnswers()
        self._silence: UnansweredError | None = None
        self._silent_until = 0.0

    def get(self, asked: IdLookup, *, settled: bool = False) -> int | str | Unknown | None:
        """Returns None if the id was not looked up yet. Notes this id, and unknown ids. With
        `settled`, the treatment of unknown ids is decided: an id that is known nowhere is not
        noted."""
        found = self._found.get(asked)
        if found is not None:
            return found
        with self._lock:
            unknown = self._unknown.get(asked) or self._unknown_before.get(asked)
            if not (settled and unknown is not None and unknown.nowhere):
                self._lacking[asked] = None
            return unknown

    def find_out(self) -> None:
        """Looks up the noted ids. Raises CausewayError if a registry does not answer. If that took
        long, later calls fail at once for the same time: many flows recover one after the other,
        and each would wait. `get` returns the registry's answers about single ids."""
        with self._asking:
            self._forget_some()
            while True:
                with self._lock:
                    asked = next(iter(self._lacking), None)
                if asked is None:
                    return
                began = time.monotonic()
                if self._silence is not None and began < self._silent_until:
                    raise unanswered(_OPERATION, self._silence)
                try:
                    answer = self._answer(asked)
                except UnansweredError as error:
                    took = time.monotonic() - began
                    if took >= _LONG_S:
                        self._silent_until = began + 2 * took
                        self._silence = error.with_traceback(None)
                    raise unanswered(_OPERATION, error) from None
                with self._lock:
                    if isinstance(answer, Unknown):
                        self._unknown[asked] = answer
                    else:
                        self._found[asked] = answer
                        self._unknown.pop(asked, None)
                        self._unknown_before.pop(asked, None)
                    self._lacking.pop(asked, None)

    def _forget_some(self) -> None:
        """Keeps the latest answers, because a batch waits until all its ids are known at the same
        time."""
        with self._lock:
            if len(self._unknown) >= _MOST:
                self._unknown_before, self._unknown = self._unknown, {}

    def _answer(self, asked: IdLookup) -> int | str | Unknown:
        try:
            version = self._patience.ask(lambda: self._there(asked))
        except UnansweredError as error:
            if error.passing or error.denied:
                raise
            return Unknown(f"the registry {error.url}: {error.reason}")
        except RegistryRefusedError as error:
            return Unknown(f"the target's registry refuses the schema: {error.reason}")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return Unknown(f"a registry's answer cannot be understood ({type(error).__name__})")
        if version is None:
            where = self._source.url
            return Unknown(f"the registry {where} does not know its schema", nowhere=True)
        if isinstance(asked.name, int):
            return version.id
        return version.guid or Unknown("the target's registry has no GUIDs")

    def _there(self, asked: IdLookup) -> SubjectVersion | None:
        id = asked.name if isinstance(asked.name, int) else self._source.id_of_guid(asked.name)
        if id is None:
            return None
        own = subject_of(asked.source, asked.part)
        mirrors = subject_of(asked.target, asked.part)
        called = next(names(self._called, own, mirrors))
        listed = sorted(self._source.subjects_of(id), key=lambda each: (each[0] != own, each))
        for subject, number in listed:
            other = _of_other(self._called, subject, asked)
            pair = SubjectPair(source=subject, target=called if subject == own else other)
            if (found := self._translator.there(pair, number, id=id)) is not None:
                return found
        # No subject has the schema any more, but its id stays valid.
        schema = self._source.by_id(id)
        return None if schema is None else self._translator.of(called, schema)


def _of_other(called: str, subject: str, asked: IdLookup) -> str:
    """Returns the target's name of `subject`, which is not the topic's own subject. A subject of
    another topic, whose records were put into this one, follows that topic, as its name shows. The
    target may have its own subject with the name that the source has."""
    prefix = asked.target.removesuffix(asked.source)
    if prefix == asked.target or not subject.endswith(_OF_TOPICS):
        return subject
    return next(names(called, subject, prefix + subject))
