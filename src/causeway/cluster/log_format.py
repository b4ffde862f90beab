"""The format in which a broker writes its logs, which one before Kafka 3.0 may still be told.

Batches know who wrote them since Kafka 0.11. A log of an older format refuses what an idempotent
producer sends, so a topic that Causeway writes to must not have one.
"""

from __future__ import annotations

import re
from typing import Final

TOPIC_CONFIG: Final = "message.format.version"
BROKER_CONFIG: Final = "log.message.format.version"
# All brokers that we take to (those with topic ids) know it.
KNOWN_TO_ALL: Final = "2.8"


def knows_producers(version: str | None) -> bool:
    """Of one of these configs' values; None where there is none, as since Kafka 4.0."""
    return version is None or re.match(r"0\.([0-9]|10)(\.|-|$)", version) is None
