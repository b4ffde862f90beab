"""A whole file, compared. No cluster is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from causeway import filters
from causeway.config.beside.behaviour import Difference, differences, flows
from causeway.config.beside.keys import KeyUse, Use, key_uses
from causeway.config.load import is_yaml
from causeway.config.mm2 import load_mm2
from causeway.config.properties import read_properties
from causeway.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`keys` in the file's order; `refused`: why Causeway would not run with it as it stands, here
    and now."""

    file: str
    flows: tuple[str, ...]
    keys: tuple[KeyUse, ...]
    differences: tuple[Difference, ...]
    refused: tuple[str, ...] = ()

    def of(self, *uses: Use) -> tuple[KeyUse, ...]:
        return tuple(key for key in self.keys if key.use in uses)


def compare(path: Path) -> Comparison:
    """Raises ConfigError for what is no property file."""
    if is_yaml(path):
        cause = "MirrorMaker 2 reads property files only"
        remedy = f"causeway convert {path} says it as one"
        raise ConfigError("compare", str(path), cause, remedy=remedy)
    entries = read_properties(path).entries
    listed = entries.get("clusters")
    aliases = tuple(dict.fromkeys(filters.split_list(listed.value))) if listed else ()
    return Comparison(
        file=str(path),
        flows=tuple(flow.name for flow in flows(entries, aliases)),
        keys=key_uses(entries, aliases),
        differences=differences(entries, aliases),
        refused=_refused(path),
    )


def _refused(path: Path) -> tuple[str, ...]:
    try:
        load_mm2(path)
    except ConfigError as error:
        return tuple(line.strip() for line in str(error).splitlines() if line.strip())
    return ()


def as_json(found: Comparison) -> dict[str, Any]:
    """For `--json`: stable keys; no value of the file."""
    return {
        "file": found.file,
        "flows": list(found.flows),
        "refused": list(found.refused),
        "keys": [
            {"key": key.key, "line": key.line, "use": key.use, "note": key.note or None}
            for key in found.keys
        ],
        "differences": [
            {
                "what": one.what,
                "flows": list(one.flows),
                "mirror_maker_2": one.mirror_maker,
                "causeway": one.causeway,
                "key": one.key or None,
            }
            for one in found.differences
        ],
    }
