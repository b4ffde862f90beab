"""The Spark that a transform runs on, and the settings it has there, whatever the file says."""

from __future__ import annotations

from collections.abc import Mapping

from causeway.errors import PrerequisiteError

_LEAST = (4, 3)
# What a query means.
MEANING: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # What stands behind IF, AND or OR is evaluated only where those lead to it, so that markers
    # and refused records never meet what could throw.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
}
# The definition of JSON, see strict_json.py: a second field of a name would hide the first one.
JSON: Mapping[str, str] = {"spark.sql.variant.allowDuplicateKeys": "false"}
# And what rules mean besides: their query has backslashes in its literals and a column named
# `offset`.
OF_RULES: Mapping[str, str] = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
}
# How it runs, which changes nothing of what comes out.
RUNNING: Mapping[str, str] = {
    # A filter that is pushed below a projection asks for all that the projection computes a second
    # time: for JSON parsed twice or more.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("PushDownPredicates", "PushPredicateThroughNonJoin")
    ),
    # Without each of these rows stay where they are until more follow.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
    # Any bound would have Spark add up the columns' sizes for each row, which takes longer than all
    # else that it does with one; see source_worker, which bounds batches in another way.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.python.udf.buffer.size": "64",
}
# For the SparkContext, besides the session's settings.
CONTEXT: Mapping[str, str] = {
    # Without this setting rows wait until more rows follow.
    "spark.python.udf.pipelined.enabled": "true",
    "spark.buffer.size": "64",
    # A regular expression may overflow the stack on a record. By default that would end the JVM,
    # and all lanes with it, again and again. With 0 it ends its own stage alone.
    "spark.executor.killOnFatalError.depth": "0",
}
SESSION: Mapping[str, str] = {**MEANING, **JSON, **RUNNING}


def require_spark() -> None:
    """Raises PrerequisiteError for one that is too old for transforms."""
    import pyspark

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < _LEAST:
        raise PrerequisiteError(
            "use transforms",
            cause=f"they need Spark 4.3, and this is {pyspark.__version__}",
            remedy="pip install 'pyspark[sql]>=4.3'",
        )
