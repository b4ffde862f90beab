"""Bytes in and out of one non-blocking socket, with as few copies and system calls as it allows.

    queue -> [memoryview, ...] -> sendmsg                     SendQueue
    recvmsg_into([rest of a big frame, scratch]) -> frames    SocketReader

A frame is a 4-byte big-endian length and as many bytes. Small frames arrive many to a read, in a
scratch buffer, and are copied from there; a frame that does not fit is given a buffer of its full
size as soon as its length is known, and the kernel writes the rest straight into that.
Over TLS the same, with one buffer a read, and small buffers joined to full TLS records before they
are sent.

A length is only a claim: what one read takes, and what a frame may have, are small until the reader
is set to trust its peer, and the kernel finds the pages of a very big frame as they are written.

Memory for frames is used again once no view is left. New memory costs as much as a copy: the
kernel finds its pages, and clears them twice.
"""

from __future__ import annotations

import mmap
import select
import socket
import ssl
from bisect import bisect_left
from collections import deque
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate, islice
from struct import Struct
from typing import Final
from weakref import WeakSet

from causeway.errors import AuthenticationError, ProtocolError

SPARE_BYTES: Final = 41 * 1024 * 1024  # the largest buffer that is kept
KEPT_BYTES: Final = 40 * 1024 * 1024  # of free buffers, unless more is wanted
_WASTE: Final = 4  # a buffer so many times too large waits for something larger


class Buffers:
    """Not thread-safe. Several connections of one thread may share them. `kept_bytes`: how much
    free memory is kept."""

    def __init__(self) -> None:
        self.kept_bytes = KEPT_BYTES
        self._kept: list[bytearray] = []
        self._large: WeakSet[mmap.mmap] = WeakSet()

    @property
    def held_bytes(self) -> int:
        """The size of buffers with a view left, also of a small part."""
        kept = sum(len(buffer) for buffer in self._kept if not _is_free(buffer))
        return kept + sum(len(buffer) for buffer in self._large)

    def room(self, size: int) -> memoryview:
        """`size` bytes without any other view."""
        if size > SPARE_BYTES:
            large = mmap.mmap(-1, size)
            self._large.add(large)
            return memoryview(large)
        free = sorted(filter(_is_free, self._kept), key=len)
        for buffer in free:
            if size <= len(buffer) <= _WASTE * size:
                return memoryview(buffer)[:size]
        self.give_back(self.kept_bytes - size)
        buffer = bytearray(max(size, min(SPARE_BYTES, size + size // 8)) + 1)
        buffer.pop()  # so that `_is_free` need not move it
        self._kept.append(buffer)  # the next frame may be somewhat larger
        return memoryview(buffer)[:size]

    def give_back(self, left: int | None = None) -> None:
        """Frees what is free beyond `left` bytes (`kept_bytes`), the smallest buffers first."""
        left = self.kept_bytes if left is None else left
        free = sorted(filter(_is_free, self._kept), key=len)
        kept = sum(map(len, free))
        gone = set[int]()
        for buffer in free:
            if kept > left:
                kept -= len(buffer)
                gone.add(id(buffer))
        self._kept = [buffer for buffer in self._kept if id(buffer) not in gone]


def _is_free(buffer: bytearray) -> bool:
    """Whether no memoryview is left: Python cannot resize a bytearray that has one."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True


SCRATCH_BYTES = 64 * 1024
TLS_RECORD_BYTES = 16 * 1024
MAX_FRAME_BYTES = 1 << 30
# Of a peer that has not authenticated itself: ApiVersions and SASL need about one.
STRANGERS_FRAME_BYTES = 16 * 1024
# One read call stops here, so that a fast connection can't starve its neighbours in a loop.
READ_BUDGET_BYTES = 16 * 1024 * 1024
AWAITED_BYTES = 8 * 1024 * 1024
# The kernel takes at most this many buffers a call, and hardly ever more than these bytes.
MAX_VECTORS = 1024
SEND_BYTES = 4 * 1024 * 1024

# The start of a TLS 1.x alert; as a length it would be 352 MB.
_TLS_ALERT = b"\x15\x03"
_LENGTH = Struct(">I")

Buffer = bytes | bytearray | memoryview  # a memoryview is of single bytes


def wait(sock: socket.socket, *, write: bool, timeout_s: float) -> bool:
    """Sleeps until the socket can be read (or written, if asked); false when time ran out."""
    poll = select.poll()
    poll.register(sock, select.POLLIN | (select.POLLOUT if write else 0))
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def lost(error: OSError) -> ConnectionError:
    """Any socket or TLS failure as a ConnectionError, with its own text."""
    if isinstance(error, ConnectionError):
        return error
    return ConnectionAbortedError(error.errno or 0, error.strerror or str(error))


class SendQueue:
    """Bytes that wait to be sent, `size` in all. Buffers are not copied: do not change them until
    `flush` is done."""

    def __init__(self, sock: socket.socket) -> None:
        self.size = 0
        self._sock = sock
        self._tls = isinstance(sock, ssl.SSLSocket)
        self._queue: deque[Buffer] = deque()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def queue(self, buffers: Sequence[Buffer], size: int | None = None) -> None:
        """`size`: of all of them, where that is known."""
        self._queue.extend(filter(len, buffers))
        self.size += sum(map(len, buffers)) if size is None else size

    def waiting(self) -> Iterator[Buffer]:
        """The queued buffers without the first one, of which a part may be sent."""
        return islice(self._queue, 1, None)

    def copy_out(self, lies_in: Container[int]) -> None:
        """Copies queued views (without the first one) out of these objects, given by `id`."""
        queue = self._queue
        for at in range(1, len(queue)):
            part = queue[at]
            if isinstance(part, memoryview) and id(part.obj) in lies_in:
                queue[at] = bytes(part)

    def flush(self) -> bool:
        """Sends what the socket takes. True when nothing is left. Raises ConnectionError."""
        try:
            return self._flush_tls() if self._tls else self._flush_plain()
        except OSError as error:
            raise lost(error) from error

    def _flush_plain(self) -> bool:
        queue, sendmsg = self._queue, self._sock.sendmsg
        while queue:
            vectors: Sequence[Buffer] = queue
            size = self.size
            if size > SEND_BYTES or len(queue) > MAX_VECTORS:
                vectors, size = self._first()
            try:
                sent = sendmsg(vectors)
            except BlockingIOError:
                return False
            self.size -= sent
            if sent < size:
                self._drop(sent)
                return False
            if len(vectors) == len(queue):
                queue.clear()
            else:
                for _ in vectors:
                    queue.popleft()
        return True

    def _first(self) -> tuple[list[Buffer], int]:
        """The buffers for one call if more are queued than it takes, and their size."""
        queue = self._queue
        # So many hold SEND_BYTES, if all are alike; what the socket leaves is counted again.
        most = min(MAX_VECTORS, 2 + len(queue) * SEND_BYTES // self.size)
        vectors = list(islice(queue, most))
        ends = list(accumulate(map(len, vectors)))
        last = min(bisect_left(ends, SEND_BYTES), len(ends) - 1)
        return vectors[: last + 1], ends[last]

    def _flush_tls(self) -> bool:
        queue = self._queue
        while queue:
            if len(queue[0]) < TLS_RECORD_BYTES and len(queue) > 1:
                self._join()
            try:
                # After SSLWantWrite OpenSSL insists on the same bytes again: the head stays.
                sent = self._sock.send(queue[0])
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return False
            self.size -= sent
            self._drop(sent)
        return True

    def _join(self) -> None:
        """Makes the head one full TLS record, of the small buffers it begins with."""
        record = bytearray()
        queue = self._queue
        while queue and len(record) < TLS_RECORD_BYTES:
            part = memoryview(queue[0])[: TLS_RECORD_BYTES - len(record)]
            record += part
            self._drop(len(part))
        queue.appendleft(record)

    def _drop(self, count: int) -> None:
        queue = self._queue
        while count:
            head = queue[0]
            if len(head) > count:
                queue[0] = memoryview(head)[count:]
                return
            count -= len(head)
            queue.popleft()


class SocketReader:
    """Cuts received bytes into frames: memoryviews of bytes that do not change while one is held.
    Small frames of one read share read-only memory; big ones lie in `buffers`."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        """`peer`: for errors."""
        self._peer = peer
        self._sock = sock
        self._ssl = sock if isinstance(sock, ssl.SSLSocket) else None
        self.buffers = Buffers()  # for big frames
        self.limit = MAX_FRAME_BYTES  # of one frame, and of one read where that is less
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._kept = 0  # bytes of an unfinished length at the scratch's start
        self._rest: memoryview | None = None  # where the rest of an unfinished frame goes
        self._frame = memoryview(b"")
        self._awaited = 1
        self._first = True

    def read(self) -> list[memoryview]:
        """The frames that are complete now.

        Raises ConnectionError when the peer is gone, but only after every frame that arrived before
        was handed out, ProtocolError for a length that can't be one, and AuthenticationError where
        a TLS alert comes first.
        """
        frames: list[memoryview] = []
        budget = min(READ_BUDGET_BYTES, self.limit)
        while budget > 0 or (self._ssl is not None and self._ssl.pending()):
            asked = SCRATCH_BYTES - self._kept
            if self._rest is not None:
                asked += self._rest.nbytes
            try:
                got = self._receive()
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                if frames:
                    break
                raise lost(error) from error
            if not got:
                if frames:
                    break
                raise ConnectionResetError("the broker closed the connection")
            budget -= got
            if self._rest is None:
                self._cut(self._kept + got, frames)
            elif got < self._rest.nbytes:
                self._rest = self._rest[got:]
            else:
                extra = got - self._rest.nbytes
                self._rest = None
                frames.append(self._frame)
                self._frame = memoryview(b"")
                self._cut(extra, frames)
            # A short read has emptied a plain socket; TLS hands out a record at a time.
            if self._ssl is None and got < asked:
                break
        self._await(0 if self._rest is None else self._rest.nbytes)
        return frames

    def _await(self, rest: int) -> None:
        """Has poll report a big frame's rest once much is here, not with each packet. The
        kernel reports at once if the peer is gone, or its buffer is full."""
        if self._ssl is not None:  # which may hold a part of a record, and takes more of the socket
            rest -= TLS_RECORD_BYTES
        much = min(rest, AWAITED_BYTES) if rest >= SCRATCH_BYTES else 1
        if much != self._awaited:
            self._awaited = much
            try:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, much)
            except OSError:
                pass  # poll reports each packet

    def _receive(self) -> int:
        if self._rest is None:
            return self._sock.recv_into(self._scratch[self._kept :])
        if self._ssl is None:
            return self._sock.recvmsg_into([self._rest, self._scratch])[0]
        return self._sock.recv_into(self._rest)

    def _cut(self, end: int, frames: list[memoryview]) -> None:
        """Takes the frames from scratch[:end], and keeps or moves an unfinished one."""
        scratch = self._scratch
        here: memoryview | None = None  # a copy, for small frames
        at = 0
        self._kept = 0
        while end - at >= 4:
            (size,) = _LENGTH.unpack_from(scratch, at)
            if self._first and scratch[at : at + 2] == _TLS_ALERT:
                raise AuthenticationError(
                    "connect to",
                    self._peer,
                    "the port speaks TLS",
                    remedy="set security.protocol to SSL or SASL_SSL",
                )
            if size < 4 or size > self.limit:
                raise ProtocolError(
                    "read an answer",
                    f"from {self._peer}",
                    f"a frame of {size} bytes is not Kafka's protocol",
                    remedy="is it a Kafka port? check bootstrap.servers and security.protocol",
                )
            self._first = False
            at += 4
            if size <= end - at:
                if here is None:
                    here = memoryview(bytes(scratch[:end]))
                frames.append(here[at : at + size])
                at += size
            else:
                self._frame = self.buffers.room(size)
                self._frame[: end - at] = scratch[at:end]
                self._rest = self._frame[end - at :]
                at = end
        if at < end:
            self._kept = end - at
            scratch[: self._kept] = bytes(scratch[at:end])
