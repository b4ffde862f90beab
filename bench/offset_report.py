"""RESULTS.md's section on what it costs to keep the source's offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from bench.offsets import PREFIX
from bench.results import Entry
from bench.systems import CAUSEWAY, CAUSEWAY_KEEPS, TITLES
from bench.table import Row, compared, middle, records_per_s, table

_DENSE, _TRANSACTIONS, _CPU, _START = 0.95, 0.5, 1.05, 1.5
_LATENCY = 1.1
_OFFSETS_PER_S = 3e6

METHOD = """\
- **Same offsets**: Causeway with `causeway.offsets = preserve`, beside Causeway with translated
  offsets in the same run. Transactions have 100 records in one partition each; an open transaction
  holds them back until all are written, and its end starts the clock. The beginning is what a lane
  does for one partition: filler is written and deleted, up to the first offset that is mirrored.
"""


def render(entries: Mapping[str, Entry]) -> str:
    """Empty if none of it was measured."""
    if not (found := list(rows(entries))):
        return ""
    return "\n".join(["## Same offsets\n", *table(found), ""])


def rows(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for name, least in (("dense", _DENSE), ("transactions", _TRANSACTIONS)):
        if entry := entries.get(PREFIX + name):
            yield _ratio(entry, "records/s", records_per_s, "{:,.0f}", least=least)
            most = _CPU if name == "dense" else None
            yield _ratio(entry, "CPU s per GB", _cpu_per_gb, "{:.2f}", most=most)
    if entry := entries.get(PREFIX + "start"):
        yield _ratio(entry, "s", lambda f: float(f["usage"]["seconds"]), "{:.2f}", most=_START)
    if entry := entries.get(PREFIX + "latency"):
        for quantile in ("p50", "p99"):
            yield _latency(entry, quantile)
    if entry := entries.get(PREFIX + "beginning"):
        found = median(f["offsets"] / f["usage"]["seconds"] for f in entry.rounds[CAUSEWAY_KEEPS])
        yield Row(
            work=f"{entry.title}: offsets/s",
            peer="–",
            theirs="–",
            ours=f"{found:,.0f}",
            ratio="–",
            wanted=f"at least {_OFFSETS_PER_S:,.0f}",
            holds=found >= _OFFSETS_PER_S,
        )


def _ratio(
    entry: Entry,
    what: str,
    value: Any,
    show: str,
    *,
    least: float | None = None,
    most: float | None = None,
) -> Row:
    return compared(
        f"{entry.title}: {what}",
        f"{TITLES[CAUSEWAY]}, translated offsets",
        middle(entry, CAUSEWAY, value),
        middle(entry, CAUSEWAY_KEEPS, value),
        show.format,
        least=least,
        most=most,
    )


def _latency(entry: Entry, quantile: str) -> Row:
    def value(figure: Mapping[str, Any]) -> float:
        return float(figure["read_committed"][quantile])

    return _ratio(entry, f"read_committed {quantile}", value, "{:.1f} ms", most=_LATENCY)


def _cpu_per_gb(figure: Mapping[str, Any]) -> float:
    return float(figure["usage"]["cpu_s"] / figure["size"] * 1e9)
