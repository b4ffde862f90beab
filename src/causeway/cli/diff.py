"""`causeway diff FILE`: MirrorMaker 2's view of a file beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import JsonOption, console, print_json
from causeway.cli.words import count
from causeway.model import BROKERS_PAGE

if TYPE_CHECKING:
    from rich.table import Table

    from causeway.cli.output import Output
    from causeway.mm2_diff import Comparison


def command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A MirrorMaker 2 property file, or another that `causeway run` takes.",
            show_default=False,
        ),
    ],
    as_json: JsonOption = False,
    every: Annotated[
        bool, typer.Option("--all", help="Name also the keys that act as in MirrorMaker 2.")
    ] = False,
) -> int:
    """Compare what MirrorMaker 2 and Causeway do with a file: which of its keys act, what differs.

    Reads the file alone; no cluster needs to be there.
    """
    from causeway.mm2_diff import compare

    found = compare(file)
    if as_json:
        print_json({**found.as_json(), "brokers": BROKERS_PAGE})
    else:
        _show(console(), found, every=every)
    return 0


def _show(out: Output, found: Comparison, *, every: bool) -> None:
    from rich.text import Text

    from causeway.mm2_diff import KeyEffect

    acting = found.of(KeyEffect.ACTS)
    rest = [
        key
        for use in KeyEffect
        for key in found.of(use)
        if every or use is not KeyEffect.ACTS or key.note
    ]
    out.print(
        Text(found.file, "bold"),
        f": {', '.join(found.flows) or 'no flow is enabled'}; {count(len(found.keys), 'key')},"
        f" of which {len(acting)} act as in MirrorMaker 2",
        sep="",
    )
    for line in found.refused:
        out.print(Text("refused", "red"), line)
    if rest:
        table = _table("key", "line", "here", "why, or what to do")
        for key in rest:
            table.add_row(key.key, str(key.line), key.use, key.note)
        out.print()
        out.print(table)
    if found.differences:
        alone = len(found.flows) == 1
        headings = ("", "MirrorMaker 2", "Causeway", "to change it")
        table = _table(*headings) if alone else _table(*headings[:1], "flows", *headings[1:])
        for one in found.differences:
            flows = "all" if one.flows == found.flows else ", ".join(one.flows)
            before = [one.what] if alone else [one.what, flows]
            table.add_row(*before, one.mirror_maker, one.causeway, one.key)
        out.print()
        out.print(table)
    out.print()
    out.print(
        f"for brokers that are not Apache Kafka see {BROKERS_PAGE}; `causeway plan` checks yours"
    )


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if heading == "line" else "left")
    return table
