"""A whole file, compared. No cluster is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from causeway import filters
from causeway.config.problems import Problems
from causeway.errors import ConfigError
from causeway.formats.connectors import read_connectors
from causeway.formats.load import is_resource, is_yaml, load
from causeway.formats.properties import Entry, read_properties
from causeway.mm2_diff.behaviour import Difference, differences, flows
from causeway.mm2_diff.keys import KeyUse, Use, key_uses


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
    """Of what `load` reads: another form than a property file is compared as the property file that
    says the same. Raises ConfigError for what is none of them."""
    entries = _entries(path)
    listed = entries.get("clusters")
    aliases = tuple(dict.fromkeys(filters.split_list(listed.value))) if listed else ()
    return Comparison(
        file=str(path),
        flows=tuple(flow.name for flow in flows(entries, aliases)),
        keys=key_uses(entries, aliases),
        differences=differences(entries, aliases),
        refused=_refused(path),
    )


def _entries(path: Path) -> Mapping[str, Entry]:
    if not is_yaml(path):
        return read_properties(path).entries
    from causeway.formats.causeway_yaml.document import read_document
    from causeway.formats.causeway_yaml.read import read_entries
    from causeway.formats.strimzi.read import read_resource
    from causeway.formats.strimzi.secrets import Secrets

    if (connectors := read_connectors(path)) is not None:
        return connectors.entries
    problems = Problems(str(path))
    document = read_document(path, problems)
    entries: Mapping[str, Entry]
    if is_resource(document):
        # Without its Secrets: what they hold is not compared, and what is amiss `load` tells.
        secrets = Secrets(directory=None, problems=Problems(str(path)))
        entries = read_resource(document, problems, secrets, carry=True).entries
    else:
        entries = read_entries(document, problems)
    if not entries:
        problems.raise_if_any()
    return entries


def _refused(path: Path) -> tuple[str, ...]:
    if is_yaml(path) and read_connectors(path) is not None:
        return (f"connectors of Kafka Connect: causeway convert {path} writes a property file",)
    try:
        load(path)
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
