"""The part of a transform that the Python workers of its stage carry out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from causeway.transform.queries import QueryShortcut
from causeway.transform.rules import Shortcut, TransformRule


@dataclass(frozen=True, slots=True)
class StageWork:
    """The work of a stage's workers besides the query; can be pickled.

    `secrets`: the fields of the column `secrets`, in its order. `texts`: the columns for the JSON
    of parts that the source worker makes. `decodes`: the formats of these parts. `encodes`: the
    formats of parts that the sink worker writes by their schemas. `rules`: the rules that this JSON
    is for. `types`: DataTypes that the JSON of parts is read as. `shortcut`: treats records without
    Spark."""

    secrets: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    decodes: Mapping[str, str] = field(default_factory=dict)
    encodes: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[TransformRule, ...] = ()
    types: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    shortcut: Shortcut | QueryShortcut | None = None
