"""Files of offsets, as people have them."""

from __future__ import annotations

import pytest

from causeway.errors import ConfigError
from causeway.translation import Question, read_questions

TWO = [
    Question(topic="orders", partition=0, offset=15),
    Question(topic="bills", partition=3, timestamp=1_700_000_000_000),
]


@pytest.mark.parametrize(
    "text",
    [
        "topic,partition,offset,timestamp\norders,0,15,\nbills,3,,1700000000000\n",
        "Partition, Timestamp, Topic, Offset\n0,,orders,15\n\n3,1700000000000,bills,\n",
        '{"topic": "orders", "partition": 0, "offset": 15}\n\n'
        '{"topic": "bills", "partition": "3", "timestamp": 1700000000000, "group": "x"}',
    ],
)
def test_forms(text: str) -> None:
    assert read_questions(text, "places") == TWO


def test_three_columns_need_no_names() -> None:
    assert read_questions("orders,0,15\r\n", "places") == TWO[:1]


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("", None, "no offsets"),
        ("topic,partition,offset\n", None, "no offsets"),
        ("orders,0,15\norders,1\n", 2, "2 columns instead of 3"),
        ('"or\nders",0,15\norders,1\n', 3, "2 columns instead of 3"),
        ("orders,0,15\norders,1," + "9" * 200_000, 2, "field larger than field limit"),
        ("orders,zero,15\n", 1, "partition 'zero'"),
        ("orders,0,-1\n", 1, "offset '-1'"),
        ("orders,0,\n", 1, "either an offset or a timestamp"),
        (",0,1\n", 1, "no topic"),
        ('{"topic": "orders", "partition": 0, "offset": 1.5}', 1, "offset '1.5'"),
        ('{"topic": "orders", "partition": true, "offset": 1}', 1, "partition 'True'"),
        ('{"topic": "orders", "partition": 0, "offset": 1, "timestamp": 2}', 1, "either"),
        ('{"topic": "orders"', 1, "delimiter"),
        ('{"topic": "orders", "partition": 0, "offset": 1}\n[1]', 2, "no JSON object"),
    ],
)
def test_an_unreadable_line_is_reported_with_its_number(
    text: str, line: int | None, cause: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read_questions(text, "places")
    assert cause in str(refused.value)
    if line is not None:
        assert f"places, line {line}" in str(refused.value)
