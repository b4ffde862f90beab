"""Asks a running driver over HTTP, at the address and with the token of a file."""

from __future__ import annotations

import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import FORBIDDEN, UNAUTHORIZED, HTTPException
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from causeway.config import (
    SALT_BYTES,
    DescribedSetting,
    HttpSettings,
    SettingRows,
    Settings,
    digests,
    is_loopback,
    restored,
)
from causeway.errors import AuthenticationError, ConfigError, NobodyLeadsError, UnreachableError

T = TypeVar("T")
_TIMEOUT_S: Final = 30.0  # the first request waits until the server's framework is loaded
_MOST: Final = 64 << 20  # bytes of an answer
_PAGE: Final = 1000
_SECRETS: Final = 500  # of a request
_ACTION: Final = "ask the driver"
_ELSEWHERE: Final = "run this command on its machine, which `causeway status` shows"


class RunningTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic of the running mirror, by its names on the source and the target."""

    topic: str
    target_topic: str
    transform: str | None = None


class RunningLink(msgspec.Struct, frozen=True, kw_only=True):
    """A flow of the running driver. `planned`: it knows its topics. `reason`: who leads, if this
    driver does not."""

    link: str
    role: str
    planned: bool
    reason: str | None = None


class _LinkName(msgspec.Struct, frozen=True):
    link: str


class _LinkNames(msgspec.Struct, frozen=True):
    links: list[_LinkName]


class _PageOfItems(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]
    total: int


class _SettingsAnswer(msgspec.Struct, frozen=True):
    settings: list[DescribedSetting] = []
    equal: list[str] = []


class RunningDriver:
    """The driver that runs flows of `settings` at the address of the file, or at `url`. `remedy`:
    an action for a person if no driver answers.

    Methods raise NobodyLeadsError if no driver of these flows answers there, AuthenticationError
    if it refuses the token, UnreachableError if it has just started."""

    def __init__(
        self, settings: Settings, url: str | None = None, remedy: str = _ELSEWHERE
    ) -> None:
        self._http = settings.run.http
        self._flows = {link.name for link in settings.links}
        self._remedy = remedy
        self.url = (self._address(self._http) if url is None else url).rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path:
            raise ConfigError(
                "read option", f"--url {url}", "it is no address such as http://127.0.0.1:8490"
            )
        if self._http.token and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise ConfigError(
                _ACTION,
                self.url,
                "others could read the token on the way",
                remedy="use an https:// address",
            )

    def items(self, path: str, kind: type[T]) -> list[T]:
        """Returns all items of a list of the API, such as `lanes` or `topics?link=…`."""
        theirs = {one.link for one in self._ask("overview", _LinkNames).links}
        if not self._flows & theirs:
            raise self._not_here(f"the driver there runs {', '.join(sorted(theirs))}")
        found: list[T] = []
        more = "&" if "?" in path else "?"
        while True:
            page = self._ask(f"{path}{more}limit={_PAGE}&offset={len(found)}", _PageOfItems)
            found += (self._decoded(each, kind) for each in page.items)
            if len(found) >= page.total or not page.items:
                return found

    def settings(self, wanted: SettingRows) -> SettingRows:
        """Returns the settings in force. The driver says which secrets equal those of `wanted`; it
        does not send them."""
        found = self._ask("settings", _SettingsAnswer).settings
        hidden = {one.id for one in found if one.hidden}
        salt = secrets.token_bytes(SALT_BYTES)
        ours = [each for each in digests(wanted, salt).items() if each[0] in hidden]
        equal: list[str] = []
        for start in range(0, len(ours), _SECRETS):
            body = {"salt": salt.hex(), "digests": dict(ours[start : start + _SECRETS])}
            equal += self._ask("settings/secrets", _SettingsAnswer, body).equal
        return restored(found, equal, wanted)

    def links(self) -> dict[str, RunningLink]:
        """Returns the flows by name."""
        return {one.link: one for one in self.items("links", RunningLink)}

    def topics(self, link: str) -> dict[str, RunningTopic]:
        """Returns the mirrored topics of a link, by their names on the source."""
        found = self.items(f"topics?link={quote(link)}", RunningTopic)
        return {one.topic: one for one in found}

    def _ask(self, path: str, kind: type[T], body: Mapping[str, Any] | None = None) -> T:
        address = f"{self.url}/api/v1/{path}"
        request = urllib.request.Request(  # noqa: S310 - http or https, as `__init__` checks
            address, None if body is None else msgspec.json.encode(body)
        )
        request.add_header("Content-Type", "application/json")
        if self._http.token is not None:
            token = self._http.token.reveal()
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        # Ignores the proxy of the environment: the server is on this machine, or near.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self._http.certificate is not None:
            handlers.append(urllib.request.HTTPSHandler(context=_trusting(self._http.certificate)))
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as answer:
                return self._decoded(answer.read(_MOST), kind)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error.code, error.read(_PAGE)) from None
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise self._not_here(getattr(reason, "strerror", None) or str(reason)) from None

    def _decoded(self, content: bytes | msgspec.Raw, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.MsgspecError:
            raise self._not_here("another server answers there, not a driver") from None

    def _refused(
        self, status: int, answer: bytes
    ) -> AuthenticationError | UnreachableError | NobodyLeadsError:
        try:
            message = str(msgspec.json.decode(answer)["message"])
        except (msgspec.MsgspecError, KeyError, TypeError):
            message = ""
        cause = f"HTTP {status} {message}".strip()
        if status in (UNAUTHORIZED, FORBIDDEN):
            remedy = "causeway.http.token of the file must be that of the driver"
            return AuthenticationError(_ACTION, self.url, cause, remedy=remedy)
        if status == 503:
            return UnreachableError(_ACTION, self.url, cause, retriable=True)
        return self._not_here(cause)

    def _not_here(self, cause: str, at: str = "") -> NobodyLeadsError:
        return NobodyLeadsError(_ACTION, f"at {at or self.url}", cause, remedy=self._remedy)

    def _address(self, http: HttpSettings) -> str:
        if not http.port:
            cause = (
                "the file configures no HTTP server"
                if http.port is None
                else "the port is chosen at start"
            )
            raise self._not_here(cause, f"{http.host}:{http.port}")
        scheme = "http" if http.certificate is None else "https"
        return f"{scheme}://{_host(http.host)}:{http.port}"


def _host(host: str) -> str:
    if host in ("0.0.0.0", "::"):  # noqa: S104 - every address of this machine
        return "127.0.0.1" if host == "0.0.0.0" else "[::1]"  # noqa: S104
    return f"[{host}]" if ":" in host else host


def _trusting(certificate: str) -> ssl.SSLContext:
    """Trusts this certificate only, for any host name and with any issuer."""
    context = ssl.create_default_context(cafile=certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    return context
