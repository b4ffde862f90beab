"""The lock files pin all that pyproject.toml asks for, and name no place to get it from."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
# What the files of a run can ask for: not `producer`, which is for applications beside it.
OF_RUNS = ("avro", "aws", "gcp", "jks", "protobuf", "tokenise")
EXTRAS = [each for name in OF_RUNS for each in PROJECT["project"]["optional-dependencies"][name]]

ELSEWHERE = {"colorama", "async-timeout", "twofish"}  # on Windows, older Pythons, and never


def normal(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", [*PROJECT["project"]["dependencies"], *GROUPS["dev"]]),
        ("requirements-run.lock", [*PROJECT["project"]["dependencies"], *EXTRAS]),
        ("requirements-build.lock", [*GROUPS["build"], *PROJECT["build-system"]["requires"]]),
        ("requirements-docs.lock", GROUPS["docs"]),
        ("requirements-kerberos.lock", GROUPS["kerberos"]),
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


def pins(lock: str) -> dict[str, set[str]]:
    """All versions of each package: some differ by Python's version."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / lock).read_text(), re.M):
        found.setdefault(name, set()).add(version)
    return found


def needed(requirements: list[str]) -> set[str]:
    """With all that these need on this machine, by what is installed."""
    found: set[str] = set()
    ahead = [Requirement(each) for each in requirements]
    while ahead:
        one = ahead.pop()
        key = f"{normal(one.name)}[{','.join(sorted(one.extras))}]"
        if key in found:
            continue
        found.add(key)
        for each in () if one.name in ELSEWHERE else requires(one.name) or ():
            below = Requirement(each)
            extras = one.extras or {""}
            if below.marker is None or any(below.marker.evaluate({"extra": e}) for e in extras):
                ahead.append(below)
    return {each.partition("[")[0] for each in found}


def test_the_images_lock_has_what_a_run_needs_and_no_more() -> None:
    of_run = needed([*PROJECT["project"]["dependencies"], *EXTRAS])
    pinned = set(pins("requirements-run.lock"))
    assert of_run <= pinned
    assert pinned - ELSEWHERE <= of_run
    for developers_own in ("pytest", "mypy", "ruff", "playwright", "uv", "hypothesis", "pip"):
        assert developers_own not in pinned


def test_the_images_packages_are_those_that_are_tested() -> None:
    tested = pins("requirements.lock")
    for name, versions in pins("requirements-run.lock").items():
        assert versions == tested[name], name


def test_the_extra_of_kerberos_is_pinned_apart() -> None:
    """It is built against a library of the system, which not every machine has."""
    assert PROJECT["project"]["optional-dependencies"]["kerberos"] == GROUPS["kerberos"]
    assert not set(pins("requirements-kerberos.lock")) & set(pins("requirements.lock"))


def test_make_lock_renews_it() -> None:
    text = (ROOT / "Makefile").read_text()
    (extras,) = re.findall(r"^OF_RUNS := (.*)$", text, re.M)
    assert re.findall(r"--extra (\w+)", extras) == list(OF_RUNS)
