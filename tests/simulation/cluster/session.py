"""A broker's end of a connection: frames in, answers out, one request at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.cluster.apis import find, refuse_version

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

_LARGEST_FRAME: Final = 104_857_600  # socket.request.max.bytes
_API_VERSIONS: Final = 18


class BrokerSession:
    """What it received before the client closed may still be handled later: so many of the
    requests as chance has it, in order. `send` and `close` reach the client."""

    def __init__(
        self,
        node: BrokerNode,
        send: Callable[[bytes], None],
        close: Callable[[], None],
        peer: str,
    ) -> None:
        self.node, self.peer = node, peer
        self._send, self._close = send, close
        self._buffer = bytearray()
        self._frames: deque[bytes] = deque()
        self._busy = self._closed = False

    # -- as the network has it --------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """The next bytes of the stream."""
        if self._closed:
            return
        self._buffer += data
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[:4], signed=True)
            if not 0 <= size <= _LARGEST_FRAME:
                self.close()
                return
            if len(self._buffer) < 4 + size:
                break
            self._frames.append(bytes(self._buffer[: 4 + size]))
            del self._buffer[: 4 + size]
        self._serve_next()

    def closed(self) -> None:
        """The client has closed or reset the connection."""
        if self._closed:
            return
        self._closed = True
        self._buffer.clear()
        kept = self.node.world.random.randint(0, len(self._frames))
        while len(self._frames) > kept:
            self._frames.pop()
        if not self._frames and not self._busy:
            self.node.forget(self)

    def close(self) -> None:
        """The broker closes it; requests that are not handled yet are lost."""
        self._frames.clear()
        self._busy = True
        self.node.forget(self)
        if not self._closed:
            self._closed = True
            self._close()

    # -- requests ---------------------------------------------------------------------------------

    def go_on(self) -> None:
        """The broker was frozen."""
        self._serve_next()

    def _serve_next(self) -> None:
        if self._busy or self.node.frozen:
            return
        if not self._frames:
            if self._closed:
                self.node.forget(self)
            return
        self._busy = True
        node = self.node
        delay_s = node.request_delay()
        if self._closed and node.late_s:
            delay_s += node.world.random.uniform(0, node.late_s)
        node.later(delay_s, self._serve)

    def _serve(self) -> None:
        if not self._frames:
            self._busy = False
            self._serve_next()
            return
        frame = self._frames.popleft()
        key, version = int.from_bytes(frame[4:6]), int.from_bytes(frame[6:8])
        correlation_id = int.from_bytes(frame[8:12], signed=True)
        api = find(self.node, key, version)
        if api is None:
            if key == _API_VERSIONS:
                self._answer(refuse_version(), 0, correlation_id)
            else:
                self.close()  # as Kafka does
            return
        try:
            request = api.request.decode(frame, version=version, header=True, framed=True)
        except Exception as error:
            self.node.world.trace(f"{self.node}: a request of {self.peer} is broken: {error}")
            self.close()
            return
        if self._closed:
            self.node.world.trace(f"{self.node}: {request.name} of {self.peer} comes late")
        answered = False

        def respond(response: Any) -> None:
            """None: the request wants no answer."""
            nonlocal answered
            assert not answered, f"{request.name} is answered twice"
            answered = True
            self._answer(response, version, correlation_id)

        api.handle(self.node, request, respond)

    def _answer(self, response: Any, version: int, correlation_id: int) -> None:
        throttle_s = 0.0
        if response is not None:
            throttle_s = getattr(response, "throttle_time_ms", 0) / 1000
            if not self._closed and self.node.up:
                response.API_VERSION = version
                response.with_header(correlation_id=correlation_id)
                self._send(bytes(response.encode(header=True, framed=True)))
        if throttle_s > 0:
            self.node.later(throttle_s, self._go_on_after)
        else:
            self._go_on_after()

    def _go_on_after(self) -> None:
        """The last request is answered, and the connection no longer muted."""
        self._busy = False
        self._serve_next()
