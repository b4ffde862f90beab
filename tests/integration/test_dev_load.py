"""`causeway dev load` writes the stream that was asked for."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from causeway.cluster import Cluster
from causeway.config import ClientSettings
from causeway.dev import load as records
from causeway.dev.load import CODECS, LoadTally, Stream, write
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.records import CODEC_MASK, HEADER
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools

pytestmark = pytest.mark.integration


def written(cluster: LocalCluster, stream: Stream, stop_at: int | None = None) -> LoadTally:
    """`stop_at`: records after which somebody says that it is enough."""

    async def run() -> LoadTally:
        stop = asyncio.Event()

        def told(tally: LoadTally) -> None:
            if stop_at is not None and tally.records >= stop_at:
                stop.set()

        return await write(cluster.bootstrap, stream, stop, told)

    return asyncio.run(run())


def test_size_codec_and_count(
    source: KafkaTools, source_cluster: LocalCluster, prefix: str
) -> None:
    host, port = source_cluster.bootstrap.split(":")
    client = ClientSettings(alias="A", bootstrap=((host, int(port)),))
    for number, codec in enumerate(CODECS):
        topic = f"{prefix}{codec}"
        stream = Stream(topic=topic, rate=None, size=300, codec=codec, partitions=1, count=700)
        tally = written(source_cluster, stream)
        assert (tally.records, tally.bytes) == (700, 210_000)
        values = [record.value or b"" for record in source.read(topic)[0]]
        assert [json.loads(value)["number"] for value in values] == list(range(1, 701))
        assert {len(value) for value in values} == {300}
        with Cluster(client) as cluster:
            raw = cluster.fetch(TopicPartition(topic, 0), 0).records
        assert HEADER.unpack_from(raw)[5] & CODEC_MASK == number


def test_transactions_some_of_them_rolled_back(
    source: KafkaTools, source_cluster: LocalCluster, prefix: str
) -> None:
    topic = prefix + "events"
    stream = Stream(topic=topic, rate=None, transaction=20, abort_every=3, count=110)
    tally = written(source_cluster, stream)
    assert (tally.records, tally.transactions, tally.rolled_back) == (110, 6, 2)
    found = source.read(topic, read_committed=True)
    assert len(found) == 2
    assert sum(map(len, found.values())) == 110 - 20 - 10


def test_rate_duration_and_an_early_end(
    source: KafkaTools, source_cluster: LocalCluster, prefix: str
) -> None:
    topic = prefix + "events"
    began = time.monotonic()
    tally = written(source_cluster, Stream(topic=topic, rate=200, duration_s=1.5))
    assert time.monotonic() - began >= 1.5
    assert 100 < tally.records <= 200 * 1.5 + 1
    endless = Stream(topic=topic, rate=None, transaction=10**9)
    more = written(source_cluster, endless, stop_at=100)
    assert more.transactions == 1
    source.await_transactions(topic)
    found = source.read(topic, read_committed=True)
    assert sum(map(len, found.values())) == tally.records + more.records


def test_no_broker(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_PRODUCE_S", 1.0)

    async def run() -> None:
        await write(f"127.0.0.1:{port}", Stream(topic="events"), asyncio.Event(), lambda _: None)

    with pytest.raises(CausewayError, match="produce to events"):
        asyncio.run(run())
