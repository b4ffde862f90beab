"""The published schema is the form, and says of a file what the reader says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from causeway.formats import convert, schema_text
from causeway.formats.causeway_yaml.reference import schema

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "docs" / "reference" / "causeway.schema.json"
VALIDATOR = Draft202012Validator(schema())
GOOD = {"clusters": {"A": {"bootstrap": "a:1"}, "B": {"bootstrap": ["b:1"]}}}


def test_what_is_published_is_up_to_date() -> None:
    assert PUBLISHED.read_text() == schema_text(), (
        "python -m causeway.formats.causeway_yaml.reference --schema"
        " > docs/reference/causeway.schema.json"
    )


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize(
    "file", sorted(ROOT.glob("examples/**/*.properties")), ids=lambda file: file.parent.name
)
def test_every_converted_example_is_valid(file: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(convert(file).text))


@pytest.mark.parametrize(
    "file", sorted(ROOT.glob("examples/**/*.yaml")), ids=lambda file: file.stem
)
def test_every_example_is_valid(file: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("link", {}),
        ("links", {"from": "A"}),
        ("links", [{"from": "A"}]),
        ("links", [{"from": "A", "to": "B", "topic": "x"}]),
        ("links", [{"from": "A", "to": "B", "enabled": "yes"}]),
        ("links", [{"from": "A", "to": "B", "admin-timeout": 10}]),
        ("links", [{"from": "A", "to": "B", "admin-timeout": "10 parsecs"}]),
        ("links", [{"from": "A", "to": "B", "delivery": "twice"}]),
        ("links", [{"from": "A", "to": "B", "replication-factor": 0}]),
        ("links", [{"from": "A", "to": "B", "sync": {"acls": {"enabled": 1}}}]),
        ("links", [{"from": "A", "to": "B", "transforms": [{"sql": "SELECT 1"}]}]),
        ("run", {"lane-buffer": "much"}),
        ("run", {"connections": 65}),
        ("clusters", {}),
        ("clusters", {"A B": {"bootstrap": "a:1"}}),
        ("clusters", {"A": {"bootstrap": "a:1", "security": {"protocol": "TLS"}}}),
    ],
)
def test_what_the_reader_refuses_is_not_valid(part: str, value: Any) -> None:
    assert VALIDATOR.is_valid(GOOD)

    assert not VALIDATOR.is_valid({**GOOD, part: value})


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("links", [{"from": "A", "to": "B", "replication-factor": -1}]),
        ("links", [{"from": "A", "to": "B", "admin-timeout": "${env:T}"}]),
        ("links", [{"from": "A", "to": "B", "transforms": ["x", {"name": "y", "sql": "z"}]}]),
        ("run", {"lane-buffer": "64MiB", "deleted-topics-retention": "forever"}),
        ("spark", {"master": "local[2]", "executor.instances": 2}),
    ],
)
def test_what_the_reader_takes_is_valid(part: str, value: Any) -> None:
    VALIDATOR.validate({**GOOD, part: value})
