"""The page of causeway.yaml is the form, and its example is one."""

from __future__ import annotations

import re
from pathlib import Path

from causeway.formats import load
from causeway.formats.causeway_yaml.reference import markdown

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "causeway-yaml.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), (
        "python -m causeway.formats.causeway_yaml.reference > docs/reference/causeway-yaml.md"
    )


def test_its_example_can_be_used(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", markdown(), re.DOTALL)
    assert example is not None
    (tmp_path / "causeway.yaml").write_text(example[1])

    (link,) = load(tmp_path / "causeway.yaml", environment={"PASSWORD": "x"}).links

    assert link.transforms[0].name == "pii"
