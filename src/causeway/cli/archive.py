"""`causeway archive FILE --to PATH`: topics to Parquet, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import FileArgument, load
from causeway.cli.words import printable

if TYPE_CHECKING:
    from causeway.patterns import Pattern

TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="PATTERN",
        help="Only topics whose whole name matches this regular expression; may be repeated.",
        show_default=False,
    ),
]


def command(
    file: FileArgument,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PATH",
            help="Folder of the archive: a path, or a URL that Spark knows (hdfs, s3a, …).",
            show_default=False,
        ),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ALIAS",
            help="Whose topics. Default: the source, where the file has one.",
            show_default=False,
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            "--link", metavar="A->B", help="The topics that this flow mirrors.", show_default=False
        ),
    ] = None,
    topic: TopicOption = None,
    allow_loss: Annotated[
        bool,
        typer.Option(
            "--allow-loss",
            help="Go on where records were deleted before they were archived.",
        ),
    ] = False,
) -> int:
    """Write what topics hold to Parquet, by topic and day. Run again, it goes on where it ended."""
    from causeway.operate.archive.archive import archive

    archive(
        load(file),
        file,
        to,
        alias=cluster,
        link=link,
        patterns=patterns_of(topic),
        allow_loss=allow_loss,
        say=say,
    )
    return 0


def patterns_of(topics: list[str] | None) -> tuple[Pattern, ...]:
    """Raises ConfigError."""
    from causeway.patterns import compile_pattern

    return tuple(compile_pattern(text)[0] for text in topics or ())


def say(line: str) -> None:
    """A line of progress, at once also where output is piped."""
    typer.echo(printable(line))
