"""Asks one cluster: topics, groups, offsets, ACLs, producers, transactions."""

from causeway.cluster import filling, log_reader, transactions
from causeway.cluster.acls import ANY_TOPIC, AclBinding, AclFilter, SecurityDisabled
from causeway.cluster.admin import (
    BROKER_MESSAGE_FORMAT,
    KNOWN_MESSAGE_FORMAT,
    MESSAGE_FORMAT,
    ConfigEntry,
    NewTopic,
    disks,
    knows_producers,
    versions_of_brokers,
)
from causeway.cluster.client import GROUP, TRANSACTION, ClusterClient
from causeway.cluster.cluster import (
    ANSWER_S,
    Cluster,
    Connect,
    ask_each,
    clusters,
    reach,
    silent_clusters,
    silent_clusters_of,
)
from causeway.cluster.groups import CommitResults, Committed, GroupListing
from causeway.cluster.log_reader import (
    Content,
    content_of,
    offsets_at,
    raw_batches,
    relayed,
)
from causeway.cluster.metadata import (
    ClusterMetadata,
    Leader,
    PartitionMetadata,
    TopicMetadata,
    value_of,
)
from causeway.cluster.offsets import EARLIEST, LATEST, FetchedPartition, OffsetAt, bytes_an_offset
from causeway.cluster.pool import moved_remedy, one_cluster
from causeway.cluster.producers import (
    REMEMBERED_S,
    YOUNG_S,
    ActiveProducer,
    active_producers,
    init_producer_ids,
    is_young,
    open_transactions,
    transactional_ids,
    young_since_ms,
)
from causeway.cluster.rights import cluster_rights, denies_transactional_id, topic_rights
from causeway.cluster.transactions import Transaction
