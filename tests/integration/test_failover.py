"""A failover, and the way back, as a consumer group and its readers live through it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from causeway.dev.cluster import LocalCluster, start_all
from tests.harness.control import Truth
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.members import Member
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

GROUP, TOPIC, MIRROR = "billing", "orders", "A.orders"
INTERVAL_S = 1  # sync.group.offsets.interval.seconds
Offsets = dict[tuple[str, int], int]


class Pair(NamedTuple):
    a: LocalCluster
    b: LocalCluster
    at_a: KafkaTools
    at_b: KafkaTools


@pytest.fixture
def pair() -> Iterator[Pair]:
    clusters = LocalCluster("A"), LocalCluster("B")
    try:
        start_all(clusters)
        yield Pair(*clusters, *(KafkaTools(each.bootstrap) for each in clusters))
    finally:
        for cluster in clusters:
            cluster.destroy()


def read_more(member: Member, count: int) -> None:
    """At least `count` records, and some of both partitions."""
    whole = len(member.read) + count
    member.read_until(lambda: len(member.read) >= whole and len(member.begun) == 2)


def write(tools: KafkaTools, name: str, count: int) -> set[bytes]:
    """`count` records in committed transactions of 20, an aborted one before each, so that offsets
    differ on both sides; their values."""
    values = [f"{name} {number}".encode() for number in range(count)]
    with tools.transactional(name) as transactions:
        for start in range(0, count, 20):
            transactions.begin()
            transactions.send(TOPIC, *(Outgoing(value=b"aborted", partition=p) for p in (0, 1)))
            transactions.abort()
            transactions.begin()
            for number, value in enumerate(values[start : start + 20]):
                transactions.send(TOPIC, Outgoing(value=value, partition=number % 2))
            transactions.commit()
    # A broker that is killed before it has written the last markers, and then finds no leader for
    # their partitions while it starts, gives them up for good.
    with tools.transactional(name):
        return set(values)


def file(directory: Path, pair: Pair, flow: str) -> Path:
    return mm2_file(
        directory,
        {"A": pair.a, "B": pair.b},
        f"{flow}.enabled = true",
        "sync.group.offsets.enabled = true",
        f"sync.group.offsets.interval.seconds = {INTERVAL_S}",
        "sync.topic.acls.enabled = false",
    )


@pytest.mark.timeout(900)
def test_a_group_goes_on_at_b_when_a_is_killed_and_the_flow_is_reversed(
    pair: Pair, tmp_path: Path
) -> None:
    """A producer and a group work on A; their topic is mirrored to B, the group's offsets too.

    A is killed while the group has read further than it has committed, has committed what may not
    have reached B, and while the producer's last records may not have been copied. Producer and
    group move to B: the group goes on from the offsets that it finds there.

    Nothing is skipped: at A and B together the group reads every record that either has taken;
    those that A had not yet handed on come when A is back. Nothing is read twice but what the group
    read at A at or after its newest commit that had reached B. That takes at most one interval of
    the sync and one round of it, so what was committed earlier is never read again.

    Then the flow is turned round with another file: what was written at B while A was away arrives
    there, and the group's place in it.
    """
    at_a, at_b = pair.at_a, pair.at_b
    at_a.create_topic(TOPIC, 2)
    written = write(at_a, "at A", 1_000)
    reader = Member(at_a, GROUP, TOPIC)
    with Running("run", file(tmp_path, pair, "A->B"), directory=tmp_path) as run:
        await_copied(at_a, TOPIC, at_b, MIRROR)
        truth = Truth.of(at_a, TOPIC, at_b, MIRROR)
        read_more(reader, 400)
        synced = on_b(reader.commit(), truth)
        await_until(
            lambda: at_b.group_offsets(GROUP) == synced,
            PATIENCE_S,
            f"{synced} on B",
        )

        read_more(reader, 200)
        committed = on_b(reader.commit(), truth)
        read_more(reader, 100)
        written |= write(at_a, "last at A", 300)
        pair.a.kill()
        reader.close()

        at_b.create_topic(TOPIC, 2)
        written |= write(at_b, "at B", 200)
        successor = Member(at_b, GROUP, MIRROR, TOPIC)
        there = {record.value for records in at_b.read(MIRROR).values() for record in records}
        successor.read_until(lambda: there <= {*reader.read, *successor.read})
        pair.a.restart()
        successor.read_until(lambda: written <= {*reader.read, *successor.read})
        last = successor.commit()
        successor.close()
        assert run.stop() == 0

    places = {
        record.value: (p, record.offset) for p, rs in at_b.read(MIRROR).items() for record in rs
    }
    begun = {place: offset for place, offset in successor.begun.items() if place[0] == MIRROR}
    assert all(begun[place] in (synced[place], committed[place]) for place in synced)
    again = {value for value in reader.read if places[value][1] >= begun[MIRROR, places[value][0]]}
    assert Counter(reader.read) + Counter(successor.read) == Counter(written) + Counter(again)
    assert 100 <= len(again) <= 300, "read since the newest commit on B"

    with Running("run", file(tmp_path, pair, "B->A"), directory=tmp_path) as run:
        write(at_b, "later at B", 100)
        await_copied(at_b, TOPIC, at_a, "B.orders")
        assert_same(at_b, TOPIC, at_a, "B.orders")
        back = Truth.of(at_b, TOPIC, at_a, "B.orders")
        wanted = {
            ("B.orders", p): back.place(p, offset) for (t, p), offset in last.items() if t == TOPIC
        }
        await_until(lambda: wanted.items() <= at_a.group_offsets(GROUP).items(), PATIENCE_S)
        assert run.stop() == 0
    assert "B.A.orders" not in at_a.topics(), "nothing goes in circles"


def on_b(committed: Mapping[tuple[str, int], int], truth: Truth) -> Offsets:
    return {(MIRROR, p): truth.place(p, offset) for (_, p), offset in committed.items()}
