"""Decides which topics can keep their offsets, and how offsets without a record are filled.

To keep offsets, a target partition must get only the records of the source partition with its
number, each one exactly once, and at most one record for each of them. Dropped records become gaps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from causeway.cluster import Cluster, TopicMetadata, cluster_rights, versions_of_brokers
from causeway.config import LinkSettings, TransformSettings
from causeway.errors import CausewayError, ConfigError
from causeway.wire import apis, is_unsupported

Way = Literal["markers", "transactions"]
FILLED_PER_S: Final = 3_000_000  # offsets of a partition's beginning, measured
_RIGHT: Final = "CLUSTER_ACTION"
_TRANSLATE: Final = "or translate its offsets (causeway.offsets = translate)"
# Only these make several rows of one in a transform; see transform/plan/refusals.py.
_MULTIPLIES: Final = re.compile(r"(?i)\b((?:pos)?explode|inline|json_tuple)(?:_outer)?\s*\(")
_ROUTES: Final = re.compile(r"(?i)\bas\s+[`\"]?(topic|partition)\b")


def refusal(
    topic: str, target: str, existing: TopicMetadata | None, partitions: int, link: LinkSettings
) -> ConfigError | None:
    """Returns why `topic`, with this number of partitions, cannot keep its offsets in `target`;
    None if it can. `existing`: the target topic, None if it will be created."""
    there = 0 if existing is None else len(existing.partitions)
    transform = link.transform_of(topic)
    if link.declared_sole_writer is False:
        place = link.places.get("causeway.sole.writer", "causeway.sole.writer")
        return refused(
            topic,
            f"{place} = false: others may write to {target}, and their records would take its "
            "offsets",
            "remove that key if only this link writes there",
            link,
        )
    if link.delivery != "exactly-once":
        return refused(
            topic,
            f"causeway.delivery = {link.delivery}: a record that is written twice would take the "
            "offset of the next one",
            "remove that key",
            link,
        )
    if link.partitioning != "same":
        return refused(
            topic,
            "keys choose the target partitions, so records of one partition go to several",
            "mirror it with a MirrorMaker 2 file",
            link,
        )
    if there > partitions:
        return refused(
            topic,
            f"{target} on {link.target.alias} has {there} partitions, and {topic} has {partitions}",
            f"delete {target}, which a run then creates with {partitions}",
            link,
        )
    if transform is not None and (why := _why_not_one(transform)) is not None:
        return refused(topic, f"its transform {transform.name} {why}", "change the query", link)
    return None


def _why_not_one(transform: TransformSettings) -> str | None:
    """Returns why the transform may make several records of one, or choose other partitions, if its
    text shows it. Rules do neither. A Python function has no text: `causeway plan` lets Spark
    analyse it, and a run stops the partition before such a record."""
    if (found := _MULTIPLIES.search(transform.sql or "")) is not None:
        return f"may make several records of one by {found[1].lower()}()"
    if (found := _ROUTES.search(transform.sql or "")) is not None:
        return f"chooses the {found[1].lower()} of records"
    return None


def refused(topic: str, cause: str, remedy: str, link: LinkSettings) -> ConfigError:
    """Returns the error about a topic that cannot keep its offsets."""
    return ConfigError(
        "keep the offsets of",
        f"{topic} of {link.source.alias}",
        cause,
        remedy=f"{remedy}, {_TRANSLATE}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """How gaps are filled. `lacks`: with causeway.offsets.gaps = auto, why markers cannot be
    used."""

    way: Way
    lacks: str | None = None


def filling(link: LinkSettings, target: Cluster) -> Filling:
    """Returns the way that the file names; with `auto`, the way that our rights on the target
    allow. Raises CausewayError."""
    if link.offset_gaps != "auto":
        return Filling(way=link.offset_gaps)
    alias = link.target.alias
    brokers = versions_of_brokers(target).values()
    if not all(apis.WRITE_TXN_MARKERS.is_in(versions) for versions in brokers):
        return Filling(way="transactions", lacks=f"a broker of {alias} has no WriteTxnMarkers")
    try:
        rights = cluster_rights(target)
    except CausewayError as error:
        if not is_unsupported(error):
            raise
        rights = None
    if rights is not None and _RIGHT in rights:
        return Filling(way="markers")
    lacks = f"{_RIGHT} on the cluster {alias} is not granted"
    if not rights:  # without the right DESCRIBE a broker names no rights
        lacks = (
            f"{alias} does not say whether {_RIGHT} on the cluster is granted (grant DESCRIBE on "
            "the cluster as well)"
        )
    return Filling(way="transactions", lacks=lacks)
