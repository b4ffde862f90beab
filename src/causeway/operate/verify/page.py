"""A report as one HTML page that asks nobody for anything: to be kept, or sent along."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template

from causeway.operate.verify.outcome import Difference
from causeway.operate.verify.report import PartitionReport, Report, Verdict

_MOST_ROWS = 5_000  # of a table
_STYLES = {
    Verdict.AGREES: "good",
    Verdict.IN_PART: "odd",
    Verdict.NOT_COMPARED: "odd",
    Verdict.DIFFERS: "bad",
}
_NUMBERS = frozenset(
    {"partitions", "source offset", "target offset", "records", "MB", "checksum", "partition"}
    | {"source offsets", "target offsets", "byte by byte"}
)

Cell = str | tuple[str, str]  # text, or text and class


def render(report: Report) -> str:
    """The whole page. Every name in it is escaped; it holds no record's content."""
    headline, style = _headline(report)
    template = Template((files("causeway.operate.verify") / "page.html").read_text("utf-8"))
    began = datetime.fromtimestamp(report.began / 1000, UTC)
    return template.substitute(
        title=escape(f"verify: {headline}"),
        headline=escape(headline),
        style=style,
        when=escape(f"begun {began:%Y-%m-%d %H:%M:%S} UTC, done in {report.seconds:,.1f} s"),
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
        return "What was compared agrees; not all could be compared", "odd"
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
        "of them agree": f"{report.count(Verdict.AGREES):,}",
        "differ": f"{report.count(Verdict.DIFFERS):,}",
        "agree in part": f"{report.count(Verdict.IN_PART):,}",
        "not compared": f"{report.count(Verdict.NOT_COMPARED):,}",
        "records that agree": f"{report.records:,}",
        "MB that agree": f"{report.size / 1e6:,.1f}",
    }
    return (
        "<dl>"
        + "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in figures.items())
        + ("</dl>")
    )


def _places(each: Difference) -> tuple[Cell, ...]:
    source = f"{each.source:,}" if each.source >= 0 else "–"
    detail = each.detail
    if each.other is not None and each.kind.value == "swapped":
        detail = f"with source offset {each.other[0]:,}, at target offset {each.other[1]:,}"
    elif each.other is not None:
        detail = f"it is at target offset {each.other[1]:,} already"
    return source, f"{each.target:,}", f"{each.records:,}", detail


def _topics(partitions: Iterable[PartitionReport]) -> Iterator[tuple[Cell, ...]]:
    by_topic: dict[tuple[str, str, str], list[PartitionReport]] = defaultdict(list)
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
        "–" if one.target_partition is None else f"{one.target_topic}-{one.target_partition}",
        _span(one.source_from, one.source_to),
        _span(one.target_from, one.target_to),
        f"{one.records:,}",
        f"{one.as_they_are:,}",
        f"{one.checksum:016x}",
        (one.verdict, _STYLES[one.verdict]),
    )


def _span(start: int, end: int) -> str:
    return "–" if start < 0 else f"{start:,} to {end:,}"


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
    # So that who has no mouse can move it sideways.
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
