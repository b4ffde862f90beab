"""The commands of README.md and of the first tutorial, line by line, give a running mirror.

`make` targets are only looked up: `make install` creates what runs this test.
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

from causeway.dev import Process, cache_directory, spawn
from causeway.formats import load_mm2, read_properties
from tests.harness.command import command_environment
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorials" / "first-mirror.md"


def lines(page: Path, language: str) -> list[str]:
    """The lines of all fenced blocks of that language, without comments."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    known = {"", "properties", "text"}
    assert {kind for kind, _ in fences} <= known, "this test runs these blocks only"
    found = [line for kind, block in fences if kind == language for line in block.splitlines()]
    return [line.partition("  #")[0].rstrip() for line in found]


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
    """Whether `status` shows that orders-0 and orders-1 are mirrored up to the source's end."""
    rows = re.findall(r"^orders +\d +(\S+) +(\S+) .* running", shell(clone, words), re.MULTILINE)
    return len(rows) == 2 and all(end == mirrored != "?" for end, mirrored in rows)


@pytest.mark.parametrize(
    ("page", "records"), [(README, 1000), pytest.param(TUTORIAL, 3000, marks=pytest.mark.slow)]
)
def test_each_line_of_the_page_works_as_written(clone: Path, page: Path, records: int) -> None:
    log = clone / "run.log"
    runs: list[Process] = []
    try:
        follow(clone, page, records, log, runs)
    finally:
        for run in runs:
            run.kill()
    assert len(runs) == 1


def follow(clone: Path, page: Path, records: int, log: Path, runs: list[Process]) -> None:
    for line in filter(None, lines(page, "")):
        words = shlex.split(line)
        match words:
            case ["make", *targets]:
                shell(clone, ["make", "--dry-run", *targets])
            case [".venv/bin/causeway", "run", _]:
                runs.append(spawn(words, output=log, environment=environment(clone)))
            case [".venv/bin/causeway", "status", _]:
                await_mirrored(clone)
            case [".venv/bin/causeway", "dev", "down"]:
                await_mirrored(clone)
                copies = KafkaTools(addresses(clone)["B"]).read("A.orders").values()
                assert sum(len(each) for each in copies) == records
                runs[0].send(signal.SIGINT)
                assert runs[0].wait(PATIENCE_S)
                assert runs[0].exit_code == 0, log.read_text()
                shell(clone, words)
            case [".venv/bin/causeway", *_]:
                shell(clone, words)
            case _:
                pytest.fail(f"no test runs this line of {page.name}: {line}")


def await_mirrored(clone: Path) -> None:
    words = [".venv/bin/causeway", "status", "mm2.properties"]
    await_until(partial(is_mirrored, clone, words), PATIENCE_S, "nothing left to mirror")


def addresses(clone: Path) -> dict[str, str]:
    entries = read_properties(clone / "mm2.properties").entries
    return {alias: entries[f"{alias}.bootstrap.servers"].value for alias in "AB"}


def test_the_property_file_of_the_tutorial_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join(lines(TUTORIAL, "properties")))

    settings = load_mm2(file)

    assert [link.name for link in settings.links] == ["A->B"]
    assert settings.warnings == ()
    assert os.listdir(tmp_path) == ["mm2.properties"]
