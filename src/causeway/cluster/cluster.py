"""A blocking client of one cluster. Thread-safe.

Every call retries what a retry may heal (a broker that is down, a leader that moved) with backoff,
until the settings' request timeout is over. Bulk calls answer item by item: a value, or the error
of that item; they raise only where the cluster as a whole cannot be asked.
"""

from __future__ import annotations

from causeway.cluster import acls, admin, groups, offsets, producers
from causeway.cluster.client import ClusterClient


class Cluster(ClusterClient):
    """The client, with the questions of the other modules as its methods."""

    describe_configs = admin.describe_configs
    broker_configs = admin.broker_configs
    create_topics = admin.create_topics
    create_partitions = admin.create_partitions
    alter_configs = admin.alter_configs
    delete_topics = admin.delete_topics

    list_offsets = offsets.list_offsets
    log_ends = offsets.log_ends
    fetch = offsets.fetch

    list_groups = groups.list_groups
    committed_offsets = groups.committed_offsets
    committed_offsets_of = groups.committed_offsets_of
    commit_offsets = groups.commit_offsets

    describe_acls = acls.describe_acls
    create_acls = acls.create_acls
    delete_acls = acls.delete_acls

    init_producer_ids = producers.init_producer_ids
    init_transactional_id = producers.init_transactional_id
    knows_transactional_id = producers.knows_transactional_id
    last_sequences = producers.last_sequences
    produce_batch = producers.produce_batch
