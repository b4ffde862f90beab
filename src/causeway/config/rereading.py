"""Settings that can be read again, and the files that they come from: the file itself, the files
that its `${file:…}` and `${dir:…}` name, key stores and trust stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from causeway.errors import ConfigError

T = TypeVar("T")  # Settings, which has a Rereading

# Of a file: its time of change in ns, its size and its inode. None: the file cannot be read.
Stamp = tuple[int, int, int] | None
_noted: ContextVar[dict[Path, Stamp] | None] = ContextVar("noted", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rereading:
    """`files`: each with its stamp from right before it was read. `read` reads the Settings again,
    and raises ConfigError."""

    files: Mapping[Path, Stamp]
    read: Callable[[], Any]

    @property
    def stale(self) -> bool:
        """Whether a file has changed since it was read."""
        return any(stamp_of(path) != stamp for path, stamp in self.files.items())


def note(path: Path) -> None:
    """Record the stamp of `path`. Call this right before reading it."""
    files = _noted.get()
    if files is not None:
        files.setdefault(path, stamp_of(path))


def read_file(path: Path) -> bytes:
    """The content of `path`, whose stamp is recorded. Raises ConfigError."""
    note(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError("read", str(path), "there is no such file") from None
    except OSError as error:
        raise ConfigError("read", str(path), (error.strerror or str(error)).lower()) from None


def rereadable(read: Callable[[], T]) -> T:
    """The settings that `read` returns, with their `rereading`."""
    with _noting() as files:
        settings = read()
    again = Rereading(files=files, read=lambda: rereadable(read))
    return replace(settings, rereading=again)  # type: ignore[type-var]


@contextmanager
def _noting() -> Iterator[dict[Path, Stamp]]:
    files: dict[Path, Stamp] = {}
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)


def stamp_of(path: Path) -> Stamp:
    try:
        found = path.stat()  # follows links: Kubernetes replaces a link to update a Secret
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
