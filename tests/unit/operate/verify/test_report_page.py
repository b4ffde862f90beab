"""The report as a page, and as JSON."""

from __future__ import annotations

import json
import re

import pytest

from causeway.operate.verify import (
    PartitionReport,
    as_json,
    render,
)
from tests.builders.verify import BAD, GOOD, LEFT, report


@pytest.mark.parametrize(
    ("partitions", "headline"),
    [
        ([GOOD], "Source and target agree"),
        ([GOOD, LEFT], "All compared records agree; not all could be compared"),
        ([GOOD, BAD, LEFT], "Source and target differ: 3 records differ"),
    ],
)
def test_the_page_says_first_what_matters(partitions: list[PartitionReport], headline: str) -> None:
    page = render(report(*partitions))
    assert f">{headline}</h1>" in page


def test_the_page_names_each_difference_and_what_was_left_out() -> None:
    page = render(report(GOOD, BAD, LEFT))
    assert "12,345" in page
    assert "with source offset 20,001, at target offset 20,000" in page
    assert "the source has deleted offsets 0 to 9" in page


def test_no_request_leaves_the_page_and_no_name_is_taken_for_markup() -> None:
    page = render(report(GOOD, BAD, LEFT))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(?:src|href)=|url\(|@import|https?:", page)
    assert "default-src 'none'" in page


def test_json_says_the_same() -> None:
    said = json.loads(json.dumps(as_json(report(GOOD, BAD, LEFT))))
    assert (said["agrees"], said["differs"], said["complete"]) == (False, True, False)
    assert said["partitions"][1]["differences"][0] == {
        "kind": "missing",
        "source_offset": 12_345,
        "target_offset": 12_340,
        "other": None,
        "records": 1,
        "detail": None,
    }
    assert said["partitions"][2]["not_compared"] == [
        {"why": "deleted-on-the-source", "text": "the source has deleted offsets 0 to 9"}
    ]
    assert as_json(report(GOOD))["agrees"] is True
