"""What a seed chooses before a run begins: clusters, topics, the mirror's file, and faults."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

SOURCE, TARGET = "A", "B"


class Content(StrEnum):
    """How a topic is written and cleaned."""

    PLAIN = "plain"  # idempotent producers
    TRANSACTIONS = "transactions"  # some are aborted
    COMPACTED = "compacted"
    DELETED = "deleted"  # DeleteRecords and retention, behind the mirror's position
    PRESERVED = "preserved"  # transactions too; each record keeps its offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    name: str
    content: Content
    partitions: int
    configs: dict[str, str]

    @property
    def mirrored(self) -> str:
        return f"{SOURCE}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`nodes`: of each cluster. `faults_s`: how long things go wrong. `gentle`: no faults."""

    nodes: int
    replication: int
    topics: tuple[TopicPlan, ...]
    drivers: int
    lanes: int
    faults_s: float
    group_sync: bool
    codec: str
    gaps: str
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The mirror's property file."""
        bootstrap = {
            alias: ",".join(f"{alias.lower()}-{node}.sim:9092" for node in range(self.nodes))
            for alias in (SOURCE, TARGET)
        }
        preserved = [each.name for each in self.topics if each.content is Content.PRESERVED]
        keys = {
            "clusters": f"{SOURCE}, {TARGET}",
            f"{SOURCE}.bootstrap.servers": bootstrap[SOURCE],
            f"{TARGET}.bootstrap.servers": bootstrap[TARGET],
            f"{SOURCE}->{TARGET}.enabled": "true",
            "topics": ", ".join(each.name for each in self.topics),
            "groups": "group-.*",
            "replication.factor": str(self.replication),
            "checkpoints.topic.replication.factor": str(self.replication),
            "offset-syncs.topic.replication.factor": str(self.replication),
            "heartbeats.topic.replication.factor": str(self.replication),
            "refresh.topics.interval.seconds": "5",
            "refresh.groups.interval.seconds": "5",
            "sync.topic.configs.interval.seconds": "20",
            "emit.checkpoints.interval.seconds": "5",
            "sync.group.offsets.enabled": str(self.group_sync).lower(),
            "sync.group.offsets.interval.seconds": "5",
            "emit.heartbeats.interval.seconds": "10",
            "sync.topic.acls.enabled": "false",
            "causeway.lanes": str(self.lanes),
            "causeway.offsets.gaps": self.gaps,
            "causeway.offsets.preserve.topics": ", ".join(preserved),
            f"{TARGET}.producer.compression.type": self.codec,
            **self.keys,
        }
        return "".join(f"{name} = {value}\n" for name, value in keys.items() if value)


_CONFIGS: Final[dict[Content, dict[str, str]]] = {
    Content.COMPACTED: {"cleanup.policy": "compact", "segment.bytes": "4000"},
    Content.DELETED: {"segment.bytes": "4000"},
}


def choose(chance: random.Random) -> Scenario:
    """The scenario of a seed."""
    nodes = chance.choice((1, 2, 3, 3))
    count = chance.randint(1, 3)
    topics = tuple(_topic(number, chance.choice(list(Content)), chance) for number in range(count))
    return Scenario(
        nodes=nodes,
        replication=nodes,
        topics=topics,
        drivers=chance.choice((1, 1, 2)),
        lanes=chance.choice((1, 2)),
        faults_s=chance.choice((30.0, 60.0, 120.0)),
        group_sync=chance.random() < 0.7,
        codec=chance.choice(("none", "none", "lz4")),
        gaps=chance.choice(("markers", "transactions")),
    )


def _topic(number: int, content: Content, chance: random.Random) -> TopicPlan:
    configs = dict(_CONFIGS.get(content, {}))
    return TopicPlan(
        name=f"t{number}", content=content, partitions=chance.randint(1, 3), configs=configs
    )
