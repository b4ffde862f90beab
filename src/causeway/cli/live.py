"""What a person at a terminal sees while a mirror runs: a table, or a progress bar.

The tables are made from plain rows, so that the daemon's snapshot is read in one place (`rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from causeway.cli.words import count, duration, number, size
from causeway.model import State

_STYLES: Final = {
    State.RUNNING: "green",
    State.DONE: "green",
    State.RECOVERING: "yellow",
    State.WAITING: "dim",
    State.FAILED: "red",
    State.STOPPED: "bold red",
}
# The worst state of a topic's partitions stands for the topic.
_WORST: Final = (
    State.STOPPED,
    State.FAILED,
    State.RECOVERING,
    State.WAITING,
    State.RUNNING,
    State.DONE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic's partitions taken together; None where unknown."""

    topic: str
    partitions: int
    records: int  # since the start of this run
    records_per_s: float
    bytes_per_s: float
    lag_records: int | None
    lag_ms: int | None  # of the partition furthest behind
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A partition, or a whole topic, that a person should know of."""

    where: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    name: str
    headline: str  # who leads, how many lanes
    topics: tuple[TopicRow, ...]
    troubles: tuple[Trouble, ...]


def worst(states: Sequence[State]) -> State:
    """The state that a person must see first; WAITING where there is none."""
    return next((state for state in _WORST if state in states), State.WAITING)


def render(links: Sequence[LinkView], lines: int) -> RenderableType:
    """All links, in at most about `lines` lines: what is furthest behind is kept."""
    share = max(4, lines // max(1, len(links)) - 4)
    parts: list[RenderableType] = []
    for link in links:
        parts.append(Text.assemble((link.name, "bold"), f"  {link.headline}"))
        parts.append(_table(link.topics, share))
        parts += [_trouble(trouble) for trouble in link.troubles[:share]]
        if len(link.troubles) > share:
            parts.append(Text(f"and {count(len(link.troubles) - share, 'problem')} more", "red"))
    return Group(*parts)


def _table(topics: Sequence[TopicRow], most: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("topic", overflow="ellipsis", no_wrap=True, ratio=1)
    for name in ("records", "records/s", "bytes/s", "lag", "lag in time"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    shown = sorted(topics, key=_urgency)[:most] if len(topics) > most else topics
    for row in sorted(shown, key=lambda row: row.topic):
        table.add_row(
            row.topic,
            number(row.records),
            f"{row.records_per_s:,.0f}",
            f"{size(row.bytes_per_s)}/s",
            number(row.lag_records),
            duration(row.lag_ms),
            Text(row.state, _STYLES[row.state]),
        )
    if len(shown) < len(topics):
        rest = [row for row in topics if row not in shown]
        table.add_row(
            f"and {count(len(rest), 'topic')} more",
            number(sum(row.records for row in rest)),
            f"{sum(row.records_per_s for row in rest):,.0f}",
            f"{size(sum(row.bytes_per_s for row in rest))}/s",
            number(sum(row.lag_records or 0 for row in rest)),
            duration(max((row.lag_ms or 0 for row in rest), default=0)),
            "",
            style="dim",
        )
    return table


def _urgency(row: TopicRow) -> tuple[int, int, float]:
    return (_WORST.index(row.state), -(row.lag_records or 0), -row.records_per_s)


def _trouble(trouble: Trouble) -> Text:
    return Text.assemble((f"{trouble.state} ", "red"), f"{trouble.where}: {trouble.reason}")
