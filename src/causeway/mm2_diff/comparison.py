"""Compares a whole file. No cluster is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from causeway import filters
from causeway.errors import ConfigError
from causeway.formats import is_yaml, load, read_connectors, read_entries
from causeway.mm2_diff.behaviour import BehaviourDifference, differences, flows
from causeway.mm2_diff.keys import KeyEffect, KeyUse, key_uses


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`keys` in the file's order; `refused`: why Causeway does not run with the file as it is, on
    this machine."""

    file: str
    flows: tuple[str, ...]
    keys: tuple[KeyUse, ...]
    differences: tuple[BehaviourDifference, ...]
    refused: tuple[str, ...] = ()

    def of(self, *uses: KeyEffect) -> tuple[KeyUse, ...]:
        return tuple(key for key in self.keys if key.use in uses)

    def as_json(self) -> dict[str, Any]:
        """For `--json`: stable keys; no value of the file."""
        return {
            "file": self.file,
            "flows": list(self.flows),
            "refused": list(self.refused),
            "keys": [
                {"key": key.key, "line": key.line, "use": key.use, "note": key.note or None}
                for key in self.keys
            ],
            "differences": [
                {
                    "what": one.what,
                    "flows": list(one.flows),
                    "mirror_maker_2": one.mirror_maker,
                    "causeway": one.causeway,
                    "key": one.key or None,
                }
                for one in self.differences
            ],
        }


def compare(path: Path) -> Comparison:
    """Compares a file of any form that `load` reads, as a property file with the same settings.
    Raises ConfigError for other files."""
    entries = read_entries(path)
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
    if is_yaml(path) and read_connectors(path) is not None:
        return (f"connectors of Kafka Connect: causeway convert {path} writes a property file",)
    try:
        load(path)
    except ConfigError as error:
        return tuple(line.strip() for line in str(error).splitlines() if line.strip())
    return ()
