"""Lines and tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from causeway.cli.words import printable, printable_lines


class Output(Console):
    """Takes every string for data: a pattern such as `[a-z]+` is no markup here, and a name that
    somebody else chose gives the terminal no orders. Pass a `Text` for a style.

    A string becomes one line. A `Text` keeps its line ends, so pass text of others through
    `printable` before it becomes a `Text`; its other control characters are escaped here.
    """

    def __init__(self) -> None:
        # Piped output gets lines as long as they need to be.
        width = None if sys.stdout.isatty() else 10_000
        super().__init__(markup=False, emoji=False, highlight=False, width=width)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for each in super().render(renderable, options):
            if each.control or each.text == "\n" or each.text.isprintable():
                yield each
            else:
                yield Segment(printable_lines(each.text), each.style)
