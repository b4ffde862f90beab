"""User-defined functions as a stage calls them: for records alone, and silent about them."""

from __future__ import annotations

import io
import sys
import traceback
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from causeway.transform.udfs import (
    FunctionError,
    _discreet,
    _of_arrays,
    _of_series,
    _of_values,
    check_of,
)

LARGE = 2**53 + 1  # no float is this number


def test_what_a_function_raises_says_nothing_of_the_record() -> None:
    def of_secret(value: str) -> int:
        try:
            return int(value)
        except ValueError as error:
            raise KeyError(value) from error

    secret = "4111 1111"
    asked = _of_values(_discreet(of_secret))
    assert asked(False, secret) is None
    assert asked(True, "41") == 41
    with pytest.raises(FunctionError) as raised:
        asked(True, secret)
    shown = "".join(traceback.format_exception(raised.value))
    assert secret not in shown
    assert shown.rstrip().endswith("FunctionError: KeyError")


def test_large_integers_stay_what_they_are_beside_rows_that_are_no_records() -> None:
    asked = _of_series(lambda numbers: numbers)
    found = asked(pd.Series([False, True, False]), pd.Series([0, LARGE, 0]))
    assert pa.array(found, pa.int64(), mask=found.isnull()).to_pylist() == [None, LARGE, None]


def test_large_integers_in_a_struct_stay_what_they_are() -> None:
    asked = _of_series(lambda numbers: pd.DataFrame({"n": numbers, "text": "a"}))
    found = asked(pd.Series([True, False]), pd.Series([LARGE, 0]))
    numbers = pa.array(found["n"], pa.int64(), mask=found["n"].isnull())
    assert numbers.to_pylist() == [LARGE, None]
    assert found["text"].to_list()[0] == "a"


@pytest.mark.parametrize("answer", [[1, 2, 3], [1]])
def test_an_array_of_another_length_is_refused(answer: list[int]) -> None:
    asked: Any = _of_arrays(lambda _: pa.array(answer))
    with pytest.raises(FunctionError):
        asked(pa.array([True, False, True]), pa.array([1, 2, 3]))


def test_arrays_come_back_where_the_records_were() -> None:
    asked = _of_arrays(lambda numbers: numbers)
    found = asked(pa.array([False, True, True]), pa.array([0, LARGE, 5]))
    assert found.to_pylist() == [None, LARGE, 5]
    assert asked(pa.array([False]), pa.array([0])).to_pylist() == [None]


@pytest.mark.parametrize("module", ["pyspark.worker", "__main__"])
def test_a_worker_that_gets_a_function_tells_only_the_class_of_what_spark_raises_around_it(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    from pyspark.cloudpickle import dumps, loads
    from pyspark.util import handle_worker_exception

    worker = SimpleNamespace(handle_worker_exception=handle_worker_exception)
    monkeypatch.setitem(sys.modules, module, worker)
    monkeypatch.setenv("SPARK_TRACEBACK_WITH_LOCALS", "1")
    secret = "4111 1111"

    def told() -> str:
        said = io.BytesIO()
        try:
            pa.array([secret], pa.int64())
        except pa.ArrowInvalid as error:
            worker.handle_worker_exception(error, said)
        return said.getvalue().decode(errors="replace")

    assert secret in told()
    asked = loads(dumps(_of_values(_discreet(lambda value: value))))
    assert asked(True, secret) == secret
    assert secret not in told()
    assert "FunctionError: ArrowInvalid" in told()
    loads(dumps(_of_values(_discreet(lambda value: value))))
    assert told().count("FunctionError") == 1


_SMALL = DecimalType(4, 2)
_BOTH = StructType([StructField("a", IntegerType()), StructField("b", _SMALL)])


@pytest.mark.parametrize(
    ("type_", "fits", "does_not"),
    [
        (_SMALL, Decimal("99.994"), Decimal("99.995")),
        (_SMALL, Decimal("0"), Decimal("1e99999999")),
        (_SMALL, None, Decimal("1e-99999999")),
        (_SMALL, "no decimal", Decimal("NaN")),
        (ArrayType(_SMALL), [None, Decimal(1)], [Decimal(1), Decimal(100)]),
        (MapType(StringType(), _SMALL), {"a": Decimal(1)}, {"a": Decimal(100)}),
        (_BOTH, (1, Decimal(1)), (1, Decimal(100))),
        (_BOTH, {"b": Decimal(1)}, {"b": Decimal(100)}),
        (_BOTH, SimpleNamespace(b=Decimal(1)), SimpleNamespace(b=Decimal(100))),
        (ArrayType(_BOTH), None, [{"b": Decimal(100)}]),
    ],
)
def test_a_decimal_that_does_not_fit_its_type_is_the_functions_failure(
    type_: Any, fits: Any, does_not: Any
) -> None:
    asked = _discreet(lambda value: value, check_of(type_))
    assert asked(fits) == fits
    with pytest.raises(FunctionError, match=r"^ValueError$"):
        asked(does_not)


def test_what_has_no_decimals_is_not_looked_at() -> None:
    fields = [
        StructField("a", ArrayType(IntegerType())),
        StructField("b", MapType(StringType(), DateType())),
    ]
    assert check_of(StructType(fields)) is None
