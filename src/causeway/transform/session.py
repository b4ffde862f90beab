"""Spark's settings for transforms. They override the settings of the file."""

from __future__ import annotations

from collections.abc import Mapping

from causeway.errors import PrerequisiteError
from causeway.extras import install

_LEAST = (4, 3)
# These settings decide the meaning of a query.
MEANING: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # Evaluates the operands of IF, AND and OR only if needed. So an expression that could throw is
    # never evaluated for markers and refused records.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
}
# The definition of JSON, see json_text.py: a repeated name would hide the first field.
JSON: Mapping[str, str] = {"spark.sql.variant.allowDuplicateKeys": "false"}
# For rules also: their query has backslashes in literals and a column named `offset`.
OF_RULES: Mapping[str, str] = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
}
# These settings decide how a query runs. They do not change results.
RUNNING: Mapping[str, str] = {
    # A filter that is pushed below a projection evaluates the projection again: JSON would be
    # parsed twice.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("PushDownPredicates", "PushPredicateThroughNonJoin")
    ),
    # Without each of these settings rows wait until more rows follow.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
    # With a bound Spark adds up column sizes for each row, which takes longer than all other work
    # on a row. The source worker bounds batches in another way.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.python.udf.buffer.size": "64",
}
# For the SparkContext, besides the session's settings.
CONTEXT: Mapping[str, str] = {
    # Without this setting rows wait until more rows follow.
    "spark.python.udf.pipelined.enabled": "true",
    "spark.buffer.size": "64",
    # A regular expression may overflow the stack on a record. By default this would end the JVM,
    # with all lanes, again and again. With 0 it only ends its own stage.
    "spark.executor.killOnFatalError.depth": "0",
}
SESSION: Mapping[str, str] = {**MEANING, **JSON, **RUNNING}


def require_spark() -> None:
    """Raises PrerequisiteError if Spark is too old for transforms."""
    import pyspark

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < _LEAST:
        raise PrerequisiteError(
            "use transforms",
            cause=f"they need Spark 4.3, and this is {pyspark.__version__}",
            remedy=install("pyspark[sql]>=4.3"),
        )
