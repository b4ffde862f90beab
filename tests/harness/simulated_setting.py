"""What simulated lanes relay, and between which brokers: made at random, of some kind."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Literal

from causeway.link_topics import Outlet
from causeway.model import Pair
from causeway.records import GZIP, LZ4, ZSTD
from causeway.relay import Assignment, Compression, Preserve
from causeway.relay.lane import watches
from tests.harness.simulated_brokers import SOURCE, Brokers
from tests.harness.simulated_lane import STAGE, copies_of, share_of
from tests.harness.simulated_logs import Clock, Place, SourceLog, TargetLog

TOPIC, TOPIC_ID = "t", "a" * 32
WAYS = (
    None,
    Compression(codec=ZSTD, level=1),
    Compression(codec=LZ4, always=True),
    Compression(codec=GZIP, level=1, always=True),
)
YOUNG_MS, OLD_MS = 1 << 41, 1_600_000_000_000  # as long as brokers tell one from the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`outlets`: the least and most of a partition; `records`: as `outlets`, those to begin with;
    `sizes`: what they may hold; `shared`: all partitions have the same outlets; `stops`: this share
    of the partitions holds a record that the transform refuses; `old`: are the records, so that
    brokers forget their producers; `mixed`: half of them are; `refusals`: this share of the appends
    is refused; `crowded`: brokers take few connections from the beginning; `takes`: a batch of
    several records may have so many bytes at the target, which no lane is told; `preserves`: how
    gaps are filled, if each record keeps its offset; `begins`: the least and most offset of the
    first one then; `filler_from`: see Preserve; `recompressed`: each assignment has another way of
    compression, and the source's batches come in two codecs; `paced`: few partitions are fetched at
    a pace, too; `forgets`: so many times as often brokers forget producers; `damage`: this share of
    the fetched batches is damaged on the way; `idle_looks_s`: how often a lane looks at the ends of
    targets that it sends nothing to; `apart`: a marker may be appended behind one of its request
    that was refused."""

    links: int = 1
    partitions: int = 4
    brokers: int = 2
    outlets: tuple[int, int] = (1, 1)
    records: tuple[int, int] = (5, 40)
    sizes: tuple[int, ...] = (1, 1, 600, 3000)
    shared: bool = False
    transformed: bool = False
    bounded: bool = False
    stops: float = 0.0
    old: bool = False
    mixed: bool = False
    refusals: float = 0.01
    crowded: bool = False
    takes: int | None = None
    preserves: Literal["markers", "transactions"] | None = None
    begins: tuple[int, int] = (0, 0)
    filler_from: int | None = None
    recompressed: bool = False
    paced: bool = False
    forgets: float = 1.0
    damage: float = 0.0
    idle_looks_s: float = watches.LOOK_S
    apart: bool = False
    per_broker: int = 2
    round_trip_s: float = 0.03


@dataclass(slots=True)
class Mirrored:
    """A source partition of a link, and what the driver knows of it. `refused`: at which offset its
    transform stops it."""

    link: str
    target: str
    partition: int
    log: SourceLog
    outlets: tuple[Outlet, ...]
    transformed: bool
    refused: int | None
    max_message_bytes: int
    stop_at: int | None
    sole_writer: bool
    preserve: Preserve | None
    chance: random.Random
    ways: tuple[Compression | None, ...] = (None,)  # of compression; one for each assignment
    settled: bool = True
    assigned: bool = False

    @property
    def key(self) -> tuple[str, str, int]:
        return self.link, TOPIC, self.partition

    def series(self, number: int) -> list[int]:
        """All that shall come to lie in one of its outlets, as offsets at the source."""
        count = len(self.outlets)
        return [
            offset
            for offset in self.log.offsets()
            if (self.refused is None or offset < self.refused) and share_of(offset, count) == number
            for _ in range(copies_of(offset) if self.transformed else 1)
        ]

    def assignment(self) -> Assignment:
        return Assignment(
            link=self.link,
            source=SOURCE,
            target=self.target,
            topic=TOPIC,
            partition=self.partition,
            topic_id=TOPIC_ID,
            leader_epoch=-1,
            outlets=self.outlets,
            settled=self.settled,
            stop_at=self.stop_at,
            max_message_bytes=self.max_message_bytes,
            sole_writer=self.sole_writer,
            metadata_max_age_ms=20_000,
            transform=STAGE if self.transformed else None,
            preserve=self.preserve,
            compression=self.chance.choice(self.ways),
        )


class Setting:
    """`refused`: the offsets that the stage refuses, by source partition."""

    def __init__(self, kind: Kind, chance: random.Random, clock: Clock) -> None:
        self.kind = kind
        self.chance = chance
        self.clock = clock
        self.brokers = Brokers(chance, clock, refusals=kind.refusals, damage=kind.damage)
        self.brokers.markers_apart = kind.apart
        self.refused: dict[Place, int] = {}
        self.mirrored: dict[tuple[str, str, int], Mirrored] = {}
        self.targets = [f"target {link}" for link in range(kind.links)]  # the clusters
        for partition in range(kind.partitions):
            log = SourceLog(chance.randrange(kind.brokers))
            if kind.preserves:
                log.start = chance.randint(*kind.begins)
            self.brokers.sources[TOPIC, partition] = log
            self.write(log, chance.randint(*kind.records))
            if chance.random() < kind.stops:
                self.refused[TOPIC, partition] = chance.choice(list(log.offsets())[3:])
            for target in self.targets:
                self._mirror(target, partition, log)
        if kind.crowded:
            for node in range(kind.brokers):
                self.brokers.room[SOURCE, node] = chance.randint(1, 3)
                for target in self.targets:
                    self.brokers.room[target, node] = chance.randint(1, 2)

    def write(self, log: SourceLog, count: int) -> None:
        """So many records or a few more, with gaps as compaction and transactions leave them."""
        chance, at = self.chance, log.end
        until = at + count
        while at < until:
            records = chance.randint(1, 5)
            size = chance.choice(self.kind.sizes)
            compressed = self.kind.recompressed and chance.random() < 0.3
            times = [self._timestamp() for _ in range(records)]
            log.add(at, times, size=size, compressed=compressed)
            if self.kind.preserves:
                for _ in range(chance.choice((0, 0, 0, 1, 2))):
                    log.add_marker()
                records = log.end - at + chance.choice((0, 0, 0, 0, 1, 7))
            at += records + (chance.random() < 0.1)

    def _timestamp(self) -> int:
        if self.kind.mixed:
            return OLD_MS if self.chance.random() < 0.5 else YOUNG_MS
        return OLD_MS if self.kind.old else YOUNG_MS

    def _mirror(self, target: str, partition: int, log: SourceLog) -> None:
        kind, chance = self.kind, self.chance
        one = Mirrored(
            link=f"source->{target}",
            target=target,
            partition=partition,
            log=log,
            outlets=(),
            transformed=kind.transformed,
            refused=self.refused.get((TOPIC, partition)),
            max_message_bytes=chance.choice((4000, 1_048_588)),
            stop_at=log.end if kind.bounded else None,
            sole_writer=not kind.shared,
            preserve=None
            if kind.preserves is None
            else Preserve(
                begin=log.start,
                gaps=kind.preserves,
                transactional_id=target,
                filler_from=kind.filler_from,
            ),
            # Its own, so that a seed makes of other kinds what it made before.
            chance=random.Random(chance.random() if kind.recompressed else 0),
            ways=WAYS if kind.recompressed else (None,),
        )
        for number in range(chance.randint(*kind.outlets)):
            outlet = Outlet(
                topic=f"{target}.{TOPIC}" if kind.shared else f"{target}.{TOPIC}-{partition}",
                partition=number,
                topic_id=f"{0 if kind.shared else partition:08x}{'b' * 24}",
                producer_id=100 * partition + number,
                producer_epoch=0,
                pair=Pair(0, 0, 0),
                exclusive=not kind.shared,
            )
            keeps = log if kind.preserves else None
            new = TargetLog(chance.randrange(kind.brokers), kind.takes, keeps=keeps)
            new.gets_damage = kind.damage > 0
            held_by = self.brokers.targets.setdefault(outlet.at, new)
            held_by.series[outlet.producer_id] = partial(one.series, number)
            one.outlets += (outlet,)
        self.mirrored[one.key] = one
