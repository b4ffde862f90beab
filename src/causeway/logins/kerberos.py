"""Kerberos: SASL's GSSAPI (RFC 4752) as Kafka's clients use it, by MIT's library.

The library reads its configuration from the file that KRB5_CONFIG names, in all threads. So all
logins of a process share one file. Tickets are in memory, separately for each login.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from itertools import count
from typing import Any, Final, TypeVar

from causeway.config import KerberosSettings
from causeway.errors import AuthenticationError, CausewayError, PrerequisiteError, UnreachableError
from causeway.extras import install_kerberos
from causeway.logins.ticket_cache import with_newest_tickets
from causeway.private_file import Unlisted

T = TypeVar("T")

# Java uses the broker's name as configured. The library would use the name from reverse DNS.
_AS_JAVA: Final = """\
[libdefaults]
dns_canonicalize_hostname = false
rdns = false
qualify_shortname = ""
"""
_NOT_CANONICAL = re.compile(r"^\s*dns_canonicalize_hostname\s*=\s*(false|no|off|0)\b", re.M | re.I)
_DEFAULT_REALM = re.compile(r"^\s*default_realm\s*=\s*(\S+)", re.M)
_NO_LAYER: Final = 1  # RFC 4752, 3.1: the bit of "no security layer"
# The library's codes: no tickets in memory; a KDC that does not answer, or that no name leads to.
_OWN_FILE = re.compile(r" \(filename: [^)]*\)")
_NO_TICKETS: Final = -1765328189
_KDC_UNREACHABLE: Final = -1765328228
_REALM_UNKNOWN: Final = -1765328230

_numbers = count(1)


class KerberosMechanism:
    """One conversation with broker `host`. The constructor gets the first ticket.

    Raises AuthenticationError if the KDC refuses, UnreachableError (retriable) if no KDC answers
    within `timeout_s`, PrerequisiteError without the package gssapi."""

    def __init__(self, settings: KerberosSettings, alias: str, host: str, timeout_s: float) -> None:
        self._subject = f"{alias} {host}"
        self._gssapi = _library(self._subject)
        _configure(settings.krb5_conf)
        settings = with_newest_tickets(settings, alias)
        self._tickets = _tickets(settings)
        self._is_done = False
        self._answered = False
        self._context, self._token = _within(
            timeout_s, settings, self._subject, lambda: self._begin(settings, host)
        )

    def _begin(self, settings: KerberosSettings, host: str) -> tuple[Any, bytes]:
        gssapi = self._gssapi
        peer = gssapi.Name(
            f"{settings.service}@{service_host(host, settings.krb5_conf)}",
            gssapi.NameType.hostbased_service,
        )
        flags = gssapi.RequirementFlag
        with self._tickets.lock:
            context = gssapi.SecurityContext(
                name=peer,
                creds=self._tickets.credentials(),
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=flags.mutual_authentication | flags.integrity,
            )
            return context, context.step() or b""

    def auth_bytes(self) -> bytes:
        return self._token

    def receive(self, auth_bytes: bytes) -> None:
        """Raises ValueError for a message that no broker sends, AuthenticationError if the broker
        cannot prove who it is."""
        if self._answered:
            if auth_bytes:
                raise ValueError("the conversation is over")
            self._is_done = True
        elif not self._context.complete:
            # An empty token is also an answer: the broker has the next turn.
            self._token = self._checked(lambda: self._context.step(auth_bytes) or b"")
        else:
            self._token = self._checked(lambda: self._without_layer(auth_bytes))
            self._answered = True

    def is_done(self) -> bool:
        return self._is_done

    def is_authenticated(self) -> bool:
        return self._is_done

    def _without_layer(self, offer: bytes) -> bytes:
        """Returns the answer to the broker's offer of security layers: none, with a buffer size of
        0, followed by the client's name. Kafka uses no layer."""
        layers = self._context.unwrap(offer).message
        if len(layers) != 4 or not layers[0] & _NO_LAYER:
            raise ValueError("it wants a security layer")
        client = str(self._context.initiator_name).encode()
        answer: bytes = self._context.wrap(bytes((_NO_LAYER, 0, 0, 0)) + client, False).message
        return answer

    def _checked(self, step: Callable[[], bytes]) -> bytes:
        try:
            return step()
        except self._gssapi.exceptions.GSSError as error:
            raise AuthenticationError(
                "authenticate to",
                self._subject,
                f"the broker does not prove who it is: {_reason(error)[1]}",
                remedy="check that the address leads to the right broker, and the clocks",
            ) from None


class _Tickets:
    """The tickets of one login, in memory. Use `credentials`, and get tickets with them, under
    `lock`: a renewal empties the memory for a moment."""

    def __init__(self, settings: KerberosSettings) -> None:
        self.lock = threading.Lock()
        self._principal = with_realm(settings.principal, settings.krb5_conf)
        self._files = ExitStack()
        keytab, cache = settings.keytab.reveal(), settings.ticket_cache.reveal()
        content = base64.b64decode(keytab or cache)
        file = f"FILE:{self._files.enter_context(Unlisted(content))}"
        self._store = {"ccache": file}
        if keytab:
            memory = f"MEMORY:causeway-{os.getpid()}-{next(_numbers)}"
            self._store = {"client_keytab": file, "ccache": memory}

    def credentials(self) -> Any:
        """With a keytab, the library gets a new ticket once half of the life of the current one is
        over."""
        gssapi = _library()
        name = None
        if self._principal is not None:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(
            name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=self._store
        )


def with_realm(principal: str | None, krb5_conf: str) -> str | None:
    """Adds the realm, because the library's default may be that of another cluster."""
    if principal is None or "@" in principal:
        return principal
    realm = _DEFAULT_REALM.search(krb5_conf)
    return f"{principal}@{realm[1]}" if realm else principal


@lru_cache(maxsize=32)
def _tickets(settings: KerberosSettings) -> _Tickets:
    return _Tickets(settings)


def _library(subject: str = "") -> Any:
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise PrerequisiteError(
            "authenticate to",
            subject,
            f"the package gssapi cannot be used: {error}",
            remedy=install_kerberos(),
        ) from None
    return gssapi


def service_host(host: str, krb5_conf: str) -> str:
    """Returns the host in the principal of a broker, as Java does: the name that the broker
    advertises. A short name becomes its canonical name if this begins with the short name. An
    address becomes its name in DNS."""
    try:
        ipaddress.ip_address(host)
        is_address = True
    except ValueError:
        is_address = False
    if is_address or not _NOT_CANONICAL.search(krb5_conf):
        try:
            address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
            found = socket.gethostbyaddr(str(address))[0]
        except OSError:
            found = host
        if is_address or found.lower().startswith(f"{host.lower()}."):
            host = found
    return host.lower()


_configuring = threading.Lock()
_configured: dict[str, None] = {}
_files = ExitStack()


def _configure(krb5_conf: str) -> None:
    """Makes the library use `krb5_conf` and all earlier texts."""
    with _configuring:
        if krb5_conf in _configured:
            return
        _configured[krb5_conf] = None
        # If a relation has one value, the library uses the first.
        text = "\n".join((_AS_JAVA, *reversed(_configured), ""))
        # Files that other threads may be reading stay open.
        os.environ["KRB5_CONFIG"] = _files.enter_context(Unlisted(text.encode()))


def _within(timeout_s: float, settings: KerberosSettings, subject: str, work: Callable[[], T]) -> T:
    """Returns the result of `work`. The library may wait longer than `timeout_s` for a KDC that
    does not answer. So `work` runs in a thread, which is abandoned after `timeout_s`."""
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except _library().exceptions.GSSError as error:
            errors.append(_explained(error, settings, subject))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="kerberos", daemon=True)
    thread.start()
    thread.join(max(0.1, timeout_s))
    if errors:
        raise errors[0]
    if not results:
        raise _unreachable(subject, f"no answer within {timeout_s:.3g} s")
    return results[0]


def _explained(error: Any, settings: KerberosSettings, subject: str) -> CausewayError:
    code, cause = _reason(error)
    if code in (_KDC_UNREACHABLE, _REALM_UNKNOWN):
        return _unreachable(subject, cause)
    if code == _NO_TICKETS and settings.keytab.reveal():
        # In this case the library only looks for tickets.
        cause = f"the keytab has no key of {settings.principal}"
    return AuthenticationError(
        "get a Kerberos ticket for",
        subject,
        cause,
        remedy="check principal and keytab (or ticket cache) in sasl.jaas.config, the clock, and "
        "that the brokers' principal is sasl.kerberos.service.name/HOST",
    )


def _unreachable(subject: str, cause: str) -> CausewayError:
    return UnreachableError(
        "get a Kerberos ticket for",
        subject,
        cause,
        remedy="check the KDCs in causeway.krb5.conf",
        retriable=True,
    )


def _reason(error: Any) -> tuple[int, str]:
    """Returns the code of the library below GSSAPI, and the text of the error, which has no secret.
    Call it in the thread of the error."""
    minor = error.min_code
    texts = error.get_all_statuses(minor, False) if minor else ()
    if not texts or texts == ["Success"]:
        texts = error.get_all_statuses(error.maj_code, True)
    text = _OWN_FILE.sub("", "; ".join(texts)).rstrip(".")
    return (minor - (1 << 32) if minor >= 1 << 31 else minor), text
