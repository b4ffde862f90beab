"""How far away a broker is: the time from a question that costs it nothing to the answer."""

from __future__ import annotations

import time

from kafka.protocol.metadata import ApiVersionsRequest

from causeway import __version__
from causeway.wire.connection import Connection

_TRIES = 3


def round_trip_s(connection: Connection, near_s: float) -> float:
    """The least of a few tries, or the first that is below `near_s`: a broker that is busy for a
    moment is not far away.

    Asked of the broker itself, as TCP ends at whatever stands before it. Only while nothing is
    unanswered. Raises UnreachableError, ProtocolError.
    """
    least = float("inf")
    for _ in range(_TRIES):
        begun = time.monotonic()
        connection.call(
            ApiVersionsRequest(client_software_name="causeway", client_software_version=__version__)
        )
        least = min(least, time.monotonic() - begun)
        if least < near_s:
            break
    return least
