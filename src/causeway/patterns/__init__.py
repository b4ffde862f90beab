"""Matches names with Java regular expressions, which must match the whole name.

Other people choose the names of topics and groups, so a match must end soon for each name. RE2
takes time in proportion to the name's length. Patterns that RE2 does not support (look-around,
back-references, …) are matched by backtracking, which may never end. Such a match is abandoned
after `TIME_LIMIT_S`; other threads can run meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2
import regex

from causeway.errors import ConfigError
from causeway.patterns.java_regex import translate

TIME_LIMIT_S = 0.1  # for a name; an ordinary match takes microseconds
_MEMORY = 64 << 20  # bytes, for the program that RE2 makes of a pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """`pattern`: as in the file. `text`: for the engines. `linear`: RE2 can match it."""

    pattern: str
    text: str
    linear: bool

    def matches(self, name: str) -> bool | None:
        """Returns whether the whole `name` matches. None if there is no answer within
        `TIME_LIMIT_S`. Answers of backtracking are cached, because they may take long."""
        engine = _engine(self)
        if isinstance(engine, regex.Pattern):
            found = _backtrack(self, name)
            return None if found is None else bool(found)
        return engine.fullmatch(name.encode()) is not None  # bytes: no offsets to be translated

    @property
    def groups(self) -> int:
        """The number of capturing groups."""
        return int(_engine(self).groups)

    def capture(self, name: str) -> tuple[str, ...] | None:
        """Returns the text of each group, the whole name first; '' for a group without a match.
        Returns no texts if `name` does not match, and None like `matches`."""
        engine = _engine(self)
        if isinstance(engine, regex.Pattern):
            return _backtrack(self, name)
        found = engine.fullmatch(name.encode())
        if found is None:
            return ()
        return name, *((text or b"").decode() for text in found.groups())


def compile_pattern(pattern: str, flags: str = "") -> tuple[Pattern, str]:
    """Returns a pattern, and the flags that are set at its end. `flags`: those set before it.

    Raises ConfigError if Java refuses the pattern, or if it cannot be translated exactly.
    """
    try:
        found = translate(pattern, flags)
        compiled = Pattern(pattern=pattern, text=found.text, linear=found.linear)
        _engine(compiled)
    except regex.error as error:
        raise ConfigError("read the pattern", pattern, error.msg) from None
    except RecursionError:
        start = f"{pattern[:40]}…"
        raise ConfigError("read the pattern", start, "its brackets are nested too deeply") from None
    return compiled, found.flags


@lru_cache(maxsize=1000)
def _engine(pattern: Pattern) -> Any:
    if pattern.linear:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        try:
            return re2.compile(pattern.text, options)
        except re2.error:
            pass  # too many repetitions, or a mistake, for which the other engine has a better text
    return regex.compile(pattern.text, regex.ASCII)


@lru_cache(maxsize=500_000)  # 100,000 topics, with some such patterns
def _backtrack(pattern: Pattern, name: str) -> tuple[str, ...] | None:
    try:
        found = _engine(pattern).fullmatch(name, timeout=TIME_LIMIT_S, concurrent=True)
    except TimeoutError:
        return None
    return () if found is None else (name, *(text or "" for text in found.groups()))
