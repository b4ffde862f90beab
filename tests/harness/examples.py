"""How many examples Hypothesis tries: a part of them in `make test`, all of them in `make slow`."""

from __future__ import annotations

import os

# CAUSEWAY_EXAMPLES is the share of them that is tried.
_SHARE = float(os.environ.get("CAUSEWAY_EXAMPLES", "0.25"))
_LEAST = 10


def examples(of: int) -> int:
    """What is tried of so many."""
    return max(min(of, _LEAST), round(of * _SHARE))
