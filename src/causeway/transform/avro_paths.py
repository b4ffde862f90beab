"""The paths of rules through an Avro schema: through the branches of unions, and through aliases.

Rules see a field under the alias that a path names, if the field itself is not named, so that a
field that was renamed with an alias keeps its protection. They see an object in a union without its
wrapper, as with one such branch: `value.$.who.email` leads to `email` in each branch that has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from causeway.transform.rules.model import Element, Field, Step

BRANCH = "causeway.branch"  # a field of an object in a union: which branch it is

Steps = tuple[Step, ...]


def kind(schema: Any) -> str:
    """The type's name; a named type's own where it is referred to."""
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


class Paths:
    """The paths of some rules in one schema, whose named types are `names`."""

    def __init__(self, names: Mapping[str, Any], paths: Sequence[Steps]) -> None:
        self._names = names
        steps = (step for path in paths for step in path)
        self._wanted = {step.name for step in steps if isinstance(step, Field)}

    def resolved(self, schema: Any) -> Any:
        return self._names.get(schema, schema) if isinstance(schema, str) else schema

    def shown(self, record: Any) -> dict[str, str]:
        """How rules see the fields of a record, by their names."""
        found = {field["name"]: field["name"] for field in record["fields"]}
        taken = set(found)
        for field in record["fields"]:
            for alias in field.get("aliases", ()):
                if alias in self._wanted and not {alias, field["name"]} & (
                    taken - {field["name"]} | (self._wanted & {field["name"]})
                ):
                    found[field["name"]] = alias
                    taken.add(alias)
                    break
        return found

    def renames(self) -> bool:
        """Whether rules see some field under an alias."""
        records = (one for one in self._names.values() if kind(one) in ("record", "error"))
        return any(name != shown for one in records for name, shown in self.shown(one).items())

    def leads_on(self, schema: Any, path: Steps, wrapper: Any = None) -> bool:
        """Whether some record of `schema` has the path. `wrapper`: of a union whether its branches
        are objects that stand in `{"branch": …}`, and how a branch is called there; None: never."""
        schema = self.resolved(schema)
        if isinstance(schema, list):
            branches = [one for one in map(self.resolved, schema) if one != "null"]
            if wrapper is not None and path and (names := wrapper(schema)):
                step, *after = path
                return any(
                    self.leads_on(one, tuple(after), wrapper)
                    for one, name in names
                    if step in (Field(name), Field(None))
                )
            return any(self.leads_on(one, path, wrapper) for one in branches)
        if not path:
            return True
        step, after = path[0], path[1:]
        match kind(schema):
            case "record" | "error" if isinstance(step, Field):
                shown = self.shown(schema)
                return any(
                    self.leads_on(field["type"], after, wrapper)
                    for field in schema["fields"]
                    if step.name in (None, shown[field["name"]])
                )
            case "map" if isinstance(step, Field):
                return self.leads_on(schema["values"], after, wrapper)
            case "array" if isinstance(step, Element):
                return self.leads_on(schema["items"], after, wrapper)
        return False
