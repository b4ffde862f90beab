"""Writes RESULTS.md, which compares the figures with the goals: `python -m bench.report`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import codec_report, everyday_report, limit_report, offset_report, transform_report
from bench.parts import DRIVER, JVM, LANE
from bench.results import Entry, load
from bench.soak import growth
from bench.systems import CAUSEWAY, MM2, MM2_TUNED, TITLES, TWO_PRODUCERS, VARIANTS
from bench.table import middle, records_per_s

MEMORY_MB = 1500
VERIFY_MB = 300.0  # a second, on two cores
SOAK_MINUTES = 60
GROUPS_S = 10.0
SOAK_GROWTH = 0.05
TWO_SIDES_SHARE = 0.5
_FASTER = {"json": 10.0, "1kb": 5.0, "small": 2.0}
_CPU_SHARE = 0.1
# Workloads whose memory has a promise of its own, or is the bench's.
_OTHER_MEMORY = (transform_report.PREFIX, "verify", "two-data-centres", limit_report.PAGE)

_METHOD = """\
## Method

Two clusters of one broker each, both systems and the load run on the same machine. Only one
system runs at a time, on the same brokers, each with its own topic that has the same records.
Both get the same property file (read_committed, `tasks.max=4`, one replica of everything,
defaults otherwise). MirrorMaker 2 also gets the heap and the collector of Kafka's own script. The
goals compare with this MirrorMaker 2. "Tuned" is a MirrorMaker 2 whose operator has fitted it to
the data: producer settings like the source's (codec, batch size, `linger.ms=50`; for latency
`linger.ms=0`). Causeway runs exactly once, its default; MirrorMaker 2 at least once, its default
and its faster mode. The order of the systems alternates from round to round; a figure is the
median of the rounds. Throughput has one more round before these, which does not count: it warms
up the brokers.

- **Throughput**: the system has mirrored a warm-up part of the topic and is idle. A backlog is
  written in one transaction. Its commit starts the clock. The clock stops when a read_committed
  reader of the target can read the last record of each partition (checked every 10 ms, then read
  and compared). CPU seconds are those of the system's whole process tree in that time, per 10⁹
  bytes of keys and values before compression.
- **1,000 partitions, first record**: from the start of the process until the last (the first)
  record can be read on the target.
- **Groups**: from the last commit on the source until the last group has its offset on the
  target, with group offset sync; one second of this is the interval.
- **Latency**: 200 records/s; the age of each record when a consumer of the target receives it. A
  consumer of the source measures the part that is not the mirror's.
- **Verify**: a mirrored backlog, compared by `causeway verify` while no driver runs: bytes of the
  source's batches per second, from the moment when Spark has started. As many are read from the
  target. CPU seconds per GB are those of lanes and driver, without the brokers'.
- **Two data centres**: one loop that writes to both clusters, by two of confluent-kafka's
  producers or by `DualProducer`, with the same settings and callbacks, until both have
  acknowledged all records.
- **Memory**: the highest proportional set size of the whole process tree, including the start.
  The soak test compares the last third of its samples with the first.
{more}
Readers and writers use librdkafka. Raw figures: [results.json](results.json).
"""


# Medians: of MirrorMaker 2, of a tuned one, and ours.
Figures = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    work: str
    theirs: str
    ours: str
    ratio: str
    tuned: str  # the ratio to the tuned MirrorMaker 2
    wanted: str
    holds: bool | None  # None: not measured


def render(entries: Mapping[str, Entry]) -> str:
    sections = (
        limit_report,
        everyday_report,
        transform_report,
        offset_report,
        codec_report,
    )
    more = "".join(section.METHOD for section in sections)
    method = _METHOD.format(more=more)
    parts = ["# Benchmark: Causeway and MirrorMaker 2\n", _summary(entries)]
    parts += filter(None, [section.render(entries) for section in sections])
    parts.append(method)
    parts += [_detail(entry) for entry in entries.values()]
    return "\n".join(parts)


def rows(entries: Mapping[str, Entry]) -> Iterator[Row]:
    """One a promise, in the order of the promises."""
    for name, least in _FASTER.items():
        if name in entries:
            yield _throughput(entries[name], least)
    for name in ("json", "1kb", "small"):
        if name in entries:
            yield _cpu(entries[name], _CPU_SHARE if name != "small" else None)
    for name in ("partitions", "first"):
        if name in entries:
            yield _start(entries[name])
    if "groups" in entries:
        yield _groups(entries["groups"])
    if "latency" in entries:
        for reader in ("read_uncommitted", "read_committed"):
            yield _latency(entries["latency"], reader, "p50", 0.5)
            yield _latency(entries["latency"], reader, "p99", 1.0)
    if "verify" in entries:
        yield _verify(entries["verify"])
    if "two-data-centres" in entries:
        yield _two_data_centres(entries["two-data-centres"])
    yield from _memory(entries)


def _summary(entries: Mapping[str, Entry]) -> str:
    lines = [
        "| work | MirrorMaker 2 | Causeway | ratio | goal | reached | ratio to a tuned one |",
        "|---|---:|---:|---:|---|---|---:|",
    ]
    for row in rows(entries):
        holds = {True: "yes", False: "**no**", None: "–"}[row.holds]
        cells = (row.work, row.theirs, row.ours, row.ratio, row.wanted, holds, row.tuned)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _throughput(entry: Entry, least: float) -> Row:
    figures = _each(entry, records_per_s)
    return _row(
        f"{entry.title}: records/s",
        figures,
        "{:,.0f}".format,
        f"at least {least:g} ×",
        least,
    )


def _cpu(entry: Entry, most: float | None) -> Row:
    figures = _each(entry, _cpu_per_gb)
    work = f"{entry.title.split(',')[0]}: CPU s per GB"
    wanted = "" if most is None else f"at most {most:g} ×"
    return _row(work, figures, "{:.2f}".format, wanted, most, lower=True)


def _start(entry: Entry) -> Row:
    figures = _each(entry, _seconds)
    return _row(entry.title, figures, "{:.1f} s".format, "at most 1 ×", 1.0, lower=True)


def _groups(entry: Entry) -> Row:
    row = _row(entry.title, _each(entry, _seconds), "{:.1f} s".format, "", None)
    ours = _each(entry, _seconds)[2]
    wanted = f"at most {GROUPS_S:g} s"
    return replace(row, wanted=wanted, holds=None if ours is None else ours <= GROUPS_S)


def _verify(entry: Entry) -> Row:
    figures = _each(entry, _compared_per_s)
    row = _row(f"{entry.title}: MB/s", figures, "{:,.0f}".format, "", None)
    ours = figures[2]
    holds = None if ours is None else ours >= VERIFY_MB
    return replace(row, wanted=f"at least {VERIFY_MB:g}", holds=holds)


def _latency(entry: Entry, reader: str, quantile: str, most: float) -> Row:
    figures = _each(entry, lambda figure: float(figure[reader][quantile]))
    work = f"{entry.title}: {reader} {quantile}"
    return _row(work, figures, "{:.1f} ms".format, f"at most {most:g} ×", most, lower=True)


def _two_data_centres(entry: Entry) -> Row:
    theirs, ours = (middle(entry, name, records_per_s) for name in (TWO_PRODUCERS, CAUSEWAY))
    return _row(
        f"{entry.title}: records/s, compared with two plain producers",
        (theirs, None, ours),
        "{:,.0f}".format,
        f"at least {TWO_SIDES_SHARE:g} ×",
        TWO_SIDES_SHARE,
    )


def _memory(entries: Mapping[str, Entry]) -> Iterator[Row]:
    def peak(system: str) -> float | None:
        peaks = [
            float(figure["usage"]["pss_mb"]) if "usage" in figure else max(figure["pss_mb"])
            for name, entry in entries.items()
            if not name.startswith(_OTHER_MEMORY)
            for figure in entry.rounds.get(system, ())
        ]
        return max(peaks, default=None)

    theirs, ours = peak(MM2), peak(CAUSEWAY)
    show = "{:,.0f} MB".format
    yield Row(
        work="memory, the most in any of these",
        theirs=_shown(theirs, show),
        ours=_shown(ours, show),
        ratio=_ratio(theirs, ours),
        tuned=_ratio(peak(MM2_TUNED), ours),
        wanted=f"at most {MEMORY_MB:,} MB",
        holds=None if ours is None else ours <= MEMORY_MB,
    )
    if "soak" in entries and (figures := entries["soak"].rounds.get(CAUSEWAY)):
        minutes = float(figures[0]["minutes"])
        grown = growth(figures[0]["pss_mb"])
        yield Row(
            work=f"memory over {minutes:g} min",
            theirs="–",
            ours=f"{grown:+.1%}",
            ratio="–",
            tuned="–",
            wanted=f"flat over an hour (at most {SOAK_GROWTH:+.0%})",
            holds=grown <= SOAK_GROWTH if minutes >= SOAK_MINUTES else None,
        )


def _detail(entry: Entry) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in entry.settings.items())
    about = ", ".join(f"{name} {value}" for name, value in entry.machine.items())
    lines = [f"## {entry.title}\n", f"{entry.date}, commit {entry.commit}; {settings}.\n"]
    figures = [figure for round_ in entry.rounds.values() for figure in round_]
    columns = _columns(figures[0]) if figures else {}
    lines.append(f"| system | {' | '.join(columns)} |")
    lines.append(f"|---|{'---:|' * len(columns)}")
    for system, measured in entry.rounds.items():
        for figure in measured:
            cells = (cell(figure) for cell in columns.values())
            lines.append(f"| {(TITLES | VARIANTS).get(system, system)} | {' | '.join(cells)} |")
    return "\n".join([*lines, f"\n{about}.\n"])


def _columns(figure: Mapping[str, Any]) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """The columns of a detail table, by the kind of measurement."""
    if "pss_mb" in figure:  # soak
        return {
            "records": lambda f: f"{f['records']:,}",
            "cores used": lambda f: f"{f['cpu_share']:.2f}",
            "memory, least": lambda f: f"{min(f['pss_mb']):,.0f} MB",
            "memory, most": lambda f: f"{max(f['pss_mb']):,.0f} MB",
            "growth": lambda f: f"{growth(f['pss_mb']):+.1%}",
        }
    usage: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "seconds": lambda f: f"{_seconds(f):.2f}",
        "CPU s": lambda f: f"{f['usage']['cpu_s']:.1f}",
        "brokers' CPU s": lambda f: f"{f['usage']['brokers_cpu_s']:.1f}",
        "memory (PSS)": lambda f: f"{f['usage']['pss_mb']:,.0f} MB",
        "memory (RSS)": lambda f: f"{f['usage']['rss_mb']:,.0f} MB",
    }
    if "compared" in figure:
        return {
            "records": lambda f: f"{f['records']:,}",
            "MB": lambda f: f"{f['compared'] / 1e6:,.0f}",
            "MB/s": lambda f: f"{_compared_per_s(f):,.0f}",
            "CPU s per GB": lambda f: f"{f['usage']['cpu_s'] / f['compared'] * 1e9:.2f}",
            **usage,
        }
    if "size" in figure:
        return {
            "records": lambda f: f"{f['records']:,}",
            "GB": lambda f: f"{f['size'] / 1e9:.2f}",
            "records/s": lambda f: f"{records_per_s(f):,.0f}",
            "CPU s per GB": lambda f: f"{_cpu_per_gb(f):.2f}",
            **({"wire GB": lambda f: f"{f['wire'] / 1e9:.2f}"} if figure.get("wire") else {}),
            **({"stored GB": lambda f: f"{f['stored'] / 1e9:.2f}"} if figure.get("stored") else {}),
            **usage,
            "brokers' share": lambda f: f"{_brokers_share(f):.0%}",
        }
    if "source" in figure:
        return {
            "records": lambda f: f"{f['records']:,}",
            "read_uncommitted": lambda f: _spread(f["read_uncommitted"]),
            "read_committed": lambda f: _spread(f["read_committed"]),
            "at the source": lambda f: _spread(f["source"]),
            **usage,
        }
    if "age" in figure:
        return {
            "records": lambda f: f"{f['records']:,}",
            "latency": lambda f: _spread(f["age"]),
            "of a core": lambda f: f"{everyday_report.core(f):.1%}",
            **{f"of it {part}": partial(_share, part) for part in (LANE, DRIVER, JVM)},
            "brokers, of a core": lambda f: f"{everyday_report.brokers(f):.1%}",
            **usage,
        }
    if "transforms" in figure:
        return {"topics": lambda f: f"{f['topics']:,}", **usage}
    if "scrape_cpu_s" in figure:
        return {
            "start": lambda f: f"{f['start_s']:.1f} s",
            "of a core": lambda f: f"{f['usage']['cpu_s'] / f['usage']['seconds']:.2%}",
            **{f"of it {part}": partial(_share, part) for part in (LANE, DRIVER, JVM)},
            "scrape, CPU": lambda f: f"{f['scrape_cpu_s']:.3f} s",
            "scrape": lambda f: f"{f['scrape_mb']:.1f} MB",
            "status": lambda f: f"{f['status_s']:.1f} s",
            "status, CPU": lambda f: f"{f['status_cpu_s']:.1f} s",
            **usage,
        }
    if "clicks" in figure:
        return {name: partial(_click_ms, name) for name in figure["clicks"]}
    if "offsets" in figure:
        return {"offsets": lambda f: f"{f['offsets']:,}", **usage}
    if "groups" in figure:
        return {"groups": lambda f: f"{f['groups']:,}", **usage}
    return {"records": lambda f: f"{f['records']:,}", **usage}


def _click_ms(name: str, figure: Mapping[str, Any]) -> str:
    return f"{figure['clicks'][name]:.0f} ms"


def _share(part: str, figure: Mapping[str, Any]) -> str:
    return f"{figure['usage']['parts'].get(part, 0) / _seconds(figure):.2%}"


def _spread(spread: Mapping[str, float]) -> str:
    return f"p50 {spread['p50']:.1f}, p99 {spread['p99']:.1f}, max {spread['max']:.1f} ms"


def _compared_per_s(figure: Mapping[str, Any]) -> float:
    return float(figure["compared"] / _seconds(figure) / 1e6)


def _cpu_per_gb(figure: Mapping[str, Any]) -> float:
    return float(figure["usage"]["cpu_s"] / figure["size"] * 1e9)


def _brokers_share(figure: Mapping[str, Any]) -> float:
    """Of all CPU time that the brokers and the system took."""
    usage = figure["usage"]
    return float(usage["brokers_cpu_s"] / (usage["brokers_cpu_s"] + usage["cpu_s"]))


def _seconds(figure: Mapping[str, Any]) -> float:
    return float(figure["usage"]["seconds"])


def _each(entry: Entry, value: Callable[[Mapping[str, Any]], float]) -> Figures:
    theirs, tuned, ours = (middle(entry, name, value) for name in (MM2, MM2_TUNED, CAUSEWAY))
    return theirs, tuned, ours


def _row(
    work: str,
    figures: Figures,
    show: Callable[[float], str],
    wanted: str,
    bound: float | None,
    *,
    lower: bool = False,
) -> Row:
    theirs, tuned, ours = figures
    holds = None
    if theirs and ours and bound is not None:
        holds = ours / theirs <= bound if lower else ours / theirs >= bound
    return Row(
        work=work,
        theirs=_shown(theirs, show),
        ours=_shown(ours, show),
        ratio=_ratio(theirs, ours),
        tuned=_ratio(tuned, ours),
        wanted=wanted,
        holds=holds,
    )


def _shown(value: float | None, show: Callable[[float], str]) -> str:
    return "–" if value is None else show(value)


def _ratio(theirs: float | None, ours: float | None) -> str:
    return f"{ours / theirs:.3g} ×" if theirs and ours else "–"


if __name__ == "__main__":
    folder = Path(__file__).parent
    (folder / "RESULTS.md").write_text(render(load(folder / "results.json")))
