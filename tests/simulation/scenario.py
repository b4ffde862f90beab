"""What a seed chooses before a run begins: clusters, topics, and the mirror's file."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.simulation import transforms
from tests.simulation.cluster import DAY_MS

if TYPE_CHECKING:
    from tests.simulation.run import Run

SOURCE, TARGET = "A", "B"
LINK: Final = f"{SOURCE}->{TARGET}"
LINK_BACK: Final = f"{TARGET}->{SOURCE}"
_LEASE_S: Final = 3600  # of a long run, the longest one that there is
_RARE_S: Final = 4 * 3600  # of a long run, between looks at topics and leaders
_FAULTS_S: Final = 30.0, 60.0, 120.0
_LONG_S: Final = 5 * 86_400.0, 10 * 86_400.0, 20 * 86_400.0


class Content(StrEnum):
    """How a topic is written and cleaned."""

    PLAIN = "plain"  # idempotent producers
    TRANSACTIONS = "transactions"  # some are aborted
    COMPACTED = "compacted"
    DELETED = "deleted"  # DeleteRecords and retention, behind the mirror's position
    RETAINED = "retained"  # also before the mirror's position: what is lost is acknowledged
    PRESERVED = "preserved"  # transactions too; each record keeps its offset
    OLD = "old"  # records of days ago: brokers forget their producers
    APPEND_TIME = "append time"  # the source's leader gives the records their time
    SHARED = "shared"  # others write to the topic on the target
    TRANSFORMED = "transformed"  # by rules, which drop some records
    REPLACED = "replaced"  # is recreated, or loses its tail: the mirror stops, or has all


IN_ORDER: Final = frozenset({Content.COMPACTED, Content.RETAINED})
"""The source may lose records before they are mirrored."""
MOVABLE: Final = (Content.PLAIN, Content.TRANSACTIONS, Content.PRESERVED, Content.OLD)
"""Both sides have the same records once the mirror has caught up."""
TRANSACTIONAL: Final = frozenset({Content.TRANSACTIONS, Content.PRESERVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """`late`: it is created during the run. `origin`: the cluster that it is mirrored from."""

    name: str
    content: Content
    partitions: int
    configs: dict[str, str]
    identity: bool = False
    late: bool = False
    origin: str = SOURCE

    @property
    def mirrored(self) -> str:
        return self.name if self.identity else f"{self.origin}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`nodes`: of each cluster. `faults_s`: how long things go wrong. `sole_writer`: as the file
    says it; None: it says nothing. `loss`: what a partition does if the source has deleted records
    before they were mirrored; one that stops is adopted at the end. `long`: it takes days, and
    between some faults nothing goes wrong for hours or days. `back`: topics of a second flow, from
    the target to the source. `moves`: see moves.py. `script`: what goes wrong, in place of faults
    by chance, and with `ends_with_script` nothing more. `catch_up_s`: the time for the rest, after
    all faults. `rest_s`: how long it goes on after that.
    `refresh_s`: between two looks at the topics."""

    nodes: int
    replication: int
    topics: tuple[TopicPlan, ...]
    drivers: int
    lanes: int
    faults_s: float
    group_sync: bool
    codec: str
    gaps: str
    identity: bool = False
    sole_writer: bool | None = None
    long: bool = False
    loss: str = "stop"
    back: tuple[TopicPlan, ...] = ()
    keys: dict[str, str] = field(default_factory=dict)
    catch_up_s: float = 900.0
    rest_s: float = 30.0
    refresh_s: int = 5
    ends_with_script: bool = False
    moves: bool = False
    script: Callable[[Run], None] | None = field(default=None, repr=False)

    def configs_of(self, plan: TopicPlan) -> dict[str, str]:
        """Of its topic. Days go by in a long run, so that the source deletes old records."""
        if not self.long:
            return plan.configs
        retention_ms = DAY_MS if plan.content is Content.RETAINED else -1
        return {**plan.configs, "retention.ms": str(retention_ms)}

    @property
    def file(self) -> str:
        """The mirror's property file."""
        return self.file_without(())

    @property
    def file_with_way_back(self) -> str:
        """The file with a reverse link that mirrors nothing until a command starts it."""
        way_back = {
            f"{LINK_BACK}.enabled": "true",
            f"{LINK_BACK}.causeway.way.back": "true",
            f"{LINK_BACK}.topics": ", ".join(each.name for each in self.topics),
        }
        return replace(self, keys={**self.keys, **way_back}).file

    def file_without(self, topics: Collection[str]) -> str:
        """The file without some of the topics."""
        bootstrap = {
            alias: ",".join(f"{alias.lower()}-{node}.sim:9092" for node in range(self.nodes))
            for alias in (SOURCE, TARGET)
        }
        preserved = [each.name for each in self.topics if each.content is Content.PRESERVED]
        policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
        both_long = self.long and bool(self.back)
        sole_writer = "" if self.sole_writer is None else str(self.sole_writer).lower()
        keys = {
            "clusters": f"{SOURCE}, {TARGET}",
            f"{SOURCE}.bootstrap.servers": bootstrap[SOURCE],
            f"{TARGET}.bootstrap.servers": bootstrap[TARGET],
            f"{LINK}.enabled": "true",
            f"{LINK}.topics": ", ".join(
                each.name for each in self.topics if each.name not in topics
            ),
            f"{LINK_BACK}.enabled": str(bool(self.back)).lower(),
            f"{LINK_BACK}.topics": ", ".join(each.name for each in self.back),
            "groups": "group-.*",
            "replication.policy.class": policy if self.identity else "",
            "replication.factor": str(self.replication),
            "checkpoints.topic.replication.factor": str(self.replication),
            "offset-syncs.topic.replication.factor": str(self.replication),
            "heartbeats.topic.replication.factor": str(self.replication),
            "refresh.topics.interval.seconds": str(self.refresh_s),
            "refresh.groups.interval.seconds": "5",
            "sync.topic.configs.interval.seconds": "20",
            "emit.checkpoints.interval.seconds": "5",
            "sync.group.offsets.enabled": str(self.group_sync).lower(),
            "sync.group.offsets.interval.seconds": "5",
            "emit.heartbeats.interval.seconds": "10",
            f"{SOURCE}.consumer.fetch.max.wait.ms": str(_LEASE_S * 1000) if self.long else "500",
            "causeway.lease.seconds": str(_LEASE_S) if self.long else "",
            f"{SOURCE}.consumer.metadata.max.age.ms": str(_RARE_S * 1000) if self.long else "",
            f"{TARGET}.consumer.fetch.max.wait.ms": str(_LEASE_S * 1000) if both_long else "",
            f"{TARGET}.consumer.metadata.max.age.ms": str(_RARE_S * 1000) if both_long else "",
            "sync.topic.acls.enabled": "false",
            "causeway.lanes": str(self.lanes),
            "causeway.offsets.gaps": self.gaps,
            "causeway.offsets.preserve.topics": ", ".join(preserved),
            "causeway.on.data.loss": self.loss,
            "causeway.sole.writer": sole_writer,
            f"{TARGET}.producer.compression.type": self.codec,
            **self.keys,
        }
        transformed = [each.name for each in self.topics if each.content is Content.TRANSFORMED]
        if transformed:
            keys |= {f"{LINK}.{name}": value for name, value in transforms.KEYS.items()}
            keys[f"{LINK}.causeway.transform.rules.topics"] = ", ".join(transformed)
        return "".join(f"{name} = {value}\n" for name, value in keys.items() if value)


CONFIGS: Final[dict[Content, dict[str, str]]] = {
    Content.COMPACTED: {"cleanup.policy": "compact", "segment.bytes": "4000"},
    Content.DELETED: {"segment.bytes": "4000"},
    Content.RETAINED: {"segment.bytes": "4000"},
    Content.APPEND_TIME: {"message.timestamp.type": "LogAppendTime"},
}


def choose(chance: random.Random, *, faults_s: float | None = None, long: bool = False) -> Scenario:
    """The scenario of a seed. `faults_s`: by chance unless given."""
    nodes = chance.choice((1, 2, 3, 3))
    identity = chance.random() < 0.25
    contents = [each for each in Content if identity or each is not Content.SHARED]
    topics = tuple(
        _topic(number, chance.choice(contents), chance, identity)
        for number in range(chance.randint(1, 3))
    )
    back = () if identity or chance.random() < 0.7 else (_back(chance),)
    sole_writer = chance.choice((None, None, True, False))
    if any(each.content is Content.SHARED for each in topics):
        # Others may not write to a topic that keeps its offsets, and the file says so for all.
        topics = tuple(each for each in topics if each.content is not Content.PRESERVED)
        sole_writer = False
    elif sole_writer is False and any(each.content is Content.PRESERVED for each in topics):
        sole_writer = None
    return Scenario(
        nodes=nodes,
        replication=nodes,
        topics=topics,
        drivers=chance.choice((1, 1, 2)),
        lanes=chance.choice((1, 2)),
        faults_s=faults_s or chance.choice(_LONG_S if long else _FAULTS_S),
        rest_s=30.0 if faults_s is None else 5.0,
        long=long,
        refresh_s=chance.choice((5, _RARE_S)) if long else 5,
        loss=chance.choice(("stop", "continue")),
        back=back,
        group_sync=chance.random() < 0.7,
        codec=chance.choice(("none", "none", "lz4")),
        gaps=chance.choice(("markers", "transactions")),
        identity=identity,
        sole_writer=sole_writer,
    )


def choose_move(chance: random.Random, *, faults_s: float | None = None) -> Scenario:
    """The scenario of a seed in which the mirror moves."""
    chosen = choose(chance, faults_s=faults_s)
    topics = tuple(
        replace(
            plan,
            content=(
                content := plan.content if plan.content in MOVABLE else chance.choice(MOVABLE)
            ),
            configs=dict(CONFIGS.get(content, {})),
            identity=True,
        )
        for plan in chosen.topics
    )
    return replace(chosen, topics=topics, identity=True, back=(), sole_writer=None, moves=True)


def _back(chance: random.Random) -> TopicPlan:
    content = chance.choice((Content.PLAIN, Content.TRANSACTIONS))
    return TopicPlan(name="u0", content=content, partitions=2, configs={}, origin=TARGET)


def _topic(number: int, content: Content, chance: random.Random, identity: bool) -> TopicPlan:
    return TopicPlan(
        name=f"t{number}",
        content=content,
        partitions=chance.randint(1, 3),
        configs=dict(CONFIGS.get(content, {})),
        identity=identity,
        late=number > 0 and chance.random() < 0.3,
    )
