"""Where a fence holds: each broker is asked for the rules that it goes by itself."""

from __future__ import annotations

from typing import Any

import pytest

from causeway.cluster import AclBinding, Leader
from causeway.model import TopicPartition
from causeway.operate.cutover.observe import denied_writes

DENIAL = AclBinding(
    resource_type="TOPIC",
    name="orders",
    pattern="LITERAL",
    principal="User:*",
    host="*",
    operation="WRITE",
    permission="DENY",
)


class Source:
    """Two brokers, of which those in `heard` go by the denial."""

    def __init__(self, heard: set[int], leaders: dict[int, int]) -> None:
        self.heard = heard
        self._leaders = {
            TopicPartition("orders", number): Leader(node, 0, "host", 1)
            for number, node in leaders.items()
        }

    def leaders(self, parts: Any, *, refresh: bool) -> dict[TopicPartition, Leader]:
        return {at: self._leaders[at] for at in parts}

    def describe_acls(self, _: Any, node_id: int) -> frozenset[AclBinding]:
        return frozenset({DENIAL} if node_id in self.heard else ())


def denied(heard: set[int], leaders: dict[int, int]) -> tuple[bool, bool, bool]:
    source: Any = Source(heard, leaders)
    found = denied_writes(source, [TopicPartition("orders", 0), TopicPartition("orders", 1)])
    return found["orders"]


@pytest.mark.parametrize(
    ("heard", "second", "expected"),
    [
        (set(), 2, (False, False, True)),
        ({1}, 2, (True, False, False)),
        ({1, 2}, 2, (True, True, False)),
        (set(), -1, (False, False, False)),  # a partition without a leader: nobody knows
        ({1}, -1, (True, False, False)),
    ],
)
def test_a_fence_holds_once_each_leader_goes_by_it(
    heard: set[int],
    second: int,
    expected: tuple[bool, bool, bool],
) -> None:
    assert denied(heard, {0: 1, 1: second}) == expected
