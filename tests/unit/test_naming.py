from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.errors import ConfigError
from causeway.filters import TopicRules
from causeway.naming import ReplicationPolicy

DEFAULT = ReplicationPolicy()
IDENTITY = ReplicationPolicy(kind="identity", source_alias="S")
UNCHANGED = ReplicationPolicy(kind="unchanged", source_alias="S")

# What Kafka 4.3's own policies answered for these names: source, upstream.
ORACLE_DEFAULT = {
    "a": (None, None),
    "A.b": ("A", "b"),
    ".b": ("", "b"),
    "A.": (None, None),
    "A..b": ("A", ".b"),
    "a.b.c": ("a", "b.c"),
    "__x": (None, None),
    "heartbeats": (None, None),
    "A.heartbeats": ("A", "heartbeats"),
    "A_b": (None, None),
}
ORACLE_IDENTITY = {
    "a": ("S", "a"),
    "A.b": ("S", "A.b"),
    "heartbeats": (None, None),
    "A.heartbeats": ("A", "heartbeats"),
    "myheartbeats": (None, None),
}


def is_cycle(policy: ReplicationPolicy, topic: str, target: str) -> bool:
    rules = TopicRules(source="here", target=target, policy=policy)
    return rules.cycle_source(topic) is not None


topics = st.text("abA._-", min_size=1, max_size=20)
aliases = st.text("abcXY-", min_size=1, max_size=6)


@pytest.mark.parametrize(("topic", "expected"), ORACLE_DEFAULT.items())
def test_default_reads_names_as_kafka_does(
    topic: str, expected: tuple[str | None, str | None]
) -> None:
    assert (DEFAULT.topic_source(topic), DEFAULT.upstream_topic(topic)) == expected


@pytest.mark.parametrize(("topic", "expected"), ORACLE_IDENTITY.items())
def test_identity_reads_names_as_kafka_does(
    topic: str, expected: tuple[str | None, str | None]
) -> None:
    assert (IDENTITY.topic_source(topic), IDENTITY.upstream_topic(topic)) == expected


def test_names_of_remote_topics() -> None:
    assert DEFAULT.format_remote_topic("A", "orders") == "A.orders"
    assert ReplicationPolicy(separator="_").format_remote_topic("A", "orders") == "A_orders"
    assert IDENTITY.format_remote_topic("A", "orders") == "orders"
    assert IDENTITY.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert UNCHANGED.format_remote_topic("A", "heartbeats") == "heartbeats"


@pytest.mark.parametrize(
    ("separator", "enabled", "syncs", "checkpoints"),
    [
        (".", True, "mm2-offset-syncs.X.internal", "X.checkpoints.internal"),
        ("_", True, "mm2-offset-syncs_X_internal", "X_checkpoints_internal"),
        ("_", False, "mm2-offset-syncs.X.internal", "X.checkpoints.internal"),
    ],
)
def test_internal_topics_are_called_as_in_mirror_maker(
    separator: str, enabled: bool, syncs: str, checkpoints: str
) -> None:
    policy = ReplicationPolicy(separator=separator, internal_separator_enabled=enabled)
    assert policy.offset_syncs_topic("X") == syncs
    assert policy.checkpoints_topic("X") == checkpoints
    assert policy.is_internal_topic(syncs)
    assert policy.is_internal_topic(checkpoints)
    assert policy.is_checkpoints_topic(checkpoints)


@pytest.mark.parametrize(
    "topic",
    ["__consumer_offsets", ".x", "mm2-status.A.internal", "__causeway.A.B.progress"],
)
def test_internal_topics(topic: str) -> None:
    assert DEFAULT.is_internal_topic(topic)
    assert IDENTITY.is_internal_topic(topic)


def test_mirror_maker_1_knows_only_kafkas_own_internal_topics() -> None:
    assert UNCHANGED.is_internal_topic("__consumer_offsets")
    assert UNCHANGED.is_internal_topic("__causeway.A.B.progress")
    assert UNCHANGED.is_internal_topic("__causeway.A.B.directives")
    assert not UNCHANGED.is_internal_topic("a.internal")
    assert not UNCHANGED.is_heartbeats_topic("heartbeats")


def test_heartbeats_over_several_hops() -> None:
    assert DEFAULT.is_heartbeats_topic("heartbeats")
    assert DEFAULT.is_heartbeats_topic("B.A.heartbeats")
    assert not DEFAULT.is_heartbeats_topic("myheartbeats")
    assert IDENTITY.is_heartbeats_topic("A.heartbeats")
    assert not IDENTITY.is_heartbeats_topic("myheartbeats")


@pytest.mark.parametrize("separator", ["", ":", " ", "->"])
def test_separators_that_topics_cannot_hold_are_refused(separator: str) -> None:
    with pytest.raises(ConfigError, match=r"replication\.policy\.separator"):
        ReplicationPolicy(separator=separator)


@given(alias=aliases, topic=topics)
def test_a_mirrored_topic_tells_where_it_came_from(alias: str, topic: str) -> None:
    remote = DEFAULT.format_remote_topic(alias, topic)
    if topic.strip("."):
        assert DEFAULT.topic_source(remote) == alias
        assert DEFAULT.upstream_topic(remote) == topic


@given(path=st.lists(aliases, min_size=1, max_size=5), topic=st.text("ab_", min_size=1))
def test_a_topic_never_goes_back_to_a_cluster_it_has_been_on(path: list[str], topic: str) -> None:
    name = topic
    for alias in path:
        name = DEFAULT.format_remote_topic(alias, name)
    assert all(is_cycle(DEFAULT, name, alias) for alias in path)
    assert not is_cycle(DEFAULT, name, "elsewhere")
    assert DEFAULT.original_topic(name) == topic


@given(start=topics, clusters=st.lists(st.sampled_from("ABC"), min_size=1, max_size=30))
def test_mirroring_between_three_clusters_always_ends(start: str, clusters: list[str]) -> None:
    """However the flows are taken, a name grows by at most one prefix a cluster."""
    name, at = start, "A"
    hops = 0
    for target in clusters:
        if target != at and not is_cycle(DEFAULT, name, target):
            name, at = DEFAULT.format_remote_topic(at, name), target
            hops += 1
    assert hops <= 2 or not start.strip(".")


@given(topic=topics, target=aliases)
def test_identity_sees_no_cycles(topic: str, target: str) -> None:
    if not topic.endswith("heartbeats") and target != "S":
        assert not is_cycle(IDENTITY, topic, target)
