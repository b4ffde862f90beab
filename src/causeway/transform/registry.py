"""Schemas from a registry, by what Confluent's, Karapace's and Apicurio's have in common.

A worker asks again until it has an answer: a registry that is out of reach, or lets nobody in, says
nothing of a record. What it does not know it says with 404 and a code of its own; any other 404 is
that of somebody between. One of several instances may not have heard of a schema that was
registered a moment ago: so it is asked for some seconds, but not for each id that somebody made up.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import quote

from causeway.config.settings import RegistrySettings
from causeway.errors import ConfigError

PAUSES_S = (0.2, 5.0)  # between tries, first and longest
_TOO_MANY, _OUT_OF_ORDER = 429, 500
_NOT_FOUND = range(40401, 40500)  # as error_code: a subject, a version, a schema
_ANSWER_BYTES = 64 * 1024 * 1024
LATE_S = (0.2, 0.4, 0.8, 1.6)  # before an id that it does not know is asked for again
LATE_EVERY_S = 60.0  # at most so often
_UNKNOWN_S = 10.0  # so long an id that the registry does not know is not asked for again
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"

Waiting = Callable[[str], None]  # told before each further try, with what came of the last


class Reference(NamedTuple):
    """Another schema, that one names `name` (in Protobuf the path that it imports)."""

    name: str
    text: str


class Schema(NamedTuple):
    """`format`: AVRO, PROTOBUF or JSON. `references`: all that it needs, those that others need
    first."""

    id: int
    format: str
    text: str
    references: tuple[Reference, ...] = ()


class MisfitError(Exception):
    """Bytes or JSON do not fit a schema. Says nothing, as it would quote a record."""


class UnansweredError(Exception):
    """The registry did not answer a question; `reason` says why, and holds no secret. `passing`: it
    is out of reach or out of order, which says nothing of the settings."""

    def __init__(self, reason: str, *, denied: bool = False, passing: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.denied = denied
        self.passing = passing


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Who redirects might lead to somebody who is not to have the password."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Registry:
    """A worker's client; keeps what it has heard as long as it lives. Not thread-safe."""

    def __init__(self, settings: Mapping[str, Any], waiting: Waiting = lambda reason: None) -> None:
        """`settings`: RegistrySettings in JSON's types, as in Setup."""
        self._client = _Client(settings)
        self._waiting = waiting
        self._schemas: dict[int, Schema] = {}
        self._unknown: dict[int, float] = {}
        self._late_at = -LATE_EVERY_S
        self._subjects: dict[int, tuple[tuple[str, int], ...]] = {}

    def schema(self, id: int) -> Schema | None:
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

    def relatives(self, id: int, preferred: str) -> list[Schema]:
        """The versions of the subjects that have the schema `id`, those of the subject `preferred`
        first, of each the oldest first: so what fits remains the same when more are registered."""
        versions = self._ask(f"/schemas/ids/{id}/versions") or []
        subjects = sorted({str(one["subject"]) for one in versions})
        subjects.sort(key=lambda subject: subject != preferred)
        found: dict[int, Schema] = {}
        for subject in subjects:
            name = quote(subject, safe="")
            for version in sorted(self._ask(f"/subjects/{name}/versions") or []):
                one = self._ask(f"/subjects/{name}/versions/{version}", "schema")
                if one is not None and one["id"] not in found:
                    found[one["id"]] = self._schemas.get(one["id"]) or self._read(one["id"], one)
        self._schemas |= found
        return list(found.values())

    def _read(self, id: int, answer: Mapping[str, Any]) -> Schema:
        references: dict[str, Reference] = {}
        self._collect(answer.get("references") or (), references)
        kind = answer.get("schemaType") or "AVRO"
        return Schema(id, kind, answer["schema"], tuple(references.values()))

    def _collect(self, listed: Any, found: dict[str, Reference]) -> None:
        for one in listed:
            name = one["name"]
            if name in found:
                continue
            subject = quote(one["subject"], safe="")
            answer = self._ask(f"/subjects/{subject}/versions/{one['version']}", "schema")
            if answer is not None:
                self._collect(answer.get("references") or (), found)
                found[name] = Reference(name, answer["schema"])

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


class _Client:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._url = settings["url"]
        self._timeout_s = settings["timeout_ms"] / 1000
        self._headers = {"Accept": _ACCEPT}
        if settings["username"]:
            pair = f"{settings['username']}:{settings['password'] or ''}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        context = ssl.create_default_context(cadata=settings["ca_pem"])
        handler = urllib.request.HTTPSHandler(context=context)
        self._opener = urllib.request.build_opener(handler, _NoRedirect)

    def get(self, path: str) -> Any:
        """The JSON of the answer, None for what it does not know. Raises UnansweredError."""
        request = urllib.request.Request(self._url + path, headers=self._headers)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return json.loads(answer.read(_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404 and _is_of_registry(error):
                    return None
                denied = error.code in (401, 403)
                why = "it does not let us in" if denied else "it answered"
                why = "there is none" if error.code == 404 else why
                passing = error.code == _TOO_MANY or error.code >= _OUT_OF_ORDER
                said = f"{why} (HTTP {error.code})"
                raise UnansweredError(said, denied=denied, passing=passing) from None
        except urllib.error.URLError as error:
            passing = not isinstance(error.reason, ssl.SSLError)
            raise UnansweredError(_said(error.reason), passing=passing) from None
        except (OSError, HTTPException) as error:
            raise UnansweredError(_said(error), passing=True) from None
        except ValueError:
            raise UnansweredError("its answer is not JSON") from None


def _is_of_registry(error: urllib.error.HTTPError) -> bool:
    try:
        answer = json.loads(error.read(_ANSWER_BYTES))
    except (OSError, HTTPException, ValueError):
        return False
    return isinstance(answer, dict) and answer.get("error_code") in _NOT_FOUND


def _said(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message}"
    if isinstance(reason, TimeoutError):
        return "it does not answer in time"
    text = (isinstance(reason, OSError) and reason.strerror) or str(reason)
    return (text or type(reason).__name__).lower()


def check(settings: RegistrySettings) -> None:
    """Raises ConfigError for a registry that does not let us in, or is none; `retriable` for one
    that is out of reach."""
    subject = settings.place or settings.url
    try:
        answer = _Client(settings.as_json()).get("/subjects")
    except UnansweredError as error:
        remedy = "see registry.username and registry.password" if error.denied else ""
        cause = f"the schema registry {settings.url}: {error.reason}"
        raise ConfigError("use", subject, cause, remedy=remedy, retriable=error.passing) from None
    if not isinstance(answer, list):
        cause = f"there is no schema registry at {settings.url}: it does not know /subjects"
        raise ConfigError("use", subject, cause)
