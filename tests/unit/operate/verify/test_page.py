"""The report as a page, and as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from causeway.operate.verify import (
    Agreement,
    Difference,
    DifferenceKind,
    NotCompared,
    PartitionReport,
    Report,
    Why,
    as_json,
    render,
)

GOOD = PartitionReport(
    link="A->B",
    topic="orders",
    partition=0,
    target_topic="A.orders",
    target_partition=0,
    verdict=Agreement.AGREES,
    source_from=0,
    source_to=1_000,
    target_from=0,
    target_to=1_000,
    records=1_000,
    as_they_are=1_000,
    size=123_456,
    checksum=7,
)
BAD = replace(
    GOOD,
    partition=1,
    verdict=Agreement.DIFFERS,
    different=3,
    differences=(
        Difference(kind=DifferenceKind.MISSING, source=12_345, target=12_340),
        Difference(
            kind=DifferenceKind.SWAPPED,
            source=20_000,
            target=19_999,
            records=2,
            other=(20_001, 20_000),
        ),
    ),
)
LEFT = replace(
    GOOD,
    topic="<script>alert(1)</script>",
    verdict=Agreement.IN_PART,
    left=(NotCompared(why=Why.SOURCE_DELETED, text="the source has deleted offsets 0 to 9"),),
)


def _report(*partitions: PartitionReport) -> Report:
    return Report(partitions=partitions, began=1_700_000_000_000, seconds=12.3)


@pytest.mark.parametrize(
    ("partitions", "headline"),
    [
        ([GOOD], "Source and target agree"),
        ([GOOD, LEFT], "All compared records agree; not all could be compared"),
        ([GOOD, BAD, LEFT], "Source and target differ: 3 records differ"),
    ],
)
def test_the_page_says_first_what_matters(partitions: list[PartitionReport], headline: str) -> None:
    page = render(_report(*partitions))
    assert f">{headline}</h1>" in page


def test_the_page_names_each_difference_and_what_was_left_out() -> None:
    page = render(_report(GOOD, BAD, LEFT))
    assert "12,345" in page
    assert "with source offset 20,001, at target offset 20,000" in page
    assert "the source has deleted offsets 0 to 9" in page


def test_no_request_leaves_the_page_and_no_name_is_taken_for_markup() -> None:
    page = render(_report(GOOD, BAD, LEFT))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(?:src|href)=|url\(|@import|https?:", page)
    assert "default-src 'none'" in page


def test_json_says_the_same() -> None:
    said = json.loads(json.dumps(as_json(_report(GOOD, BAD, LEFT))))
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
    assert as_json(_report(GOOD))["agrees"] is True
