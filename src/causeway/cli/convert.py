"""`causeway convert | diff FILE`: settings in another format, and compared with MirrorMaker 2."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import console, grid, print_json, styled
from causeway.cli.guard import warn
from causeway.cli.options import JsonOption
from causeway.cli.words import count
from causeway.errors import ConfigError
from causeway.model import BROKERS_PAGE

if TYPE_CHECKING:
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
        typer.Option("--out", "-o", metavar="OUT", help="The file to write. Default: stdout."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORM",
            help="properties or causeway (causeway.yaml). Default: causeway for a property file,"
            " otherwise properties.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of causeway.yaml instead.")
    ] = False,
) -> int:
    """Convert FILE to another format, without loss.

    References such as ${env:VAR} are kept. Of the comments, only those at the top of the file are
    kept."""
    from causeway.formats import Form, default_form, is_yaml
    from causeway.formats import convert as translated

    if schema:
        from causeway.formats import schema_text

        sys.stdout.write(schema_text())
        return 0
    if file is None:
        raise ConfigError("convert", cause="FILE is missing", remedy="give FILE or --schema")
    if to is not None and to not in [*Form]:
        known = ", ".join(Form)
        raise ConfigError("read option", f"--to {to}", f"it must be one of {known}")
    form = default_form(file) if to is None else Form(to)
    if out is not None and is_yaml(out) is (form is Form.PROPERTIES):
        raise ConfigError(
            "convert",
            str(file),
            f"it becomes {_FORMS[form]}, but the name {out} is for another format",
        )
    found = translated(file, form)
    warn(found.notes)
    if found.carried:
        warn([f"kept unchanged under properties: {', '.join(found.carried)}"])
    if out is None:
        sys.stdout.write(found.text)
        return 0
    if found.files and out.resolve().parent != file.resolve().parent:
        named = ", ".join(found.files)
        warn([f"{out} is in another directory, so these relative paths change: {named}"])
    _write(out, found.text, like=file, force=force)
    return 0


def _write(out: Path, text: str, *, like: Path, force: bool) -> None:
    """Gives `out` the permissions of `like`, which may contain passwords."""
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
            "write", str(out), "the file exists", remedy="--force overwrites it"
        ) from None
    except OSError as error:
        raise ConfigError("write", str(out), (error.strerror or str(error)).lower()) from None


def diff(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A MirrorMaker 2 property file, or another file that `causeway run` accepts.",
            show_default=False,
        ),
    ],
    as_json: JsonOption = False,
    every: Annotated[
        bool, typer.Option("--all", help="Also list the keys that act as in MirrorMaker 2.")
    ] = False,
) -> int:
    """Compare how MirrorMaker 2 and Causeway read a file: keys with effect, and differences.

    Reads the file only; connects to no cluster.
    """
    from causeway.mm2_diff import compare

    found = compare(file)
    if as_json:
        print_json({**found.as_json(), "brokers": BROKERS_PAGE})
    else:
        _show_comparison(console(), found, every=every)
    return 0


def _show_comparison(out: Output, found: Comparison, *, every: bool) -> None:
    from causeway.config.reading import KeyEffect

    acting = found.of(KeyEffect.ACTS)
    rest = [
        key
        for use in KeyEffect
        for key in found.of(use)
        if every or use is not KeyEffect.ACTS or key.note
    ]
    out.print(
        styled(found.file, "bold"),
        f": {', '.join(found.flows) or 'no flow is enabled'}; {count(len(found.keys), 'key')},"
        f" of which {len(acting)} act as in MirrorMaker 2",
        sep="",
    )
    for line in found.refused:
        out.print(styled("refused", "red"), line)
    if rest:
        table = grid("key", ">line", "here", "reason, or what to do")
        for key in rest:
            table.add_row(key.key, str(key.line), key.use, key.note)
        out.print()
        out.print(table)
    if found.differences:
        alone = len(found.flows) == 1
        headings = ("", "MirrorMaker 2", "Causeway", "to change it")
        table = grid(*headings) if alone else grid(*headings[:1], "flows", *headings[1:])
        for one in found.differences:
            flows = "all" if one.flows == found.flows else ", ".join(one.flows)
            before = [one.what] if alone else [one.what, flows]
            table.add_row(*before, one.mirror_maker, one.causeway, one.key)
        out.print()
        out.print(table)
    out.print()
    out.print(
        f"for brokers other than Apache Kafka see {BROKERS_PAGE}; `causeway plan` checks yours"
    )
