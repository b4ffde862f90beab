"""Renders a daemon's snapshot as the live table of `causeway run`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec import structs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from causeway.cli.common import labelled
from causeway.cli.directives import directive_lines
from causeway.cli.output import TEXT_AT_LEAST
from causeway.cli.words import count, duration, number, outcomes, printable, size, with_and_without
from causeway.link_topics import Transformed
from causeway.model import State
from causeway.status import LinkStatus, Role, Snapshot, TopicStatus, rank, topics_of

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
_FIGURES: Final = ("records", "records/s", "bytes/s", "lag", "lag in time", "state")
_OMITTED: Final = ("records", "bytes/s", "records/s")  # on a narrow screen, in this order
_WITH_REASON: Final = (State.STOPPED, State.FAILED, State.RUNNING)


def problems(link: LinkStatus) -> list[Text]:
    """Yields a line for each partition, topic and transform with a problem, with the reason."""
    lines = [
        labelled(one.state, f"{one.topic}-{one.partition}: {one.reason}", _STYLES[State(one.state)])
        for one in link.partitions
        if one.reason and one.state in _WITH_REASON
    ]
    lines += [labelled("problem", f"{each.topic}: {each.reason}", "red") for each in link.problems]
    lines += [
        labelled("problem", f"transform {transform.name}: {trouble}", "red")
        for transform in link.transforms
        for trouble in transform.troubles
    ]
    return lines


def transforms(link: LinkStatus) -> list[Text]:
    """Yields a line for each transform that has records or partitions."""
    lines = []
    for transform in link.transforms:
        counts = transform.counts or Transformed()
        if not (transform.partitions or counts.records_in):
            continue
        line = Text.assemble(("transform ", "dim"), f"{transform.name}: {outcomes(counts)}")
        if transform.unseen:
            line.append(f"  protects nothing so far: {', '.join(transform.unseen)}", "yellow")
        for rule in transform.rules:
            if rule.missing:
                line.append(f"  {with_and_without(rule)}", "yellow")
        lines.append(line)
    return lines


def render(snapshot: Snapshot, lines: int, width: int) -> RenderableType:
    """Returns all links, in about `lines` lines of `width` characters. If there are too many
    topics, shows those with the worst state and the largest lag."""
    share = max(4, lines // max(1, len(snapshot.links)) - 3)
    parts: list[RenderableType] = []
    for link in snapshot.links:
        parts.append(_headline(link, snapshot))
        wrong = problems(link)
        first = wrong[: max(1, share // 2)]
        treated = transforms(link)[: max(1, (share - len(first)) // 3)]
        asked = list(islice(directive_lines(link.directives), max(1, (share - len(first)) // 3)))
        left = max(1, share - len(first) - len(treated) - len(asked))
        parts.append(_table(topics_of(link), left, width))
        parts += treated
        parts += asked
        parts += first
        if len(first) < len(wrong):
            parts.append(Text(f"and {count(len(wrong) - len(first), 'problem')} more", "red"))
    if snapshot.lane_trouble:
        parts.append(Text(printable(f"a lane ended: {snapshot.lane_trouble}"), "yellow"))
    if snapshot.reload is not None and snapshot.reload.pending:
        why = f": {snapshot.reload.reason}" if snapshot.reload.reason else ""
        parts.append(Text(printable(f"the changed file is not in force{why}"), "yellow"))
    return Group(*parts)


def _headline(link: LinkStatus, snapshot: Snapshot) -> Text:
    parts = [str(link.role) + (f" ({printable(link.reason)})" if link.reason else "")]
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


def _table(topics: Sequence[TopicStatus], most: int, width: int) -> Table:
    """Returns a table with a line for each topic. A small `width` omits the least important
    columns."""
    shown = sorted(topics, key=_urgency)[:most] if len(topics) > most else topics
    rows = [_cells(row) for row in sorted(shown, key=lambda row: row.topic)]
    if len(shown) < len(topics):
        left = [row for row in topics if row not in shown]
        rows.append(_cells(_together(left)) | {"state": ""})
    kept = _kept(rows, width)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("topic", overflow="ellipsis", no_wrap=True, ratio=1)
    for name in kept:
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    for row in rows:
        style = {"state": _STYLES[State(row["state"])]} if row["state"] else {}
        cells = [Text(row[name], style.get(name, "")) for name in ("topic", *kept)]
        table.add_row(*cells, style=None if style else "dim")
    return table


def _cells(row: TopicStatus) -> dict[str, str]:
    return {
        "topic": printable(row.topic),
        "records": number(row.records),
        "records/s": f"{row.records_per_s:,.0f}",
        "bytes/s": f"{size(row.bytes_per_s)}/s",
        "lag": number(row.lag_records),
        "lag in time": duration(row.lag_ms),
        "state": str(row.state),
    }


def _together(rows: Sequence[TopicStatus]) -> TopicStatus:
    """Returns one row for the topics without room on the screen. Unknown lags count as none."""
    return structs.replace(
        rows[0],
        topic=f"and {count(len(rows), 'topic')} more",
        records=sum(row.records for row in rows),
        records_per_s=sum(row.records_per_s for row in rows),
        bytes_per_s=sum(row.bytes_per_s for row in rows),
        lag_records=sum(row.lag_records or 0 for row in rows),
        lag_ms=max(row.lag_ms or 0 for row in rows),
    )


def _kept(rows: Sequence[dict[str, str]], width: int) -> list[str]:
    """Returns the columns that fit next to the topic's name, or next to TEXT_AT_LEAST of its
    characters."""
    names = min(TEXT_AT_LEAST, max((len(row["topic"]) for row in rows), default=0))
    widths = {
        name: max(len(name), *(len(row[name]) for row in rows)) if rows else len(name)
        for name in _FIGURES
    }
    kept = list(_FIGURES)
    for name in _OMITTED:
        if names + sum(2 + widths[each] for each in kept) + 2 <= width:
            break
        kept.remove(name)
    return kept


def _urgency(row: TopicStatus) -> tuple[int, int, float]:
    return (rank(row.state), -(row.lag_records or 0), -row.records_per_s)
