"""A blocking client of one cluster, for control work. Thread-safe.

Every call retries what a retry may heal (a broker that is down, a leader that moved) with backoff,
until the settings' request timeout is over. Bulk calls answer item by item: a value, or the error
of that item; they raise only where the cluster as a whole can't be asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from causeway.cluster import acls, admin, groups, offsets, producers
from causeway.cluster.acls import ANY_TOPIC, AclBinding, AclFilter, SecurityDisabled
from causeway.cluster.admin import ConfigEntry, NewTopic
from causeway.cluster.client import GROUP, TRANSACTION, Client, Leader
from causeway.cluster.groups import CommitResults, Committed, GroupListing
from causeway.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from causeway.cluster.offsets import FetchedPartition, OffsetAt
from causeway.errors import CausewayError
from causeway.model import TopicPartition

__all__ = [
    "GROUP",
    "TRANSACTION",
    "AclBinding",
    "AclFilter",
    "Cluster",
    "ClusterMetadata",
    "CommitResults",
    "Committed",
    "ConfigEntry",
    "FetchedPartition",
    "GroupListing",
    "Leader",
    "NewTopic",
    "OffsetAt",
    "PartitionMetadata",
    "SecurityDisabled",
    "TopicMetadata",
]


class Cluster(Client):
    """What Client finds, and all that can be asked with it."""

    def list_offsets(
        self,
        tps: Collection[TopicPartition],
        timestamp: int,
        read_committed: bool = False,
        *,
        patience_s: float | None = None,
    ) -> dict[TopicPartition, OffsetAt | CausewayError]:
        """See offsets.list_offsets."""
        return offsets.list_offsets(self, tps, timestamp, read_committed, patience_s)

    def log_ends(
        self, tps: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | CausewayError]:
        """See offsets.log_ends."""
        return offsets.log_ends(self, tps)

    def fetch(
        self,
        tp: TopicPartition,
        offset: int,
        max_bytes: int = 1 << 20,
        *,
        read_committed: bool = False,
        max_wait_ms: int = 100,
    ) -> FetchedPartition:
        """See offsets.fetch."""
        return offsets.fetch(self, tp, offset, max_bytes, read_committed, max_wait_ms)

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """See groups.committed_offsets."""
        return groups.committed_offsets(self, group)

    def list_groups(self) -> dict[str, GroupListing]:
        """See groups.list_groups."""
        return groups.list_groups(self)

    def committed_offsets_of(
        self, names: Collection[str]
    ) -> dict[str, dict[TopicPartition, Committed] | CausewayError]:
        """See groups.committed_offsets_of."""
        return groups.committed_offsets_of(self, names)

    def commit_offsets(
        self, commits: Mapping[str, Mapping[TopicPartition, Committed]]
    ) -> dict[str, CommitResults | CausewayError]:
        """See groups.commit_offsets."""
        return groups.commit_offsets(self, commits)

    def describe_acls(
        self, which: AclFilter = ANY_TOPIC
    ) -> frozenset[AclBinding] | SecurityDisabled:
        """See acls.describe_acls."""
        return acls.describe_acls(self, which)

    def create_acls(
        self, bindings: Collection[AclBinding]
    ) -> dict[AclBinding, CausewayError | None] | SecurityDisabled:
        """See acls.create_acls."""
        return acls.create_acls(self, bindings)

    def delete_acls(
        self, bindings: Collection[AclBinding]
    ) -> dict[AclBinding, CausewayError | None] | SecurityDisabled:
        """See acls.delete_acls."""
        return acls.delete_acls(self, bindings)

    def describe_configs(
        self, topics: Collection[str], names: Collection[str] | None = None
    ) -> dict[str, dict[str, ConfigEntry] | CausewayError]:
        """See admin.describe_configs."""
        return admin.describe_configs(self, topics, names)

    def broker_configs(self, node_id: int) -> dict[str, ConfigEntry]:
        """See admin.broker_configs."""
        return admin.broker_configs(self, node_id)

    def create_topics(
        self, topics: Sequence[NewTopic], validate_only: bool = False
    ) -> dict[str, CausewayError | None]:
        """See admin.create_topics."""
        return admin.create_topics(self, topics, validate_only)

    def create_partitions(self, counts: Mapping[str, int]) -> dict[str, CausewayError | None]:
        """See admin.create_partitions."""
        return admin.create_partitions(self, counts)

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> dict[str, CausewayError | None]:
        """See admin.alter_configs."""
        return admin.alter_configs(self, changes)

    def delete_topics(self, topics: Collection[str]) -> dict[str, CausewayError | None]:
        """See admin.delete_topics."""
        return admin.delete_topics(self, topics)

    def init_producer_ids(self, count: int) -> list[tuple[int, int]]:
        """See producers.init_producer_ids."""
        return producers.init_producer_ids(self, count)

    def init_transactional_id(self, transactional_id: str) -> tuple[int, int]:
        """See producers.init_transactional_id."""
        return producers.init_transactional_id(self, transactional_id)

    def knows_transactional_id(self, transactional_id: str) -> bool | None:
        """See producers.knows_transactional_id."""
        return producers.knows_transactional_id(self, transactional_id)

    def last_sequences(
        self, tps: Collection[TopicPartition]
    ) -> dict[TopicPartition, dict[int, int] | CausewayError]:
        """See producers.last_sequences."""
        return producers.last_sequences(self, tps)

    def produce_batch(self, tp: TopicPartition, batch: bytes, *, heed_quota: bool = True) -> int:
        """See producers.produce_batch."""
        return producers.produce_batch(self, tp, batch, heed_quota=heed_quota)
