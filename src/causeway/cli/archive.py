"""`causeway archive | restore FILE`: topics to Parquet files, and back to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from causeway.cli.common import load, with_chosen
from causeway.cli.options import FileArgument, valued
from causeway.cli.words import printable

if TYPE_CHECKING:
    from causeway.patterns import Pattern

TopicOption = Annotated[
    list[str] | None,
    valued(
        "--topic",
        "PATTERN",
        "Only topics whose whole name matches this regular expression. Can be repeated.",
    ),
]


def archive(
    file: FileArgument,
    to: Annotated[
        str,
        valued(
            "--to",
            "PATH",
            "Directory of the archive: a path, or a URL that Spark supports (hdfs, s3a, …).",
        ),
    ],
    cluster: Annotated[
        str | None,
        valued(
            "--cluster",
            "ALIAS",
            "The cluster of the topics. Default: the source, if the file has only one.",
        ),
    ] = None,
    link: Annotated[
        str | None,
        valued("--link", "A->B", "Only topics that this flow mirrors."),
    ] = None,
    topic: TopicOption = None,
    allow_loss: Annotated[
        bool,
        typer.Option(
            "--allow-loss",
            help="Continue if records were deleted before they were archived.",
        ),
    ] = False,
) -> int:
    """Write topics to Parquet files by topic and day. A second run continues after the first."""
    from causeway.operate.archive import archive as write

    write(
        with_chosen(load(file)),
        file,
        to,
        alias=cluster,
        link=link,
        patterns=_patterns(topic),
        allow_loss=allow_loss,
        say=_say,
    )
    return 0


def restore(
    file: FileArgument,
    source: Annotated[
        str,
        valued("--from", "PATH", "Directory of an archive that `causeway archive` wrote."),
    ],
    cluster: Annotated[
        str,
        valued("--cluster", "ALIAS", "The cluster to write to."),
    ],
    topic: TopicOption = None,
    into_existing: Annotated[
        bool,
        typer.Option(
            "--into-existing",
            help="Append to topics that have records; the existing records are not compared.",
        ),
    ] = False,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            help="Replication factor of created topics; -1: the cluster's default.",
        ),
    ] = -1,
) -> int:
    """Write an archive to a cluster: key, value, headers, time, partition, in order, exactly once.

    After an interruption, a second run continues where the first ended.
    """
    from causeway.operate.archive import restore as write_back

    done = write_back(
        with_chosen(load(file)),
        file,
        source,
        alias=cluster,
        patterns=_patterns(topic),
        into_existing=into_existing,
        replication_factor=replication_factor,
        say=_say,
    )
    _say(f"{sum(each.records for each in done)} records of {len(done)} topics are on {cluster}")
    return 0


def _patterns(topics: list[str] | None) -> tuple[Pattern, ...]:
    """Raises ConfigError."""
    from causeway.patterns import compile_pattern

    return tuple(compile_pattern(text)[0] for text in topics or ())


def _say(line: str) -> None:
    """Prints a line of progress. Flushes it, also if the output is piped."""
    typer.echo(printable(line))
