"""README.md, line by line, as it stands: somebody who only copies what it says gets a mirror.

`make` targets are only looked up, since what they do is what runs this test.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from causeway.dev.artifacts import cache_directory
from causeway.dev.process import Process, spawn
from causeway.formats.mm2 import load_mm2
from causeway.formats.properties import read_properties
from tests.harness.command import command_environment
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def lines(language: str) -> list[str]:
    """Those of all fenced blocks of that language, without comments."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in fences} == {"", "properties"}, "these are what is run here"
    found = [line for kind, block in fences if kind == language for line in block.splitlines()]
    return [line.partition("  #")[0].rstrip() for line in found]


README = (ROOT / "README.md").read_text()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that looks like a clone after `make install`, with a state of its own."""
    folder = tmp_path / "causeway"
    folder.mkdir()
    for each in ROOT.iterdir():
        if each.name == ".venv" or not each.name.startswith("."):
            (folder / each.name).symlink_to(each)
    monkeypatch.chdir(folder)
    yield folder
    shell(folder, [".venv/bin/causeway", "dev", "down"])


def environment(clone: Path) -> dict[str, str]:
    return {
        **command_environment(),
        "XDG_STATE_HOME": str(clone.parent / "state"),
        "XDG_CACHE_HOME": str(cache_directory().parent),
    }


def shell(clone: Path, words: Sequence[str]) -> str:
    done = subprocess.run(
        words,
        env=environment(clone),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
    assert "warning" not in done.stderr
    return done.stdout


def is_mirrored(clone: Path, words: Sequence[str]) -> bool:
    """What `status` says: orders-0 and orders-1 are mirrored up to the source's end."""
    rows = re.findall(r"^orders +\d +(\S+) +(\S+) .* running", shell(clone, words), re.MULTILINE)
    return len(rows) == 2 and all(end == mirrored != "?" for end, mirrored in rows)


def test_each_line_of_the_readme_works_as_it_stands(clone: Path) -> None:
    log = clone / "run.log"
    runs: list[Process] = []
    try:
        follow(clone, log, runs)
    finally:
        for run in runs:
            run.kill()
    assert len(runs) == 1


def follow(clone: Path, log: Path, runs: list[Process]) -> None:
    for line in filter(None, lines("")):
        words = shlex.split(line)
        match words:
            case ["make", *targets]:
                shell(clone, ["make", "--dry-run", *targets])
            case [".venv/bin/causeway", "run", _]:
                runs.append(spawn(words, output=log, environment=environment(clone)))
            case [".venv/bin/causeway", "status", _]:
                mirrored = partial(is_mirrored, clone, words)
                await_until(mirrored, PATIENCE_S, "nothing left to mirror")
            case [".venv/bin/causeway", "dev", "down"]:
                copies = KafkaTools(addresses(clone)["B"]).read("A.orders").values()
                assert sum(len(records) for records in copies) == 3000
                runs[0].send(signal.SIGINT)
                assert runs[0].wait(PATIENCE_S)
                assert runs[0].exit_code == 0, log.read_text()
                shell(clone, words)
            case [".venv/bin/causeway", *_]:
                shell(clone, words)
            case _:
                pytest.fail(f"nobody runs this line of the README: {line}")


def addresses(clone: Path) -> dict[str, str]:
    entries = read_properties(clone / "mm2.properties").entries
    return {alias: entries[f"{alias}.bootstrap.servers"].value for alias in "AB"}


def test_the_property_file_of_the_readme_is_one(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join(lines("properties")))

    settings = load_mm2(file)

    assert [link.name for link in settings.links] == ["A->B"]
    assert settings.warnings == ()
    assert os.listdir(tmp_path) == ["mm2.properties"]
