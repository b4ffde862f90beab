"""A target log that several links write, and courses that feed it."""

from __future__ import annotations

from typing import Any

import pytest

from causeway.cluster import Committed
from causeway.errors import BrokerError
from causeway.link_topics import Outlet
from causeway.model import Pair, TopicPartition
from causeway.translation import Course
from causeway.translation import unread as module
from tests.builders.settings import link
from tests.harness.raw_batches import Rec
from tests.harness.world import TARGET, TARGET_ID, FakeCluster, Log

AT = TopicPartition(TARGET, 0)
SOURCE, MORE = TopicPartition("t", 0), TopicPartition("more", 0)
OURS, ALSO, THEIRS, LOCAL = 1, 2, 8, 9
SHARED = link(sole_writer=False)
READ = {"g": {SOURCE: Committed(offset=99)}}


class Target(FakeCluster):
    def __init__(self) -> None:
        self.log, self.reads, self.dark = Log(), 0, False
        super().__init__(TARGET, TARGET_ID, {0: self.log}, compacted=False)

    def fetch(self, *args: Any, **kwargs: Any) -> Any:
        if self.dark:
            raise BrokerError("fetch", TARGET, code=5, name="NO_LEADER", retriable=True)
        self.reads += 1
        return super().fetch(*args, **kwargs)

    def append(self, producer_id: int, count: int) -> None:
        records = [Rec(offset=self.log.end + n) for n in range(count)]
        self.log.append(records, producer_id=producer_id, epoch=0, sequence=0)


def outlet(producer_id: int = OURS, **changes: Any) -> Outlet:
    known = Outlet(
        topic=TARGET,
        partition=0,
        topic_id=TARGET_ID,
        producer_id=producer_id,
        producer_epoch=0,
        pair=Pair(0, 0, 0),
        exclusive=False,
    )
    return known.replace(**changes)


def fed(source: TopicPartition, at: Outlet) -> Course:
    return Course(source=source, topic_id="", outlet=at)


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What other links feed, and their checkpoints by alias."""
    told: dict[str, Any] = {"feeds": {}, "C": {}, "asked": 0}

    def feeds(_: object, __: str) -> Any:
        told["asked"] += 1
        return told["feeds"]

    monkeypatch.setattr(module, "feeds_of_other_links", feeds)
    monkeypatch.setattr(module, "_checkpoints", lambda topic: told[topic.topic.partition(".")[0]])
    return told
