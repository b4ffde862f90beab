"""The unchecked content of a file: keys with texts and places, and the problems that are found. The
files that settings come from: the file itself, the files that its `${file:…}` and `${dir:…}` name,
key stores and trust stores. Settings can be read again when one of these has changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from causeway.config.key_table import KeyTable
from causeway.config.transform_keys import is_transform_key, key_in_transform
from causeway.config.values import Secret
from causeway.errors import CausewayError, ConfigError

_SECRET_KEY = re.compile(
    r"password|passphrase|secret|jaas|credential(?!s\.client\.id)|token(?!\.endpoint)"
    r"|ssl\.keystore\.key|private(?!\.key\.file)"
    r"|webhook\.url",  # the URL of a chat's webhook allows to post there
    re.IGNORECASE,
)
_REMARK = re.compile(r"\s#")
_Model = TypeVar("_Model", bound=KeyTable)
T = TypeVar("T")  # Settings, which has a Rereading

# Of a file: its time of change in ns, its size and its inode. None: the file cannot be read.
Stamp = tuple[int, int, int] | None
_noted: ContextVar[dict[Path, Stamp] | None] = ContextVar("noted", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One property. `resolved`: the value came from outside the file. `missing`: the value should
    come from outside and was not found; a problem says so, and later checks skip the entry."""

    key: str
    value: str = field(repr=False)
    line: int  # 1-based, of the key; 0: not from a file
    resolved: bool = False
    missing: bool = False

    @property
    def secret(self) -> bool:
        """Whether the value must not be shown. The name of a transform does not count."""
        name = key_in_transform(self.key) if is_transform_key(self.key) else self.key
        return self.resolved or _SECRET_KEY.search(name) is not None

    @property
    def shown(self) -> str:
        """The value as an error message may show it."""
        return "(hidden)" if self.secret else f"{self.value!r}{self.remark}"

    @property
    def remark(self) -> str:
        """A hint for a value with a comment after it, such as `false # for now`: in Java's property
        files a comment is a line of its own. Empty for other values, and for secrets."""
        if self.secret or not _REMARK.search(self.value):
            return ""
        return " (# does not end a value: move the comment to a line of its own)"

    def without_secrets(self, error: CausewayError) -> str:
        """Returns the text of `error`, which is about this value, without secrets."""
        if not self.secret:
            return str(error)
        return f"{error.cause} ({error.remedy})" if error.remedy else error.cause

    @property
    def place(self) -> str:
        return f"{self.key} (line {self.line})" if self.line else self.key

    @property
    def spot(self) -> str:
        """`place` for a text that already names the key; empty if the entry has no line."""
        return f"line {self.line}" if self.line else ""


Entries = Mapping[str, Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyFile:
    """The properties of one file, in the file's order; of a key set twice the last counts, as in
    Java. `repeated` lists the earlier ones."""

    path: Path
    entries: Entries
    repeated: tuple[Entry, ...] = ()


@dataclass(slots=True)
class Problems:
    """The problems of `subject`: one line each, in the order found, without repetitions."""

    subject: str
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)

    def raise_if_any(self) -> None:
        """Raises one ConfigError: the only problem, or a line for each."""
        if not self.lines:
            return
        if len(self.lines) == 1:
            raise ConfigError("use", self.subject, self.lines[0])
        listed = "".join(f"\n  {line}" for line in self.lines)
        raise ConfigError("use", self.subject, f"{len(self.lines)} problems{listed}")


def read(model: type[_Model], entries: Entries, problems: Problems) -> _Model:
    """Returns the keys of `model` in `entries`. Other entries are ignored. A value that does not
    fit goes to `problems`. The default replaces such a value and a missing value, so that later
    checks can go on."""
    values = {}
    for field_name, key in model.table().items():
        entry = entries.get(key.name)
        if entry is None or entry.missing:
            continue
        try:
            value = key.kind.parse(entry.value)
        except ConfigError as error:
            problems.add(f"{entry.place}: {entry.without_secrets(error)}")
        except ValueError as error:
            problems.add(f"{entry.place} must be {error}, not {entry.shown}")
        else:
            if value not in ("", Secret("")) or key.default is not None:
                values[field_name] = value
    return model(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rereading:
    """`files`: each with its stamp from right before it was read. `read` reads the Settings again,
    and raises ConfigError."""

    files: Mapping[Path, Stamp]
    read: Callable[[], Any]

    @property
    def stale(self) -> bool:
        """Whether a file has changed since it was read."""
        return have_changed(self.files)

    @property
    def path(self) -> Path | None:
        """The file itself: the one that was read first."""
        return next(iter(self.files), None)

    def then(self, change: Callable[[Any], Any]) -> Rereading:
        """Returns the same reading, with `change` applied to the Settings of each reading."""
        return Rereading(files=self.files, read=lambda: change(self.read()))

    def attempt(self) -> tuple[Any, Mapping[Path, Stamp]]:
        """Returns the Settings that `read` returns, or its ConfigError. Also returns the files that
        this attempt has asked for, each with its stamp from right before."""
        with _noting() as files:
            try:
                return self.read(), files
            except ConfigError as error:
                return error, {**self.files, **files}


def note(path: Path) -> None:
    """Records the stamp of `path`. Call this right before reading it."""
    files = _noted.get()
    if files is not None:
        files.setdefault(path, stamp_of(path))


def read_file(path: Path) -> bytes:
    """Returns the content of `path`, and records its stamp. Raises ConfigError."""
    note(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError("read", str(path), "there is no such file") from None
    except OSError as error:
        raise ConfigError("read", str(path), (error.strerror or str(error)).lower()) from None


def rereadable(read: Callable[[], T]) -> T:
    """Returns the settings that `read` returns, with their `rereading`."""
    with _noting() as files:
        settings = read()
    again = Rereading(files=files, read=lambda: rereadable(read))
    return replace(settings, rereading=again)  # type: ignore[type-var]


@contextmanager
def _noting() -> Iterator[dict[Path, Stamp]]:
    files: dict[Path, Stamp] = {}
    outer = _noted.get()
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)
        if outer is not None:
            outer.update((path, stamp) for path, stamp in files.items() if path not in outer)


def have_changed(files: Mapping[Path, Stamp]) -> bool:
    """Returns whether one of the files has another stamp now."""
    return any(stamp_of(path) != stamp for path, stamp in files.items())


def stamp_of(path: Path) -> Stamp:
    try:
        found = path.stat()  # follows links: Kubernetes replaces a link to update a Secret
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
