"""The command itself, without a sub-command."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from causeway.cli.main import main


@pytest.mark.parametrize("asked", ["--version", "version"])
def test_its_version(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([asked])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"causeway {version('causeway')}\n"
