"""A broker on loopback that answers what a test tells it to, in kafka-python's own encoding."""

from __future__ import annotations

import io
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

# A request decoded, and its version, to a response, raw bytes instead of one, or None to hang up.
Handler = Callable[[Any, int], Any]
_API_VERSIONS = 18


class ScriptedBroker:
    """`handlers` are by request class; ApiVersions is answered from them. `versions` narrows what
    it says it can: api key to (lowest, highest)."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.handlers: dict[Any, Handler] = {}
        self.versions: dict[int, tuple[int, int]] = {}
        self.requests: list[Any] = []
        self.connections = 0

    def serve(self, sock: socket.socket) -> None:
        with sock:
            while True:
                frame = _exactly(sock, int.from_bytes(_exactly(sock, 4)))
                answer = self._answer(frame) if frame else None
                if answer is None:
                    return
                sock.sendall(answer)

    def _answer(self, frame: bytes) -> bytes | None:
        key, version, correlation_id = struct.unpack(">hhi", frame[:8])
        if key == _API_VERSIONS:
            return self._api_versions(version, correlation_id)
        kind = next(k for k in self.handlers if key == k.API_KEY)
        head = io.BytesIO(frame)
        kind.parse_header(head, version=version)
        request = kind.decode(frame[head.tell() :], version=version)
        self.requests.append(request)
        response = self.handlers[kind](request, version)
        if response is None or isinstance(response, bytes):
            return response
        response.API_VERSION = version
        response.with_header(correlation_id=correlation_id)
        return bytes(response.encode(header=True, framed=True))

    def _api_versions(self, version: int, correlation_id: int) -> bytes:
        lowest, highest = self.versions.get(_API_VERSIONS, (0, 3))
        supported = lowest <= version <= highest
        keys = [
            ApiVersionsResponse.ApiVersion(
                api_key=kind.API_KEY, min_version=limits[0], max_version=limits[1]
            )
            for kind in [ApiVersionsRequest, *self.handlers]
            for limits in [self.versions.get(kind.API_KEY, (0, kind.max_version))]
        ]
        response = ApiVersionsResponse(error_code=0 if supported else 35, api_keys=keys)
        response.API_VERSION = version if supported else 0
        response.with_header(correlation_id=correlation_id)
        return bytes(response.encode(header=True, framed=True))


def response_class(request: Any) -> Any:
    """The class that answers `request`, a class of kafka-python's."""
    return ResponseClassRegistry._response_class_registry[request.API_KEY]


@contextmanager
def scripted_broker() -> Iterator[ScriptedBroker]:
    server = socket.create_server(("127.0.0.1", 0))
    broker = ScriptedBroker(server.getsockname()[1])
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                sock, _ = server.accept()
            except OSError:
                return
            broker.connections += 1
            sockets.append(sock)
            threads.append(threading.Thread(target=_quietly, args=(broker.serve, sock)))
            threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield broker
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        acceptor.join()
        for sock in sockets:
            _quietly(socket.socket.shutdown, sock, socket.SHUT_RDWR)
        for thread in threads:
            thread.join(60)


def _quietly(act: Callable[..., None], *arguments: Any) -> None:
    try:
        act(*arguments)
    except OSError:
        return


def _exactly(sock: socket.socket, count: int) -> bytes:
    """`count` bytes, none at the stream's end."""
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            return b""
        data += piece
    return data
