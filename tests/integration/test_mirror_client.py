"""Kafka's own MirrorClient and RemoteClusterUtils, by which people's Java programs find out where
their topics and offsets went, give right answers about what Causeway has written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from causeway.config import FlowKeys
from causeway.filters import excludes
from causeway.java import find_java
from causeway.naming import KAFKAS, ReplicationPolicy
from tests.harness.control import Truth
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka.jars import connect_classpath
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, await_copied, mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

GROUPS = 8  # and one more, at the very end


class MirrorClient:
    """Those of one cluster, and RemoteClusterUtils beside it."""

    def __init__(self, java: Any, cluster: KafkaTools, separator: str = ".") -> None:
        self._jvm = java.jvm
        self._mirror = java.jvm.org.apache.kafka.connect.mirror
        self._properties = {
            "bootstrap.servers": cluster.bootstrap,
            "replication.policy.separator": separator,
        }
        self._client = self._mirror.MirrorClient(self._properties)

    def close(self) -> None:
        self._client.close()

    def topology(self) -> dict[str, object]:
        """What it says of clusters and topics; `hops` of each cluster that might lie upstream."""
        client, utils = self._client, self._mirror.RemoteClusterUtils
        return {
            "upstream": set(each(client.upstreamClusters())),
            "hops": {alias: utils.replicationHops(self._properties, alias) for alias in "ABC"},
            "heartbeats": set(each(client.heartbeatTopics())),
            "checkpoints": set(each(client.checkpointTopics())),
            "remote": set(each(client.remoteTopics())),
        }

    def translate_all(self, alias: str, groups: str) -> dict[str, dict[tuple[str, int], int]]:
        """The same of all groups that the pattern `groups` matches: since Kafka 4.3."""
        found = self._mirror.RemoteClusterUtils.translateOffsets(
            self._properties,
            alias,
            self._jvm.java.util.regex.Pattern.compile(groups),
            self._jvm.java.time.Duration.ofSeconds(60),
        )
        return {
            group: {
                (at.topic(), at.partition()): found[group][at].offset()
                for at in each(found[group].keySet())
            }
            for group in each(found.keySet())
        }

    def translate(self, alias: str, group: str) -> dict[tuple[str, int], int]:
        """Where `group` of cluster `alias` goes on here."""
        found = self._mirror.RemoteClusterUtils.translateOffsets(
            self._properties, alias, group, self._jvm.java.time.Duration.ofSeconds(60)
        )
        return {(at.topic(), at.partition()): found[at].offset() for at in each(found.keySet())}


def each(java_set: Any) -> Iterator[Any]:
    """Not by py4j's own iterator, which ends by an exception of Java's: PySpark, where it is
    loaded, takes these for its own."""
    places = java_set.iterator()
    while places.hasNext():
        yield places.next()


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """A JVM with Kafka's classes. It ends with this process at the latest."""
    port, token = launch_gateway(
        classpath=connect_classpath(),
        java_path=str(find_java()),
        javaopts=["-Xmx256m", "-XX:+UseSerialGC"],
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    yield gateway
    gateway.shutdown()


@pytest.fixture(scope="module")
def clusters() -> Iterator[Mapping[str, LocalCluster]]:
    """Of their own: the answers are about all topics of a cluster."""
    local = {name: LocalCluster(name) for name in "ABC"}
    try:
        start_all(list(local.values()))
        yield local
    finally:
        for each in local.values():
            each.destroy()


NAMES = (
    "x x.internal x-internal x_internal .x __x mm2-offset-syncs.B.internal mm2-offsets.A.internal"
    " A.mm2-offset-syncs.B.internal mm2x.internal mm2-x-internal mm2-x_internal x.replica"
    " A.checkpoints.internal A_checkpoints_internal checkpoints.internal A.checkpoints-internal"
    " xcheckpoints.internal heartbeats A.heartbeats"
)


@pytest.mark.parametrize(("separator", "everywhere"), [(".", True), ("_", True), ("_", False)])
@pytest.mark.parametrize("kind", ["Default", "Identity"])
def test_topics_are_internal_that_are_so_to_kafkas_own_policy(
    java: Any, kind: str, separator: str, everywhere: bool
) -> None:
    mirror = java.jvm.org.apache.kafka.connect.mirror
    theirs = getattr(mirror, f"{kind}ReplicationPolicy")()
    theirs.configure(
        {
            "replication.policy.separator": separator,
            "replication.policy.internal.topic.separator.enabled": str(everywhere).lower(),
            "source.cluster.alias": "A",
        }
    )
    topic_filter = mirror.DefaultTopicFilter()
    topic_filter.configure({})
    ours = ReplicationPolicy(
        kind=KAFKAS[f"{kind}ReplicationPolicy"],
        separator=separator,
        internal_separator_enabled=everywhere,
        source_alias="A",
    )
    default = FlowKeys.topics_exclude
    for name in NAMES.split():
        assert ours.is_internal_topic(name) is theirs.isInternalTopic(name), name
        assert excludes(default, name) is not topic_filter.shouldReplicateTopic(name), name


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """From one cluster to the next, with names that `separator` joins."""

    source: str
    topic: str
    target: str
    separator: str = "."

    @property
    def mirror(self) -> str:
        return f"{self.source}{self.separator}{self.topic}"


TORN = "torn"
HOPS = (
    Hop(source="A", topic=TORN, target="B"),
    Hop(source="B", topic=f"A.{TORN}", target="C"),
    Hop(source="A", topic=TORN, target="C", separator="_"),
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_java_programs_find_their_topics_and_go_on_at_the_exact_record(
    clusters: Mapping[str, LocalCluster], java: Any, tmp_path: Path
) -> None:
    """A chain A->B->C, and A->C beside it with a separator of its own. Transactions, some of them
    aborted, leave gaps in the source, and groups stand there too: each goes on at the record that
    it would have read next."""
    tools = {alias: KafkaTools(cluster.bootstrap) for alias, cluster in clusters.items()}
    tools["A"].create_topic(TORN, 2)
    write_transactions(tools["A"])
    file = mm2_file(
        tmp_path,
        clusters,
        "A->B.enabled = true",
        "B->C.enabled = true",
        "A->C.enabled = true",
        "A->C.replication.policy.separator = _",
        f"topics = .*{TORN}",
        "refresh.topics.interval.seconds = 1",
        "emit.heartbeats.enabled = true",
        "emit.checkpoints.interval.seconds = 1",
        "sync.topic.acls.enabled = false",
    )
    with (
        Running("run", file, directory=tmp_path) as run,
        closing(MirrorClient(java, tools["A"])) as at_a,
        closing(MirrorClient(java, tools["B"])) as at_b,
        closing(MirrorClient(java, tools["C"])) as at_c,
        closing(MirrorClient(java, tools["C"], "_")) as beside,
    ):
        for hop in HOPS:
            await_copied(tools[hop.source], hop.topic, tools[hop.target], hop.mirror)
        groups = {
            (hop.source, hop.topic): spread_groups(tools[hop.source], hop.topic) for hop in HOPS
        }
        for hop, client in zip(HOPS, (at_b, at_c, beside), strict=True):
            truth = Truth.of(tools[hop.source], hop.topic, tools[hop.target], hop.mirror)
            for group, standing in groups[hop.source, hop.topic].items():
                exact = {(hop.mirror, p): truth.place(p, offset) for p, offset in standing.items()}
                found = await_all(client, hop, group)
                assert found == exact, f"{group} stands at {standing} of {hop}"
            each = {
                group: client.translate(hop.source, group)
                for group in groups[hop.source, hop.topic]
            }
            assert client.translate_all(hop.source, f"{hop.topic}-.*") == each

        nothing = {"A": -1, "B": -1, "C": -1}
        await_topology(
            at_a,
            upstream=set(),
            hops=nothing,
            heartbeats={"heartbeats"},
            checkpoints=set(),
            remote=set(),
        )
        await_topology(
            at_b,
            upstream={"A"},
            hops=nothing | {"A": 1},
            heartbeats={"heartbeats", "A.heartbeats"},
            checkpoints={"A.checkpoints.internal"},
            remote={"A.heartbeats", "A.torn"},
        )
        await_topology(
            at_c,
            upstream={"A", "B"},
            hops=nothing | {"A": 2, "B": 1},
            heartbeats={"heartbeats", "B.heartbeats", "B.A.heartbeats"},
            checkpoints={"B.checkpoints.internal"},
            remote={"B.heartbeats", "B.A.heartbeats", "B.A.torn"},
        )
        await_topology(
            beside,
            upstream={"A"},
            hops=nothing | {"A": 1},
            heartbeats={"heartbeats", "A_heartbeats"},
            checkpoints={"A_checkpoints_internal"},
            remote={"A_heartbeats", "A_torn"},
        )
        assert run.stop() == 0


@pytest.mark.slow
def test_java_programs_get_the_same_offsets_where_offsets_are_preserved(
    clusters: Mapping[str, LocalCluster], java: Any, tmp_path: Path
) -> None:
    """After the other test: it adds a topic. Groups stand everywhere, also in gaps."""
    a, b = (KafkaTools(clusters[alias].bootstrap) for alias in "AB")
    hop = Hop(source="A", topic="kept", target="B")
    a.create_topic(hop.topic, 2)
    write_transactions(a, hop.topic)
    file = mm2_file(
        tmp_path,
        {alias: clusters[alias] for alias in "AB"},
        "A->B.enabled = true",
        "A->B.causeway.offsets = preserve",
        f"topics = {hop.topic}",
        "emit.checkpoints.interval.seconds = 1",
        "sync.topic.acls.enabled = false",
    )
    with (
        Running("run", file, directory=tmp_path) as run,
        closing(MirrorClient(java, b)) as client,
    ):
        await_copied(a, hop.topic, b, hop.mirror)
        await_until(
            lambda: b.offsets(hop.mirror) == a.offsets(hop.topic), PATIENCE_S, "the same ends"
        )
        for group, standing in spread_groups(a, hop.topic).items():
            same = {(hop.mirror, p): offset for p, offset in standing.items()}
            assert await_all(client, hop, group) == same, group
        assert run.stop() == 0


def write_transactions(source: KafkaTools, topic: str = TORN) -> None:
    """A record or more each, every third of them aborted."""
    with source.transactional(f"writer of {topic}") as transactions:
        for number in range(60):
            transactions.begin()
            for index in range(1 + number % 5):
                text = b"%d %d" % (number, index)
                transactions.send(topic, Outgoing(value=text, partition=(number + index) % 2))
            if number % 3 == 2:
                transactions.abort()
            else:
                transactions.commit()


def spread_groups(tools: KafkaTools, topic: str) -> dict[str, dict[int, int]]:
    """Groups that stand at both ends of each partition and evenly between, gaps or not."""
    ends = tools.offsets(topic)
    groups = {}
    for number in range(GROUPS + 1):
        standing = {partition: end * number // GROUPS for partition, end in ends.items()}
        groups[f"{topic}-{number}"] = standing
        offsets = {(topic, partition): offset for partition, offset in standing.items()}
        tools.commit_group(f"{topic}-{number}", offsets)
    return groups


def await_all(client: MirrorClient, hop: Hop, group: str) -> dict[tuple[str, int], int]:
    """Its translation, once there is one for each partition."""
    return await_until(
        lambda: found if len(found := client.translate(hop.source, group)) == 2 else {},
        PATIENCE_S,
        f"checkpoints of {group} from {hop.source}",
        poll_s=0.5,
    )


def await_topology(client: MirrorClient, **wanted: object) -> None:
    """Topics still come into being for a while: mirrors of mirrored heartbeats are the last."""
    found: dict[str, object] = {}

    def so() -> bool:
        found.update(client.topology())
        return found == wanted

    try:
        await_until(so, PATIENCE_S, "what Kafka's client says of the topology", poll_s=0.5)
    except AssertionError as error:
        error.add_note(f"found {found}, wanted {wanted}")
        raise
