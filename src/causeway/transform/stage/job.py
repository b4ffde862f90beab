"""A stage: a Spark job of one task that runs until its lane hangs up.

one row ─► mapInArrow(source worker) ─► the transform ─► mapInArrow(sink worker) ─► nothing
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from causeway.errors import CausewayError
from causeway.transform.rows import LACKING, SECRETS, TEXTS
from causeway.transform.session import RUNNING
from causeway.transform.stage.workers import LaneAddress, SinkWorker, SourceWorker

if TYPE_CHECKING:
    from causeway.transform.plan import PreparedTransform

_ROWS = int(RUNNING["spark.sql.execution.arrow.maxRecordsPerBatch"])
_LEVEL = re.compile(r"\w+EvalPython\b")  # nodes of a plan that collect rows for Python functions
# Arrow batches of markers that such a node may hold, with buffers as small as ours.
_HELD = 2
_DRAIN = "_ boolean"
_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_WORKER_ENDED = "Python worker exited unexpectedly"
_FUNCTION_ERROR = re.compile(r"\bFunctionError: (\w+)")  # says no more than a class, see udfs
_PYTHON_ERROR = re.compile(r"^([\w.]+(?:Error|Exception))\b", re.MULTILINE)
_JAVA_ERROR = re.compile(r"\b(?:[a-z]\w*\.)+([A-Z]\w*(?:Error|Exception))\b")
# What Spark says of a task that it lost, before the stack: nothing of a record stands before it.
_LOST = re.compile(r"\bLost task \S+ in stage \S+ \(TID \d+\)(?: \([^)\n]*\))?: (.+)", re.DOTALL)
_EXECUTOR_LOST = "ExecutorLostFailure"
# No record's doing: machines, memory, the pipes between processes, people.
_OTHERS = re.compile(
    rf"{_EXECUTOR_LOST}|Task\w*(?:Killed|Lost)|FetchFailed|Unknown|java\.(?:io|net)\.|"
    rf"\S*(?:OutOfMemory|Interrupted|Killed)\w*|\S*SparkException: {_WORKER_ENDED}"
)
_NO_MEMORY = ("MemoryError", "OutOfMemoryError", "UNABLE_TO_ACQUIRE_MEMORY")


def warm(session: Any) -> None:
    """Has Spark load what each stage needs, and start the daemon of its workers."""
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
    """Runs a stage until its lane hangs up. Raises CausewayError, which says nothing of what is in
    records; retriable, unless the query threw on what it was given."""
    quiet()
    schema = prepared.input
    secrets = tuple(schema[SECRETS].dataType.names) if SECRETS in schema.names else ()
    texts = tuple(name for name in (*TEXTS.values(), LACKING) if name in schema.names)
    lane = LaneAddress(key, attempt, address, secret_variable)

    def query(levels: int) -> Any:
        source = SourceWorker(
            lane,
            secrets,
            push=levels * _ROWS,
            texts=texts,
            decodes=prepared.decodes,
            types=prepared.types,
            rules=prepared.rules,
            shortcut=prepared.shortcut,
        )
        return prepared.apply(session.range(0, 1, 1, 1).mapInArrow(source, schema))

    def job() -> Any:
        """Ready to be started, and all of Spark's plans that is kept as long as it runs."""
        rows = query(1)
        plan = rows._jdf.queryExecution().executedPlan().toString()
        if collecting := len(_LEVEL.findall(plan)):
            rows = query(1 + _HELD * collecting)
        sink = SinkWorker(lane, prepared.encodes, prepared.rules)
        return rows.mapInArrow(sink, _DRAIN).write.format("noop").mode("overwrite")

    try:
        job().save()
    except Exception as error:
        raise CausewayError("transform", key, explain(error), retriable=not threw(error)) from None


def quiet() -> None:
    """PySpark logs what it raises, and Spark's errors quote what is in records."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_nothing)


def _nothing(_: object) -> bool:
    return False


def explain(error: Exception) -> str:
    """One line for a failed job: the class of the error and no more, as messages quote records."""
    text = str(error)
    if (lost := _LOST.search(text)) is not None:
        if lost[1].startswith(_EXECUTOR_LOST):
            return "an executor was lost"
        text = f": {lost[1]}"  # Java's class begins no line, as those of Python do
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
    """Whether a job failed because its query, or a function in it, threw on what it was given; else
    a process died, or lacked memory, or Spark ended the job."""
    from pyspark.errors import PySparkException

    if explain(error).endswith(_NO_MEMORY):
        return False
    lost = _LOST.search(str(error))
    if lost is not None:
        return not _OTHERS.match(lost[1])
    return isinstance(error, PySparkException)  # what tasks throw, as PySpark knows it
