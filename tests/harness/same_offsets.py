"""Topics whose records have the same offsets on both sides, and logs that begin above zero."""

from __future__ import annotations

from collections.abc import Collection

from causeway.cluster import Cluster, filling, transactions
from causeway.config import ClientSettings
from causeway.model import TopicPartition
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.mirror import FOREVER, by_offset
from tests.harness.waiting import await_until


def assert_same_offsets(
    source: KafkaTools,
    topic: str,
    target: KafkaTools,
    mirror: str,
    *,
    read_committed: bool = True,
    same_start: bool = True,
) -> int:
    """Both kinds of readers of the target see the source's records, and both logs end at the same
    offset. `read_committed`: what the link reads. Without `same_start` the target may still have
    records that the source has deleted. Returns the number of records."""
    wanted = source.read(topic, read_committed=read_committed)
    for level in (True, False):
        found = target.read(mirror, read_committed=level)
        assert found.keys() == wanted.keys()
        for partition, records in wanted.items():
            there = found[partition]
            if not same_start and records:
                there = [each for each in there if each.offset >= records[0].offset]
            assert by_offset(there) == by_offset(records), (
                f"{mirror}-{partition}, readers with read_committed={level}"
            )
    assert target.offsets(mirror) == source.offsets(topic)
    return sum(map(len, wanted.values()))


def await_same_ends(
    source: KafkaTools, topics: Collection[str], target: KafkaTools, prefix: str, timeout_s: float
) -> None:
    """Until each mirror, `prefix` and its topic's name, ends where its topic ends now."""
    ends = {topic: source.offsets(topic) for topic in topics}

    def behind() -> dict[str, object]:
        found: dict[str, object] = {}
        for topic, wanted in ends.items():
            there = target.partition_count(f"{prefix}{topic}") == len(wanted)
            mirrored = target.offsets(f"{prefix}{topic}") if there else None
            if mirrored != wanted:
                found[topic] = (wanted, mirrored)
        return found

    try:
        await_until(lambda: not behind(), timeout_s, "both sides end alike", poll_s=0.3)
    except AssertionError as error:
        error.add_note(f"source and target end at: {behind()}")
        raise


def begin_at(client: ClientSettings, topic: str, start: int, *, keyed: bool = False) -> None:
    """The log of partition 0, which is empty, begins and ends at `start`."""
    with Cluster(client) as cluster:
        fill = transactions.begin(cluster, topic, 60_000)
        at = TopicPartition(topic, 0)
        filling.fill(cluster, fill, at, 0, start, keyed=keyed, delete=True, on_step=lambda _: True)


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
    **FOREVER,
}


def compact(source: KafkaTools, topic: str) -> None:
    """Writes to a topic of that config until its log has gaps, which stay as they are."""
    for turn in range(3):
        source.produce(
            topic,
            [Outgoing(key=b"%d" % (i * i % 50), value=b"%d %d" % (turn, i)) for i in range(500)],
            codec="zstd",
        )
    feed = iter(range(10_000))

    def cleaned() -> bool:
        source.produce(topic, [Outgoing(key=b"feed", value=b"%d" % next(feed))])
        return len(source.read(topic)[0]) < 200

    await_until(cleaned, 60, "the source is compacted", poll_s=0.3)
    source.rest_cleaner(topic)
