"""A node of a local cluster: its options, and how many brokers it knows."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from causeway.dev import kafka_jvm_options
from causeway.dev.broker import brokers_known


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (struct.pack(">iii", 8, 1, 3), 3),
        (struct.pack(">iii", 8, 1, 0), 0),
        (b"", 0),
        (b"\0\0", 0),
    ],
)
def test_answers(answer: bytes, known: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()

        assert brokers_known(server.getsockname()[1]) == known


def test_a_port_without_a_broker_knows_no_brokers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert brokers_known(server.getsockname()[1], timeout_s=0.1) == 0
    assert brokers_known(server_port_that_is_closed()) == 0


def server_port_that_is_closed() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_options_of_kafka_s_scripts_stand_in_for_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_HEAP_OPTS", raising=False)
    monkeypatch.setenv("KAFKA_JVM_PERFORMANCE_OPTS", "-XX:+UseG1GC '-Dname=two words'")

    options = kafka_jvm_options("-Xms1m -Xmx2m", "-XX:+UseSerialGC")

    assert options == ["-Xms1m", "-Xmx2m", "-XX:+UseG1GC", "-Dname=two words"]
