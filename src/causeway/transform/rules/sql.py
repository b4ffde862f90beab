"""Pieces of Spark SQL as text."""

from __future__ import annotations

EMPTY = "cast(array() AS array<variant>)"
HEADERS = "array<struct<key: string, value: binary>>"


def literal(text: str) -> str:
    """A string literal; raw where that reads better."""
    if "\\" in text and "'" not in text and not text.endswith("\\"):
        return f"r'{text}'"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def let(expression: str, name: str, body: str) -> str:
    """`body` with `name` for the value of `expression`, which is evaluated once."""
    return f"element_at(transform(array({expression}), {name} -> {body}), 1)"


def member(name: str) -> str:
    """How a field's name, an expression, stands in a path; as in Path."""
    quoted = f"concat('[\"', {name}, '\"]')"
    return f"if({name} RLIKE '^[A-Za-z0-9_-]+$', concat('.', {name}), {quoted})"
