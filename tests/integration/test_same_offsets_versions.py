"""Each Kafka that is promised, as source and as target of a mirror that keeps offsets.

One `causeway run` mirrors both ways between a cluster of the old version and one of the newest,
both with SASL and an authorizer: a topic of transactions, and a compacted one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway.dev import DEFAULT_VERSION, TESTED, kafka_version
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import Outgoing
from tests.harness.running import PATIENCE_S, Running
from tests.harness.same_offsets import COMPACTED, assert_same_offsets, await_same_ends, compact
from tests.harness.versions import SECURITY, Side, Way, both_ways_file
from tests.harness.writers import write_transactions

pytestmark = [pytest.mark.integration, pytest.mark.versions, pytest.mark.timeout(900)]

TRANSACTIONS, CLEANED = "transactions", "compacted"


@pytest.fixture(scope="module")
def newest() -> Iterator[LocalCluster]:
    with LocalCluster("new", security=SECURITY, version=kafka_version(DEFAULT_VERSION)) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "name", [name for name, release in TESTED.items() if release != DEFAULT_VERSION]
)
def test_offsets_are_kept(newest: LocalCluster, name: str, tmp_path: Path) -> None:
    short = name.replace(".", "")
    with LocalCluster(f"k{short}", security=SECURITY, version=kafka_version(name)) as cluster:
        old, new = Side(alias=f"k{short}", cluster=cluster), Side(alias="new", cluster=newest)
        ways = (
            Way(source=old, target=new, prefix=f"o{short}-from."),
            Way(source=new, target=old, prefix=f"o{short}-to."),
        )
        file = both_ways_file(tmp_path, old, new, f"o{short}-.*", "causeway.offsets = preserve")
        for way in ways:
            tools = way.source.tools
            tools.create_topic(way.topic(TRANSACTIONS), 2, config={"retention.ms": "-1"})
            tools.create_topic(way.topic(CLEANED), config=COMPACTED)
            write_transactions(tools, way.topic(TRANSACTIONS), 30, seed=1)
            compact(tools, way.topic(CLEANED))
        with Running("run", file, directory=tmp_path) as run:
            await_mirrored(ways)
            for way in ways:
                write_transactions(way.source.tools, way.topic(TRANSACTIONS), 30, seed=2)
                way.source.tools.produce(way.topic(CLEANED), [Outgoing(key=b"new", value=b"1")])
            await_mirrored(ways)
            assert run.stop() == 0, run.log
        for way in ways:
            for topic in (TRANSACTIONS, CLEANED):
                assert assert_same_offsets(
                    way.source.tools, way.topic(topic), way.target.tools, way.mirror(topic)
                )


def await_mirrored(ways: tuple[Way, ...]) -> None:
    for way in ways:
        topics = [way.topic(TRANSACTIONS), way.topic(CLEANED)]
        for topic in topics:
            way.source.tools.await_transactions(topic)
        prefix = f"{way.source.alias}."
        await_same_ends(way.source.tools, topics, way.target.tools, prefix, PATIENCE_S)
