"""Stops threads of the JVM that still work for a job that was cancelled.

A cancelled task stops between two rows. One row may take for ever: a regular expression that
backtracks, a number with an exponent of eight digits. The task ends, but the thread that computes
its rows (`python-udf-pipelined-writer`) goes on. Only Java's `Thread.stop` ends such a thread. Java
20 and later do not have it.

The TaskContext in a thread's thread-locals shows which job the thread belongs to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

_log = logging.getLogger("causeway.spark")
_WRITER = "python-udf-pipelined-writer"
_PATIENCE_S = 5.0  # for a cancelled task to stop by itself, and again for a stopped thread
_LOOK_S = 0.25
_GROUP = "spark.jobGroup.id"
_CONTEXT = "org.apache.spark.TaskContext"


def free(jvm: Any, group: str) -> bool:
    """Waits until no thread works on a job of `group`, and stops threads that go on. Returns False
    if some cannot be stopped."""
    if _await_none(jvm, group):
        return True
    for thread in threads(jvm, group):
        try:
            thread.stop()
        except Exception as error:  # UnsupportedOperationException, from Java 20 on
            _log.debug("stop %s: %s", group, type(error).__name__)
            return False
    return _await_none(jvm, group)


def _await_none(jvm: Any, group: str) -> bool:
    until = time.monotonic() + _PATIENCE_S
    while next(threads(jvm, group), None) is not None:
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_S)
    return True


def threads(jvm: Any, group: str) -> Iterator[Any]:
    """Yields the threads that compute rows for a job of `group`."""
    java = jvm.java.lang
    locals_of = _field(java.Class.forName("java.lang.Thread"), "threadLocals")
    of_map = java.Class.forName("java.lang.ThreadLocal$ThreadLocalMap")
    table_of = _field(of_map, "table")
    value_of = _field(java.Class.forName("java.lang.ThreadLocal$ThreadLocalMap$Entry"), "value")
    loader = java.Thread.currentThread().getContextClassLoader()
    context = java.Class.forName(_CONTEXT, True, loader)
    for thread in java.Thread.getAllStackTraces().keySet():
        if not thread.getName().startswith(_WRITER):
            continue
        known = locals_of.get(thread)
        for entry in () if known is None else table_of.get(known):
            value: Any = None if entry is None else value_of.get(entry)
            if context.isInstance(value) and value.getLocalProperty(_GROUP) == group:
                yield thread


def _field(of: Any, name: str) -> Any:
    found = of.getDeclaredField(name)
    found.setAccessible(True)  # Spark opens java.lang to all
    return found
