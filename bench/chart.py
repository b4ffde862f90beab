"""Draws docs/images/benchmark.svg from results.json: `python -m bench.chart`.

The chart has one panel for each measurement and one bar for each system. The colours follow the
reader's light or dark theme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from bench import results
from bench.results import Entry
from bench.systems import CAUSEWAY, MM2, MM2_TUNED, TITLES
from bench.table import middle, records_per_s

SVG = Path(__file__).parents[1] / "docs" / "images" / "benchmark.svg"
RESULTS = Path(__file__).with_name("results.json")

_SYSTEMS = (CAUSEWAY, MM2_TUNED, MM2)
# Pixels.
_WIDTH, _PANEL_WIDTH, _PANEL_HEIGHT, _GAP = 860, 420, 132, 20
_LABEL_WIDTH, _BAR_WIDTH, _BAR_HEIGHT, _BAR_STEP, _TITLE_HEIGHT = 152, 180, 18, 27, 44

_STYLE = """\
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .note { font-size: 12px; fill: #59636e }
  .mm2, .mm2-tuned { fill: #afb8c1 }
  .causeway { fill: #0b7285 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #9198a1 }
    .mm2, .mm2-tuned { fill: #59636e }
    .causeway { fill: #3bc9db }
  }"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One measurement. `value` is the figure of one round; the bars show medians."""

    title: str
    note: str
    workload: str
    value: Callable[[Mapping[str, Any]], float]
    show: Callable[[float], str]


def _cpu_s_per_gb(figure: Mapping[str, Any]) -> float:
    return float(figure["usage"]["cpu_s"] / (figure["size"] / 1e9))


def _p99_ms(figure: Mapping[str, Any]) -> float:
    return float(figure["read_committed"]["p99"])


PANELS = (
    Panel(
        title="Throughput: JSON, zstd (records/s)",
        note="more is better",
        workload="json",
        value=records_per_s,
        show="{:,.0f}".format,
    ),
    Panel(
        title="Throughput: 1 kB, uncompressed (records/s)",
        note="more is better",
        workload="1kb",
        value=records_per_s,
        show="{:,.0f}".format,
    ),
    Panel(
        title="CPU: JSON, zstd (seconds per GB)",
        note="less is better",
        workload="json",
        value=_cpu_s_per_gb,
        show="{:.2f} s".format,
    ),
    Panel(
        title="Latency at 200 records/s (99th percentile)",
        note="less is better",
        workload="latency",
        value=_p99_ms,
        show="{:.1f} ms".format,
    ),
)


def render(entries: Mapping[str, Entry]) -> str:
    """The chart as SVG text. KeyError if a workload was never measured."""
    height = (len(PANELS) + 1) // 2 * (_PANEL_HEIGHT + _GAP) - _GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="Benchmark: '
        'Causeway and MirrorMaker 2 on the same machine">',
        "<style>",
        _STYLE,
        "</style>",
    ]
    for number, panel in enumerate(PANELS):
        left = number % 2 * (_PANEL_WIDTH + _GAP)
        top = number // 2 * (_PANEL_HEIGHT + _GAP)
        lines.append(f'<g transform="translate({left} {top})">')
        lines += _panel(panel, entries[panel.workload])
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def _panel(panel: Panel, entry: Entry) -> Iterator[str]:
    yield f'  <text class="title" x="0" y="14">{escape(panel.title)}</text>'
    yield f'  <text class="note" x="0" y="32">{escape(panel.note)}</text>'
    measured = {
        system: value
        for system in _SYSTEMS
        if (value := middle(entry, system, panel.value)) is not None
    }
    widest = max(measured.values())
    for number, (system, value) in enumerate(measured.items()):
        top = _TITLE_HEIGHT + number * _BAR_STEP
        width = max(1.0, _BAR_WIDTH * value / widest)
        base = top + _BAR_HEIGHT - 5
        yield f'  <text x="0" y="{base}">{escape(TITLES[system])}</text>'
        yield (
            f'  <rect class="{system}" x="{_LABEL_WIDTH}" y="{top}" rx="2" '
            f'width="{width:.1f}" height="{_BAR_HEIGHT}"/>'
        )
        yield f'  <text x="{_LABEL_WIDTH + width + 8:.1f}" y="{base}">{panel.show(value)}</text>'


if __name__ == "__main__":
    SVG.parent.mkdir(exist_ok=True)
    SVG.write_text(render(results.load(RESULTS)))
