"""RESULTS.md's section on records that are compressed on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.codecs import CODECS, PREFIX
from bench.results import Entry
from bench.systems import CAUSEWAY, MM2, MM2_TUNED, TITLES
from bench.table import Row, compared, middle, records_per_s, table

_FASTER = 2.0

METHOD = """\
- **Compressed on the way**: throughput as above, of flights in JSON, joined to values of about 1 kB
  and written without compression. All systems have the same `producer.compression.type`; the tuned
  one has larger batches, too. What the target stores is the size of its log files after the backlog
  less before, compared with the same of the source.
"""


def render(entries: Mapping[str, Entry]) -> str:
    """Empty if none of it was measured."""
    if not (found := list(rows(entries))):
        return ""
    return "\n".join(["## Compressed on the way\n", *table(found), ""])


def rows(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for codec in CODECS:
        if entry := entries.get(PREFIX + codec):
            for peer, least in ((MM2, _FASTER), (MM2_TUNED, None)):
                yield _row(entry, peer, "records/s", records_per_s, "{:,.0f}", least=least)
            for peer in (MM2, MM2_TUNED):
                yield _row(entry, peer, "CPU s per GB", _cpu_per_gb, "{:.2f}")
                yield _row(entry, peer, "stored at the target", _stored, "{:.1%}")


def _row(
    entry: Entry, peer: str, what: str, value: Any, show: str, *, least: float | None = None
) -> Row:
    theirs, ours = (middle(entry, system, value) for system in (peer, CAUSEWAY))
    work = f"{entry.title}: {what}"
    return compared(work, TITLES[peer], theirs, ours, show.format, least=least)


def _cpu_per_gb(figure: Mapping[str, Any]) -> float:
    return float(figure["usage"]["cpu_s"] / figure["size"] * 1e9)


def _stored(figure: Mapping[str, Any]) -> float:
    return float(figure["stored"] / figure["wire"])
