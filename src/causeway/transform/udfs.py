"""User-defined functions in Python, asked only about records.

Spark calls them for each row before it evaluates what stands around them. So each gets one more
argument, whether the row is a record that it may see, and answers null by itself where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

# Of pyspark.util.PythonEvalType.
_ROW_BY_ROW = {100, 101}  # pickled, Arrow
_SERIES, _ARRAYS = 200, 250  # pandas and Arrow scalar functions


def cannot_guard(udf: Any) -> str | None:
    """Why the function of a PythonUDF cannot be used."""
    if int(udf.evalType()) not in {*_ROW_BY_ROW, _SERIES, _ARRAYS}:
        return "only functions from value to value, or from series to series, can be used"
    try:
        _unpickled(udf)
    except Exception as error:  # whatever the user's objects raise
        return f"the function {udf.name()} cannot be loaded: {type(error).__name__}"
    return None


def guarded(udf: Any) -> Any:
    """The function of a PythonUDF with one argument more, before its own: a JVM PythonFunction."""
    from pyspark import SparkContext
    from pyspark.sql.udf import _wrap_function

    function, type_ = _unpickled(udf)
    guard = {_SERIES: _of_series, _ARRAYS: _of_arrays}.get(int(udf.evalType()), _of_values)
    asked = guard(_discreet(function))
    return _wrap_function(SparkContext._active_spark_context, asked, type_)


def _unpickled(udf: Any) -> tuple[Callable[..., Any], Any]:
    from pyspark import SparkContext
    from pyspark.core.broadcast import Broadcast
    from pyspark.serializers import CPickleSerializer

    jvm = SparkContext._jvm
    pickled = udf.func().command().toArray(getattr(jvm, "scala.reflect.ClassTag").Byte())
    found = CPickleSerializer().loads(bytes(pickled))
    if isinstance(found, Broadcast):  # a large one
        found = CPickleSerializer().loads(found.value)
    function, type_ = found
    return function, type_


class FunctionError(Exception):
    """A user's function failed. It says with which exception, and nothing of what that said, which
    may quote the record: Spark shows it in its log, its pages and its event log."""


def _discreet(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def asked(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except Exception as error:
            raised = type(error).__name__
        raise FunctionError(raised)

    return asked


def _of_values(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def asked(is_record: bool, *args: Any, **named: Any) -> Any:
        return function(*args, **named) if is_record else None

    return asked


def _of_series(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def asked(are_records: Any, *args: Any, **named: Any) -> Any:
        kept = function(
            *(arg[are_records] for arg in args),
            **{name: arg[are_records] for name, arg in named.items()},
        )
        kept.index = are_records.index[are_records]
        return _exact(kept).reindex(are_records.index)

    return asked


def _exact(kept: Any) -> Any:
    """A series, or a frame of them, whose integers stay such where others are missing: pandas would
    make floats of them, which do not hold them all."""
    if hasattr(kept, "columns"):
        whole = [name for name, dtype in kept.dtypes.items() if dtype.kind in "iu"]
        return kept.astype(dict.fromkeys(whole, object))
    return kept.astype(object) if kept.dtype.kind in "iu" else kept


def _of_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def asked(are_records: Any, *args: Any, **named: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        kept = function(
            *(arg.filter(are_records) for arg in args),
            **{name: arg.filter(are_records) for name, arg in named.items()},
        )
        if len(kept) != pc.sum(are_records, min_count=0).as_py():
            raise FunctionError("LengthError")
        places = pc.cumulative_sum(are_records.cast(pa.int64()))
        places = pc.if_else(are_records, pc.subtract(places, 1), pa.scalar(None, pa.int64()))
        return kept.take(places)

    return asked
