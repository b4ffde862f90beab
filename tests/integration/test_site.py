"""The documentation site is built without a warning, with a page for each of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def test_the_site_is_built(tmp_path: Path) -> None:
    def shell(*words: str | Path) -> None:
        done = subprocess.run(
            words,
            cwd=ROOT,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    uv, python = (sys.executable, "-m", "uv"), tmp_path / "docs" / "bin" / "python"
    shell(*uv, "venv", "--python", sys.executable, tmp_path / "docs")
    lock = ROOT / "requirements-docs.lock"
    shell(*uv, "pip", "install", "--python", python, "--require-hashes", "-r", lock)
    shell(python, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site")

    for page in ROOT.glob("docs/**/*.md"):
        place = tmp_path / "site" / page.relative_to(ROOT)
        built = place.parent if page.name == "README.md" else place.with_suffix("")
        assert "<h1" in (built / "index.html").read_text()
    assert "Causeway" in (tmp_path / "site" / "index.html").read_text()
