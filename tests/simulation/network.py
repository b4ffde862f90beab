"""The network of a simulation: hosts, streams between them, sockets, and waiting for sockets.

    socket ── stream: delay, lost at a reset, held while the hosts are cut off ──► socket or broker

Bytes arrive in order, in the pieces in which they were sent or joined.
"""

from __future__ import annotations

import errno
import select as real_select
import selectors
import socket as real_socket
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, Self

from tests.simulation.kernel import Kernel, SimulatedProcess, SimulatedTask

_ROOM: Final = 256 * 1024  # bytes of one direction that are under way or not yet read
_LOCAL_S: Final = 2e-5
_FIRST_FD: Final = 100_000
_DEAD_AFTER_S: Final = 60.0  # keep-alive gives up a peer that is gone
_CONNECT_S: Final = 120.0  # Linux gives up to connect

Buffer = bytes | bytearray | memoryview
At = tuple[str, int]


class Session(Protocol):
    """A broker's end of a connection."""

    def receive(self, data: bytes) -> None: ...

    def closed(self) -> None: ...


class Server(Protocol):
    """Something that a simulated cluster listens with."""

    def connect(
        self, send: Callable[[bytes], None], close: Callable[[], None], peer: str
    ) -> Session | None: ...


class End:
    """One end of a stream; `other` is the peer's."""

    other: End

    def __init__(self, network: Network, host: str) -> None:
        self.network = network
        self.host = host
        self.open = True
        self.under_way = 0  # bytes that the peer has not read
        self.user_timeout_s = _DEAD_AFTER_S
        self._arrives_at = 0.0
        self._kept: list[tuple[Callable[..., None], tuple[Any, ...]]] = []  # while cut off
        self._cut_since: float | None = None
        self._lost = False  # a reset is under way: nothing that was sent arrives any more

    # -- sending ----------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        kernel = self.network.kernel
        kernel.note(f"{self.host} sends {len(data)} bytes, {zlib.crc32(data):08x}")
        self.under_way += len(data)
        self._carry(self.other.arrive, data)

    def finish(self) -> None:
        """Closes in order: all that was sent arrives before."""
        if self.open:
            self.open = False
            self._carry(self.other.on_finish)

    def reset(self) -> None:
        """Closes at once. A part of the bytes that are under way, chosen by chance, is lost."""
        if not self.open:
            return
        self.open = False
        kernel = self.network.kernel
        if kernel.random.random() < 0.5:
            self._lost = True
        self._kept.clear()
        delay = self.network.delay(self.host, self.other.host)
        if not self.network.is_cut(self.host, self.other.host):
            kernel.later(delay, lambda: self.other.on_reset(errno.ECONNRESET))
        else:
            kernel.later(_DEAD_AFTER_S, lambda: self.other.on_reset(errno.ETIMEDOUT))

    def vanish(self) -> None:
        """Its machine is gone: the peer learns of that when its keep-alive gives up. Bytes that are
        under way arrive."""
        if self.open:
            self.open = False
            self.network.kernel.later(_DEAD_AFTER_S, lambda: self.other.on_reset(errno.ETIMEDOUT))

    def _carry(self, act: Callable[..., None], *given: Any) -> None:
        network = self.network
        if self._kept or network.is_cut(self.host, self.other.host):
            if not self._kept:
                self._cut_since = since = network.kernel.elapsed
                network.kernel.later(self.user_timeout_s, lambda: self._give_up(since))
                network.keep(self)
            self._kept.append((act, given))
            return
        self._schedule(act, given)

    def _schedule(self, act: Callable[..., None], given: tuple[Any, ...]) -> None:
        kernel = self.network.kernel
        at = kernel.elapsed + self.network.delay(self.host, self.other.host)
        self._arrives_at = max(self._arrives_at, at)
        kernel.later(self._arrives_at - kernel.elapsed, lambda: self._deliver(act, given))

    def _deliver(self, act: Callable[..., None], given: tuple[Any, ...]) -> None:
        if not self._lost:
            act(*given)

    def healed(self) -> None:
        """The hosts reach each other again."""
        self._cut_since = None
        kept, self._kept = self._kept, []
        if self.open or kept:
            for act, given in kept:
                self._schedule(act, given)

    def _give_up(self, since: float) -> None:
        if self._cut_since == since and self.open:
            self._kept.clear()
            self.on_reset(errno.ETIMEDOUT)
            self.network.kernel.later(_DEAD_AFTER_S, lambda: self.other.on_reset(errno.ECONNRESET))

    # -- receiving --------------------------------------------------------------------------------

    def arrive(self, data: bytes) -> None:
        raise NotImplementedError

    def on_finish(self) -> None:
        raise NotImplementedError

    def on_reset(self, error: int) -> None:
        raise NotImplementedError


class ServerEnd(End):
    """A broker's."""

    session: Session

    def arrive(self, data: bytes) -> None:
        self.other.under_way -= len(data)
        if isinstance(self.other, SocketEnd):
            self.other.room_again()
        if self.open:
            self.session.receive(data)

    def on_finish(self) -> None:
        if self.open:
            self.open = False
            self.session.closed()

    def on_reset(self, _: int) -> None:
        self.on_finish()


class SocketEnd(End):
    """A process's, which its socket reads and writes."""

    def __init__(self, network: Network, host: str, sock: SimulatedSocket) -> None:
        super().__init__(network, host)
        self.sock = sock
        self.inbox = bytearray()
        self.finished = False
        self.error = 0

    def arrive(self, data: bytes) -> None:
        if self.open:
            self.inbox += data
            self.sock.notify()

    def on_finish(self) -> None:
        self.finished = True
        self.sock.notify()

    def on_reset(self, error: int) -> None:
        if self.open:
            self.open = False
            self.error = error
            self.sock.notify()

    def room_again(self) -> None:
        self.sock.notify()

    def read(self, most: int) -> bytes:
        data = bytes(self.inbox[:most])
        del self.inbox[:most]
        other = self.other
        other.under_way -= len(data)
        if isinstance(other, SocketEnd):
            other.room_again()
        return data


class SimulatedSocket:
    """In place of socket.socket, for streams."""

    def __init__(
        self,
        family: int = real_socket.AF_INET,
        type: int = real_socket.SOCK_STREAM,
        proto: int = 0,
        fileno: int | None = None,
    ) -> None:
        assert fileno is None
        self.family, self.type, self.proto = family, type, proto
        self.network = _network
        self.process: SimulatedProcess = _network.kernel.here().process
        self._fd = _network.add(self)
        self.process.sockets[self._fd] = self
        self._timeout: float | None = None
        self.end: SocketEnd | None = None
        self._at: At = ("", 0)  # of this end
        self._peer: At = ("", 0)
        self._accepted: list[SimulatedSocket] | None = None  # of a listener: what waits
        self._linger = True
        self._user_timeout_s = _DEAD_AFTER_S
        self.watchers: dict[SimulatedTask, None] = {}

    # -- options ----------------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._fd

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if level == real_socket.SOL_SOCKET and option == real_socket.SO_LINGER:
            self._linger = False
        if level == real_socket.IPPROTO_TCP and option == getattr(
            real_socket, "TCP_USER_TIMEOUT", -1
        ):
            self._user_timeout_s = value / 1000

    def getsockopt(self, *_: int) -> int:
        return 0

    def settimeout(self, timeout: float | None) -> None:
        self._timeout = timeout

    def gettimeout(self) -> float | None:
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        self._timeout = None if flag else 0.0

    def getsockname(self) -> At:
        return self._at

    def getpeername(self) -> At:
        return self._peer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- opening and closing ----------------------------------------------------------------------

    def bind(self, at: Any) -> None:
        host, port = at[:2]
        self._at = host, port or self.network.free_port()

    def listen(self, *_: int) -> None:
        self._accepted = []
        self.network.listeners[self.process.host, self._at[1]] = self

    def accept(self) -> tuple[SimulatedSocket, At]:
        assert self._accepted is not None
        self._until(lambda: bool(self._accepted))
        accepted = self._accepted.pop(0)
        return accepted, accepted.getpeername()

    def connect(self, at: Any) -> None:
        host, port = at[:2]
        network, kernel = self.network, self.network.kernel
        there = self.process.host if host.startswith("127.") else host
        self._at, self._peer = (self.process.host, network.free_port()), (host, port)
        kernel.wait(network.delay(self.process.host, there))
        limit_s = _CONNECT_S if self._timeout is None else self._timeout
        until = kernel.elapsed + limit_s
        while network.is_cut(self.process.host, there):
            if kernel.elapsed >= until:
                raise TimeoutError(errno.ETIMEDOUT, "timed out")
            kernel.wait(min(0.5, limit_s))
        if (listener := network.listeners.get((there, port))) is not None:
            listener.receive_connection(self)
        elif (server := network.server_at(there, port)) is not None:
            self._connect_to(server, there)
        else:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    def _connect_to(self, server: Server, there: str) -> None:
        ours = SocketEnd(self.network, self.process.host, self)
        theirs = ServerEnd(self.network, there)
        ours.other, theirs.other = theirs, ours
        session = server.connect(theirs.send, theirs.reset, self.process.name)
        if session is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        theirs.session = session
        ours.user_timeout_s = self._user_timeout_s
        self.end = ours

    def receive_connection(self, client: SimulatedSocket) -> None:
        """Of another process."""
        assert self._accepted is not None
        server = object.__new__(SimulatedSocket)
        server.__dict__.update(self.__dict__)
        server._fd = self.network.add(server)
        self.process.sockets[server._fd] = server
        server._accepted, server._timeout, server.watchers = None, None, {}
        server._peer = client.getsockname()
        join(self.network, client, server)
        self._accepted.append(server)
        self.notify()

    def vanish(self) -> None:
        """Its machine has lost its power."""
        self._leave()
        if self.end is not None:
            self.end.vanish()

    def _leave(self) -> None:
        fd, self._fd = self._fd, -1
        self.network.remove(fd)
        self.process.sockets.pop(fd, None)
        if self._accepted is not None:
            self.network.listeners.pop((self.process.host, self._at[1]), None)

    def close(self) -> None:
        if self._fd < 0:
            return
        self._leave()
        for waiting in self._accepted or ():
            waiting.close()
        if self.end is not None:
            if self._linger and not self.end.inbox:
                self.end.finish()
            else:
                self.end.reset()
        self.notify()

    def shutdown(self, _: int) -> None:
        if self.end is not None:
            self.end.finish()

    def detach(self) -> int:
        raise NotImplementedError

    # -- bytes ------------------------------------------------------------------------------------

    def send(self, data: Buffer, _: int = 0) -> int:
        self.network.kernel.may_give_way()
        self._until(self._writable)
        end = self._checked()
        room = _ROOM - end.under_way
        part = bytes(data[:room])
        end.send(part)
        return len(part)

    def sendall(self, data: Buffer) -> None:
        left = memoryview(data)
        while left:
            left = left[self.send(left) :]

    def sendmsg(self, buffers: Iterable[Buffer]) -> int:
        return self.send(b"".join(buffers))

    def recv(self, most: int, _: int = 0) -> bytes:
        self.network.kernel.may_give_way()
        self._until(self._readable)
        end = self.end
        if end is not None and end.inbox and not end.error:
            return end.read(most)
        if end is not None and end.finished and not end.error:
            return b""
        self._checked()
        return b""

    def recv_into(self, buffer: Any, *_: int) -> int:
        data = self.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def recvmsg_into(self, buffers: Sequence[Any]) -> tuple[int, list[Any], int, Any]:
        data = self.recv(sum(map(len, buffers)))
        at = 0
        for buffer in buffers:
            part = data[at : at + len(buffer)]
            buffer[: len(part)] = part
            at += len(part)
        return len(data), [], 0, None

    def _checked(self) -> SocketEnd:
        end = self.end
        if self._fd < 0:
            raise OSError(errno.EBADF, "Bad file descriptor")
        if end is None:
            raise OSError(errno.ENOTCONN, "not connected")
        if end.error == errno.ETIMEDOUT:
            raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")
        if end.error or not end.open:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        return end

    def _readable(self) -> bool:
        end = self.end
        if self._accepted is not None:
            return bool(self._accepted)
        return end is None or bool(end.inbox or end.finished or end.error or not end.open)

    def _writable(self) -> bool:
        end = self.end
        return end is None or not end.open or end.under_way < _ROOM

    def _until(self, so: Callable[[], bool]) -> None:
        if self._timeout == 0.0:
            if self._fd >= 0 and not so():
                raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
            return
        kernel = self.network.kernel
        until = None if self._timeout is None else kernel.elapsed + self._timeout
        while self._fd >= 0 and not so():
            left = None if until is None else until - kernel.elapsed
            if left is not None and left <= 0:
                raise TimeoutError("timed out")
            watch((self,), left)

    # -- waiting ----------------------------------------------------------------------------------

    def events(self) -> int:
        """As `poll` has them."""
        if self._fd < 0:
            return real_select.POLLNVAL
        found = real_select.POLLIN if self._readable() else 0
        if self._accepted is None and self._writable():
            found |= real_select.POLLOUT
        if self.end is not None and self.end.error:
            found |= real_select.POLLERR | real_select.POLLHUP
        return found

    def notify(self) -> None:
        watchers = list(self.watchers)
        self.watchers.clear()
        for task in watchers:
            self.network.kernel.wake(task)


def join(network: Network, one: SimulatedSocket, other: SimulatedSocket) -> None:
    """Makes them the ends of one stream."""
    one.end = SocketEnd(network, one.process.host, one)
    other.end = SocketEnd(network, other.process.host, other)
    one.end.other, other.end.other = other.end, one.end


def watch(socks: Iterable[SimulatedSocket], timeout_s: float | None) -> None:
    """Waits until something happens at one of `socks`, or time runs out."""
    kernel = _network.kernel
    task = kernel.here()
    watched = list(socks)
    for sock in watched:
        sock.watchers[task] = None
    kernel.wait(timeout_s)
    for sock in watched:
        sock.watchers.pop(task, None)


class Network:
    """`servers`: a function that finds the broker at a host and port."""

    def __init__(
        self, kernel: Kernel, server_at: Callable[[str, int], Server | None] | None = None
    ) -> None:
        self.kernel = kernel
        self.listeners: dict[At, SimulatedSocket] = {}
        self.server_at = server_at or (lambda _, __: None)
        self.latency_s = 0.0005  # between hosts; each delivery takes up to twice that
        self._sockets: dict[int, SimulatedSocket] = {}
        self._next_fd = _FIRST_FD
        self._next_port = 20_000
        self._cuts: dict[tuple[str, str], None] = {}
        self._keeping: dict[End, None] = {}

    def add(self, sock: SimulatedSocket) -> int:
        self._next_fd += 1
        self._sockets[self._next_fd] = sock
        return self._next_fd

    def remove(self, fd: int) -> None:
        self._sockets.pop(fd, None)

    def sock(self, fd: int) -> SimulatedSocket | None:
        return self._sockets.get(fd)

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def delay(self, one: str, other: str) -> float:
        if one == other:
            return _LOCAL_S
        return self.latency_s * (1 + self.kernel.random.random())

    # -- faults -----------------------------------------------------------------------------------

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between two hosts until `heal`."""
        self._cuts[_pair(one, other)] = None

    def heal(self) -> None:
        """All hosts reach each other again."""
        self._cuts.clear()
        keeping, self._keeping = list(self._keeping), {}
        for end in keeping:
            end.healed()

    def heal_pair(self, one: str, other: str) -> None:
        """The two hosts reach each other again."""
        self._cuts.pop(_pair(one, other), None)
        for end in list(self._keeping):
            if not self.is_cut(end.host, end.other.host):
                del self._keeping[end]
                end.healed()

    def is_cut(self, one: str, other: str) -> bool:
        return bool(self._cuts) and _pair(one, other) in self._cuts

    def keep(self, end: End) -> None:
        self._keeping[end] = None


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


_network: Network


def use(network: Network) -> None:
    """All sockets belong to `network` from now on."""
    global _network
    _network = network


# -- in place of functions of the modules socket, select and selectors -----------------------------


def socketpair(*_: int) -> tuple[SimulatedSocket, SimulatedSocket]:
    one, other = (SimulatedSocket(real_socket.AF_UNIX) for _ in range(2))
    join(_network, one, other)
    return one, other


def inherit(fd: int, process: SimulatedProcess) -> SimulatedSocket:
    """The socket `fd` of another process, for a child. The other process may close its own."""
    old = _network.sock(fd)
    assert old is not None
    assert old.end is not None
    new = object.__new__(SimulatedSocket)
    new.__dict__.update(old.__dict__)
    new.process, new.watchers, new._fd = process, {}, _network.add(new)
    process.sockets[new._fd] = new
    old.end.sock, old.end = new, None
    return new


def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
    return [(real_socket.AF_INET, real_socket.SOCK_STREAM, 6, "", (host, port))]


def gethostname() -> str:
    return _network.kernel.here().process.host


class SimulatedPoll:
    """In place of select.poll."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, fd: Any, events: int) -> None:
        self._wanted[fd if isinstance(fd, int) else fd.fileno()] = events

    def unregister(self, fd: Any) -> None:
        del self._wanted[fd if isinstance(fd, int) else fd.fileno()]

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        return _poll(
            self._wanted, None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000
        )


_ALWAYS = real_select.POLLERR | real_select.POLLHUP | real_select.POLLNVAL


def _poll(wanted: dict[int, int], timeout_s: float | None) -> list[tuple[int, int]]:
    kernel = _network.kernel
    until = None if timeout_s is None else kernel.elapsed + timeout_s
    first = True
    while True:
        found = []
        socks = []
        for fd, events in wanted.items():
            sock = _network.sock(fd)
            if sock is None:
                found.append((fd, real_select.POLLNVAL))
                continue
            socks.append(sock)
            if mask := sock.events() & (events | _ALWAYS):
                found.append((fd, mask))
        left = None if until is None else until - kernel.elapsed
        if found or (left is not None and left <= 0):
            if first:
                kernel.give_way()
            return found
        first = False
        watch(socks, left)


def select(
    read: Sequence[Any], write: Sequence[Any], _: Sequence[Any], timeout: float | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    wanted: dict[int, int] = {}
    for one in read:
        wanted[one.fileno()] = wanted.get(one.fileno(), 0) | real_select.POLLIN
    for one in write:
        wanted[one.fileno()] = wanted.get(one.fileno(), 0) | real_select.POLLOUT
    found = dict(_poll(wanted, timeout))
    gone = real_select.POLLHUP | real_select.POLLERR | real_select.POLLNVAL
    return (
        [one for one in read if found.get(one.fileno(), 0) & (real_select.POLLIN | gone)],
        [one for one in write if found.get(one.fileno(), 0) & (real_select.POLLOUT | gone)],
        [],
    )


class SimulatedSelector(selectors._BaseSelectorImpl):
    """In place of selectors.DefaultSelector."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        keys = {key.fd: key for key in self.get_map().values()}
        # A closed socket leaves epoll by itself.
        wanted = {
            fd: (real_select.POLLIN if key.events & selectors.EVENT_READ else 0)
            | (real_select.POLLOUT if key.events & selectors.EVENT_WRITE else 0)
            for fd, key in keys.items()
            if _network.sock(fd) is not None
        }
        found = []
        for fd, mask in _poll(wanted, None if timeout is None else max(0.0, timeout)):
            key = keys[fd]
            gone = mask & _ALWAYS
            events = selectors.EVENT_READ if mask & real_select.POLLIN or gone else 0
            if mask & real_select.POLLOUT or gone:
                events |= selectors.EVENT_WRITE
            if events & key.events:
                found.append((key, events & key.events))
        return found
