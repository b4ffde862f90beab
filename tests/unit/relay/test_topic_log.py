"""A small topic read to its end, also from a leader that does not show all of it yet."""

from __future__ import annotations

from typing import cast

import pytest

from causeway.errors import CausewayError
from causeway.relay.topic_log import TopicLog
from causeway.wire.cluster import Cluster
from tests.harness.world import TARGET, TARGET_ID, FakeCluster, plain_world


def test_reads_to_the_end_or_says_that_it_cannot() -> None:
    logs = plain_world(9, 5).targets

    def read(shown: int | None) -> int:
        cluster = FakeCluster(TARGET, TARGET_ID, logs, compacted=True, shown=shown)
        return sum(batch.records for batch in TopicLog(cast(Cluster, cluster), TARGET).batches())

    assert read(None) == 5
    with pytest.raises(CausewayError, match="shows it up to offset 0 only"):
        read(0)
