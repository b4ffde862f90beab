"""What the Python workers at both ends of a stage have in common: the way to their lane."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from causeway.records import keep_freed_memory
from causeway.transform.channel import Frame, Greeting, Setup, Waiting
from causeway.transform.registry import Registry
from causeway.transform.rules.model import Rule
from causeway.transform.schemas import Schemas
from causeway.transform.sealed import Connection
from causeway.transform.udfs import discreet_worker

WORKER_BYTES = 2 * 1024**3  # of memory: about ten times what the largest chunks take


class Lane(NamedTuple):
    """Where a stage's lane is. All that is pickled: the secret is in the environment, under the
    name `secret_variable`."""

    stage: str
    attempt: str
    address: str
    secret_variable: str

    def connect(self, end: Literal["source", "sink"]) -> tuple[Connection, list[Frame]]:
        """The connection of a worker that has greeted, and what it has heard: Setup first.

        Raises OSError; ConnectionError where the lane hangs up, as it does at its own end.
        """
        connection = Connection.open(self.address, os.environ[self.secret_variable])
        try:
            connection.send(Greeting(self.stage, self.attempt, end))
            while not (frames := connection.wait(None)):
                pass
        except ConnectionError:
            connection.close()
            raise
        return connection, frames


def schemas_of(
    setup: Setup,
    formats: Mapping[str, str],
    connection: Connection,
    rules: Sequence[Rule] = (),
) -> Schemas | None:
    """The schemas of the parts with these `formats`, and for `rules`, if the JSON is for rules. The
    lane hears if their registry does not answer. None if there are no such parts."""
    if not formats:
        return None
    assert setup.registry is not None
    registry = Registry(setup.registry, lambda reason: connection.send_all(Waiting(reason)))
    return Schemas(registry, formats, rules)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Within this context the process may take WORKER_BYTES more memory than it has; then it raises
    MemoryError. Afterwards the limit is as before. Linux only."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with suppress(OSError, ValueError):  # no such file, or a system without the limit
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[5])
        most = pages * resource.getpagesize() + WORKER_BYTES
        limits = [most, *(limit for limit in before if limit != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def settle() -> None:
    """Prepares this process for the one thing that it does from now on."""
    import pyarrow

    discreet_worker()
    keep_freed_memory()
    # Arrow's own pools give back what is free: each batch would pay for new pages.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    gc.freeze()
