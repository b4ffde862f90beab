"""A lane's direct worker: treats the chunks of all transforms of the lane that need no Spark.

    python -m causeway.transform.stage.direct_worker FD VARIABLE

FD: the socket to the lane, the parent process. VARIABLE: the name of the environment variable with
the secret. The worker ends when the lane closes the socket. It writes nothing but frames, because
other output of a process could quote a record."""

from __future__ import annotations

import os
import pickle
import socket
import sys
from typing import NoReturn

# As in workers.settle; another pool would allocate pages first.
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # no threads are needed

import msgspec  # noqa: F401  loaded before the greeting

import causeway.transform.stage.outcome  # noqa: F401
from causeway.transform.channel import (
    Chunk,
    ChunkOutcome,
    Greeting,
    NeedsSpark,
    Open,
    SealedConnection,
)
from causeway.transform.queries import QueryShortcut
from causeway.transform.rules import Shortcut
from causeway.transform.stage.direct import Direct
from causeway.transform.stage.source_rows import Rows
from causeway.transform.stage.workers import limited_memory, settle


def run(connection: SealedConnection) -> NoReturn:
    """Runs until the lane is gone; then it raises ConnectionError."""
    connection.send(Greeting("", "", "direct"))
    opened: dict[str, Direct | None] = {}
    while True:
        for frame in connection.wait(None):
            if isinstance(frame, Open):
                opened[frame.stage] = _opened(frame)
            elif isinstance(frame, Chunk):
                connection.send_all(_answer(opened[frame.stage], frame))


def _answer(direct: Direct | None, chunk: Chunk) -> ChunkOutcome | NeedsSpark:
    if not chunk.batches:  # the chunk only has a position on the source
        return ChunkOutcome(chunk.number, ())
    answer = None if direct is None else direct.answer(chunk)
    return answer if isinstance(answer, ChunkOutcome) else NeedsSpark(chunk.number)


def _opened(frame: Open) -> Direct | None:
    """Returns None if the shortcut cannot be opened. Then the stage fails too, and its error is
    shown."""
    try:
        shortcut: Shortcut | QueryShortcut = pickle.loads(frame.shortcut)  # noqa: S301  our own lane's
        return Direct(shortcut.open(frame.secrets), Rows({}))
    except Exception:
        return None


def main(descriptor: str, variable: str) -> int:
    settle()
    sock = socket.socket(fileno=int(descriptor))
    try:
        with limited_memory():
            run(SealedConnection(sock, os.environ[variable], lane=False))
    except ConnectionError:
        return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
