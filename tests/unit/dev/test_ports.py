"""Ports are free, and nobody gets one twice."""

from __future__ import annotations

import socket

from causeway.dev import Ports
from causeway.dev.ports import _is_free


def test_no_port_twice_until_released() -> None:
    ours, theirs = Ports(), Ports()
    taken = [ports.take() for ports in (ours, theirs) for _ in range(20)]

    assert len(set(taken)) == len(taken)
    ours.release()
    theirs.release()


def test_a_listening_port_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not _is_free(server.getsockname()[1])
