from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from causeway.cli.common import load, parse_timestamp, print_json
from causeway.cli.present import Logfmt
from causeway.cli.words import count, duration, number, size
from causeway.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
        ("2023-11-14", 1_699_920_000_000),
    ],
)
def test_a_start_time(text: str, milliseconds: int) -> None:
    assert parse_timestamp(text) == milliseconds


@pytest.mark.parametrize("text", ["yesterday", "-1", "1969-12-31T00:00:00Z", "", "12.5"])
def test_a_start_time_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_timestamp(text)


def test_numbers_for_people() -> None:
    assert (count(1, "topic"), count(2_000, "topic")) == ("1 topic", "2,000 topics")
    assert (size(980), size(1_250_000), size(5e15)) == ("980 B", "1.2 MB", "5,000.0 TB")
    assert (number(None), number(1234)) == ("?", "1,234")
    assert [duration(ms) for ms in (None, 0, 1500, 61_000, 3_660_000, 90_000_000)] == [
        "?",
        "0 ms",
        "1.5 s",
        "1 min 1 s",
        "1 h 1 min",
        "1 d 1 h",
    ]


def test_a_log_line_can_be_read_by_machines() -> None:
    record = logging.makeLogRecord(
        {"msg": "partition failed", "levelname": "WARNING", "created": 0.25, "msecs": 250.0}
        | {"link": "A->B", "reason": 'said "no"'}
    )

    assert Logfmt().format(record) == (
        'time=1970-01-01T00:00:00.250Z level=warning event="partition failed" '
        'link=A->B reason="said \\"no\\""'
    )


def test_what_is_odd_about_a_file_is_said_unless_it_was_said_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
        "A->B.enabled = true\nA->B.no.such.key = 1\n"
    )

    load(file)
    first = capsys.readouterr().err
    load(file, quiet=True)

    assert first == "causeway: warning: unknown keys: A->B.no.such.key (line 5)\n"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": 1, "b": [], "c": {}},
        {"links": [{"a": None, "b": 'ü"\n'}, {"a": True, "b": [1, 2]}], "n": 1.5},
        [{"a": {"b": {"c": [{"d": 1}]}}}, 7, "x"],
    ],
)
def test_json_is_what_json_is(capsys: pytest.CaptureFixture[str], value: Any) -> None:
    print_json(value)
    assert json.loads(capsys.readouterr().out) == value


def test_json_has_a_line_for_each_innermost_object(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"links": [{"name": "A->B", "tasks": [{"a": 1, "b": "x"}, {"a": 2}]}]})
    assert (
        capsys.readouterr().out
        == """{
  "links": [
    {
      "name": "A->B",
      "tasks": [
        {"a": 1, "b": "x"},
        {"a": 2}
      ]
    }
  ]
}
"""
    )
