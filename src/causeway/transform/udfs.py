"""User-defined functions in Python, called only for records.

Spark calls them for each row before it evaluates the expressions around them. So Causeway gives
each function one more argument, which says whether the row is a record that it may see. If it is
not, the function returns null without a call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import wraps
from typing import Any

from causeway.transform.json_text import Fields, Shapes, Test, decimals_in

# From pyspark.util.PythonEvalType.
_PICKLED, _ARROW = 100, 101  # called row by row
_ROW_BY_ROW = {_PICKLED, _ARROW}
_SERIES, _ARRAYS = 200, 250  # pandas and Arrow scalar functions
_DIGITS = 1_000  # of a decimal: no useful number has more
_REPORT = "handle_worker_exception"  # of PySpark's worker: writes an exception for the JVM
Check = Callable[[Any], None]  # raises for a value that must not leave the worker


def cannot_guard(udf: Any) -> str | None:
    """Returns why the function of a PythonUDF cannot be used; None if it can."""
    if int(udf.evalType()) not in {*_ROW_BY_ROW, _SERIES, _ARRAYS}:
        return "only functions from value to value, or from series to series, can be used"
    try:
        _unpickled(udf)
    except Exception as error:  # the user's objects may raise anything
        return f"the function {udf.name()} cannot be loaded: {type(error).__name__}"
    return None


def guarded(udf: Any) -> Any:
    """Returns the function of a PythonUDF with one more argument, before its own, as a JVM
    PythonFunction."""
    from pyspark import SparkContext
    from pyspark.sql.udf import _wrap_function

    function, type_ = _unpickled(udf)
    guard = {_SERIES: _of_series, _ARRAYS: _of_arrays}.get(int(udf.evalType()), _of_values)
    check = check_of(type_) if int(udf.evalType()) == _PICKLED else None
    asked = guard(_discreet(function, check))
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
    """A user's function failed. The message is only the class of the exception, because its text
    may quote the record, and Spark shows it in its log, its pages and its event log."""


def discreet_worker() -> None:
    """Makes this process, if it is a Python worker of Spark, report only the class of an exception.

    Spark converts arguments and results outside the function. Exceptions that Arrow, pandas and
    PySpark raise there quote them. The traceback is left out too, because
    SPARK_TRACEBACK_WITH_LOCALS would add local variables."""
    for module in ("pyspark.worker", "__main__"):  # the latter without Spark's daemon of workers
        worker = sys.modules.get(module)
        report = getattr(worker, _REPORT, None)
        if report is not None and not isinstance(report, _Discreet):
            setattr(worker, _REPORT, _Discreet(report))


class _Discreet:
    """Does the work of PySpark's `handle_worker_exception`, with a FunctionError in place of other
    exceptions."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report

    def __call__(self, error: BaseException, *given: Any, **_: Any) -> None:
        if not isinstance(error, FunctionError):
            error = FunctionError(type(error).__name__)
        self._report(error, *given[:1], hide_traceback=True)


class _Arrival:
    """Makes a worker discreet when it unpickles a function, before the first record arrives."""

    def __reduce__(self) -> tuple[Callable[[], _Arrival], tuple[()]]:
        return _arrive, ()


def _arrive() -> _Arrival:
    discreet_worker()
    return _ARRIVAL


_ARRIVAL = _Arrival()


def _discreet(function: Callable[..., Any], check: Check | None = None) -> Callable[..., Any]:
    """Returns `function` with a FunctionError in place of its exceptions, and of those of `check`,
    which gets the result."""

    @wraps(function)
    def asked(*args: Any, **named: Any) -> Any:
        try:
            found = function(*args, **named)
            if check is not None:
                check(found)
        except Exception as error:
            raised = type(error).__name__
        else:
            return found
        raise FunctionError(raised)

    setattr(asked, "arrival", _ARRIVAL)  # noqa: B010  pickled with the function
    return asked


def check_of(type_: Any) -> Check | None:
    """Returns a check that raises ValueError for a decimal that is too large for its type, at any
    depth. Otherwise Spark's JVM would quote the decimal of a pickled result, or count its digits
    for hours. None if `type_` has no decimals."""
    is_wrong = decimals_in(type_, _PYTHON, _misfits)
    if is_wrong is None:
        return None

    def check(x: Any) -> None:
        if is_wrong(x):
            raise ValueError("a decimal does not fit its type")

    return check


def _misfits(type_: Any) -> Callable[[Any], bool]:
    whole, unit = type_.precision - type_.scale, Decimal(1).scaleb(-type_.scale)

    def misfits(x: Any) -> bool:
        if not isinstance(x, Decimal):
            return False  # Spark turns it into NULL
        if not x.is_finite() or x.adjusted() >= whole or x.as_tuple().exponent < -_DIGITS:  # type: ignore[operator]
            return True
        rounded = x.quantize(unit, ROUND_HALF_UP, Context(prec=_DIGITS))
        return bool(rounded) and rounded.adjusted() >= whole

    return misfits


def _in_struct(fields: Fields) -> Test:
    return lambda x: any(test(_field(x, at, name)) for at, name, test in fields)


def _field(x: Any, at: int, name: str) -> Any:
    if isinstance(x, dict):
        return x.get(name)
    if isinstance(x, tuple | list):
        return x[at] if at < len(x) else None
    return getattr(x, name, None)


_PYTHON = Shapes(lambda x: x or (), lambda x: x.items() if isinstance(x, dict) else (), _in_struct)


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
    """Returns a series or frame whose integers stay integers if values are missing. pandas would
    convert them to floats, which cannot hold all integers."""
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
