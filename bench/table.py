"""Tables of what was wanted and what was measured, for the sections of RESULTS.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.results import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    work: str
    peer: str
    theirs: str
    ours: str
    ratio: str
    wanted: str
    holds: bool | None  # None: not measured, or nothing is promised


def table(rows: Iterable[Row]) -> Iterator[str]:
    yield "| work | compared with | its figure | Causeway | ratio | goal | reached |"
    yield "|---|---|---:|---:|---:|---|---|"
    for row in rows:
        holds = {True: "yes", False: "**no**", None: "–"}[row.holds]
        cells = (row.work, row.peer, row.theirs, row.ours, row.ratio, row.wanted, holds)
        yield f"| {' | '.join(cells)} |"


def compared(
    work: str,
    peer: str,
    theirs: float | None,
    ours: float | None,
    show: Callable[[float], str],
    *,
    least: float | None = None,
    most: float | None = None,
) -> Row:
    """`least`, `most`: what is wanted of the ratio of ours to theirs."""
    ratio = ours / theirs if theirs and ours else None
    wanted = "" if least is None else f"at least {least:g} ×"
    if most is not None:
        wanted = f"at most {most:g} ×"
    holds = None
    if ratio is not None and (least is not None or most is not None):
        holds = (least is None or ratio >= least) and (most is None or ratio <= most)
    return Row(
        work=work,
        peer=peer,
        theirs=_shown(theirs, show),
        ours=_shown(ours, show),
        ratio=_shown(ratio, "{:.3g} ×".format),
        wanted=wanted,
        holds=holds,
    )


def faster(
    work: str, peer: str, theirs: float | None, ours: float | None, least: float | None
) -> Row:
    return compared(work, peer, theirs, ours, "{:,.0f}".format, least=least)


def at_most(work: str, ours: float, unit: str, most: float | None, digits: int = 1) -> Row:
    """A row without another system to compare with."""
    return Row(
        work=work,
        peer="–",
        theirs="–",
        ours=f"{ours:,.{digits}f} {unit}",
        ratio="–",
        wanted="" if most is None else f"at most {most:,.15g} {unit}",
        holds=None if most is None else ours <= most,
    )


def records_per_s(figure: Mapping[str, Any]) -> float:
    return float(figure["records"] / figure["usage"]["seconds"])


def middle(entry: Entry, system: str, value: Callable[[Mapping[str, Any]], float]) -> float | None:
    """The median of a system's rounds; None where it was not measured."""
    found = [value(figure) for figure in entry.rounds.get(system, ())]
    return median(found) if found else None


def _shown(value: float | None, show: Callable[[float], str]) -> str:
    return "–" if value is None else show(value)
