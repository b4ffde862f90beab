"""A disaster, rehearsed (`make drill`): load on, the source is killed, its mirror fails over, life
goes on at the target, the source comes back, and everything returns to it.

Each record has a number of its own. At the end both logs are read as a whole: a number that was
acknowledged is there once, but for those that the failover said would be missing, and of these each
is in the file that the failback saved.

Where offsets are preserved (`make drill-same-offsets`), a consumer that keeps its offsets itself
goes from side to side by the address alone, and at the end both logs are equal, offset by offset.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from causeway.config import LinkSettings, RunSettings, Settings
from causeway.errors import PartitionsFailedError
from causeway.filters import compile_patterns
from causeway.model import State
from causeway.naming import ReplicationPolicy
from causeway.operate.directives import act
from causeway.operate.failover import FailbackStep, Keep, Otherwise, failback, failover
from tests.harness.daemon import RunningDaemon, link
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import client
from tests.harness.same_offsets import assert_same_offsets, await_same_ends, begin_at
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TOPIC, PARTITIONS, READERS = "orders", 3, "readers"
BEGINS = 12_345  # the log of partition 0, where offsets are preserved


@pytest.fixture
def sites() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    pair = LocalCluster("drill-A"), LocalCluster("drill-B")
    try:
        start_all(pair)
        yield pair
    finally:
        for cluster in pair:
            cluster.destroy()


class Load(threading.Thread):
    """Numbered records, 200 bytes each, about 1,000 a second, to the one cluster until `end`.
    `acked`: those that it has surely taken. Its producer has threads of its own that call back into
    Python: it is gone before the test is, however that ends."""

    def __init__(self, bootstrap: str, first: int) -> None:
        super().__init__()
        self.acked: list[int] = []
        self.first_at: float | None = None
        self._next = first
        self._over = threading.Event()
        self._servers = bootstrap

    def run(self) -> None:
        producer = KafkaTools(self._servers).producer(settings={"message.timeout.ms": 4000})
        while not self._over.wait(0.02):
            for _ in range(20):
                number = self._next
                self._next += 1
                record = numbered(number)
                producer.produce(
                    TOPIC,
                    record.value,
                    partition=record.partition,
                    on_delivery=partial(self._told, number),
                )
            producer.poll(0)
        deadline = time.monotonic() + 60
        while producer.flush(1.0) and time.monotonic() < deadline:
            pass  # what its cluster will never take is over soon

    def _told(self, number: int, error: object, _: object) -> None:
        if error is None:
            self.acked.append(number)
            self.first_at = self.first_at or time.monotonic()

    def end(self) -> int:
        """The next number."""
        self._over.set()
        self.join()
        return self._next


class TransactionalLoad(Load):
    """The same in transactions of 100 records, so that offsets have gaps."""

    def run(self) -> None:
        tools = KafkaTools(self._servers)
        settings = {"transaction.timeout.ms": 10_000, "message.timeout.ms": 4_000}
        try:
            with tools.transactional("drill", settings=settings) as transactions:
                while not self._over.wait(0.1):
                    some = range(self._next, self._next + 100)
                    self._next += 100
                    transactions.begin()
                    transactions.send(TOPIC, *map(numbered, some))
                    transactions.commit()
                    self.acked += some
                    self.first_at = self.first_at or time.monotonic()
        except KafkaException:
            pass  # its cluster is lost


def numbered(number: int) -> Outgoing:
    return Outgoing(value=b"%08d" % number + b"." * 192, partition=number % PARTITIONS)


class OwnOffsets:
    """A consumer that keeps its offsets itself, as numbers that know no cluster."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}
        self.seen: Counter[int] = Counter()

    def read(self, kafka: KafkaTools) -> None:
        """All that has come since, at this address."""
        for partition, records in kafka.read(TOPIC, read_committed=True).items():
            for record in records:
                if record.offset >= self.next.get(partition, 0):
                    self.seen[int((record.value or b"")[:8])] += 1
                    self.next[partition] = record.offset + 1


@pytest.fixture
def begin(offsets: str) -> Iterator[Callable[[LocalCluster, int], Load]]:
    """Puts load on a cluster: from this number on."""
    running: list[Load] = []
    kind = TransactionalLoad if offsets == "preserve" else Load

    def load(cluster: LocalCluster, first: int) -> Load:
        running.append(kind(cluster.bootstrap, first))
        running[-1].start()
        return running[-1]

    yield load
    for each in running:
        each.end()


def between(
    a: LocalCluster, b: LocalCluster, names: tuple[str, str], preserve: bool
) -> LinkSettings:
    source, target = client(names[0], a.bootstrap), client(names[1], b.bootstrap)
    found = link(a.bootstrap, b.bootstrap, TOPIC)
    control = replace(
        found.control,
        groups=compile_patterns(READERS),
        emit_checkpoints_interval_s=0.5,
        sync_group_offsets_enabled=True,
        sync_group_offsets_interval_s=1.0,
    )
    return replace(
        found,
        source=source,
        source_admin=source,
        target=target,
        target_admin=target,
        policy=ReplicationPolicy(kind="identity", source_alias=names[0]),
        sole_writer=False,
        offsets="preserve" if preserve else "translate",
        control=control,
    )


def numbers(kafka: KafkaTools) -> Counter[int]:
    return Counter(
        int((record.value or b"")[:8])
        for records in kafka.read(TOPIC).values()
        for record in records
    )


def states(daemon: RunningDaemon, name: str) -> list[str]:
    if daemon.snapshot is None:
        return []
    return [each.state for each in daemon.link(name).partitions]


def lag(source: KafkaTools, target: KafkaTools) -> int:
    there = target.partition_count(TOPIC)
    ends = 0 if there is None else sum(target.offsets(TOPIC).values())
    return sum(source.offsets(TOPIC).values()) - ends


@pytest.mark.parametrize("offsets", ["translate", "preserve"])
def test_a_site_is_lost_and_comes_back(
    offsets: str,
    sites: tuple[LocalCluster, LocalCluster],
    begin: Callable[[LocalCluster, int], Load],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = sites
    at_a, at_b = KafkaTools(a.bootstrap), KafkaTools(b.bootstrap)
    preserve = offsets == "preserve"
    there, back = between(a, b, ("A", "B"), preserve), between(b, a, ("B", "A"), preserve)
    run = RunSettings(lease_s=3.0)
    before = Settings(links=(there,), run=run, spark={})
    after = Settings(links=(there, back), run=run, spark={})
    at_a.create_topic(TOPIC, PARTITIONS)
    if preserve:  # under translation, offsets on B are others
        begin_at(there.source, TOPIC, BEGINS)
    begins = at_a.offsets(TOPIC)
    own = OwnOffsets()

    # -- load on, and the source dies with records that are not mirrored yet ----------------------
    with RunningDaemon(monkeypatch, there):
        load = begin(a, 0)
        await_until(lambda: len(load.acked) > 3000 and lag(at_a, at_b) < 500, 120, "load mirrored")
        committed = {(TOPIC, n): begins[n] + 100 for n in range(PARTITIONS)}
        at_a.commit_group(READERS, committed)
        await_until(lambda: at_b.group_offsets(READERS), 60, "the group is brought over")
        own.read(at_a)
        await_until(
            lambda: all(at_b.offsets(TOPIC)[n] >= at for n, at in own.next.items()),
            60,
            "what it has read is mirrored",
        )
        act.throttle(before, bytes_per_s=30_000 if preserve else 70_000, who="drill")
        await_until(lambda: lag(at_a, at_b) > 1000, 60, "the mirror lags")
        ahead = OwnOffsets()
        ahead.read(at_a)
        killed_at = time.monotonic()
        a.kill()
        load.end()
        (shown,) = failover(before, yes=False)
        assert not shown.changed
        assert shown.rpo_ms is not None
        begun_at = time.monotonic()
        (done,) = failover(before, yes=True, who="drill")
        acted_s = time.monotonic() - begun_at
        assert done.changed

        # -- life goes on at B --------------------------------------------------------------------
        ours = begin(b, 10_000_000)
        await_until(lambda: ours.first_at, 60, "writing goes on")
        assert ours.first_at is not None
        rto_s = ours.first_at - killed_at
        assert at_b.group_offsets(READERS) == committed
        if preserve:
            on_a = own.seen.total()
            own.read(at_b)
            assert own.seen.total() > on_a
            cuts = {point.partition: point.targets[0][1] for point in done.cuts[TOPIC].points}
            assert all(ahead.next[n] > cut for n, cut in cuts.items()), "it has read more"
            ahead.next = cuts
    on_b = numbers(at_b)
    missing = set(load.acked) - on_b.keys()
    assert missing, "the drill is to lose something"
    assert max(on_b.values()) == 1, "nothing is doubled"

    # -- the source is back: the driver with the way back in its file waits to be told -------------
    a.restart()
    at_a.await_transactions(TOPIC)
    saved = tmp_path / "unmirrored.jsonl"
    with RunningDaemon(monkeypatch, there, back) as daemon:
        await_until(
            lambda: states(daemon, "B->A") == [State.STOPPED] * PARTITIONS,
            60,
            "the way back is not begun by itself",
        )
        undecided = failback(after, link="A->B", wait_s=0)
        assert undecided.step is FailbackStep.UNDECIDED
        assert sum(each.records for each in undecided.unmirrored) >= len(missing)
        assert not saved.exists()
        begun = failback(
            after,
            link="A->B",
            keep=Keep(path=saved),
            otherwise=Otherwise.REFILL if preserve else None,
            wait_s=60,
            who="drill",
        )
        assert (begun.step, begun.changed) == (FailbackStep.BACK, True)
        assert begun.lag is not None, "it has begun"
        kept = [json.loads(line) for line in saved.read_text().splitlines()]
        kept_numbers = {int(base64.b64decode(line["value"])[:8]) for line in kept}
        assert missing <= kept_numbers, "what is missing was saved"
        assert not kept_numbers & on_b.keys()

        # -- everything returns to A ---------------------------------------------------------------
        with pytest.raises(PartitionsFailedError):
            failback(after, link="A->B", turn_round=True, wait_s=0)
        at_b.commit_group(READERS, {(TOPIC, n): begins[n] + 2000 for n in range(PARTITIONS)})
        ours.end()
        turned_at = time.monotonic()
        turned = failback(after, link="A->B", turn_round=True, wait_s=60, who="drill")
        turned_s = time.monotonic() - turned_at
        assert (turned.step, turned.changed) == (FailbackStep.GOES_ON, True)
        last = begin(a, 20_000_000)
        await_until(lambda: len(last.acked) > 2000, 60, "writing goes on at A")
        last.end()
        await_until(lambda: states(daemon, "A->B") == [State.RUNNING] * PARTITIONS, 60, "mirrors")
        assert states(daemon, "B->A") == [State.PROMOTED] * PARTITIONS
        again = failback(after, link="A->B", turn_round=True)
        assert (again.step, again.changed) == (FailbackStep.GOES_ON, False)
        every = {*on_b, *ours.acked, *last.acked}
        await_until(lambda: numbers(at_b).keys() >= every, 60, "mirrored as before")
        if preserve:
            await_same_ends(at_a, [TOPIC], at_b, "", 60)

    final_a, final_b = numbers(at_a), numbers(at_b)
    assert max(final_b.values()) == 1
    assert max(final_a.values()) == 1
    if preserve:
        # A was filled again with the records of B; the rest is in the file.
        assert assert_same_offsets(at_a, TOPIC, at_b, TOPIC) == final_a.total()
        assert final_a.keys() >= every, "nothing that was acknowledged is lost"
        own.read(at_a)
        assert own.seen == final_a, "on A, on B and on A again, by the address alone"
        ahead.read(at_a)
        assert ahead.seen.keys() >= final_a.keys(), "it skips nothing, though it had read more"
        assert max(ahead.seen.values()) == 1
    else:
        assert final_a.keys() >= every | missing, "nothing that was acknowledged is lost"
        assert final_a.keys() - final_b.keys() == kept_numbers, "but for what was said, on one side"
    newest = max(load.acked)
    print(
        f"\nRPO: {shown.rpo_ms / 1000:.1f} s said; {len(missing):,} of {len(load.acked):,} records "
        f"missing at B, up to number {newest:,}, all saved"
        f"\nRTO: {rto_s:.1f} s from the kill to the first record at B, of which "
        f"`causeway failover --yes` took {acted_s:.1f} s"
        f"\nfailback: {turned_s:.1f} s without writers to turn round; 0 lost, 0 doubled"
    )
    if preserve:
        print(f"own offsets: {own.seen.total():,} records read on A, B and A; none translated")
