"""Where groups stand when a mirror ends; no broker takes part."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import Committed, GroupListing, OffsetAt, TopicMetadata
from causeway.config import LinkSettings
from causeway.daemon import Sides
from causeway.link_topics import ProgressContents
from causeway.model import TopicPartition
from causeway.naming import ReplicationPolicy
from causeway.operate.failover import last_groups
from tests.builders import daemon
from tests.builders.settings import GEO, LINK

SOURCE, MIRROR = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
POLICY = ReplicationPolicy(source_alias="A")


class Side:
    """A cluster that has one group without members. Logs end at 100."""

    def __init__(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        self.offsets = dict(offsets)

    def metadata(self, names: Collection[str]) -> Any:
        ids = {"orders": "aa" * 16, "A.orders": "bb" * 16}
        topics = {
            name: TopicMetadata(name=name, topic_id=ids[name], internal=False, partitions={})
            for name in names
        }
        return SimpleNamespace(topics=topics)

    def list_groups(self) -> dict[str, GroupListing]:
        listed = GroupListing(
            name="billing", state="Empty", type="classic", protocol_type="consumer"
        )
        return {listed.name: listed}

    def committed_offsets_of(self, names: Collection[str]) -> dict[str, Any]:
        return dict.fromkeys(names, self.offsets)

    def list_offsets(self, places: Collection[TopicPartition], when: int, **_: Any) -> Any:
        return {
            at: OffsetAt(offset=0 if when == -2 else 100, timestamp=-1, leader_epoch=-1)
            for at in places
        }

    def commit_offsets(self, commits: Mapping[str, Mapping[TopicPartition, Committed]]) -> Any:
        self.offsets.update(commits["billing"])
        return {group: {} for group in commits}


@pytest.mark.parametrize(
    "link",
    [
        LINK,
        replace(GEO, policy=POLICY, chosen=frozenset({"orders"})),
        replace(LINK, way_back=True, chosen=frozenset({"orders"})),
    ],
    ids=["by the file", "chosen by a person", "begun by a failback"],
)
def test_groups_of_topics_by_request_come_along_as_well(link: LinkSettings) -> None:
    row = daemon.row()
    progress = row.progress.replace(position=10, outlets=(daemon.outlet(10),))
    source, target = Side({SOURCE: Committed(offset=10)}), Side({})
    here, there = cast(Any, source), cast(Any, target)
    ending = SimpleNamespace(
        link=replace(link, control=replace(link.control, emit_checkpoints_enabled=False)),
        sides=Sides(source=here, target=there, source_admin=here, target_admin=there),
        contents=ProgressContents(partitions={SOURCE: progress}),
        progress=lambda: {SOURCE: progress},
    )
    (billing,) = last_groups.sync(cast(Any, ending), {"orders": row.topic}, 0.0)
    assert billing.reason is None
    assert target.offsets == {MIRROR: Committed(offset=10)}


@pytest.mark.parametrize("offset", [7, 10])  # inside a gap, and behind the last record
def test_groups_keep_their_offsets_where_offsets_are_preserved(offset: int) -> None:
    row = daemon.row()
    progress = row.progress.replace(position=10, offsets_from=0, outlets=(daemon.outlet(10),))
    committed = Committed(offset=offset, metadata="by hand", leader_epoch=4)
    source, target = Side({SOURCE: committed}), Side({})
    here, there = cast(Any, source), cast(Any, target)
    ending = SimpleNamespace(
        link=replace(LINK, control=replace(LINK.control, emit_checkpoints_enabled=False)),
        sides=Sides(source=here, target=there, source_admin=here, target_admin=there),
        contents=ProgressContents(partitions={SOURCE: progress}),
        progress=lambda: {SOURCE: progress},
    )
    (billing,) = last_groups.sync(cast(Any, ending), {"orders": row.topic}, 0.0)
    assert billing.reason is None
    assert target.offsets == {MIRROR: Committed(offset=offset, metadata="by hand")}
