"""The figures on disk: `results.json`, one entry a workload, each with its own date and commit.

Measuring one workload anew leaves the others' entries as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine

Rounds = Mapping[str, Sequence[Mapping[str, Any]]]  # by system


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`settings`: how it was measured; `rounds`: by system, the fields of the measurement's own
    class (`throughput.Throughput`, `latency.Latency`, …)."""

    title: str
    date: str
    commit: str
    machine: Mapping[str, str]
    settings: Mapping[str, Any]
    rounds: Rounds


def entry(title: str, settings: Mapping[str, Any], rounds: Mapping[str, Sequence[Any]]) -> Entry:
    return Entry(
        title=title,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=machine.commit(),
        machine=machine.describe(),
        settings=settings,
        rounds={name: [plain(figure) for figure in figures] for name, figures in rounds.items()},
    )


def load(path: Path) -> dict[str, Entry]:
    if not path.exists():
        return {}
    return {name: Entry(**fields) for name, fields in json.loads(path.read_text()).items()}


def save(path: Path, entries: Mapping[str, Entry]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({name: asdict(entry) for name, entry in entries.items()}, indent=1)
    path.write_text(text + "\n")


def plain(figure: Any) -> dict[str, Any]:
    """Rounded to what was measured: six digits."""
    assert is_dataclass(figure)
    assert not isinstance(figure, type)
    rounded: dict[str, Any] = json.loads(json.dumps(asdict(figure)), parse_float=_six_digits)
    return rounded


def _six_digits(text: str) -> float:
    return float(f"{float(text):.6g}")
