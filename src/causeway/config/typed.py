"""From text to types: a model of keys.py filled from entries, each wrong value a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from causeway.config.keys import Keys
from causeway.config.problems import Problems
from causeway.formats.properties import Entry

_Model = TypeVar("_Model", bound=Keys)


def read(model: type[_Model], entries: Mapping[str, Entry], problems: Problems) -> _Model:
    """`entries` by key name; others are ignored. A value that does not fit goes to `problems`, and
    its default stands in for it, or for one that is missing, so that later checks can go on."""
    given = {
        name: entries[name]
        for name in model.names()
        if name in entries and not entries[name].missing
    }
    while True:
        try:
            return model.model_validate({name: entry.value for name, entry in given.items()})
        except ValidationError as error:
            for detail in error.errors():
                entry = given.pop(str(detail["loc"][0]), None)
                if entry is None:
                    raise
                context = detail.get("ctx", {})
                expected = str(context.get("error") or context.get("expected") or detail["msg"])
                problems.add(f"{entry.place} must be {expected}, not {entry.shown}")
