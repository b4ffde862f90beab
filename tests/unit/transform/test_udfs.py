"""User-defined functions as a stage calls them: for records alone, and silent about them."""

from __future__ import annotations

import traceback
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from causeway.transform.udfs import FunctionError, _discreet, _of_arrays, _of_series, _of_values

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
