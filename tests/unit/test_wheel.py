"""A wheel has all that the sources have, what is no Python too, and the manual page."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_wheel_is_whole(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=240)
    (wheel,) = tmp_path.iterdir()
    names = zipfile.ZipFile(wheel).namelist()

    sources = (each for each in (ROOT / "src").rglob("*") if each.is_file())
    wanted = {str(each.relative_to(ROOT / "src")) for each in sources if each.suffix != ".pyc"}
    assert {name for name in names if name.startswith("causeway/")} == wanted
    assert {"causeway/py.typed", "causeway/http/page/index.html"} <= wanted
    assert any(name.endswith(".data/data/share/man/man1/causeway.1") for name in names)
