"""Keeps on disk which ranges agreed, so that a later call leaves them out.

One JSON object per line, appended when a range is done; the last line may be incomplete. Ranges
that agreed once are not read again, so later damage on a disk is not found with the same file.
"""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec

from causeway.errors import ConfigError
from causeway.model import Pair, TopicPartition
from causeway.operate.verify.outcome import FeedIdentity, PartitionFeed, RangeOutcome, Sums

_log = logging.getLogger(__name__)

_FORMAT = {"causeway verify": 1}


class Agreed(Sums, kw_only=True):
    """The stretches of one feed that agreed, and their sums."""

    stretches: list[tuple[Pair, Pair]] = msgspec.field(default_factory=list)


class _Line(Sums, kw_only=True, rename={"start": "from", "end": "to", "size": "bytes"}):
    """One range that agreed."""

    link: str
    source: TopicPartition
    target: TopicPartition
    producer_id: int
    source_id: str
    target_id: str
    start: Pair
    end: Pair


class AgreedFile:
    """The ranges that agreed. They are not kept if `path` is None."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._known: dict[FeedIdentity, Agreed] = {}

    def open(self) -> None:
        """Raises ConfigError if the file cannot be used, has another content, or is in use."""
        if self._path is None:
            return
        try:
            file = self._file = self._path.open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._unusable("another verify uses it") from None
            except OSError as error:  # not every file system supports locks
                _log.debug("lock %s: %s", self._path, error)
            content = self._path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            lines = whole.decode().splitlines()
            if content and not lines:
                lines = [content.decode()]  # a file of verify has at least one line
            self._read(lines)
            file.truncate(len(whole))  # an incomplete line
            if not lines:
                self._write(_FORMAT)
        except (OSError, UnicodeDecodeError) as error:
            self.close()
            raise self._unusable(str(error)) from error
        except ConfigError:
            self.close()
            raise

    def _unusable(self, cause: str, remedy: str = "") -> ConfigError:
        return ConfigError("use", f"--state {self._path}", cause, remedy=remedy)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def agreed(self, feed: PartitionFeed) -> Agreed | None:
        return self._known.get(feed.identity)

    def add(self, feed: PartitionFeed, start: Pair, end: Pair, found: RangeOutcome) -> None:
        if self._file is None:
            return
        self._write(
            _Line(
                link=feed.link,
                source=feed.source,
                target=feed.target,
                producer_id=feed.producer_id,
                source_id=feed.source_id,
                target_id=feed.target_id,
                start=start,
                end=end,
                records=found.records,
                size=found.size,
                as_they_are=found.as_they_are,
                checksum=found.checksum,
                timeless=found.timeless,
            )
        )

    def _write(self, line: object) -> None:
        assert self._file is not None
        self._file.write(msgspec.json.encode(line).decode() + "\n")
        self._file.flush()

    def _read(self, lines: list[str]) -> None:
        for number, line in enumerate(lines):
            try:
                if number or msgspec.json.decode(line) != _FORMAT:
                    self._take(msgspec.json.decode(line, type=_Line))
            except msgspec.MsgspecError as error:
                cause = f"line {number + 1} was not written by verify ({error})"
                raise self._unusable(cause, "name a new file") from error

    def _take(self, line: _Line) -> None:
        key = (
            line.link,
            line.source,
            line.target,
            line.producer_id,
            line.source_id,
            line.target_id,
        )
        known = self._known.setdefault(key, Agreed())
        known.stretches = _joined([*known.stretches, (line.start, line.end)])
        known.add(line)


def _joined(stretches: Iterable[tuple[Pair, Pair]]) -> list[tuple[Pair, Pair]]:
    joined: list[tuple[Pair, Pair]] = []
    for start, end in sorted(stretches):
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined
