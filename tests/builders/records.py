"""One mirrored topic: its progress, its offsets and the wishes of a person."""

from __future__ import annotations

from typing import Any

from causeway.control import MirroredTopic
from causeway.daemon.partitions.decisions import (
    Offsets,
    Wish,
)
from causeway.link_topics import Outlet, PartitionProgress
from causeway.model import Pair, State

NO_WISH = Wish()


ADOPT = Wish(adopt=True)


FROM = Wish(start_from=1_600_000_000_000)


TOPIC = MirroredTopic(
    source="orders",
    target="A.orders",
    partitions=4,
    source_id="aa" * 16,
    target_id="bb" * 16,
    target_partitions=4,
    max_message_bytes=1_000_000,
)


EMPTY = Offsets(log_start=0, end=500, high_watermark=500, start=0, target_ends={0: 0})


BEGUN = Offsets(log_start=0, end=500, high_watermark=500, start=0, target_ends={0: 70})


def progress(**changes: Any) -> PartitionProgress:
    known = PartitionProgress(
        topic="orders",
        partition=0,
        topic_id=TOPIC.source_id,
        leader_epoch=2,
        position=100,
        outlets=(
            Outlet(
                topic="A.orders",
                partition=0,
                topic_id="bb" * 16,
                producer_id=5,
                producer_epoch=0,
                pair=Pair(source=90, target=60, sequence=60),
            ),
        ),
        state=State.RUNNING,
    )
    return known.replace(**changes)
