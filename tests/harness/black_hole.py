"""A broker's address that answers nothing: what a cut cable or a hung machine looks like.

accepts        the kernel takes connections, and no program reads what comes
does not       its queue is full: a connection is neither taken nor refused
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_QUEUE = 1  # connections; the kernel takes one more than that


@contextmanager
def black_hole(*, accepts: bool = True) -> Iterator[str]:
    """Its address as `host:port`."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        host, port = server.getsockname()
        if not accepts:
            server.listen(_QUEUE)
            for _ in range(_QUEUE + 1):
                stack.enter_context(socket.create_connection((host, port)))
        yield f"{host}:{port}"
