"""A producer of a test: idempotent, or transactional. It needs no connection."""

from __future__ import annotations

from collections.abc import Sequence

from causeway.records import PlainRecord, advance, build, header
from tests.simulation.cluster.cluster import KafkaCluster
from tests.simulation.cluster.errors import CONCURRENT_TRANSACTIONS, Refused
from tests.simulation.cluster.transactions import Place

Content = tuple[bytes | None, bytes | None]
"""Key and value."""


def batch_of(
    records: Sequence[Content],
    timestamp_ms: int,
    *,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    codec: int = 0,
) -> bytes:
    """A batch that is ready to be produced. `codec`: as in its attributes, none by default."""
    batch = build(
        [
            PlainRecord(index, timestamp_ms, key, value, [])
            for index, (key, value) in enumerate(records)
        ],
        codec=codec,
        first=0,
        next=len(records),
        leader_epoch=-1,
        offsets=None,
    )
    return header(batch, *producer, sequence, transactional=transactional) + batch.payload


class ClusterProducer:
    """Writes one batch at a time. With a `transactional_id` it begins a transaction by itself, and
    `commit` and `abort` end it; markers follow after a while."""

    def __init__(self, cluster: KafkaCluster, transactional_id: str | None = None) -> None:
        """Raises Refused (CONCURRENT_TRANSACTIONS) if an earlier transaction has to end first."""
        self.cluster, self.transactional_id = cluster, transactional_id
        transactions = cluster.transactions
        if transactional_id is None:
            self.producer = transactions.new_producer_id(), 0
        else:
            self.producer = transactions.begin(transactional_id, 60_000)
        self._sequences: dict[Place, int] = {}

    def write(
        self,
        topic: str,
        partition: int,
        records: Sequence[Content],
        timestamp_ms: int | None = None,
        codec: int = 0,
    ) -> int:
        """The base offset. Raises Refused, LookupError; the batch may be written again then."""
        place = topic, partition
        key = self.transactional_id
        if key is not None:
            self.cluster.transactions.add(key, self.producer, [place])
        now_ms = int(self.cluster.world.now() * 1000)
        sequence = self._sequences.get(place, 0)
        batch = batch_of(
            records,
            now_ms if timestamp_ms is None else timestamp_ms,
            producer=self.producer,
            sequence=sequence,
            transactional=key is not None,
            codec=codec,
        )
        base = self.cluster.append(topic, partition, batch, transactional_id=key)
        self._sequences[place] = advance(sequence, len(records))
        return base

    def commit(self) -> None:
        """Raises Refused."""
        self._end(commits=True)

    def abort(self) -> None:
        """Raises Refused."""
        self._end(commits=False)

    def _end(self, *, commits: bool) -> None:
        assert self.transactional_id is not None
        self.cluster.transactions.end(self.transactional_id, self.producer, commits=commits)

    @property
    def is_busy(self) -> bool:
        """The markers of its last transaction are not all written."""
        assert self.transactional_id is not None
        try:
            self.cluster.transactions.add(self.transactional_id, self.producer)
        except Refused as refused:
            return refused.code == CONCURRENT_TRANSACTIONS
        return False
