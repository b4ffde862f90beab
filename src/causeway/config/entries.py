"""The unchecked content of a file: keys with texts and places, and the problems that are found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from causeway.config.keys import KeyTable
from causeway.config.transform_keys import is_transform_key, key_in_transform
from causeway.config.values import Secret
from causeway.errors import ConfigError

_SECRET_KEY = re.compile(
    r"password|passphrase|secret|jaas|credential|token(?!\.endpoint)|ssl\.keystore\.key|private"
    r"|webhook\.url",  # the URL of a chat's webhook allows to post there
    re.IGNORECASE,
)
_REMARK = re.compile(r"\s#")
_Model = TypeVar("_Model", bound=KeyTable)


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

    def told(self, error: ConfigError) -> str:
        """The text of `error`, which is about this value, without secrets."""
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
    """The keys of `model` in `entries`; other entries are ignored. A value that does not fit goes
    to `problems`. The default replaces it, and a missing value, so that later checks can go on."""
    values = {}
    for field_name, key in model.table().items():
        entry = entries.get(key.name)
        if entry is None or entry.missing:
            continue
        try:
            value = key.kind.parse(entry.value)
        except ConfigError as error:
            problems.add(f"{entry.place}: {entry.told(error)}")
        except ValueError as error:
            problems.add(f"{entry.place} must be {error}, not {entry.shown}")
        else:
            if value not in ("", Secret("")) or key.default is not None:
                values[field_name] = value
    return model(**values)
