"""Asks one broker, over plain TCP, how many brokers it knows: the sign that a cluster is ready.

A broker answers only once it has caught up with the controllers, and names only brokers that the
controllers have let in.
"""

from __future__ import annotations

import socket
import struct

_METADATA = 3
_VERSION = 1  # Metadata v1: every Kafka since 0.10 speaks it


def brokers_known(port: int, timeout_s: float = 5.0) -> int:
    """How many live brokers the one that listens on loopback `port` knows of; 0 when it does not
    answer within `timeout_s` or is not ready to."""
    client = b"causeway-dev"
    no_topics = 0
    request = struct.pack(">hhih", _METADATA, _VERSION, 1, len(client)) + client
    request += struct.pack(">i", no_topics)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answers:
                (size,) = struct.unpack(">i", answers.read(4))
                _, count = struct.unpack_from(">ii", answers.read(size))
    except (OSError, struct.error):
        return 0
    return int(count)
