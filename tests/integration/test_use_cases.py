"""Runs the files and commands of each page in docs/how-to/use-cases/, one after the other.

The first line of a file names it. `exit code N` in a comment is the exit code that the command must
have. A `python` program ends only once it has read the number of records that the page names.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from causeway.dev import Process, cache_directory, spawn
from tests.harness.command import command_environment
from tests.harness.pages import files_of
from tests.harness.running import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.slow]

FOLDER = Path(__file__).parents[2] / "docs" / "how-to" / "use-cases"
PAGES = sorted(each for each in FOLDER.glob("*.md") if each.name != "README.md")
CAUSEWAY = [sys.executable, "-m", "causeway"]
# No port of this machine, and the fewest processes.
QUICK = "\ncauseway.http.port = -1\nspark.master = local[1]\n"
LINE_S = 400


class Reader:
    """Runs the commands of a page in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[Process] = []
        self.environment = {
            **command_environment(),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(cache_directory().parent),
        }

    def follow(self, page: Path) -> int:
        """Returns how many lines were run."""
        lines = 0
        for name, content in files_of(page).items():
            more = QUICK if name.endswith(".properties") else ""
            (self.folder / name).write_text(content + more)
        for block in MarkdownIt().parse(page.read_text()):
            if block.type == "fence" and not block.info:
                for line in block.content.splitlines():
                    self.do(line)
                    lines += 1
        return lines

    def do(self, line: str) -> None:
        if line.startswith("# Ctrl-C"):
            self.end(self.runs.pop(0))
            return
        command, _, comment = line.partition("  #")
        code = re.search(r"exit code (\d+)", comment)
        for name in "ABC":
            command = command.replace(f"${name}", self.environment.get(name, ""))
        match shlex.split(command):
            case ["export", *settings]:
                for name, value in (setting.split("=") for setting in settings):
                    self.environment[name] = self.addresses().get(name, value)
            case ["python", *words]:
                self.shell([sys.executable, *words])
            case ["causeway", "run", file]:
                log = self.folder / f"run-{len(self.runs)}.log"
                words = [*CAUSEWAY, "run", str(self.folder / file)]
                self.runs.append(spawn(words, output=log, environment=self.environment))
            case ["causeway", *words]:
                if words == ["dev", "down"]:
                    while self.runs:
                        self.end(self.runs.pop(0))
                self.shell([*CAUSEWAY, *words], int(code[1]) if code else 0)
            case _:
                pytest.fail(f"no test runs this line: {line}")

    def shell(self, words: list[str], code: int = 0) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LINE_S,
            check=False,
        )
        assert done.returncode == code, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def addresses(self) -> dict[str, str]:
        found = json.loads(self.shell([*CAUSEWAY, "dev", "status", "--json"]))
        return {each["name"]: each["bootstrap"] for each in found}

    def end(self, run: Process) -> None:
        run.send(signal.SIGINT)
        assert run.wait(PATIENCE_S)
        assert run.exit_code == 0


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    found = Reader(tmp_path)
    yield found
    for run in found.runs:
        run.kill()
    found.shell([*CAUSEWAY, "dev", "down"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_page_works(page: Path, reader: Reader) -> None:
    assert reader.follow(page) > 6
