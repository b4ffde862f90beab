"""The lock files pin all that pyproject.toml asks for, and name no place to get it from."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]


def normal(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", [*PROJECT["project"]["dependencies"], *GROUPS["dev"]]),
        ("requirements-build.lock", [*GROUPS["build"], *PROJECT["build-system"]["requires"]]),
        ("requirements-docs.lock", GROUPS["docs"]),
    ],
)
def test_each_requirement_is_pinned_with_a_hash(lock: str, wanted: list[str]) -> None:
    text = (ROOT / lock).read_text()
    pinned = set(re.findall(r"^([a-z0-9._-]+)==\S+.*\\\n    --hash=sha256:", text, re.MULTILINE))
    assert {normal(requirement) for requirement in wanted} <= pinned
    assert len(pinned) <= len(re.findall("^[a-z0-9]", text, re.MULTILINE))
    assert "://" not in text


def test_the_build_backend_is_pinned() -> None:
    assert all("==" in requirement for requirement in PROJECT["build-system"]["requires"])
