"""The structure of the code: sizes of modules, import cycles, doors."""

from __future__ import annotations

import pytest

from tools import structure


@pytest.fixture(scope="module")
def modules() -> dict[str, structure.Module]:
    return structure.modules()


def test_no_import_goes_past_a_door(modules: dict[str, structure.Module]) -> None:
    assert structure.past_doors(modules, structure.DOORS) == []


def test_no_module_is_too_long(modules: dict[str, structure.Module]) -> None:
    assert structure.long_modules(modules) == []


def test_modules_do_not_import_each_other_in_a_circle(
    modules: dict[str, structure.Module],
) -> None:
    assert structure.cycles(modules) == []


def test_a_class_name_means_one_thing(modules: dict[str, structure.Module]) -> None:
    assert structure.duplicated_classes(modules) == {}


def test_functions_have_few_arguments(modules: dict[str, structure.Module]) -> None:
    assert structure.long_signatures(modules) == []


def test_the_glossary_is_short() -> None:
    assert structure.glossary_words() <= 30


def test_no_test_imports_another() -> None:
    """Helpers of several tests are in tests/builders and tests/harness."""
    assert structure.imports_of_tests() == []
