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
MANY, BURSTS, GROUPS = "many", "bursts", "groups"
MANY_SHARE = 1.3  # of the CPU of the row with fewer partitions and as many records
GROUPS_SHARE = 0.05  # of a core
CAUGHT_UP_MS = 2_000.0
_ALONE = {MANY: f"{PREFIX}3000", BURSTS: f"{PREFIX}1000", GROUPS: f"{PREFIX}1000"}

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
        if not name.startswith(PREFIX):
            continue
        kind = name.removeprefix(PREFIX)
        if kind in _ALONE:
            yield from _alone(kind, entry, entries.get(_ALONE[kind]))
        else:
            yield from _rows(entry)


def _alone(kind: str, entry: Entry, base: Entry | None) -> Iterator[Row]:
    """A row of Causeway alone. `base`: the row that it is compared with."""
    ours = middle(entry, CAUSEWAY, core)
    usual = None if base is None else middle(base, CAUSEWAY, core)
    if kind == MANY:
        yield compared(
            f"{entry.title}: of a core",
            f"Causeway, {base.title}" if base else "Causeway",
            usual,
            ours,
            "{:.1%}".format,
            most=MANY_SHARE,
        )
    elif kind == BURSTS:
        if (age := middle(entry, CAUSEWAY, _burst_ms)) is not None:
            yield at_most(f"{entry.title}: oldest at a burst's end", age, "ms", CAUGHT_UP_MS)
        if (age := middle(entry, CAUSEWAY, partial(_age_ms, "p99"))) is not None:
            yield at_most(f"{entry.title}: p99 outside of bursts", age, "ms", AGES_MS["p99"])
    elif ours is not None and usual is not None:
        yield at_most(
            f"{entry.title}: more CPU than without groups, of a core",
            100 * (ours - usual),
            "%",
            100 * GROUPS_SHARE,
        )


def _burst_ms(figure: Mapping[str, Any]) -> float:
    return float(figure["burst"]["max"])


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
