"""A schema registry's objects: subjects, versions, ids, references, compatibility levels, modes.

In a context (`http://registry/contexts/.NAME`), subjects have no prefix: the subject
`:.NAME:orders-value` of other clients is `orders-value` here. References that form a circle define
no schema."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from urllib.parse import quote

from causeway.config import RegistrySettings
from causeway.schemas.client import RegistryClient, UnansweredError

IMPORT = "IMPORT"
_AVRO = "AVRO"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference to another schema. `name`: in Protobuf, the imported path."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The content of a schema. `more`: metadata and rules, if the registry has them."""

    text: str = field(repr=False)
    kind: str = _AVRO  # AVRO, JSON, PROTOBUF
    references: tuple[Reference, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"schema": self.text, **self.more}
        if self.kind != _AVRO:
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = [each.as_json() for each in self.references]
        return found

    def same_as(self, other: Schema) -> bool:
        """Returns whether both have the same content, apart from layout."""
        if (self.kind, sorted(self.references, key=str)) != (
            other.kind,
            sorted(other.references, key=str),
        ):
            return False
        return self.text == other.text or _parsed(self.kind, self.text) == _parsed(
            other.kind, other.text
        )

    def with_references(self, versions: Mapping[tuple[str, int], int]) -> Schema:
        """Returns the schema with references to other versions. `versions`: the new version for
        each subject and version."""
        moved = (
            replace(each, version=versions.get((each.subject, each.version), each.version))
            for each in self.references
        )
        return replace(self, references=tuple(moved))


def _parsed(kind: str, text: str) -> object:
    if kind == "PROTOBUF":
        return " ".join(text.split())
    try:
        return json.loads(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectVersion:
    """A version of a subject. `guid`: only in newer registries."""

    subject: str
    number: int
    id: int
    schema: Schema
    guid: str | None = None


class SchemaRegistry:
    """Raises UnansweredError and RegistryRefusedError. Thread-safe."""

    def __init__(self, settings: RegistrySettings | Mapping[str, Any], context: str = "") -> None:
        """`context`: the context of its subjects, without the dot; "" for that of the URL."""
        values = dict(settings if isinstance(settings, Mapping) else settings.as_json())
        if context:
            values["url"] = f"{values['url']}/contexts/.{quote(context, safe='')}"
        self._client = RegistryClient(values)
        self.url = self._client.url
        inside = self.url.rpartition("/contexts/")[2] if "/contexts/" in self.url else ""
        self._prefix = f":{inside}:" if inside else ""

    def subjects(self) -> list[str]:
        """Returns all subjects, including softly deleted ones."""
        found = self._client.get("/subjects?deleted=true")
        if found is None:  # some registries answer so if they have no subjects
            return []
        if not isinstance(found, list):
            raise UnansweredError("it does not list its subjects")
        return sorted(str(each).removeprefix(self._prefix) for each in found)

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Returns version numbers, the oldest first; none for an unknown subject. `deleted`: also
        softly deleted ones."""
        found = self._client.get(f"{_at(subject)}/versions{_also(deleted)}")
        return sorted(found or ())

    def version(self, subject: str, number: int, *, deleted: bool = True) -> SubjectVersion | None:
        """Returns a version. `deleted`: also a softly deleted one."""
        found = self._client.get(f"{_at(subject)}/versions/{number}{_also(deleted)}")
        return None if found is None else self._version(found)

    def by_id(self, id: int) -> Schema | None:
        found = self._client.get(f"/schemas/ids/{id}")
        return None if found is None else _schema(found)

    def subjects_of(self, id: int, *, deleted: bool = True) -> list[tuple[str, int]]:
        """Returns the subjects and versions that have the schema `id`. `deleted`: also softly
        deleted ones."""
        found = self._client.get(f"/schemas/ids/{id}/versions{_also(deleted)}") or ()
        return sorted(
            (str(each["subject"]).removeprefix(self._prefix), int(each["version"]))
            for each in found
        )

    def id_of_guid(self, guid: str) -> int | None:
        """Returns the id. None if the GUID is unknown here, or if the registry has no GUIDs. A GUID
        is the same in all contexts, an id is not."""
        found = self._optional(f"/schemas/guids/{guid}/ids")
        own = self._prefix.strip(":") or "."
        ids = sorted(
            int(each["id"])
            for each in found or ()
            if "id" in each and (each.get("context") or ".").strip(":") == own
        )
        return ids[0] if ids else None

    def find(self, subject: str, schema: Schema) -> SubjectVersion | None:
        """Returns the version of `subject` with the content of `schema`; None if there is none."""
        found = self._client.ask("POST", f"{_at(subject)}?deleted=true", schema.as_json())
        return None if found is None else self._version(found)

    def register(
        self, subject: str, schema: Schema, *, id: int | None = None, number: int | None = None
    ) -> int:
        """Registers a schema, with `id` and `number` as that version, which needs the mode IMPORT.
        Returns the schema's id."""
        body = schema.as_json()
        if id is not None:
            body |= {"id": id, "version": number}
        found = self._client.ask("POST", f"{_at(subject)}/versions", body)
        if not isinstance(found, dict) or not isinstance(found.get("id"), int):
            raise UnansweredError("it gave the schema no id")
        return int(found["id"])

    def delete(self, subject: str, number: int) -> None:
        """Deletes a version softly: its id stays known."""
        self._client.ask("DELETE", f"{_at(subject)}/versions/{number}")

    def mode(self, subject: str) -> str | None:
        """Returns the mode in force, None if the registry has no modes."""
        found = self._optional(f"/mode/{_name(subject)}?defaultToGlobal=true")
        return None if found is None else str(found.get("mode"))

    def set_mode(self, subject: str, mode: str, *, force: bool = False) -> None:
        path = f"/mode/{_name(subject)}{'?force=true' if force else ''}"
        self._client.ask("PUT", path, {"mode": mode})

    def level(self, subject: str) -> str | None:
        """Returns the subject's own compatibility level, if it has one."""
        found = self._client.get(f"/config/{_name(subject)}")
        return None if found is None else found.get("compatibilityLevel")

    def set_level(self, subject: str, level: str | None) -> None:
        """Sets the level. None: the registry's own level applies again."""
        path = f"/config/{_name(subject)}"
        if level is None:
            self._client.ask("DELETE", path)
        else:
            self._client.ask("PUT", path, {"compatibility": level})

    def _optional(self, path: str) -> Any:
        """Returns the answer. None also if the registry lacks this part of the interface."""
        try:
            return self._client.get(path)
        except UnansweredError as error:
            if not error.missing:
                raise
            return None

    def _version(self, found: Mapping[str, Any]) -> SubjectVersion:
        return SubjectVersion(
            subject=str(found["subject"]).removeprefix(self._prefix),
            number=int(found["version"]),
            id=int(found["id"]),
            schema=_schema(found),
            guid=found.get("guid"),
        )


def _schema(found: Mapping[str, Any]) -> Schema:
    return Schema(
        text=found["schema"],
        kind=found.get("schemaType") or _AVRO,
        references=tuple(
            Reference(name=each["name"], subject=each["subject"], version=int(each["version"]))
            for each in found.get("references") or ()
        ),
        more={name: found[name] for name in ("metadata", "ruleSet") if found.get(name)},
    )


def _name(subject: str) -> str:
    return quote(subject, safe="")


def _also(deleted: bool) -> str:
    return "?deleted=true" if deleted else ""


def _at(subject: str) -> str:
    return f"/subjects/{_name(subject)}"


MOST_LEVELS: Final = 100  # levels of references below a schema
_SHOWN: Final = 6  # versions, in a message


class CircularError(UnansweredError):
    """A schema refers to itself through others, or has more than `MOST_LEVELS` levels of
    references. An operator must change it on the source: no later try can succeed."""


class Trail:
    """A path of versions. Each refers to the next. `url`: the address of their registry."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._followed: list[tuple[str, int]] = []

    @contextmanager
    def into(self, subject: str, number: int) -> Iterator[None]:
        """Raises CircularError if version `number` of `subject` is on the path already."""
        key = (subject, number)
        if key in self._followed:
            circle = [*self._followed[self._followed.index(key) :], key]
            raise self._error(f"its schema refers to itself: {_shown(circle)}")
        if len(self._followed) > MOST_LEVELS:
            raise self._error(f"its schema has more than {MOST_LEVELS} levels of references")
        self._followed.append(key)
        try:
            yield
        finally:
            self._followed.pop()

    def _error(self, reason: str) -> CircularError:
        error = CircularError(f"{reason}; register a version without that reference")
        error.url = self._url
        return error


def _shown(circle: list[tuple[str, int]]) -> str:
    named = [f"{subject} version {number}" for subject, number in circle]
    if len(named) > _SHOWN:
        named[_SHOWN - 2 : -1] = ["…"]
    return " -> ".join(named)


LATE_S = (0.2, 0.4, 0.8, 1.6)  # the pause before each repeated question for an unknown id
LATE_EVERY_S = 60.0  # the least time between two series of repetitions
_Found = TypeVar("_Found")


class LateAnswers:
    """An instance of a registry may get a new schema later than another instance. So a question for
    an unknown id is repeated for some seconds, but not for each of many invented ids."""

    def __init__(self) -> None:
        self._late_at = -LATE_EVERY_S

    def ask(self, question: Callable[[], _Found | None]) -> _Found | None:
        found = question()
        if found is None and time.monotonic() - self._late_at >= LATE_EVERY_S:
            for pause in LATE_S:
                time.sleep(pause)
                if (found := question()) is not None:
                    return found
            self._late_at = time.monotonic()
        return found
