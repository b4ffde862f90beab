"""The commands that add packages to an installation, and the pages that list the extras."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from causeway import extras
from causeway.extras import install, install_extra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
INSTALLATION = (ROOT / "docs/how-to/install.md").read_text()


def parts(requirement: str) -> set[str]:
    """The name, and each bound of the version: metadata have them in another order."""
    return set(re.findall(r"[A-Za-z][\w.\[\]-]*|[<>=]+[\d.]+", requirement))


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_command_installs_the_packages_of_the_extra(extra: str) -> None:
    python, *words = shlex.split(install_extra(extra))
    assert python == sys.executable
    assert words[:3] == ["-m", "pip", "install"]
    assert sorted(map(sorted, map(parts, words[3:]))) == sorted(
        map(sorted, map(parts, EXTRAS[extra]))
    )


def test_the_command_works() -> None:
    command = [*shlex.split(install_extra("protobuf")), "--dry-run", "--no-index"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("already satisfied: protobuf") == 1


def test_an_environment_without_pip_gets_a_command_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "executable", "/tools/of mine/bin/python")
    wanted = "uv pip install --python '/tools/of mine/bin/python' 'pyspark[sql]>=4.3'"
    assert install("pyspark[sql]>=4.3") == wanted


def test_sources_without_an_installation_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", not_installed)
    assert install_extra("aws") == "install the packages of Causeway's extra aws"


def test_the_page_lists_each_extra() -> None:
    section = INSTALLATION.partition("## Optional packages")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == sorted(EXTRAS)


def test_each_extra_that_an_error_names_exists() -> None:
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        named |= set(re.findall(r"install_extra\(['\"](\w+)['\"]\)", path.read_text()))
    formats = {"avro", "protobuf"}  # codecs.py has the name in a variable
    assert named | formats == set(EXTRAS)


def test_no_text_installs_causeway_from_an_index() -> None:
    """It is on none, so the name would lead to nothing, or to a package of somebody else."""
    pattern = re.compile(
        r"(?:install|inject)\s+['\"]?causeway(?:-producer)?(?:\[|['\"`\s]|$)", re.M
    )
    folders = ("src", "producer", "docs", "deploy", "examples", "tools")
    paths = [each for name in folders for each in (ROOT / name).rglob("*") if each.is_file()]
    for path in [*paths, ROOT / "README.md", ROOT / "CHANGELOG.md"]:
        if path.suffix in (".md", ".py", ".toml", ".yaml", ".sh"):
            found = pattern.search(path.read_text())
            assert found is None, (path, found and found.group())
