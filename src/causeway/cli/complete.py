"""What a shell offers for an option's value: names of the file, which is read for that alone; no
cluster is asked, and what is wrong with the file is nothing to be told here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import typer

from causeway.errors import CausewayError

_VARIABLE = "_CAUSEWAY_COMPLETE"


def links(context: typer.Context, incomplete: str) -> list[str]:
    """The flows of the file that stands on the line."""
    file = context.params.get("file")
    # Behind an option without its value, arguments have no names yet.
    named = [Path(file)] if file is not None else [Path(each) for each in context.args]
    try:
        found = [name for each in named if each.is_file() for name in _links(each)]
    except (CausewayError, OSError):
        return []
    # A shell takes `>` for a redirection. Others than bash quote what they insert.
    bash = os.environ.get(_VARIABLE) == "complete_bash"
    offered = [name.replace(">", r"\>") if bash else name for name in found]
    return [name for name in offered if name.startswith(incomplete)]


def _links(file: Path) -> Iterator[str]:
    from causeway.filters import split_list
    from causeway.formats import read_entries

    entries = read_entries(file)
    aliases = split_list(entries["clusters"].value) if "clusters" in entries else ()
    for source, target in permutations(aliases, 2):
        name = f"{source}->{target}"
        entry = entries.get(f"{name}.enabled") or entries.get("enabled")
        if entry is not None and entry.value.strip().lower() == "true":
            yield name
