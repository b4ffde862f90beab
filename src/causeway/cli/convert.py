"""`causeway convert FILE`: a file of settings in another form."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from causeway.cli.guard import warn
from causeway.errors import ConfigError

_FORMS = {
    "properties": "a property file",
    "causeway": "a causeway.yaml",
}


def command(
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
    from causeway.formats import Form, convert, default_form, is_yaml

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
    found = convert(file, form)
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
