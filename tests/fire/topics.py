"""The topics of the fire, and the content that a reader of their mirrors must find."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PREFIX = "fire."
WRITERS = 10**9  # numbers of one writer: its own number times this, and more
NUMBER = "number"
_KEYS = 200

Kind = Literal["plain", "compacted", "retained", "preserved", "rules", "spark", "moves"]
RULES = "mask value.$.card keep last 4"
SQL = (
    "SELECT concat(value, '!') AS value FROM records "
    "WHERE cast(get_json_object(value, '$.n') AS bigint) % 7 <> 0"
)


@dataclass(slots=True)
class FireTopic:
    """`partitions` grows during the fire."""

    name: str
    kind: Kind = "plain"
    partitions: int = 2
    config: Mapping[str, str] = field(default_factory=lambda: {"retention.ms": "-1"})
    transactional: bool = False

    @property
    def keeps_all(self) -> bool:
        """Whether neither side deletes records."""
        return self.kind not in ("compacted", "retained")


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    # A record is mirrored, and read by the independent reader, before the cleaner may take it.
    "min.compaction.lag.ms": "300000",
}
RETAINED = {"retention.ms": "300000", "segment.ms": "30000"}


def first_topics(*, spark: bool) -> list[FireTopic]:
    """`spark`: with the one whose transform needs Spark."""
    return [
        FireTopic(PREFIX + "plain", partitions=3),
        FireTopic(PREFIX + "money", partitions=2, transactional=True),
        FireTopic(PREFIX + "table", "compacted", config=COMPACTED),
        FireTopic(PREFIX + "log", "retained", config=RETAINED),
        FireTopic(PREFIX + "same", "preserved", transactional=True),
        FireTopic(PREFIX + "rules", "rules"),
        *([FireTopic(PREFIX + "spark", "spark")] if spark else []),
        FireTopic(PREFIX + "moves", "moves"),
    ]


def value_of(number: int, chance: random.Random) -> bytes:
    pad = "x" * chance.choice([0, 20, 300])
    return json.dumps({"n": number, "card": f"4111-{number:012}", "pad": pad}).encode()


def key_of(number: int, chance: random.Random) -> bytes:
    return b"%d" % (chance.randrange(_KEYS) if number % 2 else number % _KEYS)


def becomes(topic: FireTopic, number: int, value: bytes | None) -> bytes | None:
    """The value that the mirror must have; the empty value if it must not have the record."""
    if value is None:
        return None
    if topic.kind == "rules":
        content = json.loads(value)
        card = content["card"]
        content["card"] = "".join(c if c == "-" else "*" for c in card[:-4]) + card[-4:]
        return json.dumps(content).encode()
    if topic.kind == "spark":
        return value + b"!" if number % 7 else b""
    return value


def as_compared(topic: FireTopic, value: bytes | None) -> bytes | None:
    """A value of the mirror. Rules write JSON again: its spaces do not count."""
    if topic.kind == "rules" and value is not None:
        return json.dumps(json.loads(value), sort_keys=True).encode()
    return value


def number_of(value: bytes | None, headers: list[tuple[str, bytes]] | None) -> int:
    for name, text in headers or ():
        if name == NUMBER:
            return int(text)
    assert value is not None
    return int(json.loads(value)["n"])


def digest_of(
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes]] | None,
) -> int:
    """64 bits of all that a mirror must keep, but the offset."""
    total = hashlib.blake2b(digest_size=8)
    for part in (b"%d" % timestamp, key, value, *(x for h in headers or () for x in h)):
        text = part.encode() if isinstance(part, str) else part
        total.update(b"-" if text is None else b"%d:" % len(text) + text)
    (found,) = struct.unpack("q", total.digest())
    return int(found)
