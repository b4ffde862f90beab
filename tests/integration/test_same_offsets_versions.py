"""Each Kafka that is promised, as source and as target of a mirror that keeps offsets.

One `causeway run` mirrors both ways between a cluster of the old version and one of the newest,
both with SASL and an authorizer: a topic of transactions, a compacted one, and where a broker
writes such logs, one in an old format.
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

TRANSACTIONS, CLEANED, OLD_FORMAT = "transactions", "compacted", "old-format"


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
        if cluster.version < kafka_version("3.0.0"):
            write_old_format(ways[0])
        with Running("run", file, directory=tmp_path) as run:
            await_mirrored(ways)
            for way in ways:
                write_transactions(way.source.tools, way.topic(TRANSACTIONS), 30, seed=2)
                way.source.tools.produce(way.topic(CLEANED), [Outgoing(key=b"new", value=b"1")])
            await_mirrored(ways)
            assert run.stop() == 0, run.log
        for way in ways:
            for topic in topics_of(way):
                assert assert_same_offsets(
                    way.source.tools, way.topic(topic), way.target.tools, way.mirror(topic)
                )


def topics_of(way: Way) -> list[str]:
    names = [TRANSACTIONS, CLEANED, OLD_FORMAT]
    return [name for name in names if way.topic(name) in way.source.tools.topics()]


def write_old_format(way: Way) -> None:
    """A log in format 1, compressed and not, that begins above zero."""
    tools, topic = way.source.tools, way.topic(OLD_FORMAT)
    config = {"retention.ms": "-1", "message.format.version": "0.10.2"}
    tools.create_topic(topic, config=config)
    for codec in ("none", "gzip"):
        records = [Outgoing(key=b"k", value=b"%d" % number) for number in range(300)]
        tools.produce(topic, records, codec=codec, settings={"enable.idempotence": False})
    tools.delete_records(topic, 0, 123)


def await_mirrored(ways: tuple[Way, ...]) -> None:
    for way in ways:
        topics = [way.topic(name) for name in topics_of(way)]
        for topic in topics:
            way.source.tools.await_transactions(topic)
        prefix = f"{way.source.alias}."
        await_same_ends(way.source.tools, topics, way.target.tools, prefix, PATIENCE_S)
