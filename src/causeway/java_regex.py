"""Java regular expressions to Python's, as far as they occur in topic and group patterns.

Most need no change. What differs and is translated:

    (?<n>..) \\k<n>        named groups          \\Q..\\E             quoted text
    a(?i)b                flags inside          \\p{Alpha} \\p{L}    classes (their ASCII part)
    [a-z&&[^x]] [a[bc]]   class arithmetic      \\h \\v \\R \\e \\cX \\x{..} \\z \\Z

Topic names hold ASCII characters only, so classes are translated by their ASCII part. What cannot
be translated exactly is refused with a ConfigError; nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from causeway.java_classes import Scanner

_KEPT_FLAGS = "ims"
_DROPPED_FLAGS = "uUd"  # Unicode case, Unicode classes, Unix lines: no difference on ASCII names
_QUANTIFIER = re.compile(r"\{\d+(,\d*)?\}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")


def translate(pattern: str, flags: str = "") -> tuple[str, str]:
    """`pattern` for Python's `re` (with `re.ASCII` and `fullmatch`), and the flags that are set at
    its end. `flags` are those set before it. Raises ConfigError."""
    return _Translator(pattern).run(flags)


@dataclass(slots=True)
class _Group:
    """`flags` in force; `opened`: a `(?i:` was opened that ends with this alternative.

    `lookbehind` is how one began, at `start` of the output; `split` once it has alternatives.
    """

    flags: str = ""
    opened: bool = False
    lookbehind: str = ""
    start: int = 0
    split: bool = False


@dataclass(slots=True)
class _Translator(Scanner):
    groups: list[_Group] = field(default_factory=list)

    def run(self, flags: str) -> tuple[str, str]:
        self.groups.append(_Group(flags=flags))
        self._open_flags()
        while self.at < len(self.pattern):
            self._step()
        if len(self.groups) > 1:
            raise self._refuse("a '(' is not closed")
        self._close_flags()
        return "".join(self.out), self.groups[0].flags

    def _step(self) -> None:
        char = self.pattern[self.at]
        if char == "\\":
            self._escape()
        elif char == "[":
            self._character_class("i" in self.groups[-1].flags)
        elif char == "(":
            self._open_group()
        elif char == ")":
            self._close_group()
        elif char == "|":
            self._alternative()
        elif char == "{":
            match = _QUANTIFIER.match(self.pattern, self.at)
            if match is None or not self.out:
                raise self._refuse(
                    "a '{' that is no repetition such as {2} (a comma ends a pattern)"
                )
            self._emit(match.group(), len(match.group()))
        elif char in "*+?" and (self.at == 0 or self.pattern[self.at - 1] in "(|"):
            raise self._refuse(
                f"nothing stands before '{char}' to be repeated; '.*' matches any name"
            )
        else:
            self._emit(char)

    # -- groups and flags

    def _open_flags(self) -> None:
        group = self.groups[-1]
        outer = self.groups[-2].flags if len(self.groups) > 1 else ""
        on = "".join(sorted(set(group.flags) - set(outer)))
        off = "".join(sorted(set(outer) - set(group.flags)))
        if on or off:
            self.out.append(f"(?{on}{'-' + off if off else ''}:")
            group.opened = True

    def _close_flags(self) -> None:
        if self.groups[-1].opened:
            self.out.append(")")
            self.groups[-1].opened = False

    def _alternative(self) -> None:
        """Python's look-behind takes no alternatives of different lengths. As one look-behind
        each, `(?<!a|bc)` is `(?<!a)(?<!bc)` and `(?<=a|bc)` is `(?:(?<=a)|(?<=bc))`."""
        group = self.groups[-1]
        self._close_flags()
        if not group.lookbehind:
            self._emit("|")
        else:
            if not group.split:
                self.out[group.start] = "(?:" + group.lookbehind
                group.split = True
            self._emit(")" + ("|" if group.lookbehind == "(?<=" else "") + group.lookbehind)
        self._open_flags()

    def _open_group(self) -> None:
        rest = self.pattern[self.at :]
        flags = self.groups[-1].flags
        if not rest.startswith("(?"):
            self._emit("(")
        elif rest.startswith(("(?:", "(?=", "(?!", "(?>")):
            self._emit(rest[:3], 3)
        elif rest.startswith(("(?<=", "(?<!")):
            self.groups.append(_Group(flags=flags, lookbehind=rest[:4], start=len(self.out)))
            self._emit(rest[:4], 4)
            return
        elif match := re.match(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>", rest):
            self._emit(f"(?P<{match.group(1)}>", match.end())
        elif match := _FLAGS.match(rest):
            self._flags(match)
            return
        else:
            raise self._refuse(f"the group {rest[:4]}… is not known")
        self.groups.append(_Group(flags=flags))

    def _flags(self, match: re.Match[str]) -> None:
        on, off, end = match.group(1), match.group(2) or "", match.group(3)
        for flag in on + off:
            if flag not in _KEPT_FLAGS + _DROPPED_FLAGS:
                raise self._refuse(f"the flag (?{flag}) is not supported")
        flags = "".join(sorted((set(self.groups[-1].flags) | set(on)) - set(off) - set("uUd")))
        self.at += match.end()
        if end == ")":  # for the rest of the group, later alternatives included
            self._close_flags()
            self.groups[-1].flags = flags
            self._open_flags()
        else:
            self.out.append("(?:")
            self.groups.append(_Group(flags=self.groups[-1].flags))
            self.groups[-1].flags = flags
            self._open_flags()

    def _close_group(self) -> None:
        if len(self.groups) == 1:
            raise self._refuse("a ')' was never opened")
        self._close_flags()
        self._emit("))" if self.groups.pop().split else ")")

    # -- escapes

    def _escape(self) -> None:
        if self.pattern.startswith("\\Q", self.at):
            self.out.extend(re.escape(char) for char in self._quoted())
            return
        if self.at + 1 == len(self.pattern):
            raise self._refuse("a backslash stands at the end")
        char = self.pattern[self.at + 1]
        simple = {"z": r"\Z", "Z": r"(?=\n?\Z)", "R": r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"}
        if char in simple:
            self._emit(simple[char], 2)
        elif char == "k":
            match = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>").match(self.pattern, self.at)
            if match is None:
                raise self._refuse(r"\k needs a name, as in \k<name>")
            self._emit(f"(?P={match.group(1)})", len(match.group()))
        elif char in "123456789":
            self._emit(f"(?:\\{char})", 2)
        elif char in "AbBdDwWsS":
            self._emit("\\" + char, 2)
        elif members := self._class_escape():
            text, negated = members
            self.out.append(f"[{'^' if negated else ''}{text}]")
        else:
            self.out.append(re.escape(self._char_escape()))
