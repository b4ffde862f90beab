"""A group that reads a topic which programs write on both clusters: it moves to the other cluster
and back, and reads each record."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from causeway.relay.treatment import ORIGIN
from tests.harness.command import causeway
from tests.harness.control import checkpoints
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Record
from tests.harness.running import PATIENCE_S, Running, mm2_file, status_of
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration

SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
PARTITIONS = 2
END = 1 << 60  # in place of a record behind the last one
PAUSES_S = {1: 0.5, 2: 2.0}  # of the writers: two drivers take longer to start
Place = tuple[str, int]


@dataclass
class Move:
    """The group began on `side` at `offset` of a partition, after it had read `read` records."""

    side: str
    partition: int
    offset: int
    read: int


@dataclass
class Reader:
    """A consumer group. `read`: the values of all records that it has read, on either side, each
    with its number in the order of reading."""

    group: str
    topic: str
    sides: Mapping[str, KafkaTools]
    bootstraps: Mapping[str, str]
    read: dict[bytes, int] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)

    def consume(self, side: str, at_least: int, *, commits: bool = True) -> None:
        """Reads on one side from the group's offsets there. Without `commits` it ends like a killed
        process: records that it has read since its last commit are read again."""
        at = self.sides[side].group_offsets(self.group)
        for partition in range(PARTITIONS):
            begin = at.get((self.topic, partition), 0)
            self.moves.append(Move(side, partition, begin, len(self.read)))
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstraps[side],
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
            }
        )
        try:
            consumer.subscribe([self.topic])
            seen = 0
            deadline = time.monotonic() + PATIENCE_S
            while seen < at_least and time.monotonic() < deadline:
                for message in consumer.consume(100, timeout=1.0):
                    assert message.error() is None, message.error()
                    value = message.value()
                    assert value is not None
                    self.read.setdefault(value, len(self.read))
                    seen += 1
            assert seen >= at_least, f"{seen} records on {side}"
            if commits and seen:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    def left(self, side: str, log: Mapping[int, list[Record]]) -> int:
        """How many records of `log` it has yet to read on `side`."""
        offsets = self.places(side)
        return sum(
            record.offset >= offsets.get((self.topic, p), 0)
            for p, records in log.items()
            for record in records
        )

    def places(self, side: str) -> dict[Place, int]:
        found = self.sides[side].group_offsets(self.group)
        return {at: offset for at, offset in found.items() if at[0] == self.topic}


def own(tools: KafkaTools, topic: str) -> set[bytes]:
    return {
        record.value or b""
        for records in tools.read(topic, read_committed=True).values()
        for record in records
        if not any(name == ORIGIN for name, _ in record.headers)
    }


def before(records: list[Record], offset: int) -> set[bytes]:
    return {record.value or b"" for record in records if record.offset < offset}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("moves", "drivers"), [(2, 1), (12, 1), (2, 2)])
def test_a_group_moves_to_and_fro_and_skips_no_record(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    moves: int,
    drivers: int,
) -> None:
    """Transactions are written on both sides while the group reads, moves, and commits or not, and
    while drivers are killed. At each move the log of the other side has no record before the
    group's offset that the group has not read. At rest the group reads as many records again as
    `groups` and `plan` say, or fewer, and checkpoints have the offsets that were committed. If each
    link has a driver and a file of its own, offsets may be lower than the best ones."""
    a = prefix.partition("-")[0]  # links of their own
    b = a + "-b"
    topic, group = prefix + "t", prefix + "g"
    sides = {a: source, b: target}
    for tools in sides.values():
        tools.create_topic(topic, PARTITIONS)
    links = f"{a}->{b}", f"{b}->{a}"
    files = [
        mm2_file(
            tmp_path,
            {a: source_cluster, b: target_cluster},
            *(f"{link}.enabled = true" for link in enabled),
            f"topics = {topic}",
            f"groups = {prefix}.*",
            "replication.policy.class = IdentityReplicationPolicy",
            "causeway.provenance = header",
            "emit.checkpoints.enabled = true",
            "emit.checkpoints.interval.seconds = 1",
            "sync.group.offsets.enabled = true",
            "sync.group.offsets.interval.seconds = 1",
            "sync.topic.acls.enabled = false",
            "causeway.lease.ms = 5000",
        )
        for enabled in ([links] if drivers == 1 else [[link] for link in links])
    ]
    file_of = dict(zip(links, files * (3 - drivers), strict=True))
    chance = random.Random(SEED)
    bootstraps = {a: source_cluster.bootstrap, b: target_cluster.bootstrap}
    reader = Reader(group, topic, sides, bootstraps)
    at = a

    write = partial(writing, topic=topic, partitions=PARTITIONS, pause_s=PAUSES_S[drivers])
    with (
        write(source, seed=SEED, value=lambda n, _: b"A %d" % n) as here,
        write(target, seed=SEED + 1, value=lambda n, _: b"B %d" % n) as there,
    ):
        for _ in range(moves):
            with running(files, tmp_path) as runs:
                other = b if at == a else a
                known = sum(reader.places(other).values())
                deadline = time.monotonic() + PATIENCE_S
                # At first it may read again what it has read on the other side.
                while sum(reader.places(other).values()) <= known:
                    assert time.monotonic() < deadline, f"its offsets on {other} do not move on"
                    reader.consume(at, chance.choice([50, 500, 1500]))
                if chance.random() < 0.5:
                    reader.consume(at, 50, commits=False)
                for run in runs:
                    run.kill()
            at = other
            reader.consume(at, 50)
        here.end()
        there.end()

        with running(files, tmp_path) as runs:
            written = own(source, topic) | own(target, topic)
            await_until(
                lambda: all(_count(tools, topic) == len(written) for tools in sides.values()),
                PATIENCE_S,
                "all records are on both sides",
            )
            other = b if at == a else a
            link = f"{at}->{other}"
            file = file_of[link]
            log = {side: tools.read(topic, read_committed=True) for side, tools in sides.items()}
            reader.consume(at, reader.left(at, log[at]) // 2)
            behind, own_there = reader.places(at), reader.places(other)
            held = {p: before(log[at][p], behind[topic, p]) for p in range(PARTITIONS)}
            best = {
                (topic, p): min(
                    (r.offset for r in log[other][p] if r.value not in held[p]), default=END
                )
                for p in range(PARTITIONS)
            }
            if drivers == 1:
                _await_next(lambda: _checkpoints(sides[other], at, group), log[other], best)
                # Where it has read further on that side, its own commit stays.
                own_next = {p: _next(log[other], p, own_there.get((topic, p), 0)) for p in held}
                final = {(topic, p): max(best[topic, p], own_next[p]) for p in held}
                _await_next(lambda: reader.places(other), log[other], final)
            for _ in range(2):  # the second round begins after the first one
                most = _later_round(file, link, group)
            known_at = _checkpoints(sides[other], at, group)
            begin = {each: _next(log[other], each[1], known_at[each]) for each in best}
            assert all(begin[each] <= best[each] for each in best), (begin, best, SEED)
            again = sum(
                record.value in held[p] and record.offset >= begin[topic, p]
                for p in range(PARTITIONS)
                for record in log[other][p]
            )
            print(f"{again} records are read again, at most {most} by the status")
            assert again <= most, (again, most, SEED)
            listed = causeway("groups", file, "--link", link, "--json").json["groups"]
            (line,) = [one for one in listed if one["name"] == group]
            assert line["code"] == "synced", line
            if drivers == 1:
                assert not most or f"at most {most:,} record" in line["answer"], line
            else:  # a later round may have raised its offset
                assert _said(line["answer"]) <= most, line
            planned = causeway("plan", file).out
            assert f"on {other} groups go on at the first record" in " ".join(planned.split())
            reader.consume(other, reader.left(other, log[other]))
            assert [run.stop() for run in runs] == [0] * drivers

    skipped = written - reader.read.keys()
    assert not skipped, f"{len(skipped)} skipped, seed {SEED}"
    log = {side: tools.read(topic, read_committed=True) for side, tools in sides.items()}
    for move in reader.moves:
        values = before(log[move.side][move.partition], move.offset)
        unread = [value for value in values if reader.read.get(value, END) >= move.read]
        assert not unread, (move.side, move.partition, move.offset, len(unread), SEED)
    assert len({move.side for move in reader.moves if move.offset}) == 2, "it moved both ways"


@contextmanager
def running(files: list[Path], directory: Path) -> Iterator[list[Running]]:
    """A driver for each file."""
    with ExitStack() as stack:
        yield [stack.enter_context(Running("run", file, directory=directory)) for file in files]


def _said(answer: str) -> int:
    """The number of records that the group would read again at most."""
    found = re.search(r"at most ([\d,]+) record", answer)
    return int(found[1].replace(",", "")) if found else 0


def _count(tools: KafkaTools, topic: str) -> int:
    return sum(map(len, tools.read(topic, read_committed=True).values()))


def _checkpoints(target: KafkaTools, alias: str, group: str) -> dict[Place, int]:
    known = checkpoints(target, alias)
    return {at: each.downstream for (name, at), each in known.items() if name == group}


def _next(log: Mapping[int, list[Record]], partition: int, offset: int) -> int:
    """The first record from `offset` on."""
    return min((each.offset for each in log[partition] if each.offset >= offset), default=END)


def _await_next(
    offsets: Callable[[], Mapping[Place, int]],
    log: Mapping[int, list[Record]],
    wanted: Mapping[Place, int],
) -> None:
    """Until the first records from `offsets` on are `wanted`."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        now = {at: _next(log, at[1], offset) for at, offset in offsets().items()}
        if now == wanted:
            return
        assert time.monotonic() < deadline, f"at {now}, not at {wanted}"
        time.sleep(0.5)


def _later_round(file: Path, link: str, group: str) -> int:
    """The most records that it reads again, by a round that ends later than now."""
    since_ms = int(time.time() * 1000)
    found = await_until(lambda: _again(file, link, group, since_ms), PATIENCE_S, "a later round")
    return found[0]


def _again(file: Path, link: str, group: str, since_ms: int) -> tuple[int] | None:
    """The most records that it reads again, by a round that ended after `since_ms`."""
    (task,) = [each for each in status_of(file)[link]["tasks"] if each["task"] == "groups"]
    done = task["done_at_ms"] is not None and task["done_at_ms"] > since_ms
    return (task["figures"].get(group, 0),) if done else None
