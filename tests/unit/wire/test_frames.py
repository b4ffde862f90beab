"""Whatever way bytes are cut on their way, the same frames come out, in their order."""

from __future__ import annotations

import random
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.config import TlsSettings
from causeway.errors import AuthenticationError, ProtocolError
from causeway.logins import ssl_context
from causeway.wire import SendQueue, frames, wait
from causeway.wire.frames import SocketReader
from tests.harness.examples import examples
from tests.harness.kafka.certificates import create_certificates

SIZES = [4, 5, 100, frames.SCRATCH_BYTES - 4, frames.SCRATCH_BYTES, frames.SCRATCH_BYTES + 1]


@contextmanager
def plain_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


@contextmanager
def tls_pair(folder: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    files = create_certificates(folder)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.broker)
    ours, theirs = socket.socketpair()
    wrapped: list[ssl.SSLSocket] = []
    thread = threading.Thread(
        target=lambda: wrapped.append(server.wrap_socket(theirs, server_side=True))
    )
    thread.start()
    context = ssl_context(TlsSettings(ca_pem=files.ca.read_text()))
    client = context.wrap_socket(ours, server_hostname="localhost")
    thread.join()
    with client, wrapped[0]:
        client.setblocking(False)
        yield client, wrapped[0]


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


def read_all(sock: socket.socket, count: int) -> list[bytes]:
    reader = SocketReader(sock, "a test")
    found: list[bytes] = []
    while len(found) < count:
        assert wait(sock, write=False, timeout_s=60), "poll must tell while a frame is missing"
        found += [bytes(frame) for frame in reader.read()]
    assert reader.read() == []
    return found


def send_in_pieces(sock: socket.socket, data: bytes, cuts: list[int]) -> None:
    at = 0
    for cut in [*sorted(c % (len(data) + 1) for c in cuts), len(data)]:
        sock.sendall(data[at:cut])
        at = cut


@settings(max_examples=examples(150))
@given(
    sizes=st.lists(st.sampled_from(SIZES) | st.integers(4, 300), min_size=1, max_size=12),
    cuts=st.lists(st.integers(0, 1 << 20), max_size=8),
)
def test_frames_survive_any_cut(sizes: list[int], cuts: list[int]) -> None:
    bodies = [random.Random(i).randbytes(size) for i, size in enumerate(sizes)]
    with plain_pair() as (ours, theirs):
        data = b"".join(framed(body) for body in bodies)
        sender = threading.Thread(target=send_in_pieces, args=(theirs, data, cuts))
        sender.start()
        assert read_all(ours, len(bodies)) == bodies
        sender.join()


def test_frames_of_megabytes_over_tls_are_all_seen_by_poll(tmp_path: Path) -> None:
    bodies = [random.Random(i).randbytes(n) for i, n in enumerate([5_000_000, 4, 70_000, 300] * 3)]
    with tls_pair(tmp_path) as (ours, theirs):
        sender = threading.Thread(
            target=theirs.sendall, args=(b"".join(framed(body) for body in bodies),)
        )
        sender.start()
        assert read_all(ours, len(bodies)) == bodies
        sender.join()


def test_a_frame_keeps_its_bytes_when_later_ones_arrive() -> None:
    with plain_pair() as (ours, theirs):
        reader = SocketReader(ours, "a test")
        theirs.sendall(framed(b"first") + framed(b"other"))
        kept, other = reader.read()
        theirs.sendall(framed(b"third"))
        reader.read()
        assert (bytes(kept), bytes(other)) == (b"first", b"other")


def test_the_buffer_of_a_big_frame_is_used_again_once_it_is_released() -> None:
    more = (9, 5, frames.SCRATCH_BYTES)
    bodies = [bytes([65 + i]) * (frames.SCRATCH_BYTES + size) for i, size in enumerate(more)]
    with plain_pair() as (ours, theirs):
        reader = SocketReader(ours, "a test")

        def next_frame(body: bytes) -> memoryview:
            sender = threading.Thread(target=theirs.sendall, args=(framed(body),))
            sender.start()
            found: list[memoryview] = []
            while not found:
                assert wait(ours, write=False, timeout_s=60)
                found = reader.read()
            sender.join()
            (frame,) = found
            assert frame == body
            return frame

        part = next_frame(bodies[0])[1:5]
        first = part.obj
        second = next_frame(bodies[1]).obj
        third = next_frame(bodies[2]).obj  # much larger than the one before
        fourth = next_frame(bodies[1]).obj
        assert bytes(part) == b"AAAA"
        assert [first is second, second is third, second is fourth] == [False, False, True]


def test_free_buffers_are_given_back_beyond_what_a_lane_needs_at_a_time() -> None:
    pool = frames.Buffers()
    views = [pool.room(frames.SPARE_BYTES) for _ in range(4)] + [pool.room(100_000)]
    large = pool.room(frames.SPARE_BYTES + 1)
    assert pool.held_bytes == sum(len(cast(bytearray, v.obj)) for v in (*views, large))
    first = views.pop(0).obj
    pool.give_back(0)
    assert pool.room(100).obj is not first
    views.clear()
    del first, large
    assert pool.held_bytes == 0
    for wanted in (3 * frames.SPARE_BYTES, 2 * frames.SPARE_BYTES):
        pool.kept_bytes = wanted
        pool.give_back()
        assert sum(map(len, pool._kept)) == wanted


def test_a_frame_too_big_to_keep_a_buffer_for() -> None:
    body = random.Random(0).randbytes(frames.SPARE_BYTES + 70_000)
    with plain_pair() as (ours, theirs):
        sender = threading.Thread(target=theirs.sendall, args=(framed(body) + framed(b"next"),))
        sender.start()
        assert read_all(ours, 2) == [body, b"next"]
        sender.join()


def test_a_claim_takes_no_memory() -> None:
    with plain_pair() as (ours, theirs):
        reader = SocketReader(ours, "a test")
        before = psutil.Process().memory_info().rss
        theirs.sendall((1 << 30).to_bytes(4) + b"x")
        assert reader.read() == []
        assert psutil.Process().memory_info().rss - before < 100 << 20


def test_a_stranger_sends_small_frames_and_few_at_once() -> None:
    with plain_pair() as (ours, theirs):
        reader = SocketReader(ours, "a test")
        reader.limit = frames.STRANGERS_FRAME_BYTES
        flood = threading.Thread(target=theirs.sendall, args=(framed(b"tiny") * 100_000,))
        flood.start()
        assert wait(ours, write=False, timeout_s=60)
        assert len(reader.read()) <= frames.SCRATCH_BYTES // 8
        reader.limit = frames.MAX_FRAME_BYTES
        while reader.read() or flood.is_alive():
            pass
        reader.limit = frames.STRANGERS_FRAME_BYTES
        theirs.sendall(framed(b"x" * (frames.STRANGERS_FRAME_BYTES + 1)))
        with pytest.raises(ProtocolError, match="a frame of 16385 bytes"):
            reader.read()


def test_frames_before_the_end_are_handed_out_before_the_error() -> None:
    with plain_pair() as (ours, theirs):
        reader = SocketReader(ours, "a test")
        theirs.sendall(framed(b"last") + b"\0\0")
        theirs.close()
        assert [bytes(frame) for frame in reader.read()] == [b"last"]
        with pytest.raises(ConnectionResetError, match="closed the connection"):
            reader.read()


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (b"HTTP/1.1 400 Bad Request", "not Kafka's protocol"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "the port speaks TLS"),
        (b"\x00\x00\x00\x01\x00", "a frame of 1 bytes"),
        (b"\xff\xff\xff\xff\x00", "not Kafka's protocol"),
    ],
)
def test_other_protocols_are_named(start: bytes, says: str) -> None:
    with plain_pair() as (ours, theirs):
        theirs.sendall(start)
        with pytest.raises((ProtocolError, AuthenticationError), match=says):
            SocketReader(ours, "a test").read()


@contextmanager
def tcp_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


def test_the_rest_of_a_big_frame_is_read_in_large_pieces() -> None:
    with tcp_pair() as (ours, theirs):
        reader = SocketReader(ours, "a test")
        frame = framed(random.Random(0).randbytes(2 * frames.AWAITED_BYTES))
        theirs.sendall(frame[:100])
        assert wait(ours, write=False, timeout_s=60)
        assert reader.read() == []

        theirs.sendall(frame[100:10_000])
        assert not wait(ours, write=False, timeout_s=0.1)

        rest = threading.Thread(target=theirs.sendall, args=(frame[10_000:],))
        rest.start()
        found: list[memoryview] = []
        while not found:
            assert wait(ours, write=False, timeout_s=60)
            found = reader.read()
        rest.join()
        assert bytes(found[0]) == frame[4:]

        theirs.sendall(framed(b"small again"))
        assert wait(ours, write=False, timeout_s=60)
        assert [bytes(one) for one in reader.read()] == [b"small again"]


def test_a_peer_that_disconnects_amid_a_big_frame_is_reported_at_once() -> None:
    with tcp_pair() as (ours, theirs):
        reader = SocketReader(ours, "a test")
        theirs.sendall(framed(bytes(2 * frames.AWAITED_BYTES))[:100])
        assert wait(ours, write=False, timeout_s=60)
        assert reader.read() == []

        theirs.close()

        assert wait(ours, write=False, timeout_s=60)
        with pytest.raises(ConnectionError):
            reader.read()


def send_all_to_a_slow_reader(
    ours: socket.socket, theirs: socket.socket, buffers: list[bytes]
) -> bytes:
    outbox = SendQueue(ours)
    received = bytearray()
    total = sum(map(len, buffers))

    def drain() -> None:
        while len(received) < total:
            received.extend(theirs.recv(50_000))

    reader = threading.Thread(target=drain)
    outbox.queue([memoryview(buffer) for buffer in buffers])
    assert outbox.size == total
    outbox.flush()
    reader.start()
    while not outbox.flush():
        assert 0 < outbox.size <= total
        assert wait(ours, write=True, timeout_s=60)
    reader.join()
    assert not outbox
    assert outbox.size == 0
    return bytes(received)


BUFFERS = [
    random.Random(i).randbytes(n)
    for i, n in enumerate([0, 1, 61, 100_000, 0, 3, 16_384, 16_383, 2_000_000, 7] * 2 + [5] * 3_000)
]


def test_sends_every_byte_once_past_a_full_socket() -> None:
    with plain_pair() as (ours, theirs):
        assert send_all_to_a_slow_reader(ours, theirs, BUFFERS) == b"".join(BUFFERS)


def test_sends_every_byte_once_past_a_full_socket_over_tls(tmp_path: Path) -> None:
    with tls_pair(tmp_path) as (ours, theirs):
        assert send_all_to_a_slow_reader(ours, theirs, BUFFERS) == b"".join(BUFFERS)


def test_small_buffers_share_tls_records(tmp_path: Path) -> None:
    with tls_pair(tmp_path) as (ours, theirs):
        outbox = SendQueue(ours)
        outbox.queue([b"header" * 10, b"payload" * 10_000])
        assert outbox.flush()
        # OpenSSL hands out one record a read.
        assert len(theirs.recv(1 << 20)) == frames.TLS_RECORD_BYTES


def test_sending_to_a_closed_peer_is_a_connection_error() -> None:
    with plain_pair() as (ours, theirs):
        theirs.close()
        outbox = SendQueue(ours)
        outbox.queue([b"x" * 10])
        with pytest.raises(ConnectionError):
            outbox.flush()


def test_what_is_queued_behind_a_small_buffer_that_waits_is_sent_once_over_tls(
    tmp_path: Path,
) -> None:
    """OpenSSL holds the beginning of what it could not send."""
    with tls_pair(tmp_path) as (ours, theirs):
        outbox = SendQueue(ours)
        sent = bytearray()
        for number in range(100_000):
            part = number.to_bytes(4) * 25
            sent += part
            outbox.queue([part])
            if not outbox.flush():
                break
        assert outbox
        for size in (7, 30_000, 1, 20, 17_000):
            part = random.Random(size).randbytes(size)
            sent += part
            outbox.queue([part])
            assert not outbox.flush()
        received = bytearray()

        def drain() -> None:
            while len(received) < len(sent):
                received.extend(theirs.recv(50_000))

        reader = threading.Thread(target=drain)
        reader.start()
        while not outbox.flush():
            assert wait(ours, write=True, timeout_s=60)
        reader.join()
        assert received == sent
        assert outbox.size == 0
