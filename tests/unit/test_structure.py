"""The structure of the code: sizes of modules, import cycles, doors."""

from __future__ import annotations

import pytest

from tools import structure


@pytest.fixture(scope="module")
def modules() -> dict[str, structure.Module]:
    return structure.modules()


def test_no_import_goes_past_a_door(modules: dict[str, structure.Module]) -> None:
    assert structure.past_doors(modules, structure.DOORS) == []


@pytest.mark.parametrize("door", structure.DOORS)
def test_a_door_names_its_exports(door: str, modules: dict[str, structure.Module]) -> None:
    assert "__all__" in modules[door].path.read_text()
