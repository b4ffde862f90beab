"""The rule for commands that end, move or turn round a mirror: without --yes they only show what
they would do. See docs/decisions/0060-show-then-yes.md."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from causeway.cli.guard import complain

UNCONFIRMED: Final = 2  # exit code

YesOption = Annotated[
    bool, typer.Option("--yes", help="Do it. Without --yes it is only shown: exit code 2.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only show it, also with --yes: exit code 0.")
]


def unconfirmed(*, dry_run: bool) -> int:
    """The exit code of a command that has shown what it would change. Without `dry_run` it is not
    0 and stderr says why: a script that forgets --yes must not go on."""
    if dry_run:
        return 0
    complain("nothing was changed; call it again with --yes to do it")
    return UNCONFIRMED
