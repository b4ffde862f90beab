"""Keeps on disk which ranges agreed, so that a later call leaves them out.

One JSON object per line, appended when a range is done; the last line may be incomplete. Ranges
that agreed once are not read again, so later damage on a disk is not found with the same file.
"""

from __future__ import annotations

import fcntl
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from causeway.errors import ConfigError
from causeway.model import Pair, TopicPartition
from causeway.operate.verify.outcome import PartitionFeed, RangeOutcome

_log = logging.getLogger(__name__)

_FORMAT = {"causeway verify": 1}

Key = tuple[str, TopicPartition, TopicPartition, int, str, str]


@dataclass(slots=True)
class Agreed:
    """The stretches of one feed that agreed, and their sums. `timeless`: some timestamps were not
    compared."""

    stretches: list[tuple[Pair, Pair]] = field(default_factory=list)
    records: int = 0
    size: int = 0
    as_they_are: int = 0
    checksum: int = 0
    timeless: bool = False


class AgreedFile:
    """The ranges that agreed. `path` None: they are not kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._known: dict[Key, Agreed] = {}

    def open(self) -> None:
        """Raises ConfigError if the file cannot be used, has another content, or is in use."""
        if self._path is None:
            return
        try:
            self._file = self._path.open("a")
            self._use(self._path, self._file)
        except OSError as error:
            raise ConfigError("use", f"--state {self._path}", str(error)) from error
        except ConfigError:
            self.close()
            raise

    def _use(self, path: Path, file: IO[str]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            cause = "another verify uses it"
            raise ConfigError("use", f"--state {path}", cause) from error
        except OSError as error:  # not every file system supports locks
            _log.debug("lock %s: %s", path, error)
        try:
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            lines = whole.decode().splitlines()
            if content and not lines:
                lines = [content.decode()]  # a file of verify has at least one line
            self._read(lines)
            file.truncate(len(whole))  # an incomplete line
            if not lines:
                self._write(_FORMAT)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("use", f"--state {path}", str(error)) from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def agreed(self, feed: PartitionFeed) -> Agreed | None:
        return self._known.get(_key(feed))

    def add(self, feed: PartitionFeed, start: Pair, end: Pair, found: RangeOutcome) -> None:
        if self._file is None:
            return
        self._write(
            {
                "link": feed.link,
                "source": list(feed.source),
                "target": list(feed.target),
                "producer_id": feed.producer_id,
                "source_id": feed.source_id,
                "target_id": feed.target_id,
                "from": list(start),
                "to": list(end),
                "records": found.records,
                "bytes": found.size,
                "as_they_are": found.as_they_are,
                "checksum": found.checksum,
                "timeless": found.timeless,
            }
        )

    def _write(self, line: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def _read(self, lines: list[str]) -> None:
        for number, line in enumerate(lines):
            try:
                fields = json.loads(line)
                if number or fields != _FORMAT:
                    self._take(fields)
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    "use",
                    f"--state {self._path}",
                    f"line {number + 1} is not what verify writes ({error})",
                    remedy="name a new file",
                ) from error

    def _take(self, fields: dict[str, Any]) -> None:
        key = (
            fields["link"],
            TopicPartition(*fields["source"]),
            TopicPartition(*fields["target"]),
            fields["producer_id"],
            fields["source_id"],
            fields["target_id"],
        )
        known = self._known.setdefault(key, Agreed())
        stretch = Pair(*fields["from"]), Pair(*fields["to"])
        known.stretches = _joined([*known.stretches, stretch])
        known.records += fields["records"]
        known.size += fields["bytes"]
        known.as_they_are += fields["as_they_are"]
        known.timeless |= bool(fields.get("timeless"))
        known.checksum = (known.checksum + fields["checksum"]) % (1 << 64)


def _key(feed: PartitionFeed) -> Key:
    return (
        feed.link,
        feed.source,
        feed.target,
        feed.producer_id,
        feed.source_id,
        feed.target_id,
    )


def _joined(stretches: Iterable[tuple[Pair, Pair]]) -> list[tuple[Pair, Pair]]:
    joined: list[tuple[Pair, Pair]] = []
    for start, end in sorted(stretches):
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined
