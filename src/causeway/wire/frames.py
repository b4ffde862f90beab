"""Sends and receives bytes over one non-blocking socket, with few copies and system calls.

    queue -> [memoryview, ...] -> sendmsg                     SendQueue
    recvmsg_into([rest of a big frame, scratch]) -> frames    SocketReader

A frame is a length (4 bytes, big-endian) and that number of bytes. One read brings many small
frames into a scratch buffer, from which they are copied. A frame that is larger gets a buffer of
its full size as soon as its length is known, and the kernel writes the rest directly into it. With
TLS, a read has one buffer, and small buffers are joined to full TLS records before they are sent.

The length may be wrong. So reads and frames must be small until the peer has authenticated itself,
and the pages of a very big frame are allocated only when bytes are written to them.

The memory of a frame is used again when no view of it is left. New memory costs as much as a copy,
because the kernel has to find and clear its pages.
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
KEPT_BYTES: Final = 40 * 1024 * 1024  # the size of free buffers that are kept by default
_WASTE: Final = 4  # a buffer that is more than this many times too large is not used


class Buffers:
    """Memory for frames. Not thread-safe. Several connections of one thread may share it.
    `kept_bytes`: how much free memory is kept."""

    def __init__(self) -> None:
        self.kept_bytes = KEPT_BYTES
        self._kept: list[bytearray] = []
        self._large: WeakSet[mmap.mmap] = WeakSet()

    @property
    def size(self) -> int:
        """The size of all buffers, also of free ones."""
        return sum(map(len, self._kept)) + sum(map(len, self._large))

    @property
    def held_bytes(self) -> int:
        """The size of all buffers that have a view left, even if it is small."""
        kept = sum(len(buffer) for buffer in self._kept if not _is_free(buffer))
        return kept + sum(map(len, self._large))

    def room(self, size: int) -> memoryview:
        """Returns `size` bytes of memory that have no other view."""
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
        buffer.pop()  # this leaves room for `append` in `_is_free`, which then moves no bytes
        self._kept.append(buffer)  # it is larger than `size`, because the next frame may be, too
        return memoryview(buffer)[:size]

    def give_back(self, left: int | None = None) -> None:
        """Gives free buffers back, the smallest first, until `left` bytes (`kept_bytes`) are
        free."""
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
# The limit for a peer that has not authenticated itself. ApiVersions and SASL need about 1 kB.
STRANGERS_FRAME_BYTES = 16 * 1024
# One call of `read` takes no more, so a fast connection cannot hold up the others of its loop.
READ_BUDGET_BYTES = 16 * 1024 * 1024
AWAITED_BYTES = 8 * 1024 * 1024
# The kernel accepts at most this number of buffers in a call, and rarely more than these bytes.
MAX_VECTORS = 1024
SEND_BYTES = 4 * 1024 * 1024

# A TLS 1.x alert begins so. As a length it would mean 352 MB.
_TLS_ALERT = b"\x15\x03"
_LENGTH = Struct(">I")

Buffer = bytes | bytearray | memoryview  # the items of a memoryview are single bytes


def wait(sock: socket.socket, *, write: bool, timeout_s: float) -> bool:
    """Sleeps until the socket can be read (or written, with `write`). False if the time is over."""
    poll = select.poll()
    poll.register(sock, select.POLLIN | (select.POLLOUT if write else 0))
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def lost(error: OSError) -> ConnectionError:
    """A failure of a socket or of TLS as a ConnectionError with the same text."""
    if isinstance(error, ConnectionError):
        return error
    return ConnectionAbortedError(error.errno or 0, error.strerror or str(error))


class SendQueue:
    """The bytes that wait to be sent; `size` is their number. Buffers are not copied: do not change
    them until `flush` returns True."""

    def __init__(self, sock: socket.socket) -> None:
        self.size = 0
        self._sock = sock
        self._tls = isinstance(sock, ssl.SSLSocket)
        self._queue: deque[Buffer] = deque()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def queue(self, buffers: Sequence[Buffer], size: int | None = None) -> None:
        """`size`: the bytes of all `buffers`, if known."""
        self._queue.extend(filter(len, buffers))
        self.size += sum(map(len, buffers)) if size is None else size

    def waiting(self) -> Iterator[Buffer]:
        """The queued buffers without the first one, which may be partly sent."""
        return islice(self._queue, 1, None)

    def copy_out(self, lies_in: Container[int]) -> None:
        """Copies queued views, except the first one, out of these objects. `lies_in` has their
        `id`."""
        queue = self._queue
        for at in range(1, len(queue)):
            part = queue[at]
            if isinstance(part, memoryview) and id(part.obj) in lies_in:
                queue[at] = bytes(part)

    def flush(self) -> bool:
        """Sends until the socket is full. True if nothing is left. Raises ConnectionError."""
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
        """The buffers for one call, and their size, if more are queued than one call accepts."""
        queue = self._queue
        # This number of buffers has SEND_BYTES if all are equal. The next call takes the others.
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
                # After SSLWantWrite, OpenSSL must get the same bytes again: the first buffer stays.
                sent = self._sock.send(queue[0])
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return False
            self.size -= sent
            self._drop(sent)
        return True

    def _join(self) -> None:
        """Joins the small buffers at the front of the queue to one full TLS record."""
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
    """Cuts received bytes into frames: memoryviews, whose bytes do not change while the view
    exists. Small frames of one read share read-only memory. Big frames are in `buffers`."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        """`peer`: the name of the broker in errors."""
        self._peer = peer
        self._sock = sock
        self._ssl = sock if isinstance(sock, ssl.SSLSocket) else None
        self.buffers = Buffers()  # for big frames
        self.limit = MAX_FRAME_BYTES  # of one frame; also of one read, if READ_BUDGET_BYTES is more
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._kept = 0  # bytes of an unfinished length at the scratch's start
        self._rest: memoryview | None = None  # the memory for the rest of an unfinished frame
        self._frame = memoryview(b"")
        self._awaited = 1
        self._first = True

    def read(self) -> list[memoryview]:
        """Returns the frames that are complete now.

        Raises ConnectionError if the peer is gone, but first returns all frames that arrived
        before. Raises ProtocolError for an impossible length, and AuthenticationError if a TLS
        alert comes first.
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
            # A short read has emptied a plain socket. A TLS socket returns one record at a time.
            if self._ssl is None and got < asked:
                break
        self._await(0 if self._rest is None else self._rest.nbytes)
        return frames

    def _await(self, rest: int) -> None:
        """Makes poll report the rest of a big frame when much has arrived, not for each packet. If
        the peer is gone or the kernel's buffer is full, the kernel reports at once."""
        if self._ssl is not None:  # OpenSSL may already have a part of a record
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
        """Takes the frames from scratch[:end]. Keeps an unfinished length, or moves the begin of an
        unfinished frame to its own buffer."""
        scratch = self._scratch
        here: memoryview | None = None  # a copy of the scratch for small frames
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
