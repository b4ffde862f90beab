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


def walk(
    form: shape.ObjectField, path: str, only: str | None
) -> Iterator[tuple[str, str, shape.Part]]:
    for name, part in form.parts.items():
        here, of = f"{path}.{name}", part.only or only
        yield here, of or "v1,v1beta2", part
        if isinstance(part, shape.ObjectField):
            yield from walk(part, here, of)
        elif isinstance(part, shape.ListField):
            yield from walk(part.of, f"{here}[]", of)


OURS = {path: (versions, part) for path, versions, part in walk(shape.SPEC, "spec", None)}


def told(part: shape.Part) -> set[str]:
    match part:
        case shape.TextField(choices=choices):
            return {f"string={'|'.join(sorted(choices))}" if choices else "string"}
        case shape.NumberField():
            return {"integer"}
        case shape.FlagField():
            return {"boolean"}
        case shape.MapField():
            return {"keys", "object"}
        case shape.ObjectField():
            return {"object"}
        case shape.ListField():
            return {"array"}
        case shape.IgnoredField():
            return {"string", "integer", "object", "boolean"}


def test_the_form_has_each_field_of_its_versions_and_no_other() -> None:
    assert OURS.keys() == DEFINED.keys()
    assert {path: each for path, (each, _) in OURS.items()} == {
        path: each for path, (each, _) in DEFINED.items()
    }


def test_each_has_its_type_and_choices() -> None:
    wrong = [path for path, (_, kind) in DEFINED.items() if kind not in told(OURS[path][1])]
    assert wrong == []
