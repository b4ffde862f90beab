"""Tables that fit a terminal without breaking names: a row that is too wide gets two lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from causeway.cli.words import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

Styles = Mapping[str, Mapping[str, str]]
TEXT_AT_LEAST: Final = 24  # characters of a column of text that wraps
_GAP: Final = 2
_INDENT: Final = "  "


class _Column(NamedTuple):
    title: str
    width: int  # of its title and of its widest cell
    figures: bool
    wraps: bool

    @property
    def least(self) -> int:
        return min(self.width, max(TEXT_AT_LEAST, len(self.title))) if self.wraps else self.width

    def justified(self, text: str) -> str:
        return text.rjust(self.width) if self.figures else text.ljust(self.width)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    spared: Collection[str] = (),
    styles: Styles = MappingProxyType({}),
) -> RenderableType:
    """`columns`: titles; `>` before a title: figures; `~`: text that may wrap. Where a row needs
    more than `width`, the columns before the first of these have a line of their own, once for all
    rows that follow each other and have the same there. `spared`: columns that the second line
    leaves out if it is too long still. `styles`: of cells, by the title of their column and by what
    they say."""
    rows = [tuple(map(printable, row)) for row in rows]
    known = [_column(title, [row[at] for row in rows]) for at, title in enumerate(columns)]
    if _needs(known) <= width:
        return _one_line(known, rows, styles)
    from rich.console import Group

    return Group(*_two_lines(known, rows, width, spared, styles))


def fits(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether `table` has all columns in one line."""
    found = (_column(title, [row[at] for row in rows]) for at, title in enumerate(columns))
    return _needs(list(found)) <= width


def _column(title: str, cells: Sequence[str]) -> _Column:
    plain = title.lstrip(">~")
    return _Column(
        title=plain,
        width=max(map(len, [plain, *cells])),
        figures=title.startswith(">"),
        wraps=title.startswith("~"),
    )


def _needs(columns: Collection[_Column]) -> int:
    return sum(each.least for each in columns) + _GAP * (len(columns) - 1)


def _one_line(
    columns: Sequence[_Column], rows: Sequence[Sequence[str]], styles: Styles
) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for each in columns:
        found.add_column(
            each.title,
            justify="right" if each.figures else "left",
            no_wrap=not each.wraps,
            min_width=None if each.wraps else each.width,
            overflow="fold",
        )
    for row in rows:
        found.add_row(
            *(
                Text(cell, styles.get(each.title, {}).get(cell, ""))
                for each, cell in zip(columns, row, strict=True)
            )
        )
    return found


def _two_lines(
    columns: Sequence[_Column],
    rows: Sequence[Sequence[str]],
    width: int,
    spared: Collection[str],
    styles: Styles,
) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    first = next(
        (at for at, each in enumerate(columns) if each.figures or each.wraps), len(columns)
    )
    names, rest = range(first), list(range(first, len(columns)))
    if _needs([columns[at] for at in rest]) + len(_INDENT) > width:
        rest = [at for at in rest if columns[at].title not in spared]
    figures = [at for at in rest if not columns[at].wraps]
    texts = [at for at in rest if columns[at].wraps]
    titles = [each.title for each in columns]

    def line(places: Sequence[int], cells: Sequence[str]) -> Text:
        parts = [
            Text(
                columns[at].justified(cells[at]),
                styles.get(columns[at].title, {}).get(cells[at], ""),
            )
            for at in places
        ]
        found = Text(" " * _GAP).join(parts)
        found.rstrip()
        return found

    yield Text.assemble(line(names, titles), style="bold")
    if figures:
        yield Text.assemble(_INDENT, line(figures, titles), style="bold")
    before: Sequence[str] | None = None
    for row in rows:
        if before is None or row[:first] != before[:first]:
            yield line(names, row)
        before = row
        if figures:
            yield Text.assemble(_INDENT, line(figures, row))
        for at in texts:
            if row[at]:
                yield Padding(Text(row[at]), (0, 0, 0, len(_INDENT)), expand=False)
