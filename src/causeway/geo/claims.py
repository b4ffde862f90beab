"""Whose names are whose on a cluster, by the ids of clusters: names alone could mean anything.

Each pair of origin and destination says so among its directives, in a record of kind ORIGIN.
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

ANSWER_S: Final = 10.0  # so long a cluster is waited for
_TOPIC: Final = re.compile(r"__causeway\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.directives")


class Claim(NamedTuple):
    """On the destination called `destination`, `origin` is the cluster with the id `cluster`."""

    origin: str
    destination: str
    cluster: str
    by: str


def id_of(cluster: Cluster) -> str:
    """Raises CausewayError where it cannot be reached, or has none."""
    found = cluster.bootstrap_check(ANSWER_S).cluster_id
    if not found:
        raise CausewayError("geo", str(cluster), "it does not tell its cluster id")
    return found


def on(cluster: Cluster) -> Iterator[Claim]:
    """What others have said there; what we may not read is left out. Raises CausewayError."""
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
    """Raises ConfigError where the destination is the origin, or a name of theirs is taken."""
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
                f"on {name} that name stands for the cluster {claim.cluster} already, {claim.by};"
                f" ours is {source_id}",
                remedy="give one of them another name",
            )
        if claim.destination != name:
            raise ConfigError(
                "geo",
                f"destination {name}",
                f"this cluster is called {claim.destination} already, {claim.by}",
                remedy=f"use that name: causeway geo destination add {claim.destination} …",
            )


def check_standing(standing: LinkDirectives, link: LinkSettings, source_id: str) -> None:
    """Raises ConfigError where the link's destination is none any more, or another origin's."""
    own = geo_topics.origin(standing)
    if own is None:
        raise ConfigError(
            "geo",
            f"destination {link.target.alias}",
            f"{link.source.alias} is no origin there: it was never added, or was removed",
            remedy=f"causeway geo destination add {link.target.alias} --bootstrap host:port",
        )
    if own.cluster != source_id:
        raise ConfigError(
            "geo",
            f"origin {link.source.alias}",
            f"on {link.target.alias} that name stands for the cluster {own.cluster}, {own.by};"
            f" ours is {source_id}",
        )


def came_from(source: Cluster, target_id: str) -> tuple[str, ...]:
    """What the destination is called on the origin, where that is a destination of it in turn:
    topics whose names begin so came from there. Raises CausewayError."""
    return tuple(sorted({claim.origin for claim in on(source) if claim.cluster == target_id}))
