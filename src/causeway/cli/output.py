"""Lines and tables on stdout."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from causeway.cli.words import printable


class Output(Console):
    """Takes every string for data: a pattern such as `[a-z]+` is no markup here, and a name that
    somebody else chose gives the terminal no orders. What is to have a style is a `Text`."""

    def __init__(self) -> None:
        # Piped output gets lines as long as they need to be.
        width = None if sys.stdout.isatty() else 10_000
        super().__init__(markup=False, emoji=False, highlight=False, width=width)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)
