"""What only the driver's process knows, asked of its server on this machine."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Final

from causeway.config import Settings
from causeway.errors import AuthenticationError, NobodyLeadsError

_TIMEOUT_S: Final = 15.0  # the first call of all waits for the server's framework
_MOST: Final = 16 << 20  # bytes of an answer
_PAGE: Final = 1000


def items(settings: Settings, path: str) -> list[dict[str, Any]]:
    """All items of a list of the API, such as `lanes`. Raises NobodyLeadsError where no driver of
    this file answers on this machine, AuthenticationError where it does not let us in."""
    mine = {link.name for link in settings.links}
    try:
        theirs = {str(link["link"]) for link in _get(settings, "overview")["links"]}
    except (KeyError, TypeError):
        raise _not_here(settings, "what answers there is no driver") from None
    if not mine & theirs:
        raise _not_here(settings, f"what answers there runs {', '.join(sorted(theirs))}")
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
            "the file has it served nowhere" if http.port is None else "its port is any free one"
        )
        raise _not_here(settings, cause)
    secure = http.certificate is not None
    address = f"{'https' if secure else 'http'}://{_host(http.host)}:{http.port}/api/v1/{path}"
    request = urllib.request.Request(address)  # noqa: S310 - http or https, by the line above
    if http.token is not None:
        request.add_unredirected_header("Authorization", f"Bearer {http.token.reveal()}")
    # Never through a proxy of the environment: it is this machine that is asked.
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
    """That very certificate, whoever has signed it and whatever it calls the machine."""
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
        remedy="lanes are known to the driver alone: run this where it runs; `causeway status` "
        "says where that is",
    )
