"""The paths of rules through an Avro schema: through the branches of unions, and through aliases.

If a path names the alias of a field, and no path names the field itself, rules see the field under
the alias. So a field that was renamed with an alias keeps its protection. Rules see an object in a
union without its wrapper: `value.$.who.email` leads to `email` in each branch that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from causeway.transform.avro_unions import kind_of
from causeway.transform.rules.model import Element, Field, Step

BRANCH = "causeway.branch"  # a field of an object in a union: which branch it is

Steps = tuple[Step, ...]
# For each branch of a union: the name of its wrapper, None if it has none.
Wrappers = Callable[[Sequence[Any]], Sequence[str | None]]


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
                if alias in self._wanted - taken and field["name"] not in self._wanted:
                    found[field["name"]] = alias
                    taken.add(alias)
                    break
        return found

    def renames(self) -> bool:
        """Whether rules see some field under an alias."""
        records = (one for one in self._names.values() if kind_of(one) in ("record", "error"))
        return any(name != shown for one in records for name, shown in self.shown(one).items())

    def lead_on(self, schema: Any, path: Steps, wrappers: Wrappers, *, ends: bool = True) -> bool:
        """Whether some record of `schema` has the path, if unions look as `wrappers` says. `ends`:
        the path may end at the wrapper itself."""
        schema = self.resolved(schema)
        if isinstance(schema, list):
            branches = [self.resolved(one) for one in schema]
            return any(
                self._through(branch, name, path, wrappers, ends)
                for branch, name in zip(branches, wrappers(branches), strict=True)
                if branch != "null"
            )
        if not path:
            return True
        step, after = path[0], path[1:]
        match kind_of(schema):
            case "record" | "error" if isinstance(step, Field):
                shown = self.shown(schema)
                return any(
                    self.lead_on(field["type"], after, wrappers, ends=ends)
                    for field in schema["fields"]
                    if step.name in (None, shown[field["name"]])
                )
            case "map" if isinstance(step, Field):
                return self.lead_on(schema["values"], after, wrappers, ends=ends)
            case "array" if isinstance(step, Element):
                return self.lead_on(schema["items"], after, wrappers, ends=ends)
        return False

    def _through(
        self, branch: Any, wrapper: str | None, path: Steps, wrappers: Wrappers, ends: bool
    ) -> bool:
        if wrapper is not None:
            if not path:
                return ends
            if path[0] not in (Field(wrapper), Field(None)):
                return False
            path = path[1:]
        return self.lead_on(branch, path, wrappers, ends=ends)
