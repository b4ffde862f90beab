"""RESULTS.md's section on the everyday load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from bench.results import Entry
from bench.systems import CAUSEWAY, MM2, MM2_TUNED, TITLES
from bench.table import Row, at_most, compared, middle, table

PREFIX = "everyday-"
CPU_SHARES = {MM2: 0.25, MM2_TUNED: 0.5}
BROKERS_SHARE = 0.9
AGES_MS = {"p50": 20.0, "p99": 150.0}

METHOD = """\
- **The everyday load**: 20 topics of 50 partitions. One record after another is sent to them in
  turn, without a linger. CPU is that of the process tree, or of both clusters' brokers, as a part
  of one core. The brokers' CPU includes that of the load, and of a reader of the target that has
  one partition of 25. The latency is the age of that reader's records when it receives them.
"""


def render(entries: Mapping[str, Entry]) -> str:
    """Empty if nothing of it was measured."""
    if not (found := list(rows(entries))):
        return ""
    return "\n".join(["## The everyday load\n", *table(found), ""])


def rows(entries: Mapping[str, Entry]) -> Iterator[Row]:
    for name, entry in entries.items():
        if name.startswith(PREFIX):
            yield from _rows(entry)


def _rows(entry: Entry) -> Iterator[Row]:
    for peer, most in CPU_SHARES.items():
        theirs, ours = (middle(entry, system, core) for system in (peer, CAUSEWAY))
        yield compared(
            f"{entry.title}: of a core", TITLES[peer], theirs, ours, "{:.1%}".format, most=most
        )
    for peer, share in ((MM2, BROKERS_SHARE), (MM2_TUNED, None)):
        theirs, ours = (middle(entry, system, brokers) for system in (peer, CAUSEWAY))
        work = f"{entry.title}: brokers, of a core"
        yield compared(work, TITLES[peer], theirs, ours, "{:.1%}".format, most=share)
    for quantile, most_ms in AGES_MS.items():
        work = f"{entry.title}: {quantile}"
        theirs, ours = (
            middle(entry, system, partial(_age_ms, quantile)) for system in (MM2_TUNED, CAUSEWAY)
        )
        if ours is not None:
            yield at_most(work, ours, "ms", most_ms)
        yield compared(work, TITLES[MM2_TUNED], theirs, ours, "{:,.1f} ms".format, most=1.0)


def core(figure: Mapping[str, Any]) -> float:
    """The mirror's CPU, as a part of one core."""
    return float(figure["usage"]["cpu_s"] / figure["usage"]["seconds"])


def brokers(figure: Mapping[str, Any]) -> float:
    """The CPU of both clusters' brokers, as a part of one core."""
    return float(figure["usage"]["brokers_cpu_s"] / figure["usage"]["seconds"])


def _age_ms(quantile: str, figure: Mapping[str, Any]) -> float:
    return float(figure["age"][quantile])
