"""The version of Kafka, and how its brokers differ from those of other versions.

`make test-versions` tests the versions in TESTED. Another version starts like the nearest one, and
its jars are not verified.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from causeway.errors import ConfigError

DEFAULT_VERSION = "4.3.0"
OLDEST = "2.8.2"
# By the names that people use.
TESTED = {"2.8": OLDEST, "3.3": "3.3.2", "3.9": "3.9.2", "4.0": "4.0.1", "4.3": DEFAULT_VERSION}
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class KafkaVersion:
    """A version as Apache numbers its releases. Versions compare by age."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def zookeeper(self) -> bool:
        """Whether brokers get a ZooKeeper: Kafka's own controllers are fit for use since 3.3."""
        return (self.major, self.minor) < (3, 3)

    @property
    def log4j_1(self) -> bool:
        """Whether it logs with log4j 1 (or its successor reload4j), not with log4j 2."""
        return self.major < 4

    @property
    def share_groups(self) -> bool:
        return self.major >= 4


def kafka_version(name: str | None = None) -> KafkaVersion:
    """Returns the version that `name` means: a release (`3.6.2`), or the first two numbers of a
    tested one (`2.8`). The default is CAUSEWAY_KAFKA_VERSION, else DEFAULT_VERSION. Raises
    ConfigError."""
    chosen = name or os.environ.get("CAUSEWAY_KAFKA_VERSION") or DEFAULT_VERSION
    match = _VERSION.fullmatch(TESTED.get(chosen, chosen))
    if match is None:
        raise ConfigError("use", f"Kafka {chosen}", "it is no release", remedy=tested_remedy())
    version = KafkaVersion(*map(int, match.groups()))
    if (version.major, version.minor) < (2, 8):
        raise ConfigError(
            "use",
            f"Kafka {chosen}",
            "its topics have no ids, by which Causeway tells one from its successor",
            remedy=tested_remedy(),
        )
    return version


def tested_remedy() -> str:
    return f"name one that is tested ({', '.join(TESTED)}), or another release as {DEFAULT_VERSION}"
