"""Every command runs inside `guarded`: an error is one line and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable

import typer

from causeway.cli import streams
from causeway.cli.exit_codes import INTERRUPTED, UNREAD
from causeway.cli.words import printable, printable_lines
from causeway.errors import CausewayError, OtherFormError


def debugging() -> bool:
    """Whether tracebacks are wanted: `--debug`, or CAUSEWAY_DEBUG=1."""
    return os.environ.get("CAUSEWAY_DEBUG", "") not in ("", "0")


def guarded(action: Callable[[], int | None]) -> int:
    """Run `action` and return the exit code. Prints an error in one line on stderr, followed by the
    file to write instead, if there is one."""
    streams.fit()
    try:
        code = action() or 0
        sys.stdout.flush()  # so that a closed pipe shows here, not at the interpreter's end
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _unread()
    except SystemExit as error:  # how libraries end a process whose output is not read
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
        complain(f"internal error: {text} (the same with --debug shows where)")
        return 1
    return code


def _unread() -> int:
    """Discard the rest of the output: its reader has ended (`| head`). Returns the exit code."""
    streams.silence(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return UNREAD


def complain(text: str) -> None:
    _say("error", text)


def warn(warnings: Iterable[str]) -> None:
    """Each once, however often it was found."""
    for text in dict.fromkeys(warnings):
        _say("warning", text)


def _say(kind: str, text: str) -> None:
    """One line, whatever `text` holds: a broker's message, or a list of problems."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    said = printable("; ".join(line for line in lines if line))
    try:
        print(f"causeway: {kind}: {said}", file=sys.stderr)
    except BrokenPipeError:  # the command goes on without its messages
        streams.silence(sys.stderr.fileno())


def _trace() -> None:
    if debugging():
        print(printable_lines(traceback.format_exc()), end="", file=sys.stderr)
