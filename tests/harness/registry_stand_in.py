"""A schema registry in this process, with what Confluent's has and Apicurio lacks: modes, ids that
an import names, contexts, GUIDs. Written after Confluent's documentation and source; it parses no
schema, and finds every two of them compatible unless it is told that one is not.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from causeway.config import RegistrySettings, Secret

_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA = 40401, 40402, 40403
_NO_LEVEL, _NO_MODE = 40408, 40409
_INVALID, _NOT_PERMITTED, _REFERENCED = 42201, 42205, 42206


class _Error(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass
class _Version:
    body: dict[str, Any]
    id: int
    deleted: bool = False

    @property
    def says(self) -> str:
        return json.dumps([self.body.get(name) for name in _SAYS], sort_keys=True)


_SAYS = ("schema", "schemaType", "references", "metadata", "ruleSet")


@dataclass
class _State:
    """`first_id` is where a context's own ids begin; so two registries clash, or do not."""

    first_id: int
    subjects: dict[str, dict[int, _Version]] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)


class RegistryStandIn:
    """Serves until it is closed. `down`: it answers 503; `asked`: all requests, as `GET /path`."""

    def __init__(
        self, first_id: int = 1, *, login: tuple[str, str] | None = None, token: str = ""
    ) -> None:
        self._state = _State(first_id)
        self._lock = threading.Lock()
        self._login = login
        self._token = token
        self.down = False
        self.asked: list[str] = []
        self.incompatible: set[str] = set()  # texts
        self.gives_ids = False  # as Apicurio: also in the mode IMPORT
        self.says_null = False  # as AxonOps': of no subjects
        handler = type("Handler", (_Handler,), {"registry": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def settings(self) -> RegistrySettings:
        username, password = self._login or ("", "")
        return RegistrySettings(
            url=self.url,
            username=username or None,
            password=Secret(password) if password else None,
            token=Secret(self._token) if self._token else None,
            timeout_ms=5000,
            place="A.causeway.registry.url (line 3)",
        )

    def register(self, subject: str, schema: Any, kind: str = "AVRO", references: Any = ()) -> int:
        """As a producer does it."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            body["schemaType"] = kind
        if references:
            body["references"] = list(references)
        with self._lock:
            return int(self._register(subject, body)["id"])

    def refer(self, subject: str, version: int, references: Any) -> None:
        """Gives a version other references, which may form a circle. A real registry refuses that,
        but not one whose storage somebody else has written."""
        with self._lock:
            self._state.subjects[subject][version].body["references"] = list(references)

    def delete(self, subject: str, version: int, *, permanent: bool = False) -> None:
        with self._lock:
            self._delete(subject, version, permanent=permanent)

    def ids(self, subject: str) -> dict[int, int]:
        """By version, also those deleted softly."""
        return {n: one.id for n, one in sorted(self._state.subjects.get(subject, {}).items())}

    def deleted(self, subject: str) -> list[int]:
        versions = self._state.subjects.get(subject, {})
        return sorted(number for number, one in versions.items() if one.deleted)

    @property
    def levels(self) -> dict[str, str]:
        return self._state.levels

    @property
    def modes(self) -> dict[str, str]:
        return self._state.modes

    # -- what it answers

    def answer(self, method: str, target: str, body: Any, authorization: str | None) -> Any:
        self.asked.append(f"{method} {target}")
        if self.down:
            raise _Error(503, 50003, "not now")
        self._let_in(authorization)
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        words = [unquote(word) for word in parts.path.strip("/").split("/")]
        context = ""
        if words[0] == "contexts":
            context, words = f":{words[1]}:", words[2:]
        with self._lock:
            return self._route(method, words, query, body, context)

    def _let_in(self, authorization: str | None) -> None:
        wanted = None
        if self._token:
            wanted = f"Bearer {self._token}"
        elif self._login:
            wanted = "Basic " + base64.b64encode(":".join(self._login).encode()).decode()
        if wanted is not None and authorization != wanted:
            raise _Error(401, 40101, "who are you?")

    def _route(
        self, method: str, words: list[str], query: dict[str, str], body: Any, context: str
    ) -> Any:
        deleted = query.get("deleted") == "true"
        match [method, *words]:
            case ["GET", "subjects"]:
                names = [
                    name
                    for name, versions in self._state.subjects.items()
                    if _context(name) == context
                    and any(deleted or not one.deleted for one in versions.values())
                ]
                return None if self.says_null and not names else names
            case ["POST", "subjects", subject]:
                return self._find(context + subject, body, deleted)
            case ["GET", "subjects", subject, "versions"]:
                found = [
                    number
                    for number, one in sorted(self._versions(context + subject).items())
                    if deleted or not one.deleted
                ]
                if not found:
                    raise _Error(404, _NO_SUBJECT, "no such subject")
                return found
            case ["POST", "subjects", subject, "versions"]:
                return self._register(context + subject, body)
            case ["GET", "subjects", subject, "versions", number]:
                return self._shown(context + subject, int(number), deleted)
            case ["DELETE", "subjects", subject, "versions", number]:
                permanent = query.get("permanent") == "true"
                self._delete(context + subject, int(number), permanent=permanent)
                return int(number)
            case ["GET", "schemas", "ids", id]:
                return self._by_id(context, int(id))
            case ["GET", "schemas", "ids", id, "versions"]:
                return [
                    {"subject": name, "version": number}
                    for name, number, one in self._all(context)
                    if one.id == int(id) and (deleted or not one.deleted)
                ]
            case ["GET", "schemas", "guids", guid, "ids"]:
                known = sorted(
                    (_context(name).strip(":") or ".", one.id)
                    for name, versions in self._state.subjects.items()
                    for one in versions.values()
                    if _guid(one.body) == guid
                )
                if not known:
                    raise _Error(404, _NO_SCHEMA, "no such schema")
                return [{"context": name, "id": id} for name, id in dict(known).items()]
            case ["GET", "mode", subject]:
                return {"mode": self._mode(context + subject)}
            case ["PUT", "mode", subject]:
                self._set_mode(context + subject, body["mode"], query.get("force") == "true")
                return body
            case [_, "config", subject]:
                return self._level(method, context + subject, body)
        raise _Error(404, 404, "HTTP 404 Not Found")

    def _level(self, method: str, subject: str, body: Any) -> Any:
        if method == "PUT":
            self._state.levels[subject] = body["compatibility"]
            return body
        if subject not in self._state.levels:
            raise _Error(404, _NO_LEVEL, "no level of its own")
        if method == "DELETE":
            return {"compatibilityLevel": self._state.levels.pop(subject)}
        return {"compatibilityLevel": self._state.levels[subject]}

    def _versions(self, subject: str) -> dict[int, _Version]:
        if subject not in self._state.subjects:
            raise _Error(404, _NO_SUBJECT, "no such subject")
        return self._state.subjects[subject]

    def _all(self, context: str) -> Iterator[tuple[str, int, _Version]]:
        for name, versions in self._state.subjects.items():
            if _context(name) == context:
                for number, one in versions.items():
                    yield name, number, one

    def _shown(self, subject: str, number: int, deleted: bool) -> Any:
        one = self._versions(subject).get(number)
        if one is None or (one.deleted and not deleted):
            raise _Error(404, _NO_VERSION, "no such version")
        found = {"subject": subject, "version": number, "id": one.id, "guid": _guid(one.body)}
        return found | {name: one.body[name] for name in _SAYS if name in one.body}

    def _by_id(self, context: str, id: int) -> Any:
        for _, _, one in self._all(context):
            if one.id == id:
                return {name: one.body[name] for name in _SAYS if name in one.body}
        raise _Error(404, _NO_SCHEMA, "no such schema")

    def _find(self, subject: str, body: Any, deleted: bool) -> Any:
        asked = _Version(body, 0).says
        for number, one in sorted(self._versions(subject).items()):
            if one.says == asked and (deleted or not one.deleted):
                return self._shown(subject, number, deleted)
        raise _Error(404, _NO_SCHEMA, "no such schema")

    def _register(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        importing = self._mode(subject) == "IMPORT"
        id = body.get("id")
        if self.gives_ids:
            importing, id = False, None
        if importing != (id is not None):
            raise _Error(
                422,
                _NOT_PERMITTED,
                f"Subject {subject} is {'' if importing else 'not '}in import mode",
            )
        context = _context(subject)
        for one in body.get("references") or ():
            versions = self._state.subjects.get(context + one["subject"], {})
            if one["version"] not in versions:
                raise _Error(422, _INVALID, f"no schema for the reference {one['name']}")
        made = _Version({name: body[name] for name in _SAYS if body.get(name)}, 0)
        versions = self._state.subjects.get(subject, {})
        if not importing:
            for number, one in versions.items():
                if one.says == made.says and not one.deleted:
                    return {"id": one.id, "version": number}
            if made.body["schema"] in self.incompatible:
                raise _Error(409, 409, "Schema being registered is incompatible")
        same = {one.id for _, _, one in self._all(context) if one.says == made.says}
        if id is None:
            used = [one.id for _, _, one in self._all(context)]
            id = min(same) if same else max([self._state.first_id - 1, *used]) + 1
        else:
            other = [o for _, _, o in self._all(context) if o.id == id and o.says != made.says]
            if other:
                raise _Error(
                    422, _NOT_PERMITTED, f"Overwrite new schema with id {id} is not permitted."
                )
        made.id = id
        number = (importing and body.get("version")) or max(versions, default=0) + 1
        for older in [n for n, o in versions.items() if o.deleted and o.id == id and n < number]:
            del versions[older]
        self._state.subjects.setdefault(subject, {})[number] = made
        return {"id": id, "version": number}

    def _delete(self, subject: str, number: int, *, permanent: bool) -> None:
        versions = self._versions(subject)
        if number not in versions:
            raise _Error(404, _NO_VERSION, "no such version")
        name = subject.removeprefix(_context(subject))
        for _, _, one in self._all(_context(subject)):
            for reference in one.body.get("references") or () if not one.deleted else ():
                if (reference["subject"], reference["version"]) == (name, number):
                    raise _Error(422, _REFERENCED, "One or more references exist")
        if permanent:
            del versions[number]
            if not versions:
                del self._state.subjects[subject]
        else:
            versions[number].deleted = True
        if all(one.deleted for one in versions.values()):
            self._state.modes.pop(subject, None)
            self._state.levels.pop(subject, None)

    def _mode(self, subject: str) -> str:
        modes = self._state.modes
        return modes.get(subject) or modes.get(_context(subject)) or "READWRITE"

    def _set_mode(self, subject: str, mode: str, force: bool) -> None:
        if mode == "IMPORT" and self._mode(subject) != mode and not force:
            versions = self._state.subjects.get(subject, {})
            if any(not one.deleted for one in versions.values()):
                raise _Error(422, _NOT_PERMITTED, "Cannot import since found existing subjects")
            self._state.subjects.pop(subject, None)  # for good, as Confluent's does
        self._state.modes[subject] = mode


def _context(subject: str) -> str:
    found = re.match(r":\.[^:]*:", subject)
    return found[0] if found else ""


def _guid(body: dict[str, Any]) -> str:
    says = json.dumps([body.get(name) for name in _SAYS], sort_keys=True)
    return str(uuid.UUID(bytes=hashlib.md5(says.encode(), usedforsecurity=False).digest()))


class _Handler(BaseHTTPRequestHandler):
    registry: RegistryStandIn

    def _serve(self) -> None:
        size = int(self.headers["Content-Length"] or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        status, answer = 200, None
        try:
            answer = self.registry.answer(
                self.command, self.path, body, self.headers["Authorization"]
            )
        except _Error as error:
            status, answer = error.status, {"error_code": error.code, "message": error.message}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = _serve  # noqa: N815 - http.server looks for these names
    do_POST = _serve  # noqa: N815
    do_PUT = _serve  # noqa: N815
    do_DELETE = _serve  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def registry_stand_in(first_id: int = 1, **more: Any) -> Iterator[RegistryStandIn]:
    registry = RegistryStandIn(first_id, **more)
    try:
        yield registry
    finally:
        registry.close()
