"""The reference page of causeway.yaml and its JSON schema, made from the form.

python -m causeway.formats.causeway_yaml.reference            docs/reference/causeway-yaml.md
python -m causeway.formats.causeway_yaml.reference --schema   docs/reference/causeway.schema.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from causeway.formats.causeway_yaml import forms, shape
from causeway.formats.causeway_yaml.shape import KafkaKeys, Leaf, Part, Section, TransformList

_HEAD = """# causeway.yaml

Every command takes a `causeway.yaml` (or any file whose name ends in `.yaml`, `.yml` or `.json`)
where it takes a MirrorMaker 2 property file. It says the same in a shorter form: each value here is
one key of [the property file](configuration.md), with the same default and the same checks.

```yaml
clusters:
  A:
    bootstrap: [broker1:9092, broker2:9092]
    security:
      protocol: SASL_SSL
      sasl: {mechanism: SCRAM-SHA-512, username: causeway, password: "${env:PASSWORD}"}
  B:
    bootstrap: localhost:9092

links:
  - from: A
    to: B
    topics: [orders, 'payments\\..*']
    sync: {group-offsets: {enabled: true, interval: 10s}}
    transforms:
      - name: pii
        topics: [customers]
        value: {format: json}
        sql: |
          SELECT to_json(named_struct('id', get_json_object(value, '$.id'))) AS value
          FROM records

spark:
  master: local[4]
```

A link that is listed runs, unless it says `enabled: false`.

**Values.** Text is what is written: `010` and `yes` are not turned into something else. Durations
have a unit (`500ms`, `10s`, `5m`, `2h`, `7d`), sizes may have one (`64MiB`, `1GB`; else bytes). A
list may be one text with commas, as in a property file; patterns are the same, so a comma ends one.
A value may come from elsewhere: `${env:VAR}`, `${file:/path:key}`, `${dir:/path:file}`; it counts
in the unit of the property file's key. Write it in quotes inside `{...}`.

**Safety.** No tag (`!...`) is followed, a key set twice is refused, and so is one that is unknown.
All errors are reported at once, with line and column. Parts can be shared by YAML's anchors and
`<<`. A file is refused if its aliases repeat more than 100,000 values in all, or if it has more
than 100 levels.

**Editors** complete and check it with [its JSON schema](causeway.schema.json), which `causeway
convert --schema` prints too; with the YAML language server, by this line at the top:
`# yaml-language-server: $schema=causeway.schema.json`.

**Conversion.** `causeway convert mm2.properties -o causeway.yaml` writes a property file in this
form. `causeway convert causeway.yaml -o mm2.properties` does the reverse. Both files have the same
settings, and MirrorMaker 2 reads the property file (except `causeway.*` keys, which it does not
know). References stay references. Keys without a place in this form go under `properties`, so no
key is lost. Only the comments at the top of the file are kept. An existing file is overwritten only
with `--force`. The new file has the access rights of the old one.

This page is generated from the code: `python -m causeway.formats.causeway_yaml.reference`.
"""


def markdown() -> str:
    """Returns the whole page."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield _HEAD
    yield "## The file\n"
    yield "| key | meaning |"
    yield "|---|---|"
    for name, meaning in _TOP.items():
        yield f"| `{name}` | {meaning} |"
    yield "\n## A cluster\n"
    yield "Under `clusters`, by its alias:\n"
    yield from _table(shape.cluster())
    yield "\n## A link\n"
    yield "`from` and `to` name its clusters (required). A value of its own wins over `defaults`,"
    yield "its clients' keys win over the clusters'.\n"
    yield from _table(shape.link(), {"enabled": "true"})
    yield "\n## A transform\n"
    yield "In a link's list with its `name`, or under `transforms` by it; see"
    yield "[transforms](../how-to/transforms.md). What a link says of a transform wins.\n"
    yield from _table(shape.transform())
    yield "\n## The process\n"
    yield "Under `run`:\n"
    yield from _table(shape.run())


_TOP = {
    "clusters": "The clusters, by their aliases (required).",
    "defaults": "What holds for all links that do not say it themselves: any key of a link but"
    " `enabled`, and `security` of all clusters.",
    "links": "A list: which cluster is mirrored to which.",
    "transforms": "Transforms that several links name, by their names.",
    "run": "The process.",
    "spark": "Spark's settings, with or without `spark.` before them; see"
    " [Running on a Spark cluster](../how-to/spark.md).",
    "properties": "Any other key of a property file, unchanged.",
}


def _table(section: Section, defaults: dict[str, str] | None = None) -> Iterator[str]:
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for way, part in section.walk():
        path = ".".join(way)
        default = (defaults or {}).get(path, _default(part))
        shown = f"`{default}`" if default else ""
        yield f"| `{path}` | {shown} | {part.meaning.replace('|', chr(92) + '|')} |"


def _default(part: Part) -> str:
    if not isinstance(part, Leaf) or not part.default:
        return ""
    value = forms.to_value(part, part.default)
    return ", ".join(value) if isinstance(value, list) else str(forms.as_read(value))


JsonSchema = dict[str, Any]
_REFERENCE = {"$ref": "#/$defs/reference"}
_TEXTS: JsonSchema = {"type": "array", "items": {"type": ["string", "number", "boolean"]}}
_MAP: JsonSchema = {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/text"}}


def schema() -> JsonSchema:
    """JSON schema, draft 2020-12, of a whole file."""
    link = _schema_of(shape.link())
    link["properties"] = {
        "from": {"type": "string", "description": "Alias of the source cluster."},
        "to": {"type": "string", "description": "Alias of the target cluster."},
        **link["properties"],
        "enabled": {"$ref": "#/$defs/bool", "description": "Whether it runs.", "default": True},
    }
    link["required"] = ["from", "to"]
    transform = _schema_of(shape.transform())
    named = {"name": {"$ref": "#/$defs/name"}, **transform["properties"]}
    parts: JsonSchema = {
        "clusters": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^[a-zA-Z0-9._-]+$"},
            "additionalProperties": {"$ref": "#/$defs/cluster"},
        },
        "defaults": _schema_of(shape.defaults()),
        "links": {"type": "array", "items": {"$ref": "#/$defs/link"}},
        "transforms": {
            "type": "object",
            "propertyNames": {"$ref": "#/$defs/name"},
            "additionalProperties": transform,
        },
        "run": _schema_of(shape.run()),
        "spark": _MAP,
        "properties": _MAP,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "causeway.yaml",
        "description": "Settings of Causeway, which mirrors topics between Kafka clusters.",
        "type": "object",
        "properties": {name: {"description": _TOP[name], **part} for name, part in parts.items()},
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
            "cluster": {"description": "One cluster.", **_schema_of(shape.cluster())},
            "link": {"description": "One link.", **link},
            "transform": {**transform, "properties": named, "required": ["name"]},
        },
    }


def schema_text() -> str:
    """Returns the schema as published."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _schema_of(section: Section) -> JsonSchema:
    found: JsonSchema = {
        "type": ["object", "null"],
        "properties": {name: _schema_of_part(part) for name, part in section.parts.items()},
        "additionalProperties": False,
    }
    return {"description": section.meaning, **found} if section.meaning else found


def _schema_of_part(part: Part) -> JsonSchema:
    match part:
        case Section():
            return _schema_of(part)
        case KafkaKeys():
            return {"description": part.meaning, **_MAP}
        case TransformList():
            items = {"anyOf": [{"$ref": "#/$defs/name"}, {"$ref": "#/$defs/transform"}]}
            return {"description": part.meaning, "type": "array", "items": items}
        case Leaf():
            found: JsonSchema = {"description": part.meaning, **_schema_of_leaf(part)}
            default = forms.to_value(part, part.default) if part.default else None
            return found if default is None else {**found, "default": default}


def _schema_of_leaf(leaf: Leaf) -> JsonSchema:
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
    if leaf.schema.get("type") == "string" and "enum" not in leaf.schema:
        return {"$ref": "#/$defs/text"}
    return {"anyOf": [*leaf.schema.get("anyOf", [leaf.schema]), _REFERENCE]}


if __name__ == "__main__":
    print(schema_text() if "--schema" in sys.argv else markdown(), end="")
