"""Records of today's progress and directives topics, recorded once: they are read, and written
again byte for byte. `rewritten`: how a record of an earlier version, or with fields of a newer one,
is written by this version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from causeway.link_topics import (
    decode_directive,
    decode_entry,
    directive_as_json,
    encode_directive,
    encode_entry,
)

WRITTEN_AT = 1767225600999
HERE = Path(__file__).parent


def recorded(name: str) -> list[Any]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


def value_of(row: dict[str, Any], field: str = "value") -> bytes | None:
    return None if row[field] is None else row[field].encode()


@pytest.mark.parametrize("row", recorded("progress_records.jsonl"))
def test_progress_records_are_read_and_written_byte_for_byte(row: dict[str, Any]) -> None:
    key = row["key"].encode()
    entry = decode_entry(key, value_of(row))
    assert entry is not None
    written = value_of(row, "rewritten" if "rewritten" in row else "value")
    assert encode_entry(entry, WRITTEN_AT) == (key, written)


@pytest.mark.parametrize("row", recorded("directive_records.jsonl"))
def test_directive_records_are_read_and_written_byte_for_byte(row: dict[str, Any]) -> None:
    key = row["key"].encode()
    change = decode_directive(key, value_of(row))
    written = value_of(row, "rewritten" if "rewritten" in row else "value")
    assert encode_directive(change) == (key, written)
    if "shown" in row:
        assert change[1] is not None
        assert directive_as_json(change[1]) == row["shown"]
        assert change[1].by == row["by"]
