r"""Translates Java regular expressions to the syntax that RE2 and Python's `regex` share.

A class, a dot, or a letter with `(?i)` becomes the set of characters that Java means, so that the
result has no flags and both engines match alike. Look-around, back-references, atomic groups and
possessive quantifiers are marked, because RE2 lacks them. A pattern that cannot be translated
exactly is refused with a ConfigError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from causeway.patterns.code_points import ANYTHING, EVERYTHING, Points
from causeway.patterns.java_classes import Scanner

_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAME = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_REFERENCE = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})([?+]?)")
_KNOWN_FLAGS = "imsudU"

_LINE_ENDS = Points.chars("\n\r\x85\u2028\u2029")
_END = f"(?!{ANYTHING})"
# \Z, and $ without (?m): at the end, or before a line end at the end of the text.
_LAST_LINE_END = rf"(?:{_END}|(?<!\r)(?=\n{_END})|(?=(?:\r\n|[\r\x85\u2028\u2029]){_END}))"
_UNIX_LAST_LINE_END = rf"(?=\n?{_END})"
_LINE_END = rf"(?:{_END}|(?<!\r)(?=\n)|(?=[\r\x85\u2028\u2029]))"
_UNIX_LINE_END = rf"(?:{_END}|(?=\n))"
# ^ with (?m): never at the very end.
_LINE_START = rf"(?:(?={ANYTHING})(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n)))"
_UNIX_LINE_START = rf"(?:(?={ANYTHING})(?:\A|(?<=\n)))"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexTranslation:
    """`text` matches a whole name as the Java pattern does, with no flag but ASCII (for `\\b`).

    `flags`: those set at the end, which apply to later patterns. `linear`: RE2 can match it.
    """

    text: str
    flags: str
    linear: bool


def translate(pattern: str, flags: str = "") -> RegexTranslation:
    """Translates `pattern` to match whole names. `flags`: those set before it. Raises
    ConfigError."""
    return _Translator(pattern, flags=flags).run()


@dataclass(frozen=True, slots=True)
class _OpenGroup:
    """An open group. `flags`: the flags to restore at its end. `closed`: the text after it does not
    change its match, because it only looks, or never gives back matched text."""

    flags: str
    closed: bool


@dataclass(slots=True)
class _Translator(Scanner):
    groups: list[_OpenGroup] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    captures: int = 0
    linear: bool = True
    repeatable: bool = False  # whether the last translated part may be repeated

    def run(self) -> RegexTranslation:
        while self.at < len(self.pattern):
            self._step()
        if self.groups:
            raise self._refuse("a '(' is not closed")
        return RegexTranslation(text="".join(self.out), flags=self.flags, linear=self.linear)

    def _step(self) -> None:
        char = self.pattern[self.at]
        if char in "*+?{":
            self._repeat(char)
            return
        repeatable = True
        if char == "\\":
            self._escape()
        elif char == "[":
            self.out.append(self._character_class().in_class())
        elif char == "(":
            repeatable = False
            self._open_group()
        elif char == ")":
            self._close_group()
        elif char == "|":
            repeatable = False
            self._emit("|")
        elif char == ".":
            ends = Points.chars("\n") if "d" in self.flags else _LINE_ENDS
            self._emit((EVERYTHING if "s" in self.flags else ~ends).in_class())
        elif char == "^":
            self._start()
        elif char == "$":
            self._end("m" in self.flags)
        else:
            self._literal(char)
            self.at += 1
        self.repeatable = repeatable

    def _repeat(self, char: str) -> None:
        match = _QUANTIFIER.match(self.pattern, self.at)
        if match is None:
            raise self._refuse("a '{' that is no repetition such as {2} (a comma ends a pattern)")
        if not self.repeatable:
            raise self._refuse(f"there is nothing to repeat before '{char}'; '.*' matches any name")
        self.linear &= match.group(1) != "+"
        self._emit(match.group(), len(match.group()))
        self.repeatable = False

    def _literal(self, char: str) -> None:
        points = self._one(char)
        alone = points == Points.chars(char)
        text = "\\" + char if char in r".^$*+?{}[]\|()" else char
        self.out.append(text if alone else points.in_class())

    def _looking(self, text: str, consumed: int) -> None:
        self.linear = False
        self._emit(text, consumed)

    def _start(self) -> None:
        if "m" not in self.flags:
            self._emit(r"(?:\A)")
        else:
            self._looking(_UNIX_LINE_START if "d" in self.flags else _LINE_START, 1)

    def _end(self, each_line: bool, length: int = 1) -> None:
        """Translates `$` or `\\Z`, which is `length` long."""
        if self._is_last(length):
            self._emit("(?:)", length)
        elif "d" in self.flags:
            self._looking(_UNIX_LINE_END if each_line else _UNIX_LAST_LINE_END, length)
        else:
            self._looking(_LINE_END if each_line else _LAST_LINE_END, length)

    def _is_last(self, length: int) -> bool:
        """Returns whether nothing can follow at `at`: then the name ends there anyway."""
        rest = self.pattern[self.at + length :]
        if not self.groups and rest.startswith("|"):
            return True
        return not rest.strip(")") and not any(group.closed for group in self.groups)

    # -- groups and flags

    def _open_group(self) -> None:
        rest = self.pattern[self.at :]
        if not rest.startswith("(?"):
            self.captures += 1
            self._open("(", 1)
        elif rest.startswith(("(?=", "(?!", "(?<=", "(?<!", "(?>")):
            length = 4 if rest.startswith("(?<") else 3
            self.linear = False
            self._open(rest[:length], length, closed=True)
        elif match := _NAME.match(rest):
            self._named_group(match)
        elif match := _FLAGS.match(rest):
            self._flags(match)
        else:
            raise self._refuse(f"the group {rest[:4]}… is not known, or not supported")

    def _open(self, text: str, length: int, *, closed: bool = False) -> None:
        self.groups.append(_OpenGroup(self.flags, closed))
        self._emit(text, length)

    def _named_group(self, match: re.Match[str]) -> None:
        name = match.group(1)
        if name in self.names:
            raise self._refuse(f"there are two groups named {name}")
        self.names.add(name)
        self.captures += 1
        self._open(f"(?P<{name}>", match.end())

    def _flags(self, match: re.Match[str]) -> None:
        on, off, end = match.group(1), match.group(2) or "", match.group(3)
        for flag in on + off:
            if flag not in _KNOWN_FLAGS:
                raise self._refuse(f"the flag (?{flag}) is not supported")
        if end == ":":
            self._open("(?:", match.end())
        else:  # for the rest of the group, including later alternatives
            self.at += match.end()
        # Unicode's classes include Unicode's cases.
        added = set(on + "u" * ("U" in on))
        self.flags = "".join(sorted((set(self.flags) | added) - set(off)))

    def _close_group(self) -> None:
        if not self.groups:
            raise self._refuse("a ')' was never opened")
        self.flags = self.groups.pop().flags
        self._emit(")")

    # -- escapes

    def _escape(self) -> None:
        if self.pattern.startswith("\\Q", self.at):
            for char in self._quoted():
                self._literal(char)
            return
        if self.at + 1 == len(self.pattern):
            raise self._refuse("it ends with a backslash")
        char = self.pattern[self.at + 1]
        if char == "A":
            self._emit(r"(?:\A)", 2)
        elif char == "z":
            if self._is_last(2):
                self._emit("(?:)", 2)
            else:
                self._looking(_END, 2)
        elif char == "Z":
            self._end(each_line=False, length=2)
        elif char == "R":
            self._emit(r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])", 2)
        elif char in "bB":
            self._boundary(char)
        elif char == "k" or char in "123456789":
            self._back_reference(char)
        elif (members := self._class_escape()) is not None:
            self.out.append(members.in_class())
        else:
            self._literal(self._char_escape())

    def _boundary(self, char: str) -> None:
        if self.pattern.startswith("{g}", self.at + 2):
            raise self._refuse(f"\\{char}{{g}} is not supported")
        if "U" in self.flags:
            raise self._refuse(f"\\{char} under (?U) is not supported")
        self._emit(f"(?:\\{char})", 2)

    def _back_reference(self, char: str) -> None:
        if "u" in self.flags and "i" in self.flags:
            raise self._refuse("a back-reference under (?iu) is not supported")
        if char == "k":
            match = _REFERENCE.match(self.pattern, self.at)
            if match is None or match.group(1) not in self.names:
                raise self._refuse(r"\k needs the name of a group before it, as in \k<name>")
            text, length = f"(?P={match.group(1)})", len(match.group())
        else:
            length, number = 2, int(char)
            while (more := self.pattern[self.at + length : self.at + length + 1]) and (
                more in "0123456789" and number * 10 + int(more) <= self.captures
            ):
                length, number = length + 1, number * 10 + int(more)
            if number > self.captures:
                raise self._refuse(f"there is no group {number} before it")
            text = f"\\g<{number}>"
        self._looking(f"(?{'i' * ('i' in self.flags)}:{text})", length)
