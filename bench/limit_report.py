"""RESULTS.md's section on what a batch costs, TLS, far clusters, many idle partitions, the page of
many topics, and the latency compared with a tuned MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from bench import far
from bench.limits import CPU, TLS
from bench.results import Entry
from bench.systems import (
    BARE,
    CAUSEWAY,
    CAUSEWAY_BEFORE,
    MM2,
    MM2_TUNED,
    PLAIN_COPY,
    TITLES,
    VARIANTS,
)
from bench.table import Row, at_most, compared, faster, middle, records_per_s, table

CPU_SHARE = 0.5
IDLE = "idle-"  # how the workloads of many idle partitions are called
IDLE_CORE, SCRAPE_S, START_S, STATUS_S = 0.03, 0.3, 60.0, 3.0
PAGE = "page"
CLICK_MS = 200.0
_TLS_FASTER = {"json": 5.0, "1kb": 3.0}
_FAR_FASTER, _FAR_SHARE = 10.0, 0.8

METHOD = """\
- **CPU of a batch**: throughput as above, and its CPU seconds per 10⁹ bytes of batches as they
  are in the source's log. The older commit mirrors in the same run. "A relay that only relays"
  reads batches and sends them on without checks, in Python over the same sockets
  (`bench/bare.py`); it is no mirror. The brokers' share is the part of the CPU, of both clusters'
  brokers and the mirror together, that would remain if a mirror cost nothing.
- **A far cluster**: throughput as above, but all systems reach that cluster through a TCP relay
  that delays every byte by 50 ms in each direction (`bench/far.py`). Both systems have default
  settings, with one task for MirrorMaker 2. MirrorMaker 2 is so slow to a far target that its
  backlog there is a 50th of Causeway's. "A plain TCP copy" is what one connection carries through
  the same relay, while the machine does nothing else; its record is 1,000 bytes. Without a
  bandwidth limit such a copy only moves memory, several times faster than two brokers on this
  machine without a relay. So the used share of a line is measured with a relay of 1 Gbit/s.
- **The page**: an artificial run in the driver's own code (`bench/page.py`), served as usual, in
  a headless Chromium on the same machine. Measured from a click to the frame after the one that
  shows the result, with one second between clicks.
"""


def render(entries: Mapping[str, Entry]) -> str:
    """Empty if nothing of it was measured."""
    if not (found := list(rows(entries))):
        return ""
    return "\n".join(["## CPU of a batch, and difficult conditions\n", *table(found), ""])


def rows(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for name, entry in entries.items():
        if name.startswith(CPU):
            yield from _cpu(entry)
    for name, least in _TLS_FASTER.items():
        if name + TLS in entries:
            entry = entries[name + TLS]
            work = f"{entry.title}: records/s"
            ours = middle(entry, CAUSEWAY, records_per_s)
            yield faster(work, TITLES[MM2], middle(entry, MM2, records_per_s), ours, least)
    for line in far.LINES:
        if line.name in entries:
            yield from _far(entries[line.name], line)
    for name, entry in entries.items():
        if name.startswith(IDLE):
            yield from _idle(entry)
    if PAGE in entries:
        yield from _page(entries[PAGE])
    if "latency" in entries:
        for reader in ("read_uncommitted", "read_committed"):
            for quantile in ("p50", "p99"):
                yield _latency(entries["latency"], reader, quantile)


def _idle(entry: Entry) -> Iterator[Row]:
    def row(work: str, key: str, unit: str, most: float, digits: int) -> Row:
        found = median(float(figure[key]) for figure in entry.rounds[CAUSEWAY])
        return at_most(f"{entry.title}: {work}", found, unit, most, digits)

    core = median(
        figure["usage"]["cpu_s"] / figure["usage"]["seconds"] for figure in entry.rounds[CAUSEWAY]
    )
    yield at_most(f"{entry.title}: of a core", 100 * core, "%", 100 * IDLE_CORE, 2)
    yield row("CPU of a scrape", "scrape_cpu_s", "s", SCRAPE_S, 3)
    yield row("from the start until all run", "start_s", "s", START_S, 1)
    yield row("`causeway status`", "status_s", "s", STATUS_S, 1)


def _page(entry: Entry) -> Iterator[Row]:
    (figure,) = entry.rounds[CAUSEWAY]
    slowest = max(figure["clicks"], key=lambda name: figure["clicks"][name])
    work = f"{entry.title}: from a click to the view"
    yield at_most(f"{work}, {slowest}", figure["clicks"][slowest], "ms", CLICK_MS, 0)
    yield at_most(f"{work}, the slowest of all", figure["slowest_ms"], "ms", None, 0)


def _cpu(entry: Entry) -> Iterator[Row]:
    ours = middle(entry, CAUSEWAY, _cpu_per_wire_gb)
    for peer, most in ((CAUSEWAY_BEFORE, CPU_SHARE), (BARE, None)):
        if entry.rounds.get(peer):
            work = f"{entry.title}: CPU s per wire GB"
            theirs = middle(entry, peer, _cpu_per_wire_gb)
            yield compared(work, VARIANTS[peer], theirs, ours, "{:.2f}".format, most=most)


def _far(entry: Entry, line: far.Line) -> Iterator[Row]:
    work = f"{entry.title}: records/s"
    ours = middle(entry, CAUSEWAY, records_per_s)
    # A narrow line holds both up, and a wide one lets a plain copy move memory.
    narrow = line.bytes_per_s is not None
    wanted = (None, _FAR_SHARE) if narrow else (_FAR_FASTER, None)
    for peer, least in zip((MM2, PLAIN_COPY), wanted, strict=True):
        theirs = middle(entry, peer, records_per_s)
        yield faster(work, (TITLES | VARIANTS)[peer], theirs, ours, least)


def _latency(entry: Entry, reader: str, quantile: str) -> Row:
    theirs, ours = (
        middle(entry, system, lambda figure: float(figure[reader][quantile]))
        for system in (MM2_TUNED, CAUSEWAY)
    )
    work = f"{entry.title}: {reader} {quantile}"
    return compared(work, TITLES[MM2_TUNED], theirs, ours, "{:.1f} ms".format, most=1.0)


def _cpu_per_wire_gb(figure: Mapping[str, Any]) -> float:
    return float(figure["usage"]["cpu_s"] / figure["wire"] * 1e9)
