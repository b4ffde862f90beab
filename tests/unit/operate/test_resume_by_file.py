"""What the file pauses, no command resumes: it says so, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.errors import ConfigError
from causeway.formats import load_mm2
from causeway.operate.directives.act import refuse_paused_by_file


def test_a_resume_is_refused_with_the_place_of_the_pause_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    text = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n"
    file.write_text(text)
    refuse_paused_by_file(load_mm2(file).links)
    file.write_text(text + "A->B.causeway.paused=records\n")
    with pytest.raises(ConfigError, match=r"pauses it: A->B\.causeway\.paused \(line 5\)"):
        refuse_paused_by_file(load_mm2(file).links)
