"""The directory of one producer: its log of records, and `ledger.db` (SQLite in WAL mode).

The ledger has the producer's name, its clusters and topics, and the place that each side has
reached. The places are written once a second. After a crash they are old but still true: places
from which to read. So only these writes do not wait for the disk, which takes up to half a second
if brokers write to the same disk.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from causeway_producer.errors import DualProducerError, SettingsError, SpoolInUseError
from causeway_producer.journal import Journal
from causeway_producer.options import Options

_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lanes (
    lane INTEGER PRIMARY KEY,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    UNIQUE (topic, partition)
);
CREATE TABLE IF NOT EXISTS places (
    side TEXT NOT NULL,
    lane INTEGER NOT NULL,
    position INTEGER NOT NULL,  -- all records up to this one are on the side
    offset INTEGER NOT NULL,    -- and before this offset
    PRIMARY KEY (side, lane)
) WITHOUT ROWID;
"""


class Place(NamedTuple):
    """In one partition of one side, all of our records up to `position` are before `offset`."""

    position: int
    offset: int


class Ledger:
    """Locks the directory while the process lives. Used by one thread at a time."""

    def __init__(self, directory: Path) -> None:
        try:
            self.database = sqlite3.connect(
                directory / "ledger.db", isolation_level=None, timeout=0, check_same_thread=False
            )
            self.database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self.database.execute("PRAGMA journal_mode = WAL")
            self.database.execute("PRAGMA synchronous = FULL")
            self.database.executescript(_TABLES)
            self.database.execute("BEGIN IMMEDIATE")
            self.database.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if "locked" not in str(error):
                raise SettingsError(f"open spool {directory}", str(error)) from error
            raise SpoolInUseError(
                f"open spool {directory}",
                "another producer has it open",
                "give each producer its own directory",
            ) from None

    def about(self, key: str) -> str | None:
        row = self.database.execute("SELECT value FROM about WHERE key = ?", [key]).fetchone()
        return str(row[0]) if row else None

    def note(self, key: str, value: str) -> None:
        self.database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", [key, value])

    def check_cluster(self, side: str, cluster_id: str) -> None:
        """Notes the cluster of a side. Raises SettingsError if the side had another cluster before,
        or if it is the other side's cluster."""
        key = f"cluster {side}"
        if (known := self.about(key)) not in (None, cluster_id):
            raise SettingsError(
                f"produce to {side}",
                f"it is cluster {cluster_id}, and the spool is for {known}",
                "give this pair of clusters its own spool",
            )
        rows = self.database.execute("SELECT key FROM about WHERE value = ?", [cluster_id])
        twins = {str(row[0]) for row in rows if str(row[0]).startswith("cluster ")} - {key}
        if twins:
            other = twins.pop().removeprefix("cluster ")
            raise SettingsError(
                f"produce to {side}", f"it is the same cluster as {other}, {cluster_id}"
            )
        if known is None:
            self.note(key, cluster_id)

    def partitions(self) -> dict[str, list[int]]:
        """Returns the numbers of the partitions of each topic, in their order."""
        found: dict[str, list[int]] = {}
        for number, topic in self.database.execute(
            "SELECT lane, topic FROM lanes ORDER BY topic, partition"
        ):
            found.setdefault(topic, []).append(number)
        return found

    def add_topic(self, topic: str, count: int) -> list[int]:
        """Adds the missing ones of `count` partitions. Returns the numbers of all of them."""
        with self._transaction():
            self.database.executemany(
                "INSERT OR IGNORE INTO lanes (topic, partition) VALUES (?, ?)",
                [(topic, partition) for partition in range(count)],
            )
        return self.partitions()[topic][:count]

    def places(self, side: str) -> dict[int, Place]:
        rows = self.database.execute(
            "SELECT lane, position, offset FROM places WHERE side = ?", [side]
        )
        return {number: Place(position, offset) for number, position, offset in rows}

    def begin(self, side: str, places: Mapping[int, Place]) -> None:
        """Notes the places of new partitions, or the place behind a refused record. Waits for the
        disk."""
        self._store({side: places})

    def move(self, places: Mapping[str, Mapping[int, Place]]) -> None:
        """Notes new places, by side and partition: all or none. Does not wait for the disk."""
        self.database.execute("PRAGMA synchronous = NORMAL")
        try:
            self._store(places)
        finally:
            self.database.execute("PRAGMA synchronous = FULL")

    def _store(self, places: Mapping[str, Mapping[int, Place]]) -> None:
        rows: Iterable[tuple[object, ...]] = [
            (side, number, *place)
            for side, some in places.items()
            for number, place in some.items()
        ]
        with self._transaction():
            self.database.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?)", rows)

    def _transaction(self) -> sqlite3.Connection:
        self.database.execute("BEGIN IMMEDIATE")
        return self.database


class Spool:
    """Opens the directory and begins a life. `identity`: the first part of the ids of this spool's
    records. No other spool has it, even with the same name. `life`: the number of this opening.

    Raises SettingsError if the directory is no spool, or another producer's; SpoolInUseError."""

    def __init__(self, options: Options, on_damage: Callable[[str], None]) -> None:
        directory = options.spool
        ledger = None
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.ledger = ledger = Ledger(directory)
            self.name, self.identity = _names(options, ledger)
            self.life = int(ledger.about("life") or 0) + 1
            ledger.note("life", str(self.life))
            durable = options.spool_sync == "machine"
            self.journal = Journal(
                directory, max_bytes=options.spool_max_bytes, durable=durable, on_damage=on_damage
            )
        except (OSError, ValueError, sqlite3.Error, DualProducerError) as error:
            if ledger is not None:
                ledger.database.close()
            if isinstance(error, DualProducerError):
                raise
            raise SettingsError(f"open spool {directory}", str(error)) from error

    def close(self) -> None:
        self.journal.close()
        self.ledger.database.close()


def _names(options: Options, ledger: Ledger) -> tuple[str, str]:
    """Returns the producer's name and its identity, as the first start has chosen them."""
    operation = f"open spool {options.spool}"
    known = ledger.about("name")
    if known is not None and options.name not in (None, known):
        raise SettingsError(
            operation,
            f"it belongs to producer {known}, and the name given is {options.name}",
            "give each producer its own directory",
        )
    sides = " ".join(side.name for side in options.sides)
    before = ledger.about("sides")
    if before is not None and set(before.split()) != set(sides.split()):
        raise SettingsError(
            operation,
            f"its sides are {before}, and the names given are {sides}",
            "give the names that it had",
        )
    token = secrets.token_hex(6)
    name = known or options.name or token
    # Replicas of an application may share a name. Their ids must differ.
    identity = ledger.about("identity") or (token if name == token else f"{name}.{token}")
    for key, value in (("name", name), ("identity", identity), ("sides", sides)):
        ledger.note(key, value)
    return name, identity
