"""What stdout and stderr take: characters that they lack are spelled, and a reader may go early."""

from __future__ import annotations

import codecs
import os
import sys
from typing import Final

_HANDLER: Final = "causeway-spelled"
# Of our own texts, as a terminal without Unicode has them; `?` for all else.
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
    """Has stdout and stderr take every character, whatever the terminal's encoding."""
    codecs.register_error(_HANDLER, _spell)
    for stream in (sys.stdout, sys.stderr):
        # Tests put other streams here.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not is_unicode(stream.encoding):
            reconfigure(errors=_HANDLER)


def is_unicode(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("_", "-").startswith("utf")


def silence(descriptor: int) -> None:
    """Nobody reads it any more: nothing that is still written to it may fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_SPELLED.get(character, "?") for character in text), error.end
