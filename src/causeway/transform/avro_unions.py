"""The JSON of the branches of an Avro union, and whether JSON tells the branches apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from causeway.transform.avro_values import TIMES

_NAMED = {"record", "error", "enum", "fixed"}
_OBJECTS = {"record", "error", "map"}
_NUMBERS = {"int", "long", "float", "double"}


def kind_of(schema: Any) -> str:
    """The type's name; for a reference, the name of the named type."""
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def resolved(schema: Any, names: Mapping[str, Any]) -> Any:
    return names.get(schema, schema) if isinstance(schema, str) else schema


def name_of(schema: Any) -> str:
    """As fastavro, and Avro's JSON, name a union's branch."""
    return str(schema["name"]) if kind_of(schema) in _NAMED else kind_of(schema)


def shape_of(schema: Any) -> str:
    """The kind of JSON of the type."""
    kind = kind_of(schema)
    if kind in _OBJECTS:
        return "object"
    if kind in _NUMBERS and not _is_text(schema):
        return "number"
    return kind if kind in ("array", "null", "boolean") else "text"


def _is_text(schema: Any) -> bool:
    return isinstance(schema, dict) and logical_of(schema) in TIMES


def logical_of(schema: Any) -> str:
    """A logical type that Causeway treats, such as `long-timestamp-millis`."""
    return f"{kind_of(schema)}-{schema.get('logicalType')}" if isinstance(schema, dict) else ""


def branches_alike(branches: Sequence[Any]) -> bool:
    shapes = [shape for shape in map(shape_of, branches) if shape in ("text", "object")]
    return len(shapes) > len(set(shapes))


def as_queries_see(branches: Sequence[Any]) -> Sequence[str | None]:
    """The names of the wrappers that queries see."""
    alike = branches_alike(branches)
    return [
        name_of(one) if alike and shape_of(one) in ("text", "object") else None for one in branches
    ]


def as_rules_see(branches: Sequence[Any]) -> Sequence[str | None]:
    """The names of the wrappers that rules see."""
    return [
        None if shape_of(one) == "object" or kind_of(one) == "string" else name
        for one, name in zip(branches, as_queries_see(branches), strict=True)
    ]


class Alike:
    """Whether a schema has a union whose branches JSON alone does not tell apart."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._seen: set[str] = set()

    def anywhere(self, schema: Any) -> bool:
        schema = resolved(schema, self._names)
        if isinstance(schema, list):
            branches = [resolved(one, self._names) for one in schema]
            return branches_alike(branches) or any(map(self.anywhere, branches))
        match kind_of(schema):
            case "record" | "error":
                if schema["name"] in self._seen:
                    return False
                self._seen.add(schema["name"])
                return any(self.anywhere(field["type"]) for field in schema["fields"])
            case "array":
                return self.anywhere(schema["items"])
            case "map":
                return self.anywhere(schema["values"])
        return False
