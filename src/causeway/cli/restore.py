"""`causeway restore FILE --from PATH --cluster B`: an archive's topics to a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from causeway.cli.archive import TopicOption, patterns_of, say
from causeway.cli.common import FileArgument, load


def command(
    file: FileArgument,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PATH",
            help="Folder that `causeway archive` wrote to.",
            show_default=False,
        ),
    ],
    cluster: Annotated[
        str,
        typer.Option("--cluster", metavar="ALIAS", help="Where to write to.", show_default=False),
    ],
    topic: TopicOption = None,
    into_existing: Annotated[
        bool,
        typer.Option(
            "--into-existing",
            help="Add to topics that hold other records already; what is there is not compared.",
        ),
    ] = False,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", help="Of topics that are made; -1: the cluster's default."
        ),
    ] = -1,
) -> int:
    """Write an archive's records back: key, value, headers, time and partition, in order, once.

    Ended in the middle, however, it goes on where it was when it is run again.
    """
    from causeway.operate.archive.restore import restore

    done = restore(
        load(file),
        file,
        source,
        alias=cluster,
        patterns=patterns_of(topic),
        into_existing=into_existing,
        replication_factor=replication_factor,
        say=say,
    )
    say(f"{sum(each.records for each in done)} records of {len(done)} topics are on {cluster}")
    return 0
