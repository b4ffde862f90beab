"""Lengths of time on the command line: `90`, `30s`, `5m`, `1.5h`, `500ms`."""

from __future__ import annotations

import re
from collections.abc import Callable

import typer

METAVAR = "TIME"
_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
_UNITS = {"ms": 0.001, None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def seconds(text: str | float) -> float:
    """Plain numbers are seconds. Raises BadParameter, of which typer says for which option."""
    found = _FORM.fullmatch(str(text).strip())
    if found is None:
        raise typer.BadParameter(f"{text} is not a length of time, such as 30s, 5m or 1h")
    return float(found[1]) * _UNITS[found[2]]


def at_least(least_s: float) -> Callable[[str | float], float]:
    """`seconds`, and no shorter than that."""

    def parse(text: str | float) -> float:
        found = seconds(text)
        if found < least_s:
            raise typer.BadParameter(f"{text} is shorter than {least_s:g}s")
        return found

    return parse
