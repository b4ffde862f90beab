"""Which topics a cluster lets us see, and which it keeps from us."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from causeway.cluster.cluster import Cluster
from causeway.cluster.metadata import TopicMetadata
from causeway.config import LinkSettings
from causeway.errors import AuthorizationError, BrokerError
from causeway.naming import is_legal_name
from causeway.wire.codes import UNKNOWN_TOPIC_OR_PARTITION


def all_of(source: Cluster, link: LinkSettings) -> dict[str, TopicMetadata]:
    """All topics, with those that the file names outright and that the source keeps from us, each
    with its error. Raises CausewayError."""
    found = dict(source.metadata(None).topics)
    return found | _hidden(source, link, found)


def named(cluster: Cluster, names: Collection[str]) -> dict[str, TopicMetadata]:
    """Those of `names` that are there, or kept from us, each with its error. Raises
    CausewayError."""
    found = cluster.metadata(sorted(names)).topics if names else {}
    return {name: topic for name, topic in found.items() if not _is_missing(topic)}


def _is_missing(topic: TopicMetadata) -> bool:
    error = topic.error
    return isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION


def _hidden(
    source: Cluster, link: LinkSettings, visible: Mapping[str, TopicMetadata]
) -> dict[str, TopicMetadata]:
    """A list of all topics leaves out what we may not see, so they have to be asked for by name."""
    texts = {pattern.pattern.replace("\\.", ".") for pattern in link.topics}
    texts |= link.chosen.names
    wanted = [text for text in sorted(texts) if is_legal_name(text) and text not in visible]
    if not wanted:
        return {}
    found = source.metadata(wanted).topics
    return {
        name: topic for name, topic in found.items() if isinstance(topic.error, AuthorizationError)
    }
