"""Numbers that would take hours, told from all others before Spark reads them."""

from __future__ import annotations

import json
import time

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from causeway.transform.json_text import LARGE, MOST_DIGITS, NOT_JSON, check_of

_AMOUNT = StructType([StructField("amount", DecimalType(10, 2)), StructField("id", StringType())])
_LINES = StructType([StructField("lines", ArrayType(_AMOUNT))])


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (_AMOUNT, '{"amount":1e99999999}'),
        (_AMOUNT, '{"amount":-1.5E-99999999, "id":"x"}'),
        (_AMOUNT, '{"amount":"1e+99999999"}'),
        (_AMOUNT, '{"amount":"1\\u006599999999"}'),
        (_AMOUNT, '{"amo\\u0075nt":1e99999999}'),
        (_AMOUNT, '{"amount":"1e\u0669\u0669\u0669\u0669\u0669"}'),
        (_AMOUNT, '{"amount":1e99999999, "amount":1}'),
        (_AMOUNT, '{"Amount":1e99999999}'),
        (_AMOUNT, '{"amount":[1e99999999]}'),
        (_AMOUNT, '[{"amount":1e99999999}]'),
        (_AMOUNT, '{"amount":"%s"}' % ("9" * (MOST_DIGITS + 1))),
        (_LINES, '{"lines":[{"amount":1},{"amount":1e99999999}]}'),
        (_LINES, '{"lines":{"amount":1e99999999}}'),
        (ArrayType(DecimalType(4, 0)), "[1, 1e99999999]"),
        (MapType(StringType(), DecimalType(4, 0)), '{"a":1, "b":1e99999999}'),
    ],
)
def test_a_number_that_would_take_hours_is_refused(type_: DataType, text: str) -> None:
    check = check_of("value", type_)
    assert check is not None
    assert check(text.encode()) == LARGE.format("value")


@pytest.mark.parametrize(
    "text",
    [
        '{"amount":1e2, "id":"9f1e123456"}',
        '{"amount":"12.50", "id":"1e99999999"}',
        '{"amount":null, "id":"1\\u0065 99999999", "other":1e99999999}',
        '{"amount":1e999}',
        '{"amount":{"amount":1}, "id":"ü"}',
        '{"amount":1, "id":"%s"}' % ("9" * 5000),
        "[]",
        "7",
    ],
)
def test_all_else_is_left_to_spark(text: str) -> None:
    check = check_of("value", _AMOUNT)
    assert check is not None
    assert check(text.encode()) is None


@pytest.mark.parametrize("data", [b'{"amount":1e99999999,"id":"\xff"}', b'{"amount":1e99999999'])
def test_what_may_have_one_and_is_no_json_is_not_read_by_spark(data: bytes) -> None:
    check = check_of("value", _AMOUNT)
    assert check is not None
    assert check(data) == NOT_JSON.format("value")


def test_a_part_may_be_read_as_several_types() -> None:
    check = check_of("value", StructType([StructField("id", StringType())]), _LINES, _AMOUNT)
    assert check is not None
    assert check(b'{"amount":1e99999999}') == check(b'{"lines":[{"amount":1e99999999}]}')
    assert check(b'{"id":1e99999999}') is None


def test_each_name_of_a_document_is_looked_at_once_however_many_decimals_there_are() -> None:
    document = json.dumps({f"name_{at}": "text" for at in range(20_000)}).encode()

    def took(decimals: int) -> float:
        fields = [StructField(f"amount_{at}", DecimalType(10, 2)) for at in range(decimals)]
        check = check_of("value", StructType(fields))
        assert check is not None
        times = []
        for _ in range(3):
            began = time.thread_time()
            assert check(document) is None
            times.append(time.thread_time() - began)
        return min(times)

    assert took(100) < 10 * took(1)


def test_without_a_decimal_nothing_is_looked_at() -> None:
    assert check_of("value", StructType([StructField("id", StringType())])) is None
    assert check_of("value", MapType(StringType(), ArrayType(StringType()))) is None
