"""The Spark job of a stage: one task that runs until its lane closes the connection.

one row ─► mapInArrow(source worker) ─► the transform ─► mapInArrow(sink worker) ─► nothing"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from causeway.errors import CausewayError
from causeway.transform.session import RUNNING
from causeway.transform.stage.workers import LaneAddress, SinkWorker, SourceWorker

if TYPE_CHECKING:
    from causeway.transform.plan import PreparedTransform

_ROWS = int(RUNNING["spark.sql.execution.arrow.maxRecordsPerBatch"])
_LEVEL = re.compile(r"\w+EvalPython\b")  # plan nodes that collect rows for Python functions
# Arrow batches of markers that such a node may hold, with the buffer size of session.py.
_HELD = 2
_DRAIN = "_ boolean"
_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_WORKER_ENDED = "Python worker exited unexpectedly"
_FUNCTION_ERROR = re.compile(r"\bFunctionError: (\w+)")  # only a class, see udfs.py
_PYTHON_ERROR = re.compile(r"^([\w.]+(?:Error|Exception))\b", re.MULTILINE)
_JAVA_ERROR = re.compile(r"\b(?:[a-z]\w*\.)+([A-Z]\w*(?:Error|Exception))\b")
# Spark's message about a lost task, up to the stack trace. The text before it quotes no record.
_LOST = re.compile(r"\bLost task \S+ in stage \S+ \(TID \d+\)(?: \([^)\n]*\))?: (.+)", re.DOTALL)
_EXECUTOR_LOST = "ExecutorLostFailure"
# Errors that no record causes: machines, memory, pipes between processes, operators.
_OTHERS = re.compile(
    rf"{_EXECUTOR_LOST}|Task\w*(?:Killed|Lost)|FetchFailed|Unknown|java\.(?:io|net)\.|"
    rf"\S*(?:OutOfMemory|Interrupted|Killed)\w*|\S*SparkException: {_WORKER_ENDED}"
)
_NO_MEMORY = ("MemoryError", "OutOfMemoryError", "UNABLE_TO_ACQUIRE_MEMORY")


def warm(session: Any) -> None:
    """Makes Spark load the classes that each stage needs, and start the daemon of its workers."""
    row = session.range(0, 1, 1, 1).mapInArrow(_same, "id bigint")
    row.write.format("noop").mode("overwrite").save()


def _same(batches: Any) -> Any:
    return batches


def run_stage(
    session: Any,
    prepared: PreparedTransform,
    address: str,
    secret_variable: str,
    key: str,
    attempt: str,
) -> None:
    """Runs a stage until its lane closes the connection. Raises CausewayError, which never quotes a
    record. It is retriable unless the query threw on a record."""
    quiet()
    lane = LaneAddress(key, attempt, address, secret_variable)

    def query(levels: int) -> Any:
        source = SourceWorker(lane, prepared.work, push=levels * _ROWS)
        return prepared.apply(session.range(0, 1, 1, 1).mapInArrow(source, prepared.input))

    def job() -> Any:
        """Returns the job, ready to start, without references to Spark's plans."""
        rows = query(1)
        plan = rows._jdf.queryExecution().executedPlan().toString()
        if collecting := len(_LEVEL.findall(plan)):
            rows = query(1 + _HELD * collecting)
        sink = SinkWorker(lane, prepared.work)
        return rows.mapInArrow(sink, _DRAIN).write.format("noop").mode("overwrite")

    try:
        job().save()
    except Exception as error:
        raise CausewayError("transform", key, explain(error), retriable=not threw(error)) from None


def quiet() -> None:
    """Stops PySpark's logging of exceptions: Spark's errors quote records."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_nothing)


def _nothing(_: object) -> bool:
    return False


def explain(error: Exception) -> str:
    """Returns one line for a failed job. It has only the class of the error, because messages quote
    records."""
    text = str(error)
    if (lost := _LOST.search(text)) is not None:
        if lost[1].startswith(_EXECUTOR_LOST):
            return "an executor was lost"
        text = f": {lost[1]}"  # unlike Python's, Java's class does not begin a line
    if (found := _FUNCTION_ERROR.search(text)) is not None:
        return found[1]
    if (found := _ERROR_CLASS.search(text)) is not None:
        return found[1]
    if _WORKER_ENDED in text:
        return "a Python worker ended unexpectedly"
    for pattern in (_PYTHON_ERROR, _JAVA_ERROR):
        if found := pattern.search(text):
            return found[1]
    return type(error).__name__


def threw(error: Exception) -> bool:
    """Returns whether a job failed because its query, or a function in it, threw on a record. False
    if a process died or lacked memory, or if Spark ended the job."""
    from pyspark.errors import PySparkException

    if explain(error).endswith(_NO_MEMORY):
        return False
    lost = _LOST.search(str(error))
    if lost is not None:
        return not _OTHERS.match(lost[1])
    return isinstance(error, PySparkException)  # PySpark's class for errors of tasks
