"""Converts values between causeway.yaml (`10s`, `64MiB`) and property files (whole numbers of a
key's unit).

Only the notation changes. The checks of property files decide whether a value is valid. A value
with `${...}` is the same text in both forms, so its unit is that of the property file's key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from causeway import filters
from causeway.formats.causeway_yaml.shape import Leaf

_DURATION = re.compile(r"(\d{1,18})(ms|s|m|h|d)")
_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_BYTES = {
    "TiB": 1 << 40,
    "GiB": 1 << 30,
    "MiB": 1 << 20,
    "KiB": 1 << 10,
    "TB": 10**12,
    "GB": 10**9,
    "MB": 10**6,
    "kB": 10**3,
    "B": 1,
}
_SIZE = re.compile(rf"(\d{{1,18}}) ?({'|'.join(_BYTES)})?")
SIZE_PATTERN = f"^[0-9]+ ?({'|'.join(_BYTES)})?$"  # the same, for JSON schema
FOREVER = "forever"  # -1 in a property file
POLICIES = {"default": "DefaultReplicationPolicy", "identity": "IdentityReplicationPolicy"}
PACKAGE = "org.apache.kafka.connect.mirror."
NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")
_WHOLE = re.compile(r"0|[1-9]\d{0,17}")


def to_text(leaf: Leaf, value: str | Sequence[str]) -> str:
    """Returns the property file's text for a value in causeway.yaml. Raises ValueError with the
    expected form."""
    if not isinstance(value, str):
        return _joined(leaf, value)
    text = value.strip()
    if "${" in value:
        return value
    match leaf.kind:
        case "duration":
            return _duration(leaf, text)
        case "size":
            match = _SIZE.fullmatch(text)
            if match is None:
                raise ValueError("a size such as 64MiB, or a number of bytes")
            return str(int(match.group(1)) * _BYTES[match.group(2) or "B"])
        case "policy" if text in POLICIES:
            return PACKAGE + POLICIES[text]
        case _:
            return value


def _duration(leaf: Leaf, text: str) -> str:
    if text == FOREVER and forever(leaf):
        return "-1"
    unit = unit_of(leaf)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("a duration with its unit, such as 10s, 5m or 2h")
    ms = int(match.group(1)) * _MS[match.group(2)]
    if ms % _MS[unit]:
        raise ValueError("a duration of whole seconds, such as 10s")
    return str(ms // _MS[unit])


def _joined(leaf: Leaf, items: Sequence[str]) -> str:
    if leaf.kind == "lines":
        return "\n".join(items)
    for item in items:
        if "${" not in item and filters.split_list(item) != (item,):
            raise ValueError(
                "a list of items without commas and not empty: a comma would end a pattern"
            )
    return ", ".join(items)


def to_value(leaf: Leaf, text: str) -> Any:
    """Returns the most readable value that `to_text` converts back to `text`, else the text itself.
    None if causeway.yaml cannot have the value at this place."""
    if "${" in text:
        return text
    value = _readable(leaf, text)
    try:
        back = to_text(leaf, as_read(value))
    except ValueError:
        return None
    return value if same(leaf, back, text) else None


def _readable(leaf: Leaf, text: str) -> Any:
    match leaf.kind:
        case "duration":
            return _long(leaf, text)
        case "size" if _WHOLE.fullmatch(text):
            return _large(int(text))
        case "list":
            return list(filters.split_list(text))
        case "lines":
            lines = text.split("\n")
            return lines if all(line and line == line.strip() for line in lines) else text
        case "policy":
            short = text.strip().removeprefix(PACKAGE)
            return next((name for name, known in POLICIES.items() if known == short), text)
    kinds = {leaf.schema.get("type"), *(each.get("type") for each in leaf.schema.get("anyOf", ()))}
    if "boolean" in kinds and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    if "integer" in kinds and NUMBER.fullmatch(text):
        return int(text)
    return text


def _long(leaf: Leaf, text: str) -> str:
    if text == "-1" and forever(leaf):
        return FOREVER
    if not _WHOLE.fullmatch(text):
        return text
    ms = int(text) * _MS[unit_of(leaf)]
    unit = next(unit for unit, size in _MS.items() if ms % size == 0 and (ms or unit == "s"))
    return f"{ms // _MS[unit]}{unit}"


def _large(number: int) -> Any:
    unit = next(
        u for u, size in _BYTES.items() if (number % size == 0 and number >= size) or u == "B"
    )
    return number if unit == "B" else f"{number // _BYTES[unit]}{unit}"


def as_read(value: Any) -> str | list[str]:
    """Returns `value` as the reader gets it from a file."""
    if isinstance(value, list):
        return [str(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def same(leaf: Leaf, one: str, other: str) -> bool:
    """Returns whether two texts of a property file mean the same."""
    if leaf.kind == "list":
        return filters.split_list(one) == filters.split_list(other)
    if leaf.kind == "policy":
        return one.strip().removeprefix(PACKAGE) == other.strip().removeprefix(PACKAGE)
    if leaf.schema.get("type") == "boolean":
        return one.strip().lower() == other.strip().lower()
    return one == other


def unit_of(leaf: Leaf) -> str:
    """Returns the unit of a whole number of the property file's key."""
    return "ms" if leaf.key.endswith(".ms") else "s"


def forever(leaf: Leaf) -> bool:
    """Returns whether -1 means no end."""
    return any(
        -1 in each.get("enum", (each.get("const"),)) for each in leaf.schema.get("anyOf", ())
    )
