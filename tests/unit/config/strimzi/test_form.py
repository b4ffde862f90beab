"""Each field of the resource's definition is read, or named as ignored; and none besides.

`crd-fields.txt` holds the definition's facts: versions, path, type and choices of each field, down
to what is ignored as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from causeway.formats.strimzi import shape

RESOURCES = Path(__file__).parent / "resources"
DEFINED = {
    path: (versions, kind)
    for versions, path, kind in (
        line.split() for line in (RESOURCES / "crd-fields.txt").read_text().splitlines()
    )
}


KINDS = {
    "text": {"string"},
    "count": {"integer"},
    "flag": {"boolean"},
    "map": {"keys", "object"},
    "object": {"object"},
    "list": {"array"},
    "ignored": {"string", "integer", "object", "boolean"},
}


def walk(
    form: shape.ResourceField, path: str, only: str | None
) -> Iterator[tuple[str, str, shape.ResourceField]]:
    for name, part in form.parts.items():
        here, of = f"{path}.{name}", part.only or only
        yield here, of or "v1,v1beta2", part
        yield from walk(part, f"{here}[]" if part.kind == "list" else here, of)


OURS = {path: (versions, part) for path, versions, part in walk(shape.SPEC, "spec", None)}


def told(part: shape.ResourceField) -> set[str]:
    return {f"string={'|'.join(sorted(part.choices))}"} if part.choices else KINDS[part.kind]


def test_the_form_has_each_field_of_its_versions_and_no_other() -> None:
    assert OURS.keys() == DEFINED.keys()
    assert {path: each for path, (each, _) in OURS.items()} == {
        path: each for path, (each, _) in DEFINED.items()
    }


def test_each_has_its_type_and_choices() -> None:
    wrong = [path for path, (_, kind) in DEFINED.items() if kind not in told(OURS[path][1])]
    assert wrong == []
