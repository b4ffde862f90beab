r"""Java's escapes and character classes, such as `\p{Alpha}` and `[a-z&&[^x]]`, for Python's `re`.

Topic names hold ASCII characters only, so that classes are translated by their ASCII part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from causeway.errors import ConfigError

_LOWER, _UPPER, _DIGIT = "a-z", "A-Z", "0-9"
_PUNCT = r"!-/:-@\[-`{-~"
_CLASSES = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": r"\x00-\x7f",
    "Alpha": _LOWER + _UPPER,
    "Digit": _DIGIT,
    "Alnum": _LOWER + _UPPER + _DIGIT,
    "Punct": _PUNCT,
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
    "L": _LOWER + _UPPER,
    "Ll": _LOWER,
    "Lu": _UPPER,
    "N": _DIGIT,
    "Nd": _DIGIT,
    "P": r"!-#%-*,-/:;?@\[-\]_{}",
    "Pd": r"\-",
    "Pc": "_",
    "S": r"$+<-> ^`|~".replace(" ", ""),
    "Alphabetic": _LOWER + _UPPER,
    "Letter": _LOWER + _UPPER,
    "Lowercase": _LOWER,
    "Uppercase": _UPPER,
    "Punctuation": r"!-#%-*,-/:;?@\[-\]_{}",
    "White_Space": r" \t\n\x0b\f\r",
    "javaLowerCase": _LOWER,
    "javaUpperCase": _UPPER,
    "javaLetter": _LOWER + _UPPER,
    "javaDigit": _DIGIT,
    "javaLetterOrDigit": _LOWER + _UPPER + _DIGIT,
}
_SHORT_CLASSES = {
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r" \t\n\x0b\f\r",
}
# A class that means the same in both languages.
_SAME_CLASS = re.compile(
    r"\[\^?+(?!\])(?:\\[dDwWsS](?!-)|\\[.\-_+*?|()\[\]{}^$/]|(?!&&|--|\|\||~~)[^\\\[\]])+\]"
)
_ASCII = frozenset(chr(code) for code in range(128))
_CODE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|0([0-3]?[0-7]{1,2}))"
)


@dataclass(slots=True)
class Scanner:
    """A place `at` in a Java pattern, and the Python pattern written so far in `out`."""

    pattern: str
    at: int = 0
    out: list[str] = field(default_factory=list)

    def _emit(self, text: str, consumed: int = 1) -> None:
        self.out.append(text)
        self.at += consumed

    def _refuse(self, cause: str) -> ConfigError:
        return ConfigError("read the pattern", self.pattern, f"{cause} (position {self.at + 1})")

    # -- escapes

    def _quoted(self) -> str:
        start = self.at + 2
        end = self.pattern.find("\\E", start)
        self.at = len(self.pattern) if end < 0 else end + 2
        return self.pattern[start:] if end < 0 else self.pattern[start:end]

    def _class_escape(self) -> tuple[str, bool] | None:
        r"""Consumes `\d`, `\H`, `\p{..}` and the like: members for a class, and whether negated."""
        char = self.pattern[self.at + 1]
        if char.lower() in _SHORT_CLASSES:
            self.at += 2
            return _SHORT_CLASSES[char.lower()], char.isupper()
        if char not in "pP":
            return None
        match = re.compile(r"\\[pP](?:\{([^}]*)\}|(\w))").match(self.pattern, self.at)
        name = (match.group(1) or match.group(2) or "") if match else ""
        name = re.sub(r"^(general_category|gc)=", "", name)
        members = _CLASSES.get(name) or _CLASSES.get(name.removeprefix("Is"))
        if match is None or members is None:
            raise self._refuse(f"the class \\{char}{{{name}}} is not supported")
        self.at += len(match.group())
        return members, char == "P"

    def _char_escape(self) -> str:
        """Consumes an escape that stands for one character."""
        char = self.pattern[self.at + 1]
        if (match := _CODE.match(self.pattern, self.at)) is not None:
            hexadecimal = match.group(1) or match.group(2) or match.group(3)
            code = int(hexadecimal, 16) if hexadecimal else int(match.group(4), 8)
            if code > 0x10FFFF:
                raise self._refuse("there is no such character")
            self.at += len(match.group())
            return chr(code)
        if char == "c" and self.at + 2 < len(self.pattern):
            self.at += 3
            return chr(ord(self.pattern[self.at - 1]) ^ 64)
        named = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
        if char in named:
            self.at += 2
            return named[char]
        if char.isascii() and char.isalnum():
            raise self._refuse(f"the escape \\{char} is not known")
        self.at += 2
        return char

    # -- character classes

    def _character_class(self, ignore_case: bool) -> None:
        """A plain class stays a class. With `&&` or a class inside, it is computed: as the set of
        its ASCII members, and whether it has all the others."""
        start = self.at
        if (same := _SAME_CLASS.match(self.pattern, start)) is not None:
            self._emit(same.group(), len(same.group()))
            return
        plain = self._plain_class()
        if plain is not None:
            self.out.append(plain)
            return
        self.at = start
        members, others = self._class_set(ignore_case)
        if others:
            rest = "".join(_in_class(chr(code)) for code in range(128) if chr(code) not in members)
            self.out.append(f"[^{rest}]" if rest else r"[\s\S]")
        else:
            text = "".join(_in_class(char) for char in sorted(members))
            self.out.append(f"[{text}]" if text else r"(?!)")

    def _plain_class(self) -> str | None:
        """The class at `at`, None where it holds `&&`, another class or a negated escape."""
        self.at += 1
        out = ["["]
        if self.pattern.startswith("^", self.at):
            out.append("^")
            self.at += 1
        first = True
        while not self._ends_class(first):
            first = False
            if self.pattern[self.at] == "[" or self.pattern.startswith("&&", self.at):
                return None
            item = self._class_item()
            if isinstance(item, str):
                out.append(item)
            elif item is None:
                return None
            else:
                low, high = item
                out.append(_in_class(low) if low == high else f"{_in_class(low)}-{_in_class(high)}")
        self.at += 1
        return "".join(out) + "]"

    def _ends_class(self, first: bool) -> bool:
        if self.at >= len(self.pattern):
            raise self._refuse("a '[' is not closed")
        return self.pattern[self.at] == "]" and not first

    def _class_item(self) -> str | tuple[str, str] | None:
        """Consumes a range or a character (as a pair), or a class escape (as its members, None if
        negated). `\\Q..\\E` with more than one character yields them as members."""
        if self.pattern.startswith("\\Q", self.at):
            quoted = self._quoted()
            if self.pattern.startswith("-", self.at):
                raise self._refuse("a range cannot begin with quoted text")
            return "".join(_in_class(char) for char in quoted)
        if self.pattern[self.at] == "\\":
            if self.at + 1 == len(self.pattern):
                raise self._refuse("a '[' is not closed")
            if (members := self._class_escape()) is not None:
                return None if members[1] else members[0]
        low = self._class_char()
        following = self.pattern[self.at : self.at + 2]
        if len(following) < 2 or following[0] != "-" or following[1] in "][":
            return low, low
        if following[1] == "&" and self.pattern.startswith("&&", self.at + 1):
            return low, low
        self.at += 1
        high = self._class_char()
        if high < low:
            raise self._refuse(f"the range {low}-{high} runs backwards")
        return low, high

    def _class_char(self) -> str:
        if self.pattern[self.at] == "\\":
            return self._char_escape()
        self.at += 1
        return self.pattern[self.at - 1]

    def _class_set(self, ignore_case: bool) -> tuple[frozenset[str], bool]:
        """The class at `at`: its ASCII members, and whether it has the non-ASCII ones."""
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        result: tuple[frozenset[str], bool] | None = None  # of the operands of && so far
        members: frozenset[str] = frozenset()
        others, first = False, True
        while not self._ends_class(first):
            if self.pattern.startswith("&&", self.at):
                if first or self.pattern.startswith("&&&", self.at):
                    raise self._refuse("&& needs something before and after it")
                result = _intersect(result, (members, others))
                members, others = frozenset(), False
                self.at += 2
                if self.pattern[self.at : self.at + 1] == "]":
                    raise self._refuse("&& needs something before and after it")
                continue
            first = False
            more, more_others = self._set_item(ignore_case)
            members, others = members | more, others or more_others
        self.at += 1
        members, others = _intersect(result, (members, others))
        return (_ASCII - members, not others) if negated else (members, others)

    def _set_item(self, ignore_case: bool) -> tuple[frozenset[str], bool]:
        if self.pattern[self.at] == "[":
            return self._class_set(ignore_case)
        if self.pattern[self.at] == "\\" and self.at + 1 < len(self.pattern):
            escape = None if self.pattern[self.at + 1] == "Q" else self._class_escape()
            if escape is not None:
                text, negated = escape
                found = re.compile(f"[{text}]", re.ASCII)
                members = frozenset(char for char in _ASCII if found.match(char))
                return (_ASCII - members, True) if negated else (members, False)
        item = self._class_item()
        if isinstance(item, str):
            found = re.compile(f"[{item}]" if item else "(?!)")
            chars = frozenset(char for char in _ASCII if found.match(char))
        elif item is not None and item[1].isascii():
            chars = frozenset(chr(code) for code in range(ord(item[0]), ord(item[1]) + 1))
        else:
            raise self._refuse("non-ASCII characters in a computed class are not supported")
        if ignore_case:
            chars |= {char.swapcase() for char in chars}
        return chars, False


def _intersect(
    left: tuple[frozenset[str], bool] | None, right: tuple[frozenset[str], bool]
) -> tuple[frozenset[str], bool]:
    return right if left is None else (left[0] & right[0], left[1] and right[1])


def _in_class(char: str) -> str:
    return "\\" + char if char in "\\]^-[&|~" else char
