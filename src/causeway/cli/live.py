"""What a person at a terminal sees while a mirror runs: a table, or a progress bar.

Both are made from the daemon's snapshots, purely; cli/run.py shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from causeway.cli.standing import standing
from causeway.cli.words import count, duration, number, outcomes, printable, size
from causeway.daemon.status import LinkStatus, Role, Snapshot
from causeway.daemon.topics import WORST, TopicRow, topic_rows
from causeway.model import State

_STYLES: Final = {
    State.RUNNING: "green",
    State.DONE: "green",
    State.RECOVERING: "yellow",
    State.WAITING: "dim",
    State.PAUSED: "magenta",
    State.PROMOTING: "magenta",
    State.PROMOTED: "blue",
    State.FAILED_OVER: "blue",
    State.FAILED: "red",
    State.STOPPED: "bold red",
}
_TOLD: Final = (State.STOPPED, State.FAILED, State.RUNNING)


def troubles(link: LinkStatus) -> list[Text]:
    """A line for each partition and topic that a person should know of, with the reason."""
    lines = [
        Text.assemble(
            (f"{partition.state} ", _STYLES[partition.state]),
            printable(f"{partition.topic}-{partition.partition}: {partition.reason}"),
        )
        for partition in link.partitions
        if partition.reason and partition.state in _TOLD
    ]
    lines += [
        Text.assemble(("problem ", "red"), printable(f"{trouble.topic}: {trouble.reason}"))
        for trouble in link.troubles
    ]
    lines += [
        Text.assemble(("problem ", "red"), printable(f"transform {transform.name}: {trouble}"))
        for transform in link.transforms
        for trouble in transform.troubles
    ]
    return lines


def transforms(link: LinkStatus) -> list[Text]:
    """A line for each transform that has had records, or has partitions to have them of."""
    lines = []
    for transform in link.transforms:
        counts = transform.counts
        if not (transform.partitions or counts.records_in):
            continue
        line = Text.assemble(("transform ", "dim"), f"{transform.name}: {outcomes(counts)}")
        if transform.unseen:
            line.append(f"  protects nothing so far: {', '.join(transform.unseen)}", "yellow")
        lines.append(line)
    return lines


def render(snapshot: Snapshot, lines: int) -> RenderableType:
    """All links, in at most about `lines` lines: what is worst and furthest behind is kept."""
    share = max(4, lines // max(1, len(snapshot.links)) - 3)
    parts: list[RenderableType] = []
    for link in snapshot.links:
        parts.append(_headline(link, snapshot))
        wrong = troubles(link)
        told = wrong[: max(1, share // 2)]
        treated = transforms(link)[: max(1, (share - len(told)) // 3)]
        asked = list(islice(standing(link.directives), max(1, (share - len(told)) // 3)))
        left = max(1, share - len(told) - len(treated) - len(asked))
        parts.append(_table(topic_rows(link, int(snapshot.taken_at * 1000)), left))
        parts += treated
        parts += asked
        parts += told
        if len(told) < len(wrong):
            parts.append(Text(f"and {count(len(wrong) - len(told), 'problem')} more", "red"))
    if snapshot.lane_trouble:
        parts.append(Text(printable(f"a lane ended: {snapshot.lane_trouble}"), "yellow"))
    return Group(*parts)


def _headline(link: LinkStatus, snapshot: Snapshot) -> Text:
    parts = [link.role + (f" ({printable(link.reason)})" if link.reason else "")]
    if link.role is Role.LEADING:
        topics = {partition.topic for partition in link.partitions}
        parts = [
            f"{count(len(topics), 'topic')}, {count(len(link.partitions), 'partition')}",
            f"{len(snapshot.lanes)} of {count(snapshot.lanes_wanted, 'lane')}",
        ]
    if snapshot.draining:
        parts.append("draining")
    parts.append(f"up {duration((snapshot.taken_at - snapshot.started_at) * 1000)}")
    return Text.assemble((link.name, "bold"), "  ", " · ".join(parts))


def _table(topics: Sequence[TopicRow], most: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("topic", overflow="ellipsis", no_wrap=True, ratio=1)
    for name in ("records", "records/s", "bytes/s", "lag", "lag in time"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    shown = sorted(topics, key=_urgency)[:most] if len(topics) > most else topics
    for row in sorted(shown, key=lambda row: row.topic):
        table.add_row(
            Text(printable(row.topic)),
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
    return (WORST.index(row.state), -(row.lag_records or 0), -row.records_per_s)
