"""`causeway explain FILE NAME`: why a topic, partition or group is mirrored, or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, load, print_json, styled, waiting, with_chosen
from causeway.cli.options import FileArgument, JsonOption, LinkOption, argument
from causeway.errors import ConfigError

if TYPE_CHECKING:
    from causeway.cli.output import Output
    from causeway.operate.explain import Explanation

_WIDTH = 10  # of the labels


def command(
    file: FileArgument,
    name: Annotated[
        str,
        argument(
            "NAME",
            "A topic by its name on the source, one of its partitions such as orders-3, or a "
            "consumer group.",
        ),
    ],
    link: LinkOption = None,
    topic: Annotated[bool, typer.Option("--topic", help="NAME is a topic.")] = False,
    group: Annotated[bool, typer.Option("--group", help="NAME is a group.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Explain why a topic, partition or group is mirrored or synced, or not, and what to do.

    Reads the clusters only. If a cluster does not answer, the output lists what is not known.
    """
    from causeway.operate.explain import SubjectKind, as_json_of, explain

    if topic and group:
        raise ConfigError(
            "explain", name, "--topic and --group exclude each other", remedy="give one of them"
        )
    kind = SubjectKind.TOPIC if topic else SubjectKind.GROUP if group else None
    settings = with_chosen(load(file, quiet=True))
    with waiting() as say:
        say("asking the clusters")
        found = explain(settings, name, kind=kind, link=link)
    if as_json:
        print_json({"explanations": [as_json_of(each) for each in found]})
    else:
        out = console()
        for place, each in enumerate(found):
            if place:
                out.print()
            show(out, each, file)
    return 0


def show(out: Output, each: Explanation, file: Path) -> None:
    style = {True: "green", False: "red", None: "yellow"}[each.done]
    out.print(styled(each.link, "bold"), f"{each.kind} {each.name}:", styled(each.code, style))
    _line(out, "", each.answer)
    if each.rule is not None:
        _line(out, "rule", str(each.rule))
    for fact in each.facts:
        _line(out, fact.about, fact.text)
    for text in each.unknown:
        _line(out, "not known", text, "yellow")
    for text in each.to_do:
        _line(out, "to do", text.replace(" FILE", f" {file}"), "bold")


def _line(out: Output, about: str, text: str, style: str = "dim") -> None:
    """Prints a label and a text. The lines of a long text are aligned."""
    from rich.table import Table

    from causeway.cli.words import printable

    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=_WIDTH, overflow="fold")
    row.add_column(overflow="fold")
    row.add_row(styled(printable(about), style), styled(printable(text)))
    out.print(row)
