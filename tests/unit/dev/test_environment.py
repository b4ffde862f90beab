"""What `causeway dev` refuses before it starts anything."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from causeway.config.mm2 import load_mm2
from causeway.dev.cluster import LocalCluster
from causeway.dev.environment import Environment
from causeway.dev.mirror_maker import write_properties
from causeway.errors import CausewayError, ConfigError


def test_nothing_there(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "none")

    assert environment.status() == []
    assert environment.down() == []


@pytest.mark.parametrize(("clusters", "brokers"), [(0, 1), (27, 1), (2, 2)])
def test_numbers_that_cannot_be(tmp_path: Path, clusters: int, brokers: int) -> None:
    with pytest.raises(ConfigError):
        Environment(tmp_path).up(clusters, brokers)


def test_a_file_of_somebody_else_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = X, Y\n")

    with pytest.raises(ConfigError, match=r"mm2\.properties: it is there already"):
        Environment(tmp_path / "state").up(example=file)

    assert file.read_text() == "clusters = X, Y\n"
    assert not (tmp_path / "state").exists(), "nothing was started"


@pytest.mark.parametrize("state", ["", "{}", "[]", '{"clusters-1": {"A": {"one": {}}}}'])
def test_unreadable_state(tmp_path: Path, state: str) -> None:
    (tmp_path / "environment.json").write_text(state)

    with pytest.raises(CausewayError, match=r"environment\.json.*by hand, and remove"):
        Environment(tmp_path).status()


def test_the_example_file_has_nothing_to_warn_of(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    clusters = {name: SimpleNamespace(bootstrap=f"{name}:1", brokers={1: None}) for name in "AB"}
    file = tmp_path / "mm2.properties"
    environment._write_example(cast(dict[str, LocalCluster], clusters), file)

    assert load_mm2(file).warnings == ()


def test_property_file_keeps_backslashes_and_is_private(tmp_path: Path) -> None:
    write_properties(tmp_path / "file", {"topics": r"a\.b", "c": ""})

    assert (tmp_path / "file").read_text() == "topics = a\\\\.b\nc = \n"
    assert (tmp_path / "file").stat().st_mode & 0o077 == 0
