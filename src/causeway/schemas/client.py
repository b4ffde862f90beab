"""HTTP client of a schema registry, for the common interface of Confluent's, Karapace's and
Apicurio's.

If an object is unknown, a registry answers 404 with its own code; any other 404 comes from a proxy.
If it refuses a request, it answers 409 or 422 with a reason."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

from causeway.config import RegistrySettings
from causeway.errors import AuthenticationError, CausewayError, ConfigError, UnreachableError
from causeway.logins import NoRedirect

_TOO_MANY, _OUT_OF_ORDER = 429, 500
_REFUSED = (409, 422)
_NOT_FOUND = range(40401, 40500)  # as error_code: for a subject, a version, a schema, a level
_ANSWER_BYTES = 64 * 1024 * 1024
_REASON_CHARACTERS = 300
_JSON = "application/vnd.schemaregistry.v1+json"
_ACCEPT = f"{_JSON}, application/json"


class RegistryError(Exception):
    """A registry did not do a request. `reason`: why, without secrets. `passing`: the registry is
    unreachable or out of order, so the settings may be right."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.passing = passing


class UnansweredError(RegistryError):
    """The registry did not answer a question. `missing`: the path does not exist, as in a registry
    without the whole interface. `url`: the registry's, once known."""

    url = ""

    def __init__(
        self, reason: str, *, denied: bool = False, passing: bool = False, missing: bool = False
    ) -> None:
        super().__init__(reason, passing=passing)
        self.denied = denied
        self.missing = missing


class RegistryRefusedError(RegistryError):
    """The registry refuses a request. `code`: its own code (409 or 422 and more digits). `reason`:
    its message, shortened."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class RegistryClient:
    """Thread-safe."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings`: RegistrySettings in JSON's types."""
        self.url = str(settings["url"])
        self._timeout_s = settings["timeout_ms"] / 1000
        self._headers = {"Accept": _ACCEPT}
        if settings.get("token"):
            self._headers["Authorization"] = f"Bearer {settings['token']}"
        elif settings["username"]:
            pair = f"{settings['username']}:{settings['password'] or ''}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        context = ssl.create_default_context(cadata=settings["ca_pem"])
        handler = urllib.request.HTTPSHandler(context=context)
        self._opener = urllib.request.build_opener(handler, NoRedirect)

    def get(self, path: str) -> Any:
        """Returns the JSON of the answer, None for an unknown object. Raises UnansweredError."""
        try:
            return self.ask("GET", path)
        except RegistryRefusedError as error:
            raise UnansweredError(f"it answered (error {error.code})") from None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Like `get`, for any method. Raises UnansweredError and RegistryRefusedError."""
        try:
            return self._ask(method, path, body)
        except UnansweredError as error:
            error.url = self.url
            raise

    def _ask(self, method: str, path: str, body: Any) -> Any:
        headers, data = self._headers, None
        if body is not None:
            headers, data = {**headers, "Content-Type": _JSON}, json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - http or https, as the settings have it
            self.url + path, data=data, headers=headers, method=method
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return json.loads(answer.read(_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                code, said = _said_in(error)
                if error.code == 404 and code in _NOT_FOUND:
                    return None
                if error.code in _REFUSED:
                    raise RegistryRefusedError(code, said) from None
                raise _unanswered(error.code) from None
        except urllib.error.URLError as error:
            passing = not isinstance(error.reason, ssl.SSLError)
            raise UnansweredError(_said(error.reason), passing=passing) from None
        except (OSError, HTTPException) as error:
            raise UnansweredError(_said(error), passing=True) from None
        except ValueError:
            raise UnansweredError("its answer is not JSON") from None


def _unanswered(status: int) -> UnansweredError:
    denied, missing = status in (401, 403), status in (404, 405, 501)
    why = "it denies access" if denied else "it answered"
    why = "it was not found" if status == 404 else why
    passing = not missing and (status == _TOO_MANY or status >= _OUT_OF_ORDER)
    return UnansweredError(
        f"{why} (HTTP {status})", denied=denied, passing=passing, missing=missing
    )


def _said_in(error: urllib.error.HTTPError) -> tuple[int, str]:
    """Returns the registry's own code (else the status) and message."""
    try:
        answer = json.loads(error.read(_ANSWER_BYTES))
    except (OSError, HTTPException, ValueError):
        return error.code, ""
    if not isinstance(answer, dict):
        return error.code, ""
    code = answer.get("error_code")
    words = " ".join(str(answer.get("message") or "").split())
    return code if isinstance(code, int) else error.code, words[:_REASON_CHARACTERS]


def _said(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message}"
    if isinstance(reason, TimeoutError):
        return "it does not answer in time"
    text = (isinstance(reason, OSError) and reason.strerror) or str(reason)
    return (text or type(reason).__name__).lower()


def check_registry(settings: RegistrySettings) -> None:
    """Raises ConfigError if the registry denies access, or the URL has no registry; the error is
    `retriable` if the registry is unreachable."""
    subject = settings.place or settings.url
    try:
        answer = RegistryClient(settings.as_json()).get("/subjects")
    except UnansweredError as error:
        remedy = "see registry.username and registry.password" if error.denied else ""
        cause = f"the schema registry {settings.url}: {error.reason}"
        raise ConfigError("use", subject, cause, remedy=remedy, retriable=error.passing) from None
    # Some registries answer null if they have no subjects.
    if answer is not None and not isinstance(answer, list):
        cause = f"there is no schema registry at {settings.url}: it does not know /subjects"
        raise ConfigError("use", subject, cause)


def unanswered(operation: str, error: UnansweredError) -> CausewayError:
    """Returns the error for people if a registry does not answer."""
    kind = AuthenticationError if error.denied else UnreachableError
    remedy = "see causeway.registry.username, .password and .token" if error.denied else ""
    subject = f"by the registry {error.url}"
    return kind(operation, subject, error.reason, remedy=remedy, retriable=not error.denied)
