"""Which configs a cluster knows is told by a topic that is there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import pytest

from causeway.cluster import Cluster
from causeway.control.topic_configs import known_configs
from causeway.errors import AuthorizationError
from tests.builders.settings import filtered_link
from tests.builders.topics import entries

LINK = filtered_link()
DENIED = AuthorizationError("read the configuration of topic", "t", "DESCRIBE_CONFIGS is missing")


class Target:
    """One that lets us describe some topics."""

    def __init__(self, *open_to_us: str) -> None:
        self._open = open_to_us

    def describe_configs(self, topics: Collection[str]) -> dict[str, Any]:
        return {name: entries() if name in self._open else DENIED for name in topics}


@pytest.mark.parametrize(
    ("open_to_us", "mirrors"),
    [(["A.t"], ["A.t"]), ([LINK.progress_topic], []), (["A.t", "else"], ["A.t"]), (["else"], [])],
)
def test_any_topic_will_do(open_to_us: list[str], mirrors: list[str]) -> None:
    there = ["A.t", "else", LINK.progress_topic] if mirrors else ["else", LINK.progress_topic]
    found = known_configs(cast(Cluster, Target(*open_to_us)), LINK, there, mirrors)
    assert found == entries().keys()


@pytest.mark.parametrize("there", [[], ["A.t"]])
def test_the_known_configs_are_unknown_without_a_readable_topic(there: list[str]) -> None:
    assert known_configs(cast(Cluster, Target()), LINK, there, there) is None
