"""A hook of mkdocs: the site has this tree's own folders, so that links between pages, and to the
files that they speak of, lead where they lead here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_SHOWN = (
    *("*.md", "LICENSE", "pyproject.toml", "docs/**/*", "deploy/**/*"),
    *("bench/*.md", "bench/*.json"),
    *("examples/**/*", "src/**/*.py", "src/**/page/**/*", "tests/**/*.py", "tools/*"),
)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File, Files

    root = Path(config.config_file_path).parent
    found = {each for pattern in _SHOWN for each in root.glob(pattern) if each.is_file()}
    ours = [
        File(str(each.relative_to(root)), str(root), config.site_dir, config.use_directory_urls)
        for each in sorted(found)
        if "__pycache__" not in each.parts
    ]
    theirs = [each for each in files if each.src_dir != config.docs_dir]
    return Files([*ours, *theirs])
