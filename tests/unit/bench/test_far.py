"""The line to a far cluster holds every byte and changes none."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from bench.far import HOLD_S, Relays


def _echo(server: socket.socket) -> None:
    while True:
        try:
            sock, _ = server.accept()
        except OSError:
            return
        with sock:
            while some := sock.recv(1 << 16):
                sock.sendall(some)


@pytest.mark.parametrize("bytes_per_s", [None, 8_000_000])
def test_bytes_come_as_they_were_after_a_round_trip(bytes_per_s: int | None) -> None:
    sent = os.urandom(4_000_000)
    with socket.create_server(("127.0.0.1", 0)) as server, Relays(bytes_per_s) as relays:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        with socket.create_connection(relays(1, server.getsockname()[1])) as sock:
            begun = time.monotonic()
            threading.Thread(target=sock.sendall, args=(sent,), daemon=True).start()
            got = sock.recv(1 << 16)
            first_s = time.monotonic() - begun
            while len(got) < len(sent):
                got += sock.recv(1 << 16)
            took_s = time.monotonic() - begun
        server.shutdown(socket.SHUT_RD)
    assert got == sent
    assert first_s >= 2 * HOLD_S
    assert took_s >= 2 * HOLD_S + len(sent) / (bytes_per_s or 1e12)
