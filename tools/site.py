"""A hook of mkdocs: gives the site the same folders as this tree.

So links between pages, and links to source files, work on the site as they work in the tree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_PATTERNS = (
    *("*.md", "LICENSE", "pyproject.toml", "docs/**/*", "deploy/**/*", "producer/*.md"),
    *("bench/*.md", "bench/*.json"),
    *("examples/**/*", "src/**/*.py", "src/**/page/**/*", "tests/**/*.py", "tests/*.md", "tools/*"),
)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File, Files

    root = Path(config.config_file_path).parent
    found = {each for pattern in _PATTERNS for each in root.glob(pattern) if each.is_file()}
    from_tree = [
        File(str(each.relative_to(root)), str(root), config.site_dir, config.use_directory_urls)
        for each in sorted(found)
        if "__pycache__" not in each.parts
    ]
    from_mkdocs = [each for each in files if each.src_dir != config.docs_dir]
    return Files([*from_tree, *from_mkdocs])
