"""A few lines of YAML cannot take minutes or gigabytes: what aliases repeat is bounded."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from causeway.config import Problems
from causeway.errors import ConfigError
from causeway.formats import load
from causeway.formats.causeway_yaml.document import parse

NAMES = "abcdefghi"


def bomb(shape: str) -> str:
    """Nine lines, each of which names the one before nine times."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]" if shape == "list" else "a: &a {k: x}"]
    for before, name in pairwise(NAMES):
        if shape == "list":
            lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
        elif shape == "map":
            fields = ", ".join(f"k{number}: *{before}" for number in range(9))
            lines.append(f"{name}: &{name} {{{fields}}}")
        else:
            fields = ", ".join([f"*{before}"] * 9)
            lines.append(f"{name}: &{name} {{<<: [{fields}]}}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("shape", ["list", "map", "merge"])
@pytest.mark.parametrize("head", ["", "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\n"])
def test_aliases_of_aliases_are_bounded(tmp_path: Path, shape: str, head: str) -> None:
    file = tmp_path / "causeway.yaml"
    file.write_text(head + bomb(shape))
    began = time.process_time()
    with pytest.raises(ConfigError, match=r"aliases repeat more than 100,000 values \(those of"):
        load(file)
    assert time.process_time() - began < 5


def test_a_long_chain_of_aliases_is_an_error_of_the_file(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 2_000))]
    file = tmp_path / "causeway.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(file)


def test_aliases_that_people_write_are_taken(tmp_path: Path) -> None:
    links = "".join(f"  - {{<<: *all, from: A, to: B{n}}}\n" for n in range(1_000))
    text = f"base: &all {{topics: [orders, payments], groups: [a]}}\nlinks:\n{links}"
    problems = Problems("causeway.yaml")
    found = parse(text, "causeway.yaml", problems)
    assert not problems.lines
    assert len(found.values) == 2
