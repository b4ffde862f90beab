"""Three brokers on each side, of which two must have each record: lanes and brokers die, freeze and
thaw while offsets are kept. Afterwards each record has its source's offset.

CAUSEWAY_FIRE_SECONDS lengthens the storms, CAUSEWAY_FIRE_SEED repeats one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pytest

from causeway.errors import CausewayError
from tests.harness import writers
from tests.harness.battle import SEED, Battle, Ground, battle, ground_of
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.lanes import client
from tests.harness.mirror import FOREVER
from tests.harness.quotas import quota
from tests.harness.same_offsets import begin_at
from tests.harness.storms import LEASE_S, PATIENT_S, Side, Storm, brokers_suffer, keeps
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "60"))
SHORT_S = 12.0
SAFE = {"min.insync.replicas": "2", **FOREVER}


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    source = LocalCluster("A", brokers=3)
    try:
        with ground_of(source, brokers=3) as made:
            yield made
    finally:
        source.destroy()


def begin(it: Battle, partitions: int = 1, gaps: str = "markers") -> None:
    """Creates the topic and its mirror, and claims its partitions."""
    it.source.create_topic(it.topic, partitions, replication_factor=3, config=SAFE)
    it.target.create_topic(it.name, partitions, replication_factor=3, config=SAFE)
    claim(it, gaps)


def claim(it: Battle, gaps: str = "markers") -> None:
    def claimed() -> bool:
        try:
            it.claim(keeps=keeps(gaps))
        except CausewayError:  # brokers that have just started are slow
            return False
        return True

    await_until(claimed, what="the partitions are claimed")
    it.driver.forgets = True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [
        pytest.param("markers", SHORT_S, id="short-markers"),
        pytest.param("markers", FIRE_S, id="markers", marks=pytest.mark.slow),
        pytest.param("transactions", FIRE_S, id="transactions", marks=pytest.mark.slow),
    ],
)
def test_lanes_and_brokers_of_both_sides_suffer(
    ground: Ground, prefix: str, gaps: str, seconds: float
) -> None:
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        begin(it, 3, gaps)
        with (
            writers.writing(it.source, it.topic, 3, seed=SEED, pause_s=0.2),
            brokers_suffer(Side(ground.target), Side(ground.source)) as done,
        ):
            Storm(it).rage(seconds)
        it.await_mirrored(timeout=300)
        assert it.assert_same_offsets(why=f"seed {SEED}: {done}")


@pytest.mark.slow
@pytest.mark.parametrize("lane", ["killed", "alive"])
@pytest.mark.parametrize("leader", ["moves", "stays"])
def test_a_broker_freezes_with_a_marker_in_its_socket(
    ground: Ground, prefix: str, lane: str, leader: str
) -> None:
    """Beyond its session, so that it thaws when another broker leads; or for less."""
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        begin(it)
        it.driver.leader = 0
        it.driver.start_lane(0)

        def moved(before: int) -> bool:
            return it.leader() != before

        with it.source.transactional(it.topic) as one:
            for turn in range(3):
                one.begin()
                one.send(it.topic, b"record %d" % turn)
                one.commit()
                it.source.await_transactions(it.topic)
                it.await_mirrored()
                one.begin()
                one.send(it.topic, b"aborted")
                one.flush()
                leads = it.leader()
                ground.target.pause(leads)
                try:
                    one.abort()
                    it.source.await_transactions(it.topic)
                    if lane == "killed":
                        it.driver.kill(turn)
                        it.driver.leader = turn + 1
                        it.driver.start_lane(turn + 1)
                    if leader == "moves":
                        await_until(partial(moved, leads), what="another leader")
                finally:
                    ground.target.resume(leads)
                it.await_mirrored()
        it.written(3)
        it.await_mirrored()
        it.assert_same_offsets()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "rate"), [("producer_byte_rate", 20_000), ("request_percentage", 0.5)]
)
def test_a_target_throttles_while_lanes_die(
    ground: Ground, prefix: str, key: str, rate: float
) -> None:
    bootstrap = ground.target.internal_bootstrap
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        begin(it, 2)
        with (
            quota(bootstrap, it.driver.target.settings.client_id, key, rate),
            writers.writing(it.source, it.topic, 2, seed=SEED, pause_s=0.4),
        ):
            Storm(it).rage(SHORT_S)
        it.await_mirrored(timeout=300)
        assert it.assert_same_offsets(why=f"seed {SEED}")


@pytest.mark.slow
def test_brokers_die_while_the_beginning_is_filled(ground: Ground, prefix: str) -> None:
    start = 60_000_003
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.source.create_topic(it.topic, config=FOREVER)
        begin_at(client("A", ground.source.bootstrap), it.topic, start)
        it.written(100)
        it.target.create_topic(it.name, replication_factor=3, config=SAFE)
        claim(it)
        with brokers_suffer(Side(ground.target)) as done:
            Storm(it).rage(FIRE_S / 2)
        it.await_mirrored(timeout=300)
        assert it.assert_same_offsets(why=f"seed {SEED}: {done}") == 100
        assert it.target.offsets(it.name) == {0: start + 100}


@pytest.mark.slow
@pytest.mark.parametrize("lane", ["alive", "killed"])
def test_an_unclean_election_on_the_target(ground: Ground, prefix: str, lane: str) -> None:
    """What a leader had acknowledged alone is lost. The same offsets are written again."""
    unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", **FOREVER}
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.source.create_topic(it.topic, replication_factor=3, config=SAFE)
        it.target.create_topic(it.name, replication_factor=2, config=unclean)
        claim(it)
        it.driver.start_lane(0)

        def write(count: int) -> None:
            writers.write_transactions(it.source, it.topic, count, seed=count, partitions=1)
            it.source.await_transactions(it.topic)

        write(8)
        it.await_mirrored()
        follower, leader = it.follower(), it.leader()
        before = it.target_end()
        ground.target.kill(follower)
        write(5)
        it.await_mirrored(timeout=120)
        assert it.target_end() > before
        if lane == "killed":
            it.driver.kill(0)
        ground.target.kill(leader)
        ground.target.restart(follower)
        await_until(lambda: it.leader() == follower, 60, "the follower leads")
        if lane == "killed":
            assert it.target_end() == before
            it.driver.start_lane(1)
        write(4)
        it.await_mirrored(timeout=120)
        ground.target.restart(leader)
        it.await_mirrored()
        assert it.assert_same_offsets()
