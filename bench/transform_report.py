"""RESULTS.md's section on transforms: what the figures say, against what was promised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from bench.parts import ORDER
from bench.results import Entry
from bench.systems import (
    CAUSEWAY,
    CAUSEWAY_QUIET,
    CAUSEWAY_SQL,
    MM2,
    MM2_SMT,
    MM2_TUNED,
    TITLES,
    VARIANTS,
)
from bench.table import Row, at_most, faster, middle, records_per_s, table

PREFIX = "transform-"
COPY, QUIET = "transform-copy", "transform-quiet"
P50_MS, P99_MS = 50.0, 300.0
START_S = 15.0
MANY_MB = 2000.0
SMT_FASTER = 1.5
QUIET_SHARE = 0.9  # of the speed without a second transform; rounds differ by as much
_FASTER = {
    "transform-filter": 1.3,
    "transform-mask": 1.0,
    "transform-odd": 0.9,
    "transform-aes": 0.7,
}

METHOD = """\
- **Transforms**: throughput as above, on the JSON work with fewer records, counted as they are on
  the source, including dropped ones; two lanes share the work (`lanes = 2` in the file, in which
  MirrorMaker 2 has four tasks). The copy that they are compared with is measured once for all.
  Kafka's transformations work on maps, and a mirror's records are bytes. So Kafka's own
  `JsonConverter` converts JSON to a map and back to bytes, in two transformations of a few lines;
  `Filter` gets a condition of a few lines that reads the JSON. For the work "masked, hashed"
  MirrorMaker 2 masks by `MaskField` and removes the other field by `ReplaceField`, because Kafka
  has no transformation that hashes. CPU seconds are per million records of the source, by
  process, and for the JVM also by kind of thread. Workers are identified by their age, so a
  second lane's source worker can be counted as a sink. The memory of many transforms is that of
  the whole process tree: driver, JVM, lanes and the stages' workers.
"""


def render(entries: Mapping[str, Entry]) -> str:
    """Empty if no transform was measured."""
    if not (found := list(rows(entries))):
        return ""
    return "\n".join(["## Transforms\n", *table(found), "", *_parts(entries), ""])


def rows(entries: Mapping[str, Entry]) -> Iterator[Row]:
    """One row for each goal, and one that compares with a tuned MirrorMaker 2."""
    for name, least in _FASTER.items():
        if name in entries:
            yield from _throughput(entries, name, least)
    if QUIET in entries:
        plain, quiet = (_speed(entries, QUIET, name) for name in (CAUSEWAY, CAUSEWAY_QUIET))
        work = f"{entries[QUIET].title}, with a quiet transform: records/s"
        yield faster(work, "Causeway without one", plain, quiet, QUIET_SHARE)
    if ours := _figures(entries, "transform-latency", CAUSEWAY):
        for quantile, most in (("p50", P50_MS), ("p99", P99_MS), ("max", None)):
            found = median(figure["read_committed"][quantile] for figure in ours)
            yield at_most(f"{entries['transform-latency'].title}: {quantile}", found, "ms", most)
    if ours := _figures(entries, "transform-first", CAUSEWAY):
        found = median(figure["usage"]["seconds"] for figure in ours)
        yield at_most(entries["transform-first"].title, found, "s", START_S)
    if ours := _figures(entries, "transform-many", CAUSEWAY):
        found = max(figure["usage"]["pss_mb"] for figure in ours)
        yield at_most(f"{entries['transform-many'].title}: memory", found, "MB", MANY_MB, 0)


def _throughput(entries: Mapping[str, Entry], name: str, least: float | None) -> Iterator[Row]:
    for variant, how in ((CAUSEWAY, ""), (CAUSEWAY_SQL, ", as SQL with a schema")):
        ours = _speed(entries, name, variant)
        if ours is None:
            continue
        work = f"{entries[name].title}{how}: records/s"
        yield faster(work, f"{TITLES[MM2]}, copying", _speed(entries, COPY, MM2), ours, least)
        tuned = _speed(entries, COPY, MM2_TUNED)
        yield faster(work, f"{TITLES[MM2_TUNED]}, copying", tuned, ours, None)
        if (smt := _speed(entries, name, MM2_SMT)) is not None:
            yield faster(work, VARIANTS[MM2_SMT], smt, ours, SMT_FASTER)


def _parts(entries: Mapping[str, Entry]) -> Iterator[str]:
    """CPU seconds a million records, by part."""
    yield f"| CPU s per million records | all | {' | '.join(ORDER)} |"
    yield f"|---|{'---:|' * (1 + len(ORDER))}"
    for name, entry in entries.items():
        if not name.startswith(PREFIX):
            continue
        for system, figures in entry.rounds.items():
            if figures and "size" in figures[0]:
                title = f"{entry.title}: {(TITLES | VARIANTS).get(system, system)}"
                shown = (f"{one:.1f}" for one in _millions(figures))
                yield f"| {title} | {' | '.join(shown)} |"


def _millions(figures: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    yield median(figure["usage"]["cpu_s"] / figure["records"] * 1e6 for figure in figures)
    for part in ORDER:
        yield median(
            figure["usage"]["parts"].get(part, 0.0) / figure["records"] * 1e6 for figure in figures
        )


def _figures(entries: Mapping[str, Entry], name: str, system: str) -> Sequence[Mapping[str, Any]]:
    return entries[name].rounds.get(system, ()) if name in entries else ()


def _speed(entries: Mapping[str, Entry], name: str, system: str) -> float | None:
    return middle(entries[name], system, records_per_s) if name in entries else None
