"""/docs: the API as an HTML page, made of the OpenAPI document. It loads no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from typing import Any

Described = Mapping[str, Any]


def api_page(described: Described) -> str:
    """HTML, with `page/docs.css`."""
    return "\n".join(_page(described))


def _page(described: Described) -> Iterator[str]:
    info = described["info"]
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(info['title'])} API</title>"
    yield '<link rel="stylesheet" href="/page/docs.css"></head><body><main>'
    yield f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"
    yield f"<p>{_text(info.get('description', ''))}</p>"
    yield '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>'
    schemas = described.get("components", {}).get("schemas", {})
    operations = [
        (operation.get("tags", [""])[0], path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    for tag, some in groupby(operations, key=lambda each: each[0]):
        yield f"<h2>{escape(tag)}</h2>"
        for _, path, method, operation in some:
            yield from _operation(path, method, operation)
    yield "<h2>Answers</h2>"
    for name, schema in sorted(schemas.items()):
        yield from _schema(name, schema)
    yield "</main></body></html>"


def _operation(path: str, method: str, operation: Described) -> Iterator[str]:
    shown = f"<b>{escape(method.upper())}</b> {escape(path)}"
    yield f'<section><h3 id="{escape(operation["operationId"])}"><code>{shown}</code></h3>'
    yield f"<p>{_text(operation.get('description', ''))}{_answer(operation)}</p>"
    parameters = operation.get("parameters", [])
    if parameters:
        yield "<table><thead><tr><th>parameter</th><th>kind</th><th>meaning</th></tr></thead>"
        yield "<tbody>"
        for each in parameters:
            schema = each.get("schema", {})
            default = schema.get("default")
            meaning = _text(each.get("description", ""))
            if default not in (None, ""):
                meaning += f" Default: <code>{escape(str(default))}</code>."
            yield f"<tr><td><code>{escape(each['name'])}</code></td>"
            yield f"<td>{_kind(schema)}</td><td>{meaning}</td></tr>"
        yield "</tbody></table>"
    yield "</section>"


def _answer(operation: Described) -> str:
    content = operation["responses"].get("200", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    return f" Answers {_kind(schema)}." if "$ref" in schema else ""


def _schema(name: str, schema: Described) -> Iterator[str]:
    yield f'<section><h3 id="{escape(name)}">{escape(schema.get("title", name))}</h3>'
    yield f"<p>{_text(schema.get('description', ''))}</p>"
    if properties := schema.get("properties"):
        yield "<table><thead><tr><th>field</th><th>kind</th><th>meaning</th></tr></thead><tbody>"
        for field, each in properties.items():
            yield f"<tr><td><code>{escape(field)}</code></td><td>{_kind(each)}</td>"
            yield f"<td>{_text(each.get('description', ''))}</td></tr>"
        yield "</tbody></table>"
    if words := schema.get("enum"):
        yield f"<p>One of {', '.join(f'<code>{escape(str(word))}</code>' for word in words)}.</p>"
    yield "</section>"


def _kind(schema: Described) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{escape(name)}">{escape(name)}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(word))}</code>" for word in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any")))


def _text(text: str) -> str:
    """Text between backquotes as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))
