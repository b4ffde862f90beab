"""Lanes and brokers that die while offsets are filled: each record must keep its offset.

One lane at a time holds the lease. A marker has no sequence, so a late one of a dead lane is the
danger: it would take the offset of a record. CAUSEWAY_FIRE_SECONDS lengthens the random tests,
CAUSEWAY_FIRE_SEED repeats one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from causeway.model import State
from tests.harness import writers
from tests.harness.battle import SEED, Ground, battle, ground_of
from tests.harness.broken_logs import cut_off_batches
from tests.harness.mirror import FOREVER
from tests.harness.same_offsets import begin_at
from tests.harness.storms import LEASE_S, PATIENT_S, Storm, keeps
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "8"))
WAYS = pytest.mark.parametrize("gaps", ["markers", "transactions"])


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with ground_of() as made:
        yield made


@WAYS
@pytest.mark.parametrize(
    "brokers",
    [
        pytest.param(False, id="lanes"),
        pytest.param(True, id="brokers", marks=pytest.mark.slow),
    ],
)
def test_lanes_killed_and_frozen_amid_transactions(
    ground: Ground, prefix: str, gaps: str, brokers: bool
) -> None:
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.create(2)
        it.claim(keeps=keeps(gaps))
        it.driver.forgets = True
        with writers.writing(it.source, it.topic, 2, seed=SEED, pause_s=0.2):
            Storm(it, brokers=brokers).rage(FIRE_S)
        it.await_mirrored(timeout=180)
        assert it.assert_same_offsets(why=f"seed {SEED}")


@pytest.mark.slow
def test_lanes_killed_while_the_beginning_is_filled(ground: Ground, prefix: str) -> None:
    start = 40_000_003
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.create()
        begin_at(it.driver.source.settings, it.topic, start)
        it.written(100)
        it.claim(keeps=keeps("markers"))
        Storm(it, brokers=False).rage(FIRE_S)
        it.await_mirrored(timeout=180)
        assert it.assert_same_offsets(why=f"seed {SEED}") == 100
        assert it.target.offsets(it.name) == {0: start + 100}


@pytest.mark.parametrize("late", ["after-the-successors-marker", "before-it"])
def test_a_marker_of_a_dead_lane_arrives_late(ground: Ground, prefix: str, late: str) -> None:
    proxy = ground.proxies[1]
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.create(config=FOREVER)
        it.claim(keeps=keeps("markers"))
        it.driver.leader = 0
        it.driver.start_lane(0)
        with it.source.transactional(it.topic) as one:
            one.begin()
            one.send(it.topic, b"first")
            one.commit()
            it.source.await_transactions(it.topic)
            await_until(lambda: it.target_end() == 2, what="the first marker")
            ports = it.ports_of(0)
            one.begin()
            one.send(it.topic, b"aborted")
            one.flush()
            proxy.stall("up", client_ports=ports)
            one.abort()
            it.source.await_transactions(it.topic)
        await_until(lambda: proxy.held, what="the lane's request is held")
        it.driver.kill(0)
        it.driver.leader = 1
        it.driver.start_lane(1)
        if late == "before-it":
            proxy.release(ports)
        it.await_mirrored(timeout=60)
        proxy.release(ports)
        it.written(3)
        it.await_mirrored()
        it.assert_same_offsets()


CASES = [
    (n, lane, first)
    for n in range(1, 5)
    for lane in ("alive", "killed")
    for first in ("marker", "record")
]
QUICK = {(1, "alive", "marker"), (2, "killed", "marker"), (3, "alive", "record")}


@pytest.mark.parametrize(
    ("lost", "lane", "first"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_a_target_that_lost_acknowledged_records_and_markers(
    ground: Ground, prefix: str, lost: int, lane: str, first: str
) -> None:
    """As an unclean election does: the log of the new leader ends with a record, or with a marker.
    The same offsets are written again, or the partition stops; none has another record."""
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.create()
        it.claim(keeps=keeps("markers"))
        it.driver.start_lane(0)
        with it.source.transactional(it.topic) as one:
            for turn in range(6):
                one.begin()
                one.send(it.topic, b"record %d" % turn)
                (one.abort if turn == 3 else one.commit)()
                it.source.await_transactions(it.topic)
                it.await_mirrored()
            if lane == "killed":
                it.driver.kill(0)
            ground.target.kill()
            end = cut_off_batches(ground.target, it.name, 0, lost)
            ground.target.restart()
            assert end < it.source.offsets(it.topic)[0]
            if lane == "killed":
                it.driver.start_lane(1)
            one.begin()
            one.send(it.topic, b"more")
            (one.abort if first == "marker" else one.commit)()
            it.source.await_transactions(it.topic)
        it.await_mirrored()
        it.assert_same_offsets()


@pytest.mark.parametrize("then", ["as it is", "written past"])
def test_the_source_was_truncated(ground: Ground, prefix: str, then: str) -> None:
    """It lost records that were mirrored; also when new ones lie at their offsets."""
    with battle(ground, prefix, lease_s=LEASE_S, patience_s=PATIENT_S) as it:
        it.create()
        it.claim(keeps=keeps("markers"))
        it.written(300)
        it.driver.start_lane(0)
        it.await_mirrored()
        it.driver.drain(0)
        ground.source.kill()
        end = cut_off_batches(ground.source, it.topic, 0, 2)
        ground.source.restart()
        assert it.source.offsets(it.topic)[0] == end < 300
        if then == "written past":
            it.written(300)
        it.driver.start_lane(1)
        reason = it.await_state(State.STOPPED)
        assert "truncated" in reason or "is not the source's" in reason, reason
        assert it.target_end() == 300
