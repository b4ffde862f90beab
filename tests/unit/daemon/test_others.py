"""Which other links write to a target topic, and whether they brought all that is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from causeway.daemon.partitions import OthersHere
from causeway.errors import AuthorizationError
from causeway.link_topics import (
    LeaseRecord,
    PartitionProgress,
    ProgressContents,
    feeds_of_other_links,
)
from causeway.model import Pair, TopicPartition
from tests.builders import records, settings

KEPT = replace(
    settings.link(sole_writer=False, stops_on_data=True),
    source=replace(settings.LINK.source, alias="A"),
)
OWN = KEPT.progress_topic
AT = TopicPartition("A.orders", 0)


@dataclass
class Topics:
    topics: dict[str, object]

    def metadata(self) -> Topics:
        return self


def cluster(*names: str) -> Any:
    return cast(Any, Topics(dict.fromkeys((*names, OWN, "orders"))))


def other(claimed_at: int, **changes: Any) -> PartitionProgress:
    known = records.progress(topic_id="ee" * 16)
    (outlet,) = known.outlets
    return known.replace(outlets=(outlet.replace(claimed_at=claimed_at, **changes),))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, ProgressContents | AuthorizationError]:
    """What each progress topic holds."""
    found: dict[str, ProgressContents | AuthorizationError] = {}

    class Topic:
        def __init__(self, _: object, name: str) -> None:
            self._name = name

        def read(self) -> ProgressContents:
            answer = found[self._name]
            if isinstance(answer, AuthorizationError):
                raise answer
            return answer

    monkeypatch.setattr("causeway.link_topics.progress.ProgressTopic", Topic)
    return found


def contents(progress: PartitionProgress) -> ProgressContents:
    lease = LeaseRecord(link="C->B", owner="", producer_id=0, producer_epoch=0, lease_s=1)
    return ProgressContents(partitions={progress.source: progress}, leases=[lease])


def test_their_feeds_are_found_and_those_that_cannot_be_read_left_out(
    told: dict[str, ProgressContents | AuthorizationError],
) -> None:
    told["__causeway.C.B.progress"] = contents(other(0, earlier=(3,)))
    told["__causeway.D.B.progress"] = AuthorizationError("read", "it")
    found = feeds_of_other_links(cluster("__causeway.C.B.progress", "__causeway.D.B.progress"), OWN)
    ((feed,),) = found.values()
    assert list(found) == [AT]
    assert (feed.source, feed.producers) == ("C", (3, 5))


@pytest.mark.parametrize(
    ("progress", "brought"),
    [
        (other(0), True),
        (other(7), False),  # there was data before it
        (other(-1), True),  # of an older version, but all that is there is its own
        (other(-1, pair=Pair(source=90, target=70, sequence=60)), False),
        (other(0).replace(topic_id=records.TOPIC.source_id), False),  # ours, renamed
        (other(0, topic_id="dd" * 16), False),  # a topic that is no longer there
    ],
)
def test_data_that_others_brought_needs_no_question(
    told: dict[str, ProgressContents | AuthorizationError],
    progress: PartitionProgress,
    brought: bool,
) -> None:
    told["__causeway.C.B.progress"] = contents(progress)
    here = OthersHere(cluster("__causeway.C.B.progress"), KEPT)
    assert here.brought(records.TOPIC, 0, {0: 70}) is brought
    assert not here.brought(records.TOPIC, 0, {0: 0}), "there is nothing"
    alone = OthersHere(cluster("__causeway.C.B.progress"), settings.LINK)
    assert not alone.brought(records.TOPIC, 0, {0: 70})
