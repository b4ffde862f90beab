"""Directives that stand, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from causeway.cli.words import moment, printable, size

if TYPE_CHECKING:
    from rich.text import Text

    from causeway.link_topics import Directive


def standing(directives: Iterable[Directive]) -> Iterator[Text]:
    """A line for each, but for what is chosen, and for the topics of a link that has ended as a
    whole."""
    from rich.text import Text

    from causeway.control import geo_topics
    from causeway.link_topics import (
        THE_LINK,
        BeginDirective,
        CutoverDirective,
        EndDirective,
        FenceDirective,
        PauseDirective,
        ThrottleDirective,
    )

    directives = geo_topics.without_chosen(directives)
    ended = any(isinstance(each, EndDirective) and each.scope == THE_LINK for each in directives)
    for each in directives:
        if isinstance(each, BeginDirective):
            continue  # done once, and of no matter since
        if isinstance(each, EndDirective) and ended and each.scope != THE_LINK:
            continue
        if isinstance(each, ThrottleDirective):
            to = "no limit" if each.bytes_per_s is None else f"{size(each.bytes_per_s)}/s"
            what, about = "throttled", f"{each.scope} to {to}"
        elif isinstance(each, FenceDirective):
            what, about = "fenced", f"{each.scope} until {moment(each.until)} (driver's clock)"
        elif isinstance(each, CutoverDirective):
            what, about = "cut over", str(each.scope)
        elif isinstance(each, EndDirective):
            what, about = each.how.value, str(each.scope)
        elif isinstance(each, PauseDirective):
            what, about = ("paused" if each.paused else "not paused"), str(each.scope)
        yield Text.assemble((what, "magenta"), " ", printable(f"{about} {each.by}"))
