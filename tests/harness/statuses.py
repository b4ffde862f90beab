"""Helpers for statuses that are made up."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

from causeway.config import LinkSettings

T = TypeVar("T")


def replace(value: T, **changes: Any) -> T:
    """A copy of a dataclass or struct with other values for these fields."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changes)
    changed: T = dataclasses.replace(value, **changes)  # type: ignore[type-var]
    return changed


def ends(link: LinkSettings) -> dict[str, Any]:
    """The fields of a LinkStatus that name the link and its clusters."""
    return {"name": link.name, "source": link.source.alias, "target": link.target.alias}
