"""Writes docs/reference/causeway.schema.json: `python -m causeway.formats.causeway_yaml.schema`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from causeway.formats.causeway_yaml import forms, shape
from causeway.formats.causeway_yaml.shape import KafkaKeys, Leaf, Part, Section, Transforms

Schema = dict[str, Any]
_REFERENCE = {"$ref": "#/$defs/reference"}
_TEXTS: Schema = {"type": "array", "items": {"type": ["string", "number", "boolean"]}}


def schema() -> Schema:
    """JSON schema, draft 2020-12, of a whole file."""
    link = _of(shape.link())
    link["properties"] = {
        "from": {"type": "string", "description": "Alias of the source cluster."},
        "to": {"type": "string", "description": "Alias of the target cluster."},
        **link["properties"],
        "enabled": {"$ref": "#/$defs/bool", "description": "Whether it runs.", "default": True},
    }
    link["required"] = ["from", "to"]
    named = _of(shape.transform())
    named["properties"] = {"name": {"$ref": "#/$defs/name"}, **named["properties"]}
    named["required"] = ["name"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "causeway.yaml",
        "description": "Settings of Causeway, which mirrors topics between Kafka clusters.",
        "type": "object",
        "properties": {
            "clusters": {
                "description": "The clusters, by their aliases.",
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": "^[a-zA-Z0-9._-]+$"},
                "additionalProperties": {"$ref": "#/$defs/cluster"},
            },
            "defaults": {
                **_of(shape.defaults()),
                "description": "For all links and clusters that say nothing of their own.",
            },
            "links": {
                "description": "Which cluster is mirrored to which.",
                "type": "array",
                "items": {"$ref": "#/$defs/link"},
            },
            "transforms": {
                "description": "Transforms that links name.",
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/name"},
                "additionalProperties": _of(shape.transform()),
            },
            "run": {**_of(shape.run()), "description": "Of the whole process."},
            "spark": _map("Spark's settings, with or without `spark.` before them."),
            "properties": _map("Any key of a property file, as it stands there."),
        },
        "required": ["clusters"],
        "additionalProperties": False,
        "$defs": {
            "reference": {
                "description": "A value from elsewhere: ${env:VAR}, ${file:/path:key},"
                " ${dir:/path:file}",
                "type": "string",
                "pattern": "\\$\\{",
            },
            "bool": {"anyOf": [{"type": "boolean"}, _REFERENCE]},
            "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
            "text": {"type": ["string", "number", "boolean"]},
            "duration": {
                "anyOf": [{"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"}, _REFERENCE]
            },
            "size": {
                "anyOf": [
                    {"type": "integer", "minimum": 0},
                    {"type": "string", "pattern": forms.SIZE_PATTERN},
                    _REFERENCE,
                ]
            },
            "list": {"anyOf": [_TEXTS, {"type": "string"}]},
            "cluster": {**_of(shape.cluster()), "description": "One cluster."},
            "link": {**link, "description": "One link."},
            "transform": named,
        },
    }


def schema_text() -> str:
    """As it is published."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _of(section: Section) -> Schema:
    found: Schema = {
        "type": ["object", "null"],
        "properties": {name: _part(part) for name, part in section.parts.items()},
        "additionalProperties": False,
    }
    return {"description": section.meaning, **found} if section.meaning else found


def _part(part: Part) -> Schema:
    match part:
        case Section():
            return _of(part)
        case KafkaKeys():
            return _map(part.meaning)
        case Transforms():
            items = {"anyOf": [{"$ref": "#/$defs/name"}, {"$ref": "#/$defs/transform"}]}
            return {"description": part.meaning, "type": "array", "items": items}
        case Leaf():
            found: Schema = {"description": part.meaning, **_leaf(part)}
            default = forms.to_value(part, part.default) if part.default else None
            return found if default is None else {**found, "default": default}


def _leaf(leaf: Leaf) -> Schema:
    match leaf.kind:
        case "duration" if forms.forever(leaf):
            return {"anyOf": [{"$ref": "#/$defs/duration"}, {"const": forms.FOREVER}]}
        case "duration" | "size":
            return {"$ref": f"#/$defs/{leaf.kind}"}
        case "list" | "lines":
            return {"$ref": "#/$defs/list"}
        case "policy":
            return {"anyOf": [{"enum": list(forms.POLICIES)}, {"type": "string"}]}
    if leaf.schema.get("type") == "boolean":
        return {"$ref": "#/$defs/bool"}
    if _is_text(leaf.schema):
        return {"$ref": "#/$defs/text"}
    return {"anyOf": [*leaf.schema.get("anyOf", [leaf.schema]), _REFERENCE]}


def _is_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and not {"enum", "const"} & schema.keys()


def _map(meaning: str) -> Schema:
    values = {"$ref": "#/$defs/text"}
    return {"description": meaning, "type": ["object", "null"], "additionalProperties": values}


if __name__ == "__main__":
    print(schema_text(), end="")
