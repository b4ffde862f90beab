"""What a spool knows besides the records: SQLite in WAL mode.

Written rarely: at a start, for each new topic, and once a second for how far each side has come.
What it says of that is old after a crash, and true all the same: a place to read back from. So that
alone does not wait for the disk, which takes half a second where brokers write to it as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from causeway.errors import ConfigError, ConflictError

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
    position INTEGER NOT NULL,  -- all up to it are there
    offset INTEGER NOT NULL,    -- and lie before this one
    PRIMARY KEY (side, lane)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Of one partition on one side: all of our records up to `position` lie before `offset`."""

    position: int
    offset: int


class Ledger:
    """Holds the directory for itself as long as the process lives. One thread at a time.
    `database`: its connection."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "ledger.db"
        try:
            self.database = sqlite3.connect(
                self._path, isolation_level=None, timeout=0, check_same_thread=False
            )
            self.database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self.database.execute("PRAGMA journal_mode = WAL")
            self.database.execute("PRAGMA synchronous = FULL")
            self.database.executescript(_TABLES)
            self.database.execute("BEGIN IMMEDIATE")
            self.database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise ConfigError("open", f"spool {directory}", str(error)) from error
            raise ConflictError(
                "open",
                f"spool {directory}",
                "another producer has it open",
                remedy="give each producer a directory of its own",
            ) from None
        except sqlite3.DatabaseError as error:
            raise ConfigError("open", f"spool {directory}", str(error)) from error

    def about(self, key: str) -> str | None:
        row = self.database.execute("SELECT value FROM about WHERE key = ?", [key]).fetchone()
        return str(row[0]) if row else None

    def note(self, key: str, value: str) -> None:
        self.database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", [key, value])

    def keys_of(self, value: str) -> set[str]:
        """Under which that is noted."""
        rows = self.database.execute("SELECT key FROM about WHERE value = ?", [value])
        return {str(key) for (key,) in rows}

    def lanes(self) -> dict[str, list[int]]:
        """Of each topic, its lanes by partition."""
        found: dict[str, list[int]] = {}
        for lane, topic in self.database.execute(
            "SELECT lane, topic FROM lanes ORDER BY topic, partition"
        ):
            found.setdefault(topic, []).append(lane)
        return found

    def add_topic(self, topic: str, partitions: int) -> list[int]:
        """The lanes of its partitions, 0 to `partitions` - 1; those there are stay."""
        with self._transaction():
            self.database.executemany(
                "INSERT OR IGNORE INTO lanes (topic, partition) VALUES (?, ?)",
                [(topic, partition) for partition in range(partitions)],
            )
        return self.lanes()[topic][:partitions]

    def places(self, side: str) -> dict[int, Place]:
        rows = self.database.execute(
            "SELECT lane, position, offset FROM places WHERE side = ?", [side]
        )
        return {lane: Place(position=position, offset=offset) for lane, position, offset in rows}

    def begin(self, side: str, places: Iterable[tuple[int, Place]]) -> None:
        """By lane: where those begin that nothing was written to yet. On the disk when it returns:
        a later place would hide what was written since."""
        self._store({side: places})

    def move(self, places: Mapping[str, Iterable[tuple[int, Place]]]) -> None:
        """By side and lane; all of them or none."""
        self.database.execute("PRAGMA synchronous = NORMAL")
        try:
            self._store(places)
        finally:
            self.database.execute("PRAGMA synchronous = FULL")

    def _store(self, places: Mapping[str, Iterable[tuple[int, Place]]]) -> None:
        rows = [
            (side, lane, place.position, place.offset)
            for side, some in places.items()
            for lane, place in some
        ]
        with self._transaction():
            self.database.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        self.database.close()

    def _transaction(self) -> sqlite3.Connection:
        self.database.execute("BEGIN IMMEDIATE")
        return self.database
