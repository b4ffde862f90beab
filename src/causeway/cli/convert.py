"""`causeway convert FILE`: a file of settings in another form."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, print_json
from causeway.cli.guard import warn
from causeway.cli.options import JsonOption
from causeway.cli.words import count
from causeway.errors import ConfigError
from causeway.model import BROKERS_PAGE

if TYPE_CHECKING:
    from rich.table import Table

    from causeway.cli.output import Output
    from causeway.mm2_diff import Comparison

_FORMS = {
    "properties": "a property file",
    "causeway": "a causeway.yaml",
}


def convert(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A MirrorMaker 2 property file, a causeway.yaml, a KafkaMirrorMaker2 resource, or"
            " the JSON of MirrorMaker 2's connectors in a Connect cluster.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="OUT", help="Where to; else it is printed."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORM",
            help="properties or causeway (causeway.yaml). Default: causeway for a property file,"
            " else properties.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over OUT if it is there.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of causeway.yaml instead.")
    ] = False,
) -> int:
    """Say FILE in another form, without loss.

    References such as ${env:VAR} stay as they are. Comments are kept at the file's top
    only."""
    from causeway.formats import Form, default_form, is_yaml
    from causeway.formats import convert as translated

    if schema:
        from causeway.formats import schema_text

        sys.stdout.write(schema_text())
        return 0
    if file is None:
        raise ConfigError("convert", cause="name a FILE", remedy="or ask for --schema")
    if to is not None and to not in [*Form]:
        known = ", ".join(Form)
        raise ConfigError("read option", f"--to {to}", f"it must be one of {known}")
    form = default_form(file) if to is None else Form(to)
    if out is not None and is_yaml(out) is (form is Form.PROPERTIES):
        raise ConfigError(
            "convert", str(file), f"it becomes {_FORMS[form]}, and {out} would be read as another"
        )
    found = translated(file, form)
    warn(found.notes)
    if found.carried:
        warn([f"carried along as they are, under properties: {', '.join(found.carried)}"])
    if out is None:
        sys.stdout.write(found.text)
        return 0
    if found.files and out.resolve().parent != file.resolve().parent:
        named = ", ".join(found.files)
        warn([f"{out} lies elsewhere, from where other files would be looked for: {named}"])
    _write(out, found.text, like=file, force=force)
    return 0


def _write(out: Path, text: str, *, like: Path, force: bool) -> None:
    """For those to read who may read `like`, which may hold passwords."""
    if out.exists() and out.samefile(like):
        raise ConfigError("write", str(out), "it is the file to convert")
    flags = os.O_WRONLY | os.O_CREAT | (0 if force else os.O_EXCL)
    try:
        mode = like.stat().st_mode & 0o666
        number = os.open(out, flags, mode)
        if force and (os.fstat(number).st_mode & 0o666) | mode != mode:
            os.fchmod(number, os.fstat(number).st_mode & mode)
        os.ftruncate(number, 0)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(
            "write", str(out), "it is there already", remedy="--force writes over it"
        ) from None
    except OSError as error:
        raise ConfigError("write", str(out), (error.strerror or str(error)).lower()) from None


def diff(
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
        _show_comparison(console(), found, every=every)
    return 0


def _show_comparison(out: Output, found: Comparison, *, every: bool) -> None:
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
