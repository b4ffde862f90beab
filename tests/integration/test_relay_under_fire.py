"""Lanes that are killed, frozen and doubled, brokers that die: the target must come out exact.

Each test compares whole logs: what an independent client reads of the source must be what it reads
of the target, for readers of uncommitted and of committed records alike: nothing lost, nothing
doubled, order kept. CAUSEWAY_FIRE_SECONDS lengthens the random ones, CAUSEWAY_FIRE_SEED
repeats one.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

import pytest

from causeway.model import State, TopicPartition
from causeway.records import as_is, header
from tests.harness import writers
from tests.harness.battle import FORGETS, SEED, Battle, Ground, battle, ground_of
from tests.harness.broken_logs import cut_off_batches, leader_epochs, lose_epoch
from tests.harness.kafka_tools import WHOLE_BATCHES, Outgoing
from tests.harness.mirror import FOREVER, Mirror
from tests.harness.raw_batches import Rec, raw_batch
from tests.harness.waiting import await_until
from tests.harness.writers import YEARS_AGO, Writer

pytestmark = pytest.mark.integration

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "6"))


def only_when_slow(*values: object, id: str) -> Any:
    """What `make slow` tries beside what `make test` does: the same, of other records."""
    return pytest.param(*values, id=id, marks=pytest.mark.slow)


OLD_TIMES_WHEN_SLOW = pytest.mark.parametrize(
    "timestamp", [pytest.param(None, id="now"), only_when_slow(YEARS_AGO, id="years-ago")]
)


# -- the ground ------------------------------------------------------------------------------------


# So long a lane waits for late requests before it sends old records.
PATIENT_S = 2.0
# Ten minutes by default, in which these tests may not be done: two lanes at a time rely on it.
REMEMBERS = {"producer.id.expiration.check.interval.ms": "86400000"}


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with ground_of(properties=REMEMBERS) as made:
        yield made


# -- at random -------------------------------------------------------------------------------------


def writing(
    battle: Battle, partitions: int, timestamp: int | None
) -> AbstractContextManager[Writer]:
    return writers.writing(
        battle.source, battle.topic, partitions, timestamp=timestamp, seed=SEED, pause_s=0.2
    )


def torment(battle: Battle, *, live: int = 3, brokers: bool = False) -> None:
    """Start, kill, drain, freeze and thaw lanes at random, and end brokers; then kill all lanes."""
    driver = battle.driver
    chance = random.Random(SEED)
    frozen: set[int] = set()
    numbers = iter(range(1_000_000))
    pause = threading.Event()
    until = time.monotonic() + FIRE_S
    acts = ["start", "start", "kill", "freeze", "thaw", "thaw", "drain"]
    while time.monotonic() < until:
        act = chance.choice([*acts, "broker"] if brokers else acts)
        running = [n for n in driver.lanes if n not in frozen]
        if act == "start" and len(driver.lanes) < live:
            driver.start_lane(next(numbers))
        elif act == "kill" and driver.lanes:
            victim = chance.choice(list(driver.lanes))
            frozen.discard(victim)
            driver.kill(victim)
        elif act == "freeze" and running:
            victim = chance.choice(running)
            driver.signal(victim, signal.SIGSTOP)
            frozen.add(victim)
        elif act == "drain" and running and driver.is_up(victim := chance.choice(running)):
            driver.drain(victim)
        elif act == "thaw" and frozen:
            victim = chance.choice(sorted(frozen))
            driver.signal(victim, signal.SIGCONT)
            frozen.discard(victim)
        elif act == "broker":
            cluster = chance.choice([battle.ground.source, battle.ground.target])
            if chance.random() < 0.5:
                cluster.kill()
            cluster.restart()
        pause.wait(chance.uniform(0, 1.5))
    for number in list(driver.lanes):
        driver.kill(number)


@pytest.mark.parametrize(
    ("timestamp", "read_committed"),
    [
        pytest.param(None, True, id="now"),
        pytest.param(YEARS_AGO, True, id="years-ago"),
        only_when_slow(None, False, id="uncommitted"),
    ],
)
def test_lanes_killed_frozen_and_doubled(
    ground: Ground, prefix: str, timestamp: int | None, read_committed: bool
) -> None:
    """Up to three lanes live on the same partitions, each told an old pair when it starts."""
    with battle(ground, prefix, patience_s=10 if timestamp is None else PATIENT_S) as it:
        it.create(2)
        it.claim(read_committed=read_committed)
        it.driver.forgets = True
        with writing(it, 2, timestamp) as writer:
            torment(it)
            await_until(lambda: writer.written > 1_000, what="enough is written")
        it.driver.start_lane(-1)
        it.await_mirrored(read_committed=read_committed, timeout=120)

        it.assert_same(read_committed=read_committed, why=f"seed {SEED}")


@OLD_TIMES_WHEN_SLOW
def test_brokers_killed_as_well(ground: Ground, prefix: str, timestamp: int | None) -> None:
    """A broker that starts again has forgotten the producers of old records: lanes of those come
    one after the other, as leases have it, for this driver renews the lease of each that lives."""
    with battle(ground, prefix, patience_s=10 if timestamp is None else PATIENT_S) as it:
        it.create(2)
        it.claim()
        it.driver.forgets = True
        with writing(it, 2, timestamp):
            torment(it, live=2 if timestamp is None else 1, brokers=True)
        it.driver.start_lane(-1)
        it.await_mirrored(timeout=120)

        it.assert_same(why=f"seed {SEED}")


def test_keys_decide_under_fire(ground: Ground, prefix: str) -> None:
    """2 partitions to 3 by key: every record once, in order per key and source partition."""
    with battle(ground, prefix) as it:
        it.create(2, 3)
        it.claim(outlets=3, sole_writer=False)
        it.driver.forgets = True
        with writing(it, 2, None):
            torment(it, live=2)
        it.driver.start_lane(-1)
        it.await_mirrored(timeout=120)

        wanted = it.source.read(it.topic, read_committed=True)
        found = it.target.read(it.name)
        for records in wanted.values():
            numbers = {r.value: i for i, r in enumerate(records)}
            arrived = 0
            for copies in found.values():
                ours = [numbers[r.value] for r in copies if r.value in numbers]
                assert ours == sorted(set(ours)), f"seed {SEED}"
                arrived += len(ours)
            assert arrived == len(records), f"seed {SEED}"


def test_a_broker_that_forgets_at_once(ground: Ground, prefix: str) -> None:
    """A producer of old records is forgotten within a tenth of a second, so the broker takes any
    sequence: the log and the lease alone must keep the target exact. Each lane sends only while it
    holds the lease; killed ones are followed at once, frozen ones when their lease has run out."""
    lease_s = 1.0
    chance = random.Random(SEED)
    pause = threading.Event()
    with (
        ground_of(ground.source, properties=FORGETS) as amnesia,
        battle(amnesia, prefix, lease_s=lease_s, patience_s=PATIENT_S) as it,
    ):
        it.create(2)
        it.claim()
        it.driver.forgets = True
        until = time.monotonic() + FIRE_S
        lane = 0
        with writing(it, 2, YEARS_AGO):
            while time.monotonic() < until:
                it.driver.leader = lane
                it.driver.start_lane(lane)
                it.await_growth()
                pause.wait(chance.uniform(0, 0.5))
                if chance.random() < 0.5:
                    it.driver.kill(lane)
                else:
                    it.driver.signal(lane, signal.SIGSTOP)
                    pause.wait(lease_s + 0.1)
                    if lane - 1 in it.driver.lanes:
                        it.driver.signal(lane - 1, signal.SIGCONT)
                lane += 1
        it.driver.leader = lane
        it.driver.start_lane(lane)
        it.await_mirrored(timeout=120)

        it.assert_same(why=f"seed {SEED}")


# -- one thing at a time ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "timestamp"),
    [
        pytest.param("killed", None, id="killed-now"),
        pytest.param("stopped", YEARS_AGO, id="stopped-years-ago"),
        only_when_slow("killed", YEARS_AGO, id="killed-years-ago"),
        only_when_slow("stopped", None, id="stopped-now"),
    ],
)
def test_target_broker_ends_with_batches_unanswered(
    ground: Ground, prefix: str, end: str, timestamp: int | None
) -> None:
    """The answers never come: the broker appended the batches, and ends. Stopped in good order it
    comes back without the state of a producer of old records: what is sent again is doubled."""
    with battle(ground, prefix) as it:
        it.create()
        it.written(100, timestamp=timestamp)
        it.claim()
        it.driver.start_lane(0)
        it.await_mirrored()
        ground.proxies[1].stall("down")
        it.written(500, timestamp=timestamp)
        await_until(lambda: it.target_end() > 100)
        if end == "killed":
            ground.target.kill()
        else:
            ground.target.stop()
        ground.proxies[1].cut()
        ground.target.restart()

        it.await_mirrored()

        it.assert_same()


@OLD_TIMES_WHEN_SLOW
def test_a_target_broker_freezes_and_thaws(
    ground: Ground, prefix: str, timestamp: int | None
) -> None:
    """The lane gives its requests up; they lie in the broker's buffers all the same, and it works
    on them when it wakes."""
    with battle(ground, prefix, patience_s=2) as it:
        it.create()
        it.written(100, timestamp=timestamp)
        it.claim()
        it.driver.start_lane(0)
        it.await_mirrored()
        ground.target.pause()
        try:
            it.written(500, timestamp=timestamp)
            it.await_state(State.FAILED)
        finally:
            ground.target.resume()

        it.await_mirrored()

        it.assert_same()


def test_at_least_once_loses_nothing(ground: Ground, prefix: str) -> None:
    """Without producer ids records may come twice, but each comes, and first in order."""
    with battle(ground, prefix) as it:
        it.create()
        it.claim()
        for key, assignment in it.driver.assignments.items():
            plain = {"producer_id": -1, "producer_epoch": -1}
            outlets = tuple(outlet.replace(**plain) for outlet in assignment.outlets)
            it.driver.assignments[key] = assignment.replace(outlets=outlets)
        for lane in range(3):
            it.written(500)
            it.driver.start_lane(lane)
            await_until(lambda: it.target_end() > 0)
            it.driver.kill(lane)
            it.driver.forget()
        it.driver.start_lane(3)
        it.await_mirrored()

        values = [r.value for r in it.target.read(it.name)[0]]
        assert list(dict.fromkeys(values)) == [b"%d" % i for i in range(1500)]


def test_source_broker_dies_in_the_middle(ground: Ground, prefix: str) -> None:
    with battle(ground, prefix) as it:
        it.create()
        it.claim()
        it.driver.start_lane(0)
        it.written(3_000)
        ground.source.kill()
        ground.source.restart()
        it.written(100)

        it.await_mirrored()

        it.assert_same()


def test_an_idle_lane_does_not_trust_a_broker_that_came_back(ground: Ground, prefix: str) -> None:
    """Two lanes hold the lease (it is long). One sleeps while the other mirrors old records; then
    the broker is started again and forgets their producer. The sleeper must not send what it reads
    late."""
    with battle(ground, prefix, lease_s=120) as it:
        it.create()
        it.written(50, timestamp=YEARS_AGO)
        it.claim()
        for lane in (0, 1):
            it.driver.forget()
            it.driver.start_lane(lane)
            it.await_mirrored()
        it.driver.signal(1, signal.SIGSTOP)
        it.written(500, timestamp=YEARS_AGO)
        it.await_mirrored()
        it.driver.kill(0)
        ground.target.restart()
        it.driver.forget()

        it.driver.signal(1, signal.SIGCONT)

        it.await_mirrored()
        it.written(10, timestamp=YEARS_AGO)
        it.await_mirrored()
        it.assert_same()


def test_a_drained_lane_claims_nothing_that_it_let_go_of(ground: Ground, prefix: str) -> None:
    """It has fetched more than it could send when it is told to end. Its last pairs are all that
    its successor knows."""
    with battle(ground, prefix) as it:
        it.create()
        it.claim(max_message_bytes=300)
        it.written(20_000)
        for lane in range(3):
            it.driver.start_lane(lane)
            it.await_growth()
            it.driver.drain(lane)
            assert lane > 0 or it.target_end() < 20_000, "it was drained too late"
        it.driver.start_lane(9)
        it.await_mirrored()

        it.assert_same()


@OLD_TIMES_WHEN_SLOW
def test_a_zombie_wakes_after_its_successor_began(
    ground: Ground, prefix: str, timestamp: int | None
) -> None:
    """Frozen amid its work, woken when its lease is long over and the work is done."""
    with battle(ground, prefix, lease_s=1) as it:
        it.create()
        it.written(2_000, timestamp=timestamp)
        it.claim(max_message_bytes=300)
        it.driver.start_lane(0)
        await_until(lambda: it.target_end() > 0, poll_s=0.001)
        it.driver.signal(0, signal.SIGSTOP)
        it.driver.forget()
        it.driver.start_lane(1)
        it.await_mirrored()
        it.written(500, timestamp=timestamp)
        it.await_mirrored()

        it.driver.forget()
        it.driver.signal(0, signal.SIGCONT)
        it.written(500, timestamp=timestamp)
        it.await_mirrored()

        it.driver.kill(1)
        if it.driver.lanes[0].poll() is not None:  # it was frozen in the midst of sending
            it.driver.start_lane(2)
        it.written(500, timestamp=timestamp)
        it.await_mirrored()
        it.assert_same()


@pytest.mark.parametrize(
    ("fate", "timestamp"),
    [
        pytest.param("dead", None, id="dead-now"),
        pytest.param("alive", YEARS_AGO, id="alive-years-ago"),
        only_when_slow("dead", YEARS_AGO, id="dead-years-ago"),
        only_when_slow("alive", None, id="alive-now"),
    ],
)
def test_a_zombies_batches_arrive_late(
    ground: Ground, prefix: str, fate: str, timestamp: int | None
) -> None:
    """A lane's batches lie in a stalled network when its successor sends the same records, cut
    into other batches, and more; then they arrive. A sender that lives learns that they were there
    already, and finds its place anew."""
    with battle(ground, prefix, lease_s=2) as it:
        it.create()
        it.written(100, timestamp=timestamp)
        it.claim()
        it.driver.start_lane(0)
        it.await_mirrored()
        ports = it.ports_of(0)
        ground.proxies[1].stall("up", client_ports=ports)
        it.written(50, timestamp=timestamp)
        await_until(lambda: ground.proxies[1].held > 500, what="a batch is on its way")
        it.written(450, timestamp=timestamp)
        if fate == "dead":
            it.driver.kill(0)
        it.driver.start_lane(1)
        await_until(lambda: it.target_end() == 600, what="the successor has done it")

        ground.proxies[1].release()
        await_until(lambda: ground.proxies[1].held == 0)

        it.driver.kill(1)
        if fate == "dead":
            it.driver.start_lane(2)
        it.written(100, timestamp=timestamp)
        it.await_mirrored()
        it.assert_same()


def test_the_same_batch_twice_is_appended_once(ground: Ground, prefix: str) -> None:
    """Both lanes cut alike, so the broker answers the second with the first one's offset."""
    with battle(ground, prefix, lease_s=60) as it:
        it.create()
        it.claim()
        for lane in (0, 1):
            it.driver.start_lane(lane)
            it.driver.forget()
            await_until(lambda: it.driver.reports)
        it.await_mirrored()
        ground.proxies[1].stall("up", client_ports=it.ports_of(0))
        it.written(50)
        await_until(lambda: it.target_end() == 50 and ground.proxies[1].held > 500)

        ground.proxies[1].release()

        it.written(50)
        it.driver.kill(1)
        it.driver.forget()
        it.written(50)
        it.await_mirrored()
        it.assert_same()


def test_a_bit_that_flips_on_the_way_is_refused_by_the_target(ground: Ground, prefix: str) -> None:
    """The partition tells which batch it was, the other one goes on; once the line is sound,
    nothing is missing."""
    marker = b"flip me "
    with battle(ground, prefix) as it:
        it.create(2)
        it.claim()
        it.written(100)
        records = [Outgoing(value=b"%d %s" % (n, marker * 400), partition=0) for n in range(30)]
        it.source.produce(it.topic, records, settings=WHOLE_BATCHES)
        it.written(100, partition=1)
        ground.proxies[1].flip(marker)
        try:
            it.driver.start_lane(0)
            reason = it.await_state(State.FAILED)
            it.await_mirrored(partitions=[1])
            assert "CORRUPT_MESSAGE: the batch at source offset 100 " in reason, reason
            assert it.target_end() == 100
        finally:
            ground.proxies[1].flip(None)

        it.await_mirrored()
        it.assert_same()


def test_a_bit_that_flips_on_the_way_from_the_source_is_fetched_anew(
    ground: Ground, prefix: str
) -> None:
    """In a batch that the lane passes on unread, so that only the target notices."""
    marker = b"flip me "
    back = copy(ground)  # its target's clients come through proxies
    back.source, back.target = ground.target, ground.source
    back.source_tools, back.target_tools = ground.target_tools, ground.source_tools
    with battle(back, prefix) as it:
        it.create(2)
        it.claim()
        for value in (b"sound " * 400, marker * 400):
            records = [Outgoing(value=b"%d %s" % (n, value), partition=0) for n in range(50)]
            it.source.produce(it.topic, records, settings={"batch.num.messages": 10})
        it.written(100, partition=1)
        ground.proxies[1].flip(marker, "down", times=1)
        try:
            it.driver.start_lane(0)
            it.await_mirrored()
        finally:
            ground.proxies[1].flip(None)

        it.assert_same()
        recoveries = {key[2]: report.recoveries for key, report in it.driver.reports.items()}
        assert recoveries[0] > 0
        assert recoveries[1] == 0


@pytest.mark.parametrize("progress", ["newest", "none"])
def test_sequences_wrap(ground: Ground, prefix: str, progress: str) -> None:
    with battle(ground, prefix) as it:
        it.create()
        it.claim()
        for key, assignment in it.driver.assignments.items():
            near = {"pair": assignment.outlets[0].pair._replace(sequence=2**31 - 130)}
            outlets = tuple(outlet.replace(**near) for outlet in assignment.outlets)
            it.driver.assignments[key] = assignment.replace(outlets=outlets)
        for lane in range(4):
            it.written(70)
            it.driver.start_lane(lane)
            it.await_mirrored()
            it.driver.kill(lane)
            if progress == "none":
                it.driver.forget()

        it.assert_same()


@pytest.mark.parametrize("by_key", [False, True])
def test_the_target_deleted_what_came_after_the_pair(
    ground: Ground, prefix: str, by_key: bool
) -> None:
    """Its log is empty, but for what the offsets (or, where others may write, the broker's memory
    of the producer) tell."""
    with battle(ground, prefix) as it:
        it.create()
        it.claim(**({"outlets": 1, "sole_writer": False} if by_key else {}))
        it.written(300)
        it.driver.start_lane(0)
        it.await_mirrored()
        it.driver.kill(0)
        it.driver.forget()
        it.target.delete_records(it.name, 0, 300)

        it.written(100)
        it.driver.start_lane(1)
        it.await_mirrored()

        values = [r.value for r in it.target.read(it.name)[0]]
        assert values == [b"%d" % i for i in range(300, 400)]


def test_the_source_deleted_what_was_copied(ground: Ground, prefix: str) -> None:
    with battle(ground, prefix) as it:
        it.create(2)
        it.claim()
        for partition in (0, 1):
            it.written(300, partition=partition)
        it.driver.start_lane(0)
        it.await_mirrored()
        it.driver.kill(0)
        it.driver.forget()
        it.written(100)
        it.written(100, partition=1)
        it.source.delete_records(it.topic, 0, 170)  # copied
        it.source.delete_records(it.topic, 1, 330)  # not all copied

        it.driver.start_lane(1)

        it.await_mirrored(partitions=[0])
        assert [r.value for r in it.target.read(it.name)[0]] == [b"%d" % i for i in range(400)]
        assert "deleted offsets 300 to 329" in it.await_state(State.STOPPED, 1)


def test_the_source_was_compacted_while_the_lane_was_down(ground: Ground, prefix: str) -> None:
    """Counting records would walk too far, and skip what was never copied."""
    with battle(ground, prefix) as it:
        it.create(
            config={
                "cleanup.policy": "compact",
                "segment.ms": "100",
                "min.cleanable.dirty.ratio": "0.001",
                **FOREVER,
            },
            target_config={"cleanup.policy": "compact", **FOREVER},
        )
        it.claim()
        it.written(400)
        it.driver.start_lane(0)
        it.await_mirrored()
        it.driver.kill(0)
        it.driver.forget()
        values = [r.value for r in it.target.read(it.name)[0]]
        feed = iter(range(10_000))

        def compacted() -> bool:
            # Keys 0 to 99 anew: what was copied of them goes.
            it.source.produce(
                it.topic,
                [Outgoing(key=b"%d" % (i % 100), value=b"new %d" % next(feed)) for i in range(5)],
            )
            it.written(100)
            return len(it.source.read(it.topic)[0]) < 700

        await_until(compacted, 60, "the source is compacted", poll_s=0.3)
        it.source.rest_cleaner(it.topic)
        it.driver.start_lane(1)
        it.await_mirrored()

        left = [r.value for r in it.source.read(it.topic)[0]]
        arrived = [r.value for r in it.target.read(it.name)[0]]
        assert arrived[:400] == values
        assert len(arrived) == len(set(arrived))
        assert [v for v in left if v not in set(values)] == arrived[400:]


@pytest.mark.slow
@pytest.mark.parametrize("then", ["as it is", "written past"])
def test_the_source_was_truncated(ground: Ground, prefix: str, then: str) -> None:
    """It lost records that were mirrored; also when new ones lie at their offsets: that partition
    stops, the other goes on."""
    with battle(ground, prefix) as it:
        it.create(2)
        it.claim()
        for partition in (0, 1):
            it.written(300, partition=partition)
        it.driver.start_lane(0)
        it.await_mirrored()
        it.driver.drain(0)
        ground.source.kill()
        end = cut_off_batches(ground.source, it.topic, 0, 2)
        ground.source.restart()
        assert it.source.offsets(it.topic)[0] == end < 300
        if then == "written past":
            it.written(300)
        it.written(10, partition=1)

        it.driver.start_lane(1)

        assert "truncated" in it.await_state(State.STOPPED, 0)
        it.await_mirrored(partitions=[1])
        it.assert_same(partitions=[1])
        assert it.target_end() == 300


def test_the_source_was_truncated_under_a_running_lane(ground: Ground, prefix: str) -> None:
    with battle(ground, prefix) as it:
        it.create()
        it.claim()
        it.written(300)
        it.driver.start_lane(0)
        it.await_mirrored()
        ground.source.kill()
        cut_off_batches(ground.source, it.topic, 0, 2)
        ground.source.restart()

        it.written(300)

        assert "truncated" in it.await_state(State.STOPPED)
        assert it.target_end() == 300


@pytest.mark.slow
@pytest.mark.parametrize(
    "other_leader", [pytest.param(False, id="compacted"), only_when_slow(True, id="other-leader")]
)
def test_an_epoch_that_the_source_no_longer_has(
    ground: Ground, prefix: str, other_leader: bool
) -> None:
    """The last record relayed is of a leader epoch that the source's log has no entry for: because
    the log was rebuilt after compaction, or because another leader's log counts now, with other
    records at these offsets. The first goes on, the second stops."""
    with battle(ground, prefix) as it:
        it.create()
        it.claim()
        it.written(100)
        ground.source.restart()
        it.written(50)
        it.driver.start_lane(0)
        it.await_mirrored()
        it.driver.drain(0)
        ground.source.restart()
        it.written(50)
        before, lost, _ = sorted(set(leader_epochs(ground.source, it.topic, 0)))
        ground.source.kill()
        instead = before if other_leader else None
        lose_epoch(ground.source, it.topic, 0, lost, instead=instead)
        ground.source.restart()

        it.driver.start_lane(1)

        if other_leader:
            assert "truncated" in it.await_state(State.STOPPED)
            assert it.target_end() == 150
        else:
            it.await_mirrored()
            arrived = [r.value for r in it.target.read(it.name)[0]]
            assert arrived == [b"%d" % n for n in range(200)]


def test_a_target_that_lost_acknowledged_records_heals(ground: Ground, prefix: str) -> None:
    with battle(ground, prefix) as it:
        it.create()
        it.claim()
        with it.source.transactional(it.topic) as transactions:
            for turn in range(20):
                transactions.begin()
                transactions.send(it.topic, *(b"%d %d" % (turn, i) for i in range(40)))
                (transactions.abort if turn % 3 == 0 else transactions.commit)()
                if not it.driver.lanes:
                    it.driver.start_lane(0)
                it.await_mirrored()
        before = it.target_end()
        ground.target.kill()
        end = cut_off_batches(ground.target, it.name, 0, 3)
        ground.target.restart()
        assert end < before

        it.written(100)
        it.await_mirrored()

        it.assert_same()


@pytest.mark.slow
def test_a_batch_that_overtakes_lost_records_stops_its_partition(
    ground: Ground, prefix: str
) -> None:
    """The target's new leader lacks acknowledged records and does not know the producer. It takes
    the next batch of a lane whose connection survived the election: so the log ends below the pair,
    or at it. Neither partition may go on as if nothing was missing; the third one does."""
    with (
        ground_of(ground.source, properties=FORGETS) as amnesia,
        battle(amnesia, prefix, patience_s=PATIENT_S) as it,
    ):
        it.create(3)
        it.claim(max_message_bytes=1_200)
        for partition in range(3):
            it.written(200, timestamp=YEARS_AGO, partition=partition)
        it.driver.start_lane(0)
        it.await_mirrored()
        it.driver.kill(0)
        amnesia.target.stop()
        ends = [cut_off_batches(amnesia.target, it.name, partition, 2) for partition in (0, 1)]
        amnesia.target.restart()
        places = [TopicPartition(it.name, partition) for partition in (0, 1)]
        await_until(
            lambda: not any(it.driver.target.last_sequences(places).values()),
            what="the producers are forgotten",
        )
        for place, end, sent in zip(places, ends, (10, 200 - ends[1]), strict=True):
            records = [
                Rec(offset=i, timestamp=YEARS_AGO + 200 + i, key=b"%d" % i, value=b"%d" % (200 + i))
                for i in range(sent)  # as `written` writes them below
            ]
            batch = as_is(raw_batch(records))
            (outlet,) = it.driver.assignments["A->B", it.topic, place.partition].outlets
            raw = header(batch, outlet.producer_id, outlet.producer_epoch, 200)
            assert it.driver.target.produce_batch(place, raw + bytes(batch.payload)) == end
        for partition in range(3):
            it.written(300, timestamp=YEARS_AGO, partition=partition)

        it.driver.start_lane(1)

        for place, end in zip(places, ends, strict=True):
            reason = it.await_state(State.STOPPED, place.partition)
            assert f"sequence 200 is in the place of sequence {end}" in reason
        it.await_mirrored(partitions=[2])
        it.assert_same(partitions=[2])


@OLD_TIMES_WHEN_SLOW
def test_a_shared_target_that_lost_records_and_was_filled_up_by_others(
    ground: Ground, prefix: str, timestamp: int | None
) -> None:
    """The log's end lies past our last pair; where ours lay, others' do. The broker remembers how
    far we had come, or, of old records, has forgotten it."""
    with battle(ground, prefix) as it:
        it.create()
        it.claim(outlets=1, sole_writer=False, max_message_bytes=2_000)
        it.written(300, timestamp=timestamp)
        it.driver.start_lane(0)
        it.await_mirrored()
        it.driver.drain(0)
        ground.target.kill()
        cut_off_batches(ground.target, it.name, 0, 2)
        ground.target.restart()
        it.target.produce(it.name, [b"another's"] * 400)
        it.written(100, timestamp=timestamp)

        it.driver.start_lane(1)
        it.await_mirrored()

        values = [r.value for r in it.target.read(it.name)[0]]
        assert [v for v in values if v != b"another's"] == [b"%d" % i for i in range(400)]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_made_anew_stops_its_mirror(ground: Ground, prefix: str, side: str) -> None:
    """Never take the new one for the old one; other topics go on."""
    with battle(ground, prefix) as it:
        it.create()
        it.claim()
        other = Mirror(it.driver, it.source, it.target, it.topic + "-other", it.name + "-other")
        other.create()
        other.claim()
        it.written(100)
        it.driver.start_lane(0)
        it.await_mirrored()

        tools, topic = (it.source, it.topic) if side == "source" else (it.target, it.name)
        tools.delete_topic(topic)
        tools.create_topic(topic, config=FOREVER)
        it.written(200)

        assert f"the {side} topic was deleted and recreated" in it.await_state(State.STOPPED)
        it.source.produce(other.topic, [b"still here"])
        other.await_mirrored()
        other.assert_same()
        assert it.target_end() == (100 if side == "source" else 0)


# -- three brokers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(ground: Ground) -> Iterator[Ground]:
    """A target of three brokers, which forget at once."""
    with ground_of(ground.source, brokers=3, properties=FORGETS) as made:
        yield made


def test_a_dead_lanes_request_arrives_late_and_the_broker_has_forgotten(
    three: Ground, prefix: str
) -> None:
    """The network holds a batch, longer than the broker remembers the producer of old records. So
    its successor waits before it sends what it reads, and looks at the log again."""
    with battle(three, prefix, lease_s=1, patience_s=5) as it:
        it.create()
        it.written(100, timestamp=YEARS_AGO)
        it.claim()
        it.driver.start_lane(0)
        it.await_mirrored()
        ports = it.ports_of(0)
        for node in three.target.brokers:
            three.proxies[node].stall("up", client_ports=ports)
        it.written(50, timestamp=YEARS_AGO)
        held = [three.proxies[node] for node in three.target.brokers]
        await_until(lambda: any(proxy.held > 500 for proxy in held), what="a batch is on its way")
        it.driver.kill(0)
        it.driver.start_lane(1)
        threading.Event().wait(4)  # a successor that does not wait has sent it, and is forgotten
        for proxy in held:
            proxy.release()
        it.written(50, timestamp=YEARS_AGO)

        it.await_mirrored()

        it.assert_same()


def test_a_refused_batch_behind_an_old_one_is_not_overtaken(three: Ground, prefix: str) -> None:
    """Others may write to the compacted target, so neither offsets nor sequences show a hole. The
    network holds what follows an old batch until the broker has expired the producer. Then the
    broker refuses the next batch, and would take the one behind it as a first."""
    with battle(three, prefix) as it:
        it.create(target_config={"cleanup.policy": "compact", **FOREVER})
        it.claim(outlets=1, sole_writer=False)
        it.driver.start_lane(0)

        def write(value: bytes, timestamp: int | None = None) -> None:
            it.source.produce(it.topic, [Outgoing(key=value[:1], value=value, timestamp=timestamp)])

        write(b"a young")
        it.await_mirrored()
        (report,) = it.driver.reports.values()
        it.target.set_topic_config(it.name, {"max.message.bytes": "2000"})
        ports = it.ports_of(0)
        proxies = [three.proxies[node] for node in three.target.brokers]
        for proxy in proxies:
            proxy.stall("down", client_ports=ports)
        write(b"b old", YEARS_AGO)
        await_until(lambda: it.target_end() == 2, what="the old batch is appended")
        for proxy in proxies:
            proxy.stall("up", client_ports=ports)
        write(b"c" + random.Random(SEED).randbytes(5000))
        write(b"d young")
        threading.Event().wait(2)  # so long the producer is remembered, and a lane has time to send
        for proxy in proxies:
            proxy.release()

        def refused() -> bool:
            return any(new.recoveries > report.recoveries for new in it.driver.reports.values())

        await_until(refused, what="the large batch is refused")
        it.target.set_topic_config(it.name, {"max.message.bytes": "1000000"})
        it.await_mirrored()

        values = [r.value[:1] for r in it.target.read(it.name)[0] if r.value]
        assert values == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    "shared", [pytest.param(False, id="exclusive"), only_when_slow(True, id="shared")]
)
def test_what_a_leader_holds_alone_is_not_taken_for_lost(
    three: Ground, prefix: str, shared: bool
) -> None:
    """A follower stands still: what the leader has appended is not acknowledged, no reader sees it,
    and the broker has forgotten its producer. It must not be sent again."""
    with battle(three, prefix, patience_s=2) as it:
        it.source.create_topic(it.topic, config=FOREVER)
        config = {"min.insync.replicas": "2", **FOREVER}
        it.target.create_topic(it.name, replication_factor=2, config=config)
        it.written(100, timestamp=YEARS_AGO)
        it.claim(**({"outlets": 1, "sole_writer": False} if shared else {}))
        it.driver.start_lane(0)
        it.await_mirrored()
        follower = it.follower()
        three.target.pause(follower)
        try:
            it.written(100, timestamp=YEARS_AGO)
            reason = it.await_state(State.FAILED)
        finally:
            three.target.resume(follower)
        it.written(100, timestamp=YEARS_AGO)

        it.await_mirrored(timeout=120)

        it.assert_same(why=reason)
        assert "followers" in reason


@pytest.mark.slow
@OLD_TIMES_WHEN_SLOW
def test_leaders_move(three: Ground, prefix: str, timestamp: int | None) -> None:
    """Three brokers, one killed, then another: what was acknowledged stays, and nothing doubles."""
    with battle(three, prefix) as it:
        it.create(3)
        it.claim()
        it.driver.start_lane(0)
        with writing(it, 3, timestamp):
            for node in (1, 2):
                it.await_growth(1000)
                three.target.kill(node)
                three.target.restart(node)
        it.await_mirrored(timeout=120)

        it.assert_same()
