"""Translation of many offsets at once: a partition whose logs cannot be read holds up no other."""

from __future__ import annotations

from typing import Any, cast

from causeway.daemon.discovery import Sides
from causeway.daemon.registry import Mirrored, Registry
from causeway.daemon.translation import Place, Translator
from causeway.errors import BrokerError
from causeway.model import Pair, TopicPartition
from causeway.relay.messages import Outlet
from causeway.relay.offset_map import OffsetMap

DARK, LIGHT = TopicPartition("orders", 0), TopicPartition("orders", 1)


class DarkLogs:
    """Both clusters: who asks for the log of partition 0 is told that it has no leader."""

    def list_offsets(self, places: list[TopicPartition], *_: Any, **__: Any) -> dict[Any, Any]:
        return dict.fromkeys(places, NO_LEADER)

    def fetch(self, *_: Any, **__: Any) -> Any:
        raise NO_LEADER


NO_LEADER = BrokerError("fetch", "orders-0", code=5, name="LEADER_NOT_AVAILABLE", retriable=True)


class Mapped:
    """A registry of two partitions whose source has gaps between offsets 0 and 10."""

    def mirrored(self) -> list[Mirrored]:
        return [
            Mirrored(
                source=at,
                outlet=Outlet(
                    topic="A.orders",
                    partition=at.partition,
                    topic_id="a" * 32,
                    producer_id=1,
                    producer_epoch=0,
                    pair=Pair(source=20, target=15, sequence=15),
                ),
                position=20,
                newest=None,
                stopped=False,
            )
            for at in (DARK, LIGHT)
        ]

    def place(self, _: TopicPartition, offsets: set[int]) -> dict[int, Any]:
        known = OffsetMap([Pair(0, 0, 0), Pair(10, 5, 5), Pair(20, 15, 15)])
        return {offset: known.place(offset) for offset in offsets}

    def trim(self, _: Any) -> None:
        pass


def test_a_partition_without_a_leader_is_told_and_the_others_are_translated() -> None:
    logs = cast(Any, DarkLogs())
    sides = Sides(source=logs, target=logs, source_admin=logs, target_admin=logs)
    translator = Translator(sides, cast(Registry, Mapped()), read_committed=True)

    found = translator.translate({DARK: {7}, LIGHT: {12, 25}})

    assert found[LIGHT] == {12: Place(7), 25: Place(15, mirrored=False)}
    assert found[DARK][7].target is None
    assert "cannot be looked up" in (found[DARK][7].note or "")
