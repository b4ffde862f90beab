"""Runs commands: an error becomes one line on stderr and an exit code, never a traceback.

Also makes stdout and stderr accept every character, and survive a reader that stops early.
"""

from __future__ import annotations

import codecs
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Final

import typer

from causeway.cli.commands import INTERRUPTED, UNREAD
from causeway.cli.words import printable, printable_lines
from causeway.errors import CausewayError, OtherFormError

UNCONFIRMED: Final = 2  # exit code
_HANDLER: Final = "causeway-spelled"
# The characters of our texts on a terminal without Unicode; all others become `?`.
_SPELLED: Final = {
    "…": "...",
    "·": "-",
    "→": "->",
    "←": "<-",
    "–": "-",
    "—": "-",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "•": "*",
    "≥": ">=",
    "≤": "<=",
    "×": "x",
    "µ": "u",
}


def debugging() -> bool:
    """Whether to show tracebacks: `--debug`, or CAUSEWAY_DEBUG=1."""
    return os.environ.get("CAUSEWAY_DEBUG", "") not in ("", "0")


def guarded(action: Callable[[], int | None]) -> int:
    """Runs `action`. Returns the exit code. Prints an error as one line on stderr; the settings of
    an OtherFormError follow it."""
    fit_streams()
    try:
        code = action() or 0
        sys.stdout.flush()  # reports a closed pipe here, not when the interpreter ends
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _unread()
    except SystemExit as error:  # raised by libraries when the output is not read
        if isinstance(error.__context__, BrokenPipeError):
            return _unread()
        raise
    except typer.Abort:
        return INTERRUPTED
    except typer.TyperException as error:
        complain(error.format_message())
        return 2
    except CausewayError as error:
        _trace()
        complain(str(error))
        if isinstance(error, OtherFormError):
            print(f"\n{error.instead}", end="", file=sys.stderr)
        return error.exit_code
    except Exception as error:
        _trace()
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        complain(f"internal error: {text} (--debug shows the traceback)")
        return 1
    return code


def _unread() -> int:
    """Discards the rest of the output after its reader ended (`| head`). Returns the exit code."""
    _silence(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return UNREAD


def complain(text: str) -> None:
    _say("error", text)


def warn(warnings: Iterable[str]) -> None:
    """Prints each warning once."""
    for text in dict.fromkeys(warnings):
        _say("warning", text)


def _say(kind: str, text: str) -> None:
    """Prints one line, even if `text` has several: a broker's message, or a list of problems."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    line = printable("; ".join(line for line in lines if line))
    try:
        print(f"causeway: {kind}: {line}", file=sys.stderr)
    except BrokenPipeError:  # the command continues without messages
        _silence(sys.stderr.fileno())


def _trace() -> None:
    if debugging():
        print(printable_lines(traceback.format_exc()), end="", file=sys.stderr)


def unconfirmed(*, dry_run: bool) -> int:
    """Returns the exit code of a command that has shown a change. Without `dry_run` it is not 0 and
    stderr gives the reason: a script that forgets --yes must not continue. See
    docs/decisions/0060-show-then-yes.md."""
    if dry_run:
        return 0
    complain("nothing was changed; repeat the command with --yes to change it")
    return UNCONFIRMED


def fit_streams() -> None:
    """Makes stdout and stderr accept every character in any encoding."""
    codecs.register_error(_HANDLER, _spell)
    for stream in (sys.stdout, sys.stderr):
        # Tests replace these streams.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not is_unicode(stream.encoding):
            reconfigure(errors=_HANDLER)


def is_unicode(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("_", "-").startswith("utf")


def _silence(descriptor: int) -> None:
    """Discards everything written to `descriptor`, so that no write fails."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_SPELLED.get(character, "?") for character in text), error.end
