"""Asks the driver on this machine, by its HTTP server, for facts that only its process knows."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Final

from causeway.config import Settings
from causeway.errors import AuthenticationError, NobodyLeadsError

_TIMEOUT_S: Final = 15.0  # the first request waits until the server's framework is loaded
_MOST: Final = 16 << 20  # bytes of an answer
_PAGE: Final = 1000


def items(settings: Settings, path: str) -> list[dict[str, Any]]:
    """All items of a list of the API, for example `lanes`. Raises NobodyLeadsError if no driver of
    this file answers on this machine, AuthenticationError if it refuses the token."""
    mine = {link.name for link in settings.links}
    try:
        theirs = {str(link["link"]) for link in _get(settings, "overview")["links"]}
    except (KeyError, TypeError):
        raise _not_here(settings, "another server answers there, not a driver") from None
    if not mine & theirs:
        raise _not_here(settings, f"the driver there runs {', '.join(sorted(theirs))}")
    found: list[dict[str, Any]] = []
    while True:
        page = _get(settings, f"{path}?limit={_PAGE}&offset={len(found)}")
        found += page["items"]
        if len(found) >= page["total"] or not page["items"]:
            return found


def _get(settings: Settings, path: str) -> Any:
    http = settings.run.http
    if not http.port:
        cause = (
            "the file configures no HTTP server"
            if http.port is None
            else "the port is chosen at start"
        )
        raise _not_here(settings, cause)
    secure = http.certificate is not None
    address = f"{'https' if secure else 'http'}://{_host(http.host)}:{http.port}/api/v1/{path}"
    request = urllib.request.Request(address)  # noqa: S310 - http or https, by the line above
    if http.token is not None:
        request.add_unredirected_header("Authorization", f"Bearer {http.token.reveal()}")
    # Without the proxy of the environment, because the server is on this machine.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if http.certificate is not None:
        handlers.append(urllib.request.HTTPSHandler(context=_trusting(http.certificate)))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as answer:
            return json.loads(answer.read(_MOST))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403):
            raise AuthenticationError("ask the driver", address, f"HTTP {error.code}") from None
        raise _not_here(settings, f"HTTP {error.code}") from None
    except (OSError, ValueError, HTTPException) as error:
        raise _not_here(settings, str(error)) from None


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


def _not_here(settings: Settings, cause: str) -> NobodyLeadsError:
    where = f"{settings.run.http.host}:{settings.run.http.port}"
    return NobodyLeadsError(
        "ask the driver",
        f"at {where}",
        cause,
        remedy="only the driver knows its lanes: run this command on its machine, which "
        "`causeway status` shows",
    )
