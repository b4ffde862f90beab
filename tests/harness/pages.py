"""The files that a page of the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

from markdown_it import MarkdownIt


def files_of(page: Path) -> dict[str, str]:
    """By name, which the first line of each file says: `# name` or `# name: purpose`."""
    found = {}
    for block in MarkdownIt().parse(page.read_text()):
        if block.type == "fence" and block.info:
            name = re.match(r"# ([\w.-]+)", block.content)
            assert name is not None, "the first line names the file"
            found[name[1]] = block.content
    return found
