"""Opens sockets: TCP with its options, TLS, and errors with a cause and a remedy."""

from __future__ import annotations

import errno
import socket
import ssl
import struct
from typing import Any, NamedTuple

from causeway.config import ClientSettings
from causeway.errors import AuthenticationError, CausewayError, UnreachableError, for_cluster
from causeway.logins import ssl_context
from causeway.wire.deadline import Deadline
from causeway.wire.frames import lost

_CONNECT = "connect to"
_TLS_ENDS = (ssl.SSLEOFError, ssl.SSLZeroReturnError)  # Python's release decides which is raised


class SocketAddress(NamedTuple):
    """One address of a host name, in the form that `socket.socket` and `connect` need."""

    family: int
    kind: int
    protocol: int
    at: tuple[Any, ...]

    @property
    def ip(self) -> str:
        return str(self.at[0])


# By host and port, the address to which a connection was last opened. It is tried first the next
# time, so a dead address costs its share of the time only once.
_answered: dict[tuple[str, int], SocketAddress] = {}


def addresses(settings: ClientSettings, host: str, port: int) -> list[SocketAddress]:
    """Returns all addresses of the name, at least one. Raises UnreachableError."""
    subject = f"{settings.alias} {host}:{port}"
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnreachableError(
            _CONNECT,
            subject,
            f"the name can't be resolved: {getattr(error, 'strerror', None) or error}",
            remedy="check bootstrap.servers, or the broker's advertised.listeners",
            retriable=True,
        ) from error
    found = [SocketAddress(family, kind, protocol, at) for family, kind, protocol, _, at in answers]
    if not found:
        raise UnreachableError(_CONNECT, subject, "the name has no address", retriable=True)
    first = _answered.get((host, port))
    return sorted(dict.fromkeys(found), key=lambda address: address != first)


def answered(host: str, port: int, address: SocketAddress) -> None:
    """Remembers `address`, which is tried first from now on."""
    _answered[host, port] = address


def connect(
    settings: ClientSettings,
    host: str,
    port: int,
    address: SocketAddress,
    deadline: Deadline,
) -> socket.socket:
    """Returns a connected, non-blocking socket, after the TLS handshake if the protocol has TLS.

    `address` is an address of `host`. Raises UnreachableError or AuthenticationError.
    """
    sock: socket.socket | None = None
    try:
        sock = socket.socket(address.family, address.kind, address.protocol)
        _set_options(sock, settings)
        sock.settimeout(max(0.001, deadline.left()))
        sock.connect(address.at)
    except OSError as error:
        if sock is not None:
            sock.close()
        raise UnreachableError(
            _CONNECT,
            f"{settings.alias} {host}:{port}",
            _cause(error, deadline),
            remedy="is the broker up, and may this machine reach it?",
            retriable=True,
        ) from error
    except BaseException:
        if sock is not None:
            sock.close()
        raise
    if settings.protocol.endswith("SSL"):
        sock = _start_tls(settings, host, port, sock, deadline)
    sock.setblocking(False)
    return sock


def user_timeout_of(request_timeout_s: float) -> float:
    """Returns TCP_USER_TIMEOUT of a connection: how long the kernel tries to send queued bytes
    while the peer takes none. The kernel does this also for a stopped process. A peer that lives
    but does not read counts as well: a broker stops reading while an acks=all write waits for a
    slow replica, or a quota throttles us. So the time is longer than a request may take."""
    return request_timeout_s + 5


def _set_options(sock: socket.socket, settings: ClientSettings) -> None:
    user_timeout_s = user_timeout_of(settings.request_timeout_ms / 1000)
    # If a size is set, the kernel no longer adapts it to the connection. It must be set before the
    # connect, which decides how large the window may become.
    for size, buffer in (
        (settings.receive_buffer_bytes, socket.SO_RCVBUF),
        (settings.send_buffer_bytes, socket.SO_SNDBUF),
    ):
        if size >= 0:
            sock.setsockopt(socket.SOL_SOCKET, buffer, size)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # close() resets: after the end of a lane's lease, the kernel must not send the lane's bytes.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", min(int(user_timeout_s * 1000), 2**31 - 1)),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _start_tls(
    settings: ClientSettings, host: str, port: int, sock: socket.socket, deadline: Deadline
) -> ssl.SSLSocket:
    try:
        with for_cluster(settings.alias):
            context = ssl_context(settings.tls)
        sock.settimeout(max(0.001, deadline.left()))
        return context.wrap_socket(sock, server_hostname=host)
    except OSError as error:
        sock.close()
        raise describe_loss(settings, host, port, error, _CONNECT, started=False) from error
    except BaseException:
        sock.close()
        raise


def describe_loss(
    settings: ClientSettings,
    host: str,
    port: int,
    error: OSError,
    operation: str,
    *,
    started: bool,
) -> CausewayError:
    """Returns the error for a connection that broke. `started`: the broker had answered us before,
    so our protocol is the protocol of the listener."""
    subject = f"{settings.alias} {host}:{port}"
    refused = _tls_refusal(settings, host, error)
    if refused is not None:
        cause, remedy = refused
        return AuthenticationError(operation, subject, cause, remedy=remedy)
    remedy = "" if started else _listener_hint(settings)
    return UnreachableError(operation, subject, _cause(error), remedy=remedy, retriable=True)


def _tls_refusal(settings: ClientSettings, host: str, error: OSError) -> tuple[str, str] | None:
    """Returns the cause and the remedy if TLS itself refused the connection; otherwise None."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        if "ostname" in cause.verify_message or "IP address" in cause.verify_message:
            return (
                f"the broker's certificate is not for {host}",
                "connect by a name in the certificate, or issue a certificate for this name",
            )
        return (
            f"the broker's certificate is not trusted: {cause.verify_message}",
            "check ssl.truststore.location"
            if settings.tls and settings.tls.ca_pem
            else "name the authority that signed it in ssl.truststore.location",
        )
    if not isinstance(cause, ssl.SSLError) or isinstance(cause, _TLS_ENDS):
        return None
    reason = (cause.reason or "").replace("_", " ").lower()
    if "certificate" in reason:
        return (
            f"the broker refuses our certificate, or wants one: {reason}",
            "check ssl.keystore.location",
        )
    if "wrong version" in reason or "record layer" in reason or "packet length" in reason:
        return (
            "the port does not speak TLS",
            "check security.protocol and the port",
        )
    if "alert" in reason or "protocol" in reason or "cipher" in reason:
        return f"no common TLS version or cipher: {reason}", "check the broker's ssl.* settings"
    return None


def _listener_hint(settings: ClientSettings) -> str:
    if settings.protocol.endswith("SSL"):
        return "is it a TLS port? check security.protocol and, if it wants one, the key store"
    if settings.protocol == "PLAINTEXT":
        return "does the listener want TLS or SASL? check security.protocol"
    return "does the listener want TLS? check security.protocol"


def _cause(error: OSError, deadline: Deadline | None = None) -> str:
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return f"no answer within {deadline.seconds:.3g} s" if deadline else "timed out"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, _TLS_ENDS):
        return "the broker closed the connection"
    if isinstance(error, ConnectionResetError) and error.errno == errno.ECONNRESET:
        return "the broker reset the connection"
    loss = lost(error)
    return loss.strerror or str(loss)
