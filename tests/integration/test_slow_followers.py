"""A cutover, and a promotion, of a cluster with a slow follower that is in sync: what a producer
was told is written, and no reader sees yet, is waited for before the source counts as standing
still.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from causeway.model import State
from causeway.operate.cutover import Checklist, CutoverEnd, FirstMover, Look, Wishes
from causeway.operate.cutover import run as cutting
from causeway.operate.failover import promote
from tests.harness.daemon import RunningDaemon
from tests.harness.guarded import Guarded, grant, mirror_name, mirror_of
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.security import Security
from tests.harness.kafka_tools import KafkaTools
from tests.harness.links import settings_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]

HELD_MS: Final = 10_000  # so long a follower's request is held where little has come
HIDDEN: Final = [b"hidden %d" % n for n in range(20)]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    """Two brokers, each of which waits for much before it copies anything of the other."""
    users = dict.fromkeys(("causeway", "shop"), "secret")
    security = Security(protocol="SASL_PLAINTEXT", mechanisms=("PLAIN",), users=users, acl=True)
    slow = {
        "replica.fetch.min.bytes": str(100_000_000),
        "replica.fetch.wait.max.ms": str(HELD_MS),
        "replica.lag.time.max.ms": str(12 * HELD_MS),
    }
    with LocalCluster("A", brokers=2, security=security, properties=slow) as cluster:
        tools = KafkaTools(cluster.internal_bootstrap)
        grant(tools)
        shop = KafkaTools(cluster.bootstrap, security.librdkafka("shop"))
        yield Guarded(cluster, tools, shop)


@pytest.mark.timeout(300)
def test_what_a_slow_follower_hides_is_waited_for(
    guarded: Guarded, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right before the fence somebody writes, and has his acknowledgement from the leader alone.
    For seconds neither readers nor high watermarks know of it, and the ends stand still."""
    topic = prefix + "orders"
    guarded.tools.create_topic(topic, 1, replication_factor=2)
    mirror = mirror_of(guarded, target, prefix)
    settings, there = settings_of(mirror), mirror_name(mirror, topic)
    wishes = Wishes(first=FirstMover.PRODUCERS, fence=True, settle_s=1.0)
    written = False
    said: list[str] = []
    lagging: list[str] = []

    def told(checklist: Checklist, look: Look) -> None:
        nonlocal written
        step = checklist.current
        if step is not None and step.name == "fence" and not look.fences and not written:
            written = True
            # Once this one is copied, the follower's next request has just begun to be held.
            guarded.shop.produce(topic, [b"probe"])
            guarded.shop.produce(topic, HIDDEN, settings={"enable.idempotence": False, "acks": "1"})
            (dry,) = promote(settings, topic=topic, dry_run=True, wait_s=0)
            lagging.extend(map(str, dry.lagging))
        if step is not None and look.fences:
            said.append(step.text)

    with RunningDaemon(monkeypatch, mirror) as run:
        run.await_state(topic, State.RUNNING)
        found = cutting.cutover(settings, wishes, topics=[topic], act=True, on_look=told)
    assert found.end is CutoverEnd.DONE, found.checklist
    assert written
    assert len(lagging) == 1, "a promotion is refused as well"
    assert "of 21" in lagging[0]
    hidden = "followers have yet to copy records of 1 partition"
    assert any(text.startswith(hidden) for text in said), said
    (records,) = target.read(there).values()
    assert [record.value for record in records] == [b"probe", *HIDDEN]
