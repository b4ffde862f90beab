"""Measures, and writes bench/results.json, bench/RESULTS.md and the chart of the README."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from rich.console import Console
from rich.markdown import Markdown

from bench import chart, report, results, smt
from bench.stage import Stage
from bench.systems import (
    BEFORE,
    CAUSEWAY,
    CAUSEWAY_BEFORE,
    KAFKA_PERFORMANCE,
    MM2,
    MM2_SMT,
    MM2_TUNED,
    TITLES,
    VARIANTS,
)
from bench.workloads import Say, Workload, soaking, workloads
from causeway.errors import CausewayError

_HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    chosen = workloads(quick=options.quick)
    names = [workload.name for workload in chosen]
    if options.only:
        wanted = options.only.split(",")
        if unknown := set(wanted) - {*names, "soak"}:
            return _fail(f"no such workload: {', '.join(unknown)}; there are {', '.join(names)}")
        chosen = [workload for workload in chosen if workload.name in wanted]
    if options.soak:
        chosen.append(soaking(options.soak))
    systems = options.systems.split(",")
    if unknown := set(systems) - set(TITLES):
        return _fail(f"no such system: {', '.join(unknown)}; there are {', '.join(TITLES)}")
    # A smoke run's figures mean nothing; they must not replace real ones.
    folder = options.output or (None if options.quick else _HERE)
    entries = results.load(folder / "results.json") if folder else {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is cleaned up
    # As Kafka's own script starts them.
    os.environ.setdefault("KAFKA_HEAP_OPTS", "-Xms1G -Xmx1G")
    os.environ.setdefault("KAFKA_JVM_PERFORMANCE_OPTS", " ".join(KAFKA_PERFORMANCE))
    try:
        for on, group in groupby(chosen, lambda workload: workload.staged):
            with on() as stage:
                for workload in group:
                    entries[workload.name] = _measure(stage, workload, systems, options.rounds)
                    if folder:
                        results.save(folder / "results.json", entries)
                        (folder / "RESULTS.md").write_text(report.render(entries))
        if folder == _HERE:
            chart.SVG.write_text(chart.render(entries))
    except (CausewayError, KafkaException) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 130
    Console().print(Markdown(report.render(entries).partition("## Method")[0]))
    return 0


def _measure(
    stage: Stage, workload: Workload, systems: Sequence[str], rounds: int | None
) -> results.Entry:
    chosen = workload.systems or systems
    if MM2_SMT in chosen and (cause := smt.missing()):
        _narrator(workload.name)(f"without {VARIANTS[MM2_SMT]}: {cause}")
        chosen = [name for name in chosen if name != MM2_SMT]
    if CAUSEWAY_BEFORE in chosen and not BEFORE:
        _narrator(workload.name)("without an older commit: CAUSEWAY_BEFORE names no checkout")
        chosen = [name for name in chosen if name != CAUSEWAY_BEFORE]
    measured: dict[str, list[Any]] = {name: [] for name in chosen}
    count = rounds or workload.rounds
    for number in range(-workload.uncounted, count):
        # The brokers get faster with use: each system goes first as often as the other.
        order = list(measured) if number % 2 == 0 else list(reversed(measured))
        for name in order:
            which = f"round {number + 1}" if number >= 0 else "uncounted"
            say = _narrator(f"{workload.name}, {(TITLES | VARIANTS)[name]}, {which}")
            figures = workload.measure(stage, name, say)
            if number >= 0:
                measured[name].append(figures)
    return results.entry(workload.title, workload.settings, measured)


def _narrator(subject: str) -> Say:
    def say(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')}  {subject}: {text}", file=sys.stderr, flush=True)

    return say


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = ",".join(workload.name for workload in workloads(quick=True))
    parser.add_argument("--only", metavar="NAMES", help=names)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it all work?")
    parser.add_argument("--rounds", type=int, help="how often each system is measured")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="also watch memory so long")
    parser.add_argument(
        "--systems", default=f"{CAUSEWAY},{MM2},{MM2_TUNED}", help=", ".join(TITLES)
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="instead of bench/")
    return parser.parse_args(arguments)


def _fail(text: str) -> int:
    print(f"bench: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
