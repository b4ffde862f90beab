"""Who gets a partition next, and when: lanes are played by the test, time by a small lease."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any, cast

import pytest

from causeway.config import RunSettings
from causeway.daemon.lanes import Fleet, Key, placing
from causeway.daemon.lanes import fleet as fleets
from causeway.relay import (
    Clusters,
    Drain,
    Drained,
    LaneConnection,
    LaneReport,
    Lease,
    Throttle,
)
from tests.builders.fleet import Heard, Lane, assignment, flow_report, outlet

LEASE_S = 0.3
MB = 1 << 20


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "GATHER_S", 0.0)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def fleet(heard: Heard) -> Fleet:
    fleet = Fleet(RunSettings(lease_s=LEASE_S), {}, local=True)
    fleet.attach("A->B", heard.hear, heard.wait)
    return fleet


def test_partitions_wait_for_the_lanes_and_are_spread(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "GATHER_S", 60.0)
    fleet.expect(2)
    fleet.add([assignment(n) for n in range(4)])
    one = Lane(fleet, 0).connect()
    assert isinstance(one.sent[0], Clusters)
    assert not one.has()
    two = Lane(fleet, 1).connect()
    assert one.has() | two.has() == {0, 1, 2, 3}
    assert not one.has() & two.has()


def test_a_report_is_acknowledged_and_counted_for_the_run(fleet: Fleet, heard: Heard) -> None:
    fleet.add([assignment(0)])
    one = Lane(fleet, 0).connect()
    one.reports(flow_report(0, 5, records=5, recoveries=2), lane_time=17.0)
    assert one.sent[-1] == Lease(lane_time=17.0)
    assert heard.reports[-1].records == 5
    one.says(Drained())
    two = Lane(fleet, 1).connect()
    assert two.has() == {0}
    two.reports(flow_report(0, 8, records=3, recoveries=1))
    assert (heard.reports[-1].records, heard.reports[-1].lane) == (8, 1)
    assert heard.reports[-1].recoveries == 3


def test_a_drained_lanes_partitions_go_on_at_once_with_the_newest_pairs(
    fleet: Fleet, heard: Heard
) -> None:
    fleet.add([assignment(0)])
    one, two = Lane(fleet, 0).connect(), Lane(fleet, 1)
    one.reports(flow_report(0, 50))
    two.connect()
    one.says(Drained())
    fleet.on_closed(cast(LaneConnection, one))
    fleet.tick()
    given = two.given(0)
    assert given.outlets == (outlet(0, 50),)
    assert given.leader_epoch == 4
    assert heard.waiting == [("A->B", "orders", 0)]


def test_a_lost_lanes_partitions_wait_for_the_end_of_its_lease(fleet: Fleet) -> None:
    fleet.add([assignment(0)])
    one, two = Lane(fleet, 0).connect(), Lane(fleet, 1).connect()
    one.reports(lane_time=1.0)
    since = time.monotonic()
    fleet.on_closed(cast(LaneConnection, one))
    while not two.has():
        two.reports()
        fleet.tick()
        assert time.monotonic() - since < 60
        time.sleep(0.01)
    assert time.monotonic() - since >= LEASE_S


def test_a_lane_that_returned_is_not_waited_for(fleet: Fleet) -> None:
    fleet.add([assignment(0)])
    one, two = Lane(fleet, 0).connect(), Lane(fleet, 1).connect()
    fleet.on_lane_ended(0, "it returned", True)
    fleet.on_closed(cast(LaneConnection, one))
    assert two.has() == {0}


def test_a_dead_process_of_this_machine_is_not_waited_for(fleet: Fleet) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    fleet.add([assignment(0)])
    one = Lane(fleet, 0, pid=process.pid, host=socket.gethostname()).connect()
    two = Lane(fleet, 1).connect()
    fleet.on_closed(cast(LaneConnection, one))
    fleet.tick()
    assert two.has() == set()
    process.kill()
    process.wait()
    fleet.tick()
    assert two.has() == {0}


def test_a_silent_lane_loses_its_partitions_and_its_process(fleet: Fleet) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    fleet.add([assignment(0)])
    one = Lane(fleet, 0, pid=process.pid, host=socket.gethostname()).connect()
    two = Lane(fleet, 1).connect()
    deadline = time.monotonic() + 60
    while not two.has():
        two.reports()
        fleet.tick()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert one.dropped
    assert process.wait(60) == -9


def test_a_driver_that_slept_takes_no_lane_for_silent() -> None:
    fleet = Fleet(RunSettings(lease_s=5.0), {}, local=True)
    fleet.add([assignment(0)])
    one = Lane(fleet, 0).connect()
    fleet._ticked_at -= 3600
    fleet.tick()
    assert not one.dropped


def test_removed_partitions_are_gone_after_their_last_report(fleet: Fleet, heard: Heard) -> None:
    fleet.add([assignment(0), assignment(1)])
    one = Lane(fleet, 0).connect()
    done: list[bool] = []
    thread = threading.Thread(
        target=lambda: done.append(fleet.remove([("A->B", "orders", 0)], 5.0))
    )
    thread.start()
    while one.has() != {1}:
        time.sleep(0.01)
    assert not done
    one.reports(flow_report(0, 9, final=True))
    thread.join(60)
    assert done == [True]
    assert heard.reports[-1].report.final
    assert fleet.partitions == 1
    assert not fleet.remove([("A->B", "orders", 1)], 0.05)  # this one says nothing


def test_a_partition_claimed_again_does_not_get_old_pairs(fleet: Fleet) -> None:
    fleet.add([assignment(0)])
    one = Lane(fleet, 0).connect()
    one.reports(flow_report(0, 50))
    fleet.remove([("A->B", "orders", 0)], 0.0)
    fresh = assignment(0).replace(outlets=(outlet(0).replace(producer_id=999),))
    fleet.add([fresh])
    one.reports(flow_report(0, 60, final=True))
    assert one.given(0) == fresh


def test_a_fresh_lane_gets_half_after_their_last_reports(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "REPORT_INTERVAL_S", 0.0)
    fleet.add([assignment(n) for n in range(10)])
    one = Lane(fleet, 0).connect()
    two = Lane(fleet, 1).connect()
    fleet.tick()
    moved = set(range(10)) - one.has()
    assert 3 <= len(moved) <= 5
    assert two.has() == set()
    one.reports(*(flow_report(n, 7, final=True) for n in moved))
    assert two.has() == moved
    assert two.given(min(moved)).outlets[0].pair.source == 7


def test_lanes_at_rest_are_not_rebalanced(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(placing, "_REBALANCE_S", 0.0)

    def moves(*_: object) -> dict[Key, int]:
        looks.append(1)
        return {}

    monkeypatch.setattr(placing, "moves", moves)
    fleet.add([assignment(n) for n in range(4)])
    one = Lane(fleet, 0).connect()
    fleet.tick()
    assert len(looks) == 1
    one.reports()
    fleet.tick()
    assert len(looks) == 1, "nothing is another than before"
    one.reports(flow_report(0, 7))
    fleet.tick()
    assert len(looks) == 2
    Lane(fleet, 1).connect()
    fleet.tick()
    assert len(looks) == 3


def test_draining_waits_for_every_lanes_last_word(fleet: Fleet) -> None:
    fleet.add([assignment(0)])
    one = Lane(fleet, 0).connect()
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(fleet.drain(5.0)))
    thread.start()
    while not isinstance(one.sent[-1], Drain):
        time.sleep(0.01)
    one.reports(flow_report(0, 3, final=True))
    one.says(Drained())
    thread.join(60)
    assert done == [True]
    assert one.has() == {0}  # nothing was placed again


def test_a_lane_may_hold_what_the_file_says_and_else_more_of_what_comes_from_far_away(
    fleet: Fleet,
) -> None:
    def told(fleet: Fleet) -> tuple[int, int]:
        (clusters,) = (m for m in Lane(fleet, 0).connect().sent if isinstance(m, Clusters))
        return clusters.buffer_bytes // MB, (clusters.far_buffer_bytes or 0) // MB

    assert told(fleet) == (64, 256)
    assert told(Fleet(RunSettings(lane_buffer_bytes=20 * MB), {}, local=True)) == (20, 20)


def test_lanes_are_seen(fleet: Fleet) -> None:
    fleet.add([assignment(0)])
    one = Lane(fleet, 3, pid=os.getpid()).connect()
    one.says(LaneReport(lane_time=1.0, rss_bytes=7, cpu_s=1.5))
    (seen,) = fleet.lanes()
    assert (seen.lane, seen.partitions, seen.rss_bytes, seen.cpu_s) == (3, 1, 7, 1.5)


def test_that_a_broker_takes_no_more_connections_is_said_once(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    one = Lane(fleet, 1).connect()
    for crowded in ((), ("A 1",), ("A 1",), ("A 1", "B 2"), (), ("A 1",)):
        one.says(LaneReport(lane_time=1.0, crowded=crowded))
    said = [vars(each)["broker"] for each in caplog.records if "no more" in each.message]
    assert said == ["A 1", "B 2", "A 1"]


def test_what_is_held_goes_to_no_lane_and_is_known_to_be_on_none(fleet: Fleet) -> None:
    one = Lane(fleet, 0).connect()
    fleet.add([assignment(0), assignment(1)], held=True)
    assert not one.has()
    keys = [assignment(n).key for n in range(2)]
    assert fleet.recall(keys, LEASE_S).keys() == set(keys)
    assert fleet.on_lanes(keys) == set()
    fleet.add([assignment(0)])
    assert one.has() == {0}
    fleet.remove(keys, 0.0)
    assert fleet.on_lanes(keys) == {keys[0]}, "it has not let go yet"


def test_lanes_hear_of_no_limit_of_a_link_that_has_ended(fleet: Fleet) -> None:
    """Nor does a lane that comes later."""
    fleet.limit("A->B", {None: 100})
    one = Lane(fleet, 0).connect()
    assert throttles(one)[-1].rates
    fleet.detach("A->B")
    assert not throttles(one)[-1].rates
    fleet.limit("A->B", {None: 7})  # by its last thread
    assert len(throttles(one)) == 2
    assert throttles(Lane(fleet, 1).connect()) == []


def throttles(lane: Lane) -> list[Throttle]:
    return [message for message in lane.sent if isinstance(message, Throttle)]


def test_a_lane_hears_of_its_share_of_a_limit_before_it_has_anything_to_read(fleet: Fleet) -> None:
    fleet.limit("A->B", {None: 1_000, "orders": 300})
    one = Lane(fleet, 0).connect()
    assert isinstance(one.sent[1], Throttle)
    rates = {rate.topic: rate.bytes_per_s for rate in one.sent[1].rates}
    assert rates == {None: 1_000, "orders": 300}
    two = Lane(fleet, 1).connect()
    told = [each for each in (*one.sent, *two.sent) if isinstance(each, Throttle)]
    assert sum(rates_of(each)[None] for each in told[-2:]) == 1_000
    fleet.limit("A->B", {})
    assert [rates_of(lane.sent[-1]) for lane in (one, two)] == [{}, {}]


def rates_of(message: Any) -> dict[str | None, float]:
    assert isinstance(message, Throttle)
    return {rate.topic: rate.bytes_per_s for rate in message.rates}
