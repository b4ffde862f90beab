"""The differences between MirrorMaker 2 and Causeway with the same file, for each flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from causeway.config import OF_FLOWS, OLD_NAMES, Entries
from causeway.config.reading import (
    client_entries,
    flow_entries,
    offsets_topic,
    usual_offsets_topic,
    with_identity_policy,
)


class BehaviourDifference(NamedTuple):
    """`key`: the key to set for MirrorMaker 2's behaviour, or another action; empty if nothing can
    be set. `flows`: the flows with this difference."""

    what: str
    mirror_maker: str
    causeway: str
    key: str = ""
    flows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledFlow:
    """A flow that the file enables, with its keys."""

    source: str
    target: str
    own: Entries
    reader: Entries  # of the source's consumer
    writer: Entries  # of the target's producer

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    def says(self, key: str, default: str = "") -> str:
        entry = self.own.get(key)
        return default if entry is None else entry.value.strip()

    def is_on(self, key: str, default: bool) -> bool:
        return self.says(key, str(default)).lower() == "true"


def flows(entries: Entries, aliases: tuple[str, ...]) -> tuple[EnabledFlow, ...]:
    """Returns the enabled flows."""
    names = OF_FLOWS | {"exactly.once.source.support"}
    found = [
        EnabledFlow(
            source=source,
            target=target,
            own=flow_entries(entries, source, target, names),
            reader=client_entries(entries, source, target, "source", "consumer"),
            writer=client_entries(entries, source, target, "target", "producer"),
        )
        for source in aliases
        for target in aliases
        if source != target
    ]
    return tuple(flow for flow in found if flow.is_on("enabled", False))


def differences(entries: Entries, aliases: tuple[str, ...]) -> tuple[BehaviourDifference, ...]:
    """Returns the differences, the most important first. Flows with the same difference share an
    item."""
    found: dict[BehaviourDifference, list[str]] = {}
    for judge in _ALL:
        for flow in flows(entries, aliases):
            for one in judge(flow, entries):
                found.setdefault(one, []).append(flow.name)
    return tuple(one._replace(flows=tuple(names)) for one, names in found.items())


def _delivery(flow: EnabledFlow, entries: Entries) -> Iterator[BehaviourDifference]:
    once = f"{flow.target}.exactly.once.source.support", "exactly.once.source.support"
    values = [entries[key].value.strip().lower() for key in once if key in entries]
    if values and values[0] == "enabled":
        theirs = "exactly once by transactions: for readers with read_committed only"
    else:
        theirs = "at least once: after a crash or a rebalance records come again"
    if flow.says("causeway.delivery") == "at-least-once":
        return
    ours = "exactly once, for every reader, without transactions"
    yield BehaviourDifference("delivery", theirs, ours)


def _names(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    if flow.says("causeway.rename"):
        yield BehaviourDifference(
            "topics that causeway.rename matches",
            "go by the replication policy's name",
            "go by the rule's name",
            f"leave {flow.name}.causeway.rename out",
        )
    if ":" in flow.says("replication.policy.class"):
        yield BehaviourDifference(
            "a replication policy in Python",
            "does not start: there is no such Java class",
            "names topics by it",
            "a Python package can declare the Java class's name (docs/reference/names.md)",
        )


def _isolation(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    if "isolation.level" in flow.reader:
        return
    yield BehaviourDifference(
        "transactions of the source",
        "read_uncommitted: copies what is open, and what is rolled back later",
        "read_committed: leaves rolled-back records out, waits for open transactions",
        f"{flow.source}.consumer.isolation.level = read_uncommitted",
    )


def _offsets(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    topics = flow.says("causeway.offsets.preserve.topics")
    if flow.says("causeway.offsets").lower() == "preserve":
        topics = "each topic"
    if topics:
        yield BehaviourDifference(
            f"offsets of the records of {topics}",
            "differ from those on the source",
            "the same as on the source",
        )


def _trouble(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    yield BehaviourDifference(
        "source truncated, or deleted and recreated",
        "goes on: skips records or copies them again, in silence",
        "stops that partition with a reason, the others go on",
        "when one stops: causeway run --from TIMESTAMP or --adopt",
    )
    settled = with_identity_policy(flow.own)
    policy = settled.get("replication.policy.class")
    identity = policy is not None and policy.value.strip().endswith("IdentityReplicationPolicy")
    sole = flow.says("causeway.sole.writer").lower()
    if identity and not sole:
        yield BehaviourDifference(
            "a mirror that finds records, and no positions, at its first start",
            "copies the whole source in addition",
            "stops, and asks",
            "causeway run --adopt or --from; or causeway.sole.writer = false if others wrote them",
        )
    keeps = flow.says("causeway.offsets").lower() == "preserve"
    if keeps or sole == "true" or (not sole and not identity):
        yield BehaviourDifference(
            "others write to a mirrored topic",
            "continues",
            "stops that partition",
            "causeway restart --refill TOPIC, or --translate TOPIC"
            if keeps
            else f"once the mirror has begun: {flow.name}.causeway.sole.writer = false",
        )


def _groups(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    checkpoints = flow.is_on("emit.checkpoints.enabled", True)
    synced = flow.is_on("sync.group.offsets.enabled", False)
    if not checkpoints and not synced:
        return
    yield BehaviourDifference(
        "offsets of groups",
        "translated roughly: a group reads again after a failover, the more the further behind",
        "translated exactly, also far behind; checkpoints have the same format",
    )
    if synced and not checkpoints:
        yield BehaviourDifference(
            "groups synced without checkpoints",
            "no group is synced where emit.checkpoints.enabled = false",
            "synced all the same",
            f"{flow.name}.sync.group.offsets.enabled = false",
        )
    if not flow.is_on("emit.offset-syncs.enabled", True) and checkpoints:
        yield BehaviourDifference(
            "checkpoints without offset syncs",
            "no checkpoints where emit.offset-syncs.enabled = false",
            "checkpoints are written: they need no offset syncs",
            f"{flow.name}.emit.checkpoints.enabled = false",
        )
    yield BehaviourDifference(
        "new groups",
        "looked for every refresh.groups.interval.seconds",
        "looked for at every checkpoint"
        if flow.is_on("refresh.groups.enabled", True)
        else "the groups of the first look are kept",
    )


def _offset_syncs(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    if not flow.is_on("emit.offset-syncs.enabled", True):
        return
    on_target = flow.says("offset-syncs.topic.location", "source").lower() == "target"
    cluster, other = (flow.target, flow.source) if on_target else (flow.source, flow.target)
    where = f"mm2-offset-syncs.{other}.internal on {cluster}"
    lag = flow.says("offset.lag.max", "100")
    often = f"{lag} records" if lag.isdecimal() else "offset.lag.max records"
    yield BehaviourDifference(
        "offset syncs",
        f"{where}: one each {often} and at each gap",
        f"{where}: the same, at most one a second and partition",
    )


def _reset(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    entry = flow.reader.get("auto.offset.reset")
    if entry is not None and entry.value.strip().lower() == "latest":
        yield BehaviourDifference(
            "topics that come while it runs",
            "begin at their end by then: first records may be left out",
            "begin at their first record, though auto.offset.reset = latest",
        )


def _internal(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    if flow.says("causeway.internal.topics"):
        return
    yield BehaviourDifference(
        "topics called x.internal",
        "Kafka 3's leaves them out, Kafka 4's mirrors them",
        "mirrored, as Kafka 4's does",
        "causeway.internal.topics = kafka-3",
    )


def _own_topics(flow: EnabledFlow, entries: Entries) -> Iterator[BehaviourDifference]:
    source, target = flow.source, flow.target
    named = flow.says("causeway.mirror.maker.offsets.topic")
    positions = named or offsets_topic(entries, source, target)
    names = (f"mm2-{name}.{source}.internal" for name in ("configs", "offsets", "status"))
    usual = positions == usual_offsets_topic(source)
    theirs = ", ".join(names) if usual else f"{positions}, and two of Connect's"
    slug = f"{source}.{target}"
    ours = f"__causeway.{slug}.progress; .directives after the first pause or throttle"
    kept = flow.says("causeway.mirror.maker.offsets", "true").lower() == "true"
    yield BehaviourDifference(f"its own topics on {target}", theirs, ours)
    yield BehaviourDifference(
        "positions",
        positions,
        "continues from there at the first start, and keeps them written for a return"
        if kept
        else "begins by itself: causeway.mirror.maker.offsets = false",
    )


def _codec(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    entry = flow.writer.get("compression.type")
    codec = "none" if entry is None else entry.value.strip().lower()
    which = flow.says("causeway.recompress", "uncompressed").lower()
    theirs = f"{codec}, whatever they have on the source"
    what = "codec of batches"
    if codec in ("none", "producer") or which == "never":
        yield BehaviourDifference(what, theirs, "as on the source")
    elif which == "uncompressed":
        ours = f"as on the source, or {codec} if they come uncompressed"
        yield BehaviourDifference(what, theirs, ours, f"{flow.name}.causeway.recompress = always")


def _limits(_: EnabledFlow, __: Entries) -> Iterator[BehaviourDifference]:
    yield BehaviourDifference(
        "limits of mirrors (size, times, codec)",
        "as topic configs say: a record that does not fit stops or is skipped",
        "what the records need, also where configs are not synced",
    )


def _old_names(flow: EnabledFlow, _: Entries) -> Iterator[BehaviourDifference]:
    for old, new in OLD_NAMES.items():
        if old in flow.own and new not in flow.own:
            theirs = "ignored by Kafka 4's, without a warning"
            yield BehaviourDifference(old, theirs, f"read as {new}", new)


def _process(_: EnabledFlow, entries: Entries) -> Iterator[BehaviourDifference]:
    yield BehaviourDifference(
        "more processes",
        "share the tasks, and move them at each change",
        "one leads a flow, others wait to take over; Spark's cores share the work",
        "spark.master, causeway.lanes",
    )
    said = entries["causeway.http.port"].value.strip() if "causeway.http.port" in entries else ""
    if said != "-1":
        port = said if said.isdecimal() else "8490"
        yield BehaviourDifference(
            "opens a port",
            "none, or Connect's internal REST",
            f"{port} on 127.0.0.1: page, API, metrics, Connect's paths for scripts",
            "causeway.http.port = -1",
        )
    yield BehaviourDifference(
        "metrics",
        "JMX beans",
        "Prometheus at /metrics, with the names that dashboards have",
    )


_ALL: Final[tuple[Callable[[EnabledFlow, Entries], Iterator[BehaviourDifference]], ...]] = (
    _delivery,
    _names,
    _isolation,
    _offsets,
    _trouble,
    _groups,
    _offset_syncs,
    _reset,
    _old_names,
    _internal,
    _own_topics,
    _codec,
    _limits,
    _process,
)
