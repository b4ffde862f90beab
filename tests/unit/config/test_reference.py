"""The page of keys is the table of keys."""

from __future__ import annotations

from pathlib import Path

from causeway.config.reference import markdown

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), (
        "python -m causeway.config.reference > docs/reference/configuration.md"
    )
