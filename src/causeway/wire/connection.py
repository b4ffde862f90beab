"""One connection to one broker.

    open    TCP -> TLS -> ApiVersions -> SASL
    call    a request and its answer, blocking                       (control work)
    queue, flush, receive    frames, non-blocking, for a poll loop   (lanes)

The socket is non-blocking after the TLS handshake; blocking calls wait with poll. Not thread-safe.
After an error the connection cannot be used any more: close it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import ApiVersionsRequest

from causeway import __version__
from causeway.config import ClientSettings
from causeway.errors import AuthenticationError, CausewayError, ProtocolError, UnreachableError
from causeway.wire import codes
from causeway.wire.apis import Versions, unsupported
from causeway.wire.deadline import Deadline, throttle_s
from causeway.wire.frames import (
    MAX_FRAME_BYTES,
    STRANGERS_FRAME_BYTES,
    Buffer,
    Buffers,
    SendQueue,
    SocketReader,
    wait,
)
from causeway.wire.group_offsets import GroupRequest
from causeway.wire.sasl import authenticate
from causeway.wire.sockets import addresses, answered, connect, describe_loss, user_timeout_of
from causeway.wire.varint import ENDS_TOO_EARLY, bound_kafka_python, ends_too_early, skip_tags

bound_kafka_python()
_API_VERSIONS = 18
# kafka-python makes the class for a version of an answer at its first use, and keeps only a weak
# reference. If two threads ask at the same time, one of them could get a dead reference.
_making_classes = threading.Lock()


class Connection:
    """See the module. `host`, `port`: the broker's advertised address. `settings`: the cluster."""

    def __init__(self, settings: ClientSettings, host: str, port: int, sock: socket.socket) -> None:
        """Takes over a connected, non-blocking socket. Only tests and `open` call this."""
        self.settings = settings
        self.host = host
        self.port = port
        self.socket = sock
        self.client_id_bytes = settings.client_id.encode()
        # Monotonic. From then on use another connection, or `reauthenticate` this one: nine tenths
        # of the session's lifetime that the broker states (KIP-368). None if there is no limit.
        self.session_expires_at: float | None = None
        self.cluster_id: str | None = None  # from the broker's answer; None if unknown
        self.muted_until = 0.0  # monotonic: a quota makes the broker read nothing until then
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._outbox = SendQueue(sock)
        self._reader = SocketReader(sock, str(self))
        self._answered = False  # the broker has answered a request after ApiVersions
        self._closed = False

    @classmethod
    def open(
        cls,
        settings: ClientSettings,
        host: str,
        port: int,
        *,
        timeout_s: float | None = None,
        vet: Callable[[Self, Deadline], None] | None = None,
    ) -> Self:
        """Connects and authenticates within `timeout_s` (by default the connect timeout).

        Tries each address of the name in turn, with the whole handshake. `vet` may refuse the peer
        at an address: it raises UnreachableError. Raises UnreachableError (retriable) or
        AuthenticationError.
        """
        if timeout_s is None:
            timeout_s = settings.connect_timeout_ms / 1000
        deadline = Deadline(timeout_s)
        failures: dict[str, CausewayError] = {}
        found = addresses(settings, host, port)
        for position, address in enumerate(found):
            # An address that accepts and never answers must leave time for the others.
            share = Deadline(max(0.001, deadline.left() / (len(found) - position)))
            sock = None
            try:
                sock = connect(settings, host, port, address, share)
                connection = cls(settings, host, port, sock)
                connection._begin(share)
                if vet is not None:
                    vet(connection, share)
            except (UnreachableError, ProtocolError) as error:
                failures[address.ip] = error
                if sock is not None:
                    sock.close()
            except BaseException:
                if sock is not None:
                    sock.close()
                raise
            else:
                answered(host, port, address)
                return connection
        raise _of_all(failures)

    def _begin(self, deadline: Deadline) -> None:
        self._reader.limit = STRANGERS_FRAME_BYTES
        self._negotiate(deadline)
        if self.settings.protocol.startswith("SASL"):
            self.reauthenticate(timeout_s=deadline.left())
        self._reader.limit = MAX_FRAME_BYTES

    def __str__(self) -> str:
        return f"{self.settings.alias} {self.host}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Resets the connection. Queued bytes, and unsent bytes in the kernel, are dropped."""
        if not self._closed:
            self._closed = True
            self.socket.close()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def versions(self) -> Versions:
        """The versions of APIs that the broker has."""
        return self._versions

    def fileno(self) -> int:
        return self.socket.fileno()

    # -- requests and answers ---------------------------------------------------------------------

    def api_version(self, api_key: int, highest: int, lowest: int = 0) -> int:
        """Returns the highest version from `lowest` to `highest` that the broker has. Raises
        BrokerError if there is none."""
        broker_lowest, broker_highest = self._versions.get(api_key, (0, -1))
        version = min(highest, broker_highest)
        if version < max(lowest, broker_lowest):
            raise unsupported(str(self), api_key, lowest, highest, self._versions)
        return version

    def next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def call(self, request: Any, timeout_s: float | None = None) -> Any:
        """Sends an unversioned kafka-python request and returns its decoded response.

        The version is the highest that both sides have, within the request's own `min_version` and
        `max_version`. Call this only while no other request is unanswered. Raises UnreachableError
        (retriable; the broker may or may not have executed the request), or BrokerError without a
        common version.
        """
        return self.call_many([request], timeout_s)[0]

    def call_many(self, requests: Sequence[Any], timeout_s: float | None = None) -> list[Any]:
        """Sends all requests without waiting. Returns the answers in the order of the requests."""
        frames: list[Buffer] = []
        expected: list[tuple[int, Any, int]] = []
        for request in requests:
            highest = request.max_version if request._max_version is None else request._max_version
            version = self.api_version(request.API_KEY, highest, request._min_version or 0)
            frame, answer = self._encode(request, version)
            frames.append(frame)
            expected.append(answer)
        self.queue(frames)
        if timeout_s is None:
            timeout_s = self.settings.request_timeout_ms / 1000
        name = requests[0].name.removesuffix("Request") if requests else ""
        answers = self._answers(expected, Deadline(timeout_s), f"send {name} to")
        self._answered = True
        if throttled := max(map(throttle_s, answers), default=0.0):
            self.muted_until = time.monotonic() + throttled
        return answers

    def call_in_bulk(
        self,
        names: Sequence[str],
        most: int,
        request: Callable[[list[str]], Any],
        items: Callable[[Any], Iterable[tuple[str, Any]]],
        timeout_s: float,
    ) -> list[tuple[str, Any]]:
        """Asks about each name. In its highest version, a `request` has up to `most` names, and
        `items` reads the answers. In earlier versions a request has one name, and the answer is
        about that name."""
        whole = request([names[0]])
        highest = whole._max_version
        size = most if self.api_version(whole.API_KEY, highest) == highest else 1
        chunks = [list(names[start : start + size]) for start in range(0, len(names), size)]
        found: list[tuple[str, Any]] = []
        answers = self.call_many(list(map(request, chunks)), timeout_s)
        for chunk, answer in zip(chunks, answers, strict=True):
            found += list(items(answer)) or [(chunk[0], answer)]
        return found

    def _encode(self, request: Any, version: int) -> tuple[Buffer, tuple[int, Any, int]]:
        """Returns the framed request, and the correlation id, class and version of its answer."""
        correlation_id = self.next_correlation_id()
        if isinstance(request, GroupRequest):
            frame = request.frame(version, correlation_id, self.client_id_bytes)
            return frame, (correlation_id, request, version)
        request.API_VERSION = version
        request.with_header(correlation_id=correlation_id, client_id=self.settings.client_id)
        frame = request.encode(header=True, framed=True)
        with _making_classes:
            kind = ResponseClassRegistry.get_response_class(request.header)
        return frame, (correlation_id, kind, version)

    def _answers(
        self, expected: list[tuple[int, Any, int]], deadline: Deadline, operation: str
    ) -> list[Any]:
        answers: list[Any] = []
        try:
            while len(answers) < len(expected):
                self.flush()
                frames = self.receive()
                for frame in frames:
                    awaited = expected[len(answers) : len(answers) + 1]
                    answers.append(_decode(frame, awaited, str(self)))
                if not frames:
                    self._wait(deadline, operation)
        except OSError as error:
            self.close()
            raise describe_loss(
                self.settings, self.host, self.port, error, operation, started=self._answered
            ) from error
        except BaseException:
            self.close()
            raise
        return answers

    def _wait(self, deadline: Deadline, operation: str) -> None:
        if deadline.passed():
            raise UnreachableError(
                operation,
                str(self),
                f"no answer within {deadline.seconds:.3g} s",
                retriable=True,
            )
        wait(self.socket, write=self.wants_write, timeout_s=deadline.left())

    def outlast_throttle(self, seconds: float) -> None:
        """Makes the kernel keep the connection while a quota makes the broker read nothing."""
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if option is not None:
            user_timeout_s = seconds + user_timeout_of(self.settings.request_timeout_ms / 1000)
            timeout_ms = min(int(user_timeout_s * 1000), 2**31 - 1)
            self.socket.setsockopt(socket.IPPROTO_TCP, option, timeout_ms)

    # -- frames, for lanes ------------------------------------------------------------------------

    def share(self, buffers: Buffers) -> None:
        """Uses memory of `buffers` for big answers, from the next one on."""
        self._reader.buffers = buffers

    @property
    def outbox(self) -> SendQueue:
        """The bytes that wait to be sent."""
        return self._outbox

    def queue(self, buffers: Sequence[Buffer], size: int | None = None) -> None:
        """Adds buffers for `flush`, without a copy: do not change them until they are sent.
        `size`: their bytes together, if known."""
        self._outbox.queue(buffers, size)

    def flush(self) -> bool:
        """Sends until the socket is full. True if nothing is left. Raises ConnectionError."""
        return self._outbox.flush()

    @property
    def wants_write(self) -> bool:
        """Whether to poll for writing: queued bytes are not in the socket yet."""
        return bool(self._outbox)

    def receive(self) -> list[memoryview]:
        """Returns the complete answers that have arrived, in order. Never waits.

        Each answer is a frame without its length. It begins with the correlation id, and its bytes
        do not change. One call reads a few megabytes at most; poll reports if there is more, also
        over TLS. Raises ConnectionError if the broker is gone.
        """
        return self._reader.read()

    # -- hand-shakes ------------------------------------------------------------------------------

    def reauthenticate(self, *, timeout_s: float | None = None) -> None:
        """Runs the SASL exchange (again) and sets `session_expires_at`.

        Call this only while no request is unanswered. Raises AuthenticationError or
        UnreachableError.
        """
        if timeout_s is None:
            timeout_s = self.settings.connect_timeout_ms / 1000
        started = time.monotonic()
        lifetime_s = authenticate(
            self.settings, self.host, str(self), self.call, Deadline(timeout_s)
        )
        self.session_expires_at = started + 0.9 * lifetime_s if lifetime_s > 0 else None

    def _negotiate(self, deadline: Deadline) -> None:
        """Asks for the broker's API versions.

        A broker that does not know the version of our request answers in version 0.
        """
        response: Any = None
        for version in (3, 0):
            request = ApiVersionsRequest(
                client_software_name="causeway", client_software_version=__version__
            )
            frame, expected = self._encode(request, version)
            self.queue([frame])
            response = self._answers([expected], deadline, "connect to")[0]
            if response.error_code != codes.UNSUPPORTED_VERSION:
                break
        if response.error_code:
            raise AuthenticationError(
                "connect to", str(self), f"ApiVersions: {codes.name(response.error_code)}"
            )
        self._versions = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}


def _of_all(failures: Mapping[str, CausewayError]) -> CausewayError:
    """Returns the error if no address of a name accepted the connection. `failures`: one for each
    address."""
    last = list(failures.values())[-1]
    if len(failures) > 1 and isinstance(last, UnreachableError):
        last.cause = "; ".join(f"{ip}: {error.cause}" for ip, error in failures.items())
    return last


def _decode(frame: memoryview, expected: Sequence[tuple[int, Any, int]], where: str) -> Any:
    """Decodes the response in a frame, which must be the first of `expected`. Skips the header: the
    correlation id, then tags if the version is flexible."""
    if not expected:
        raise ProtocolError("read an answer", f"from {where}", "it was not asked for")
    correlation_id, kind, version = expected[0]
    found = int.from_bytes(frame[:4])
    if found != correlation_id:
        raise ProtocolError(
            "read an answer", f"from {where}", f"correlation id {found}, expected {correlation_id}"
        )
    body = frame[4:]
    if kind.API_KEY != _API_VERSIONS and kind.flexible_version_q(version):
        try:
            body = body[skip_tags(body, 0) :]
        except ENDS_TOO_EARLY as error:
            raise ends_too_early(f"an answer from {where}") from error
    try:
        return kind.decode(body, version=version)
    except Exception as error:
        raise ProtocolError(
            "read an answer", f"from {where}", f"{kind.name} v{version} can't be decoded: {error}"
        ) from error


_TRIES = 3


def round_trip_s(connection: Connection, near_s: float) -> float:
    """Measures the round trip to the broker: the least of a few tries, because a broker may be busy
    for a moment. A try below `near_s` is the last try.

    It is the time of a request, because TCP may end at a proxy. Call this only while no request is
    unanswered. Raises UnreachableError and ProtocolError.
    """
    least = float("inf")
    for _ in range(_TRIES):
        begun = time.monotonic()
        connection.call(
            ApiVersionsRequest(client_software_name="causeway", client_software_version=__version__)
        )
        least = min(least, time.monotonic() - begun)
        if least < near_s:
            break
    return least
