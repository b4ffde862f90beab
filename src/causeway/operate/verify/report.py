"""The report of `verify`: values, JSON, and an HTML page without external resources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import msgspec

from causeway.link_topics import Value
from causeway.operate.verify.outcome import Difference, DifferenceKind
from causeway.operate.verify.plan import NotCompared


class Agreement(StrEnum):
    AGREES = "agrees"
    IN_PART = "agrees in part"  # all compared records agree; some were not compared
    NOT_COMPARED = "not compared"
    DIFFERS = "differs"


class PartitionReport(
    Value,
    rename={
        "as_they_are": "records_byte_by_byte",
        "before": "records_before",
        "by_offset": "offsets_compared",
        "size": "bytes",
        "different": "records_different",
        "left": "not_compared",
    },
):
    """The result for one source partition and one target partition that it feeds (None if none).

    `source_offsets`, `target_offsets`: the first compared offset, and the one after the last; None
    if there are none. `records`, `size` (bytes on the source) and `checksum` (hexadecimal) count
    the records that agree, including `before`: records that agreed in an earlier call.
    `as_they_are`: the records compared byte by byte, in whole batches. `by_offset`: the partition
    preserves offsets, so each record was compared with the record at the same offset. `different`:
    the number of records that differ; `differences` may list fewer.
    """

    link: str
    topic: str
    partition: int
    target_topic: str | None
    target_partition: int | None
    verdict: Agreement
    by_offset: bool = False
    source_offsets: tuple[int, int] | None = None
    target_offsets: tuple[int, int] | None = None
    records: int = 0
    as_they_are: int = 0
    before: int = 0
    size: int = 0
    checksum: str = f"{0:016x}"
    different: int = 0
    differences: tuple[Difference, ...] = ()
    left: tuple[NotCompared, ...] = ()

    @property
    def mirror(self) -> str:
        if self.target_partition is None:
            return self.target_topic or "–"
        return f"{self.target_topic}-{self.target_partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`began`: ms since 1970. `seconds`: the total duration; `comparing_s`: the part after the
    lanes started."""

    partitions: tuple[PartitionReport, ...]
    began: int
    seconds: float
    comparing_s: float = 0.0

    @property
    def differs(self) -> bool:
        """Whether there is a difference anywhere."""
        return any(one.verdict is Agreement.DIFFERS for one in self.partitions)

    @property
    def complete(self) -> bool:
        """Whether there was something to compare, and everything was compared."""
        return bool(self.partitions) and not any(one.left for one in self.partitions)

    @property
    def agrees(self) -> bool:
        """Whether all was compared and agrees."""
        return self.complete and not self.differs

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.partitions)

    def count(self, verdict: Agreement) -> int:
        return sum(one.verdict is verdict for one in self.partitions)


def as_json(report: Report) -> dict[str, Any]:
    """Returns JSON for `--json`. The keys are stable; null means that there is no value."""
    return {
        "agrees": report.agrees,
        "differs": report.differs,
        "complete": report.complete,
        "began_ms": report.began,
        "seconds": round(report.seconds, 3),
        "comparing_seconds": round(report.comparing_s, 3),
        "records": report.records,
        "bytes": report.size,
        "partitions": msgspec.to_builtins(report.partitions),
    }


def span(offsets: tuple[int, int] | None) -> str:
    return "–" if offsets is None else f"{offsets[0]:,} to {offsets[1]:,}"


_MOST_ROWS = 5_000  # of a table
_STYLES = {
    Agreement.AGREES: "good",
    Agreement.IN_PART: "odd",
    Agreement.NOT_COMPARED: "odd",
    Agreement.DIFFERS: "bad",
}
_NUMBERS = frozenset(
    {"partitions", "source offset", "target offset", "records", "MB", "checksum", "partition"}
    | {"source offsets", "target offsets", "byte by byte"}
)

Cell = str | tuple[str, str]  # text, or text and class


def render(report: Report) -> str:
    """Returns the page as HTML. All names are escaped; it contains no content of records."""
    headline, style = _headline(report)
    template = Template((files("causeway.operate.verify") / "page.html").read_text("utf-8"))
    began = datetime.fromtimestamp(report.began / 1000, UTC)
    return template.substitute(
        title=escape(f"verify: {headline}"),
        headline=escape(headline),
        style=style,
        when=escape(f"started {began:%Y-%m-%d %H:%M:%S} UTC, took {report.seconds:,.1f} s"),
        body="\n".join(_body(report)),
    )


def _headline(report: Report) -> tuple[str, str]:
    different = sum(one.different for one in report.partitions)
    if report.differs:
        many = f"{different:,} records differ" if different != 1 else "1 record differs"
        return f"Source and target differ: {many}", "bad"
    if not report.partitions:
        return "Nothing is mirrored, so nothing was compared", "odd"
    if not report.complete:
        return "All compared records agree; not all could be compared", "odd"
    return "Source and target agree", "good"


def _body(report: Report) -> Iterator[str]:
    yield _figures(report)
    yield from _table(
        "Differences",
        ("topic", "partition", "kind", "source offset", "target offset", "records", "detail"),
        [
            (one.topic, str(one.partition), (each.kind, "bad"), *_places(each))
            for one in report.partitions
            for each in one.differences
        ],
    )
    yield from _table(
        "Not compared",
        ("topic", "partition", "why"),
        [
            (one.topic, str(one.partition), each.text)
            for one in report.partitions
            for each in one.left
        ],
    )
    yield from _table(
        "Topics",
        ("flow", "topic", "mirror", "partitions", "records", "MB", "verdict"),
        list(_topics(report.partitions)),
    )
    yield "<details><summary>Each partition</summary>"
    yield from _table("", _PARTITION, [_partition(one) for one in report.partitions])
    yield "</details>"


def _figures(report: Report) -> str:
    figures = {
        "partitions": f"{len(report.partitions):,}",
        "of them agree": f"{report.count(Agreement.AGREES):,}",
        "differ": f"{report.count(Agreement.DIFFERS):,}",
        "agree in part": f"{report.count(Agreement.IN_PART):,}",
        "not compared": f"{report.count(Agreement.NOT_COMPARED):,}",
        "records that agree": f"{report.records:,}",
        "MB that agree": f"{report.size / 1e6:,.1f}",
    }
    terms = "".join(f"<div><dt>{name}</dt><dd>{figures[name]}</dd></div>" for name in figures)
    return f"<dl>{terms}</dl>"


def _places(each: Difference) -> tuple[Cell, ...]:
    source = "–" if each.source is None else f"{each.source:,}"
    detail = each.detail or ""
    if each.other is not None and each.kind is DifferenceKind.SWAPPED:
        detail = f"with source offset {each.other[0]:,}, at target offset {each.other[1]:,}"
    elif each.other is not None:
        detail = f"the first copy is at target offset {each.other[1]:,}"
    return source, f"{each.target:,}", f"{each.records:,}", detail


def _topics(partitions: Iterable[PartitionReport]) -> Iterator[tuple[Cell, ...]]:
    by_topic: dict[tuple[str, str, str | None], list[PartitionReport]] = defaultdict(list)
    for one in partitions:
        by_topic[one.link, one.topic, one.target_topic].append(one)
    worst = list(_STYLES)
    for (link, topic, target), found in by_topic.items():
        verdict = max((one.verdict for one in found), key=worst.index)
        yield (
            link,
            topic,
            target or "–",
            f"{len({one.partition for one in found}):,}",
            f"{sum(one.records for one in found):,}",
            f"{sum(one.size for one in found) / 1e6:,.1f}",
            (verdict, _STYLES[verdict]),
        )


_PARTITION = (
    *("topic", "partition", "mirror", "source offsets", "target offsets"),
    *("records", "byte by byte", "checksum", "verdict"),
)


def _partition(one: PartitionReport) -> tuple[Cell, ...]:
    return (
        one.topic,
        str(one.partition),
        "–" if one.target_partition is None else one.mirror,
        span(one.source_offsets),
        span(one.target_offsets),
        f"{one.records:,}",
        f"{one.as_they_are:,}",
        one.checksum,
        (one.verdict, _STYLES[one.verdict]),
    )


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    if not rows:
        return
    if title:
        yield f"<h2>{escape(title)}</h2>"
    kinds = ["n" if name in _NUMBERS else "name" for name in columns]
    heads = "".join(
        f'<th scope="col" class="{kind}">{escape(name)}</th>'
        for name, kind in zip(columns, kinds, strict=True)
    )
    # Focusable: the keyboard can scroll it.
    label = escape(title or "Each partition", quote=True)
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{label}">'
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
    for row in rows[:_MOST_ROWS]:
        yield f"<tr>{''.join(map(_cell, row, kinds))}</tr>"
    yield "</tbody></table></div>"
    if len(rows) > _MOST_ROWS:
        yield f"<p>{len(rows) - _MOST_ROWS:,} more are in the JSON report.</p>"


def _cell(cell: Cell, kind: str) -> str:
    if isinstance(cell, tuple):
        return f'<td class="{kind} {cell[1]}">{escape(str(cell[0]))}</td>'
    return f'<td class="{kind}">{escape(cell)}</td>'
