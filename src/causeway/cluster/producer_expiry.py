"""How long a broker surely knows a producer's sequences.

It forgets a producer whose newest record is older than a day, and looks for such ones every 10
minutes (producer.id.expiration.*). One that it has forgotten may send any first sequence.
"""

from __future__ import annotations

import time
from typing import Final

YOUNG_S: Final = 12 * 60 * 60.0
REMEMBERED_S: Final = 60.0
"""After an answer: in a longer silence the producer of old records may be forgotten."""


def is_young(timestamp_ms: int) -> bool:
    """Whether a broker surely remembers the producer of a record of that time."""
    return timestamp_ms / 1000 > time.time() - YOUNG_S


def young_since_ms() -> int:
    """Records of that time are just young enough."""
    return int((time.time() - YOUNG_S) * 1000)
