"""Make stdout and stderr accept every character, and survive a reader that stops early."""

from __future__ import annotations

import codecs
import os
import sys
from typing import Final

_HANDLER: Final = "causeway-spelled"
# How a terminal without Unicode shows the characters of our texts; all others become `?`.
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


def fit() -> None:
    """Make stdout and stderr accept every character in any encoding."""
    codecs.register_error(_HANDLER, _spell)
    for stream in (sys.stdout, sys.stderr):
        # Tests replace these streams.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not is_unicode(stream.encoding):
            reconfigure(errors=_HANDLER)


def is_unicode(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("_", "-").startswith("utf")


def silence(descriptor: int) -> None:
    """Discard everything that is written to `descriptor`, so that no write fails."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_SPELLED.get(character, "?") for character in text), error.end
