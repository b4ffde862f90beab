"""Checks which cluster a name means, by cluster ids: one name can be given to two clusters.

The directives of each pair of origin and destination have a record of kind ORIGIN with the id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import geo_topics
from causeway.errors import AuthorizationError, CausewayError, ConfigError
from causeway.link_topics import DirectiveLog, LinkDirectives

ANSWER_S: Final = 10.0  # the wait for a cluster
_TOPIC: Final = re.compile(r"__causeway\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.directives")


class Claim(NamedTuple):
    """On `destination`, the name `origin` means the cluster with the id `cluster`."""

    origin: str
    destination: str
    cluster: str
    by: str


def cluster_id(cluster: Cluster) -> str:
    """Returns the cluster's id. Raises CausewayError if it does not answer or has no id."""
    found = cluster.bootstrap_check(ANSWER_S).cluster_id
    if not found:
        raise CausewayError("geo", str(cluster), "it does not give its cluster id")
    return found


def on(cluster: Cluster) -> Iterator[Claim]:
    """Yields the claims on a cluster, except those that this user may not read. Raises
    CausewayError."""
    for name in sorted(cluster.metadata(None).topics):
        if (match := _TOPIC.fullmatch(name)) is None:
            continue
        log = DirectiveLog(cluster, name)
        try:
            log.look()
        except AuthorizationError:
            continue
        own = geo_topics.origin(log.directives)
        if own is not None:
            yield Claim(match[1], match[2], own.cluster, own.by)


def check(link: LinkSettings, target: Cluster, source_id: str, target_id: str) -> None:
    """Raises ConfigError if the destination is the origin, or if one of the names means another
    cluster."""
    origin, name = link.source.alias, link.target.alias
    if source_id == target_id:
        raise ConfigError(
            "geo",
            f"destination {name}",
            f"it is the origin {origin} itself: both are the cluster {source_id}",
        )
    for claim in on(target):
        if claim.origin != origin:
            continue
        if claim.cluster != source_id:
            raise ConfigError(
                "geo",
                f"origin {origin}",
                f"on {name} this name already means the cluster {claim.cluster}, {claim.by};"
                f" ours is {source_id}",
                remedy="give one of them another name",
            )
        if claim.destination != name:
            raise ConfigError(
                "geo",
                f"destination {name}",
                f"this cluster is already called {claim.destination}, {claim.by}",
                remedy=f"use that name: causeway geo destination add {claim.destination} …",
            )


def check_origin(directives: LinkDirectives, link: LinkSettings, source_id: str) -> None:
    """Raises ConfigError if the target of the link is not a destination of this origin."""
    own = geo_topics.origin(directives)
    if own is None:
        raise ConfigError(
            "geo",
            f"destination {link.target.alias}",
            f"{link.source.alias} is not an origin there: it was never added, or was removed",
            remedy=f"causeway geo destination add {link.target.alias} --bootstrap host:port",
        )
    if own.cluster != source_id:
        raise ConfigError(
            "geo",
            f"origin {link.source.alias}",
            f"on {link.target.alias} this name means the cluster {own.cluster}, {own.by};"
            f" ours is {source_id}",
        )


def came_from(source: Cluster, target_id: str) -> tuple[str, ...]:
    """Returns the names of the destination on the origin, if the origin is also one of
    its destinations. Topics whose names begin with one of them came from the destination. Raises
    CausewayError."""
    return tuple(sorted({claim.origin for claim in on(source) if claim.cluster == target_id}))
