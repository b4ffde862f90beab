r"""Java's escapes and character classes, such as `\p{IsAlphabetic}` and `[a-z&&[^x]]`, computed as
sets of characters.

`\d`, `\w`, `\s` and `\p{Alpha}` are ASCII, as in Java, unless `(?U)` makes them Unicode's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import regex

from causeway.errors import ConfigError
from causeway.patterns.code_points import (
    ASCII,
    EVERYTHING,
    Points,
    having,
    ignoring_ascii_case,
    ignoring_case,
    same_letter,
)

_SHORT = {
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r" \t\n\x0b\f\r",
}
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": _SHORT["s"],
}
_NOT_GRAPH = r"\p{White_Space}\p{Cc}\p{Cn}"
_LINES = r"\n\x0b\f\r\x85\p{Zl}\p{Zp}"
# With (?U). A class that begins with ^ is the inverse.
_UNICODE_POSIX = {
    "Lower": r"\p{Lowercase}",
    "Upper": r"\p{Uppercase}",
    "Alpha": r"\p{Alphabetic}",
    "Digit": r"\p{Nd}",
    "Alnum": r"\p{Alphabetic}\p{Nd}",
    "Punct": r"\p{P}",
    "Graph": f"^{_NOT_GRAPH}",
    "Cntrl": r"\p{Cc}",
    "XDigit": r"\p{Nd}\p{Hex_Digit}",
    "Space": r"\p{White_Space}",
}
_UNICODE_SHORT = {
    "d": r"\p{Nd}",
    "w": r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d",
    "s": r"\p{White_Space}",
}
# General categories and their groups, `\p{Lu}`. The names are used after `Is` or alone.
_CATEGORIES = {
    **{
        name: rf"\p{{{name}}}"
        for group in ("L ulmto", "M nec", "N dlo", "Z slp", "C cfon", "P dsecoif", "S mcko")
        for name in (group[0], *(group[0] + kind for kind in group[2:]))
    },
    "Cs": "",
    "LC": r"\p{Lu}\p{Ll}\p{Lt}",
    "LD": r"\p{L}\p{Nd}",
    "L1": r"\x00-\xff",
}
_BINARY = {
    "ALPHABETIC": r"\p{Alphabetic}",
    "LETTER": r"\p{L}",
    "IDEOGRAPHIC": r"\p{Ideographic}",
    "LOWERCASE": r"\p{Lowercase}",
    "UPPERCASE": r"\p{Uppercase}",
    "TITLECASE": r"\p{Lt}",
    "WHITE_SPACE": r"\p{White_Space}",
    "CONTROL": r"\p{Cc}",
    "PUNCTUATION": r"\p{P}",
    "HEX_DIGIT": r"\p{Nd}\p{Hex_Digit}",
    "ASSIGNED": r"^\p{Cn}",
    "NONCHARACTER_CODE_POINT": r"\p{Noncharacter_Code_Point}",
    "JOIN_CONTROL": r"\u200c\u200d",
}
_BINARY |= {name.replace("_", ""): _BINARY[name] for name in tuple(_BINARY)}
_CHARACTER = {  # java.lang.Character's own
    "javaLowerCase": r"\p{Lowercase}",
    "javaUpperCase": r"\p{Uppercase}",
    "javaAlphabetic": r"\p{Alphabetic}",
    "javaIdeographic": r"\p{Ideographic}",
    "javaTitleCase": r"\p{Lt}",
    "javaDigit": r"\p{Nd}",
    "javaDefined": r"^\p{Cn}",
    "javaLetter": r"\p{L}",
    "javaLetterOrDigit": r"\p{L}\p{Nd}",
    "javaSpaceChar": r"\p{Z}",
    "javaISOControl": r"\p{Cc}",
    "javaMirrored": r"\p{Bidi_Mirrored}",
}
_CASED = frozenset(
    {"Lower", "Upper", "Lu", "Ll", "Lt", "LOWERCASE", "UPPERCASE", "TITLECASE"}
    | {"javaLowerCase", "javaUpperCase", "javaTitleCase"}
)
_CODE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|0([0-3]?[0-7]{1,2}))"
)
_PROPERTY = re.compile(r"\\[pP](?:\{([^}]*)\}|([^{]))")


@dataclass(slots=True)
class Scanner:
    """A place `at` in a Java pattern, the flags in force there, and the translation so far."""

    pattern: str
    at: int = 0
    flags: str = ""
    out: list[str] = field(default_factory=list)

    def _emit(self, text: str, consumed: int = 1) -> None:
        self.out.append(text)
        self.at += consumed

    def _refuse(self, cause: str) -> ConfigError:
        return ConfigError("read the pattern", self.pattern, f"{cause} (position {self.at + 1})")

    def _one(self, char: str) -> Points:
        """Returns the characters that `char` means with the current flags."""
        if "i" not in self.flags:
            return Points.chars(char)
        return same_letter(char) if "u" in self.flags else ignoring_ascii_case(Points.chars(char))

    # -- escapes

    def _quoted(self) -> str:
        start = self.at + 2
        end = self.pattern.find("\\E", start)
        self.at = len(self.pattern) if end < 0 else end + 2
        return self.pattern[start:] if end < 0 else self.pattern[start:end]

    def _class_escape(self) -> Points | None:
        r"""Consumes `\d`, `\H`, `\p{..}` and the like."""
        char = self.pattern[self.at + 1]
        if char.lower() in _SHORT:
            self.at += 2
            unicode = _UNICODE_SHORT if "U" in self.flags else {}
            found = having(unicode.get(char.lower(), _SHORT[char.lower()]))
        elif char in "pP":
            match = _PROPERTY.match(self.pattern, self.at)
            name = (match.group(1) or match.group(2) or "") if match else ""
            members = self._property(name)
            if match is None or members is None:
                raise self._refuse(f"the class \\{char}{{{name}}} is not known, or not supported")
            found = members
            self.at += len(match.group())
        else:
            return None
        return ~found if char.isupper() else found

    def _property(self, name: str) -> Points | None:
        kind, equals, value = name.partition("=")
        if equals:
            kind = kind.lower()
            if kind in ("gc", "general_category"):
                return self._named(value)
            if kind in ("sc", "script"):
                return _script(value)
            return _block(value) if kind in ("blk", "block") else None
        if name.startswith("In"):
            return _block(name[2:])
        if name.startswith("Is"):
            return self._binary(name[2:]) or self._named(name[2:]) or _script(name[2:])
        if "U" in self.flags and (found := _unicode_posix(name)) is not None:
            return self._any_case(name, found)
        return self._named(name)

    def _named(self, name: str) -> Points | None:
        members = {**_POSIX, **_CATEGORIES, **_CHARACTER, "all": r"\s\S"}.get(name)
        if members is None:
            return None
        return self._any_case(name, having(members) if members else Points())

    def _binary(self, name: str) -> Points | None:
        """Returns the class with the name `Is…`, in any case: Unicode's properties, and POSIX
        classes by Unicode."""
        name = name.upper()
        posix = next((posix for posix in _POSIX if posix.upper() == name), "")
        members = _BINARY.get(name)
        found = _unicode_posix(posix) if members is None else having(members)
        return None if found is None else self._any_case(posix or name, found)

    def _any_case(self, name: str, found: Points) -> Points:
        """Returns the class; with (?i) a class of one case means all three cases."""
        if "i" not in self.flags or name not in _CASED:
            return found
        if found.ranges[-1][1] < 128:
            return having("a-zA-Z")
        cased = r"\p{Lowercase}\p{Uppercase}\p{Lt}"
        return having(r"\p{Lu}\p{Ll}\p{Lt}" if name in _CATEGORIES else cased)

    def _char_escape(self) -> str:
        """Consumes an escape that means one character."""
        char = self.pattern[self.at + 1]
        if (match := _CODE.match(self.pattern, self.at)) is not None:
            hexadecimal = match.group(1) or match.group(2) or match.group(3)
            code = int(hexadecimal, 16) if hexadecimal else int(match.group(4), 8)
            if code not in EVERYTHING:
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
            raise self._refuse(f"the escape \\{char} is not known, or not supported")
        self.at += 2
        return char

    # -- character classes

    def _character_class(self) -> Points:
        """Consumes the class at `at`, with `&&` and the classes inside."""
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        found, operand, first = EVERYTHING, Points(), True
        while not self._ends_class(first):
            if self.pattern.startswith("&&", self.at):
                if first or self.pattern[self.at + 2 : self.at + 3] in ("&", "]", ""):
                    raise self._refuse("&& needs something before and after it")
                found, operand = found & operand, Points()
                self.at += 2
                continue
            first = False
            operand |= self._class_item()
        self.at += 1
        found &= operand
        return ~found if negated else found

    def _ends_class(self, first: bool) -> bool:
        if self.at >= len(self.pattern):
            raise self._refuse("a '[' is not closed")
        return self.pattern[self.at] == "]" and not first

    def _class_item(self) -> Points:
        """Consumes a class inside, quoted text, a class escape, a range or a character."""
        if self.pattern[self.at] == "[":
            return self._character_class()
        if self.pattern.startswith("\\Q", self.at):
            quoted = self._quoted()
            if self.pattern.startswith("-", self.at):
                raise self._refuse("a range cannot begin with quoted text")
            return Points.of(span for char in quoted for span in self._one(char).ranges)
        if self.pattern[self.at] == "\\":
            if self.at + 1 == len(self.pattern):
                raise self._refuse("a '[' is not closed")
            if (members := self._class_escape()) is not None:
                return members
        low = self._class_char()
        following = self.pattern[self.at : self.at + 2]
        if len(following) < 2 or following[0] != "-" or following[1] in "][":
            return self._one(low)
        self.at += 1
        high = self._class_char()
        if high < low:
            raise self._refuse(f"the range {low}-{high} runs backwards")
        span = Points.of([(ord(low), ord(high))])
        if "i" not in self.flags:
            return span & EVERYTHING
        return ignoring_case(span) if "u" in self.flags else ignoring_ascii_case(span)

    def _class_char(self) -> str:
        if self.pattern[self.at] == "\\":
            return self._char_escape()
        self.at += 1
        return self.pattern[self.at - 1]


def _unicode_posix(name: str) -> Points | None:
    if name == "ASCII":
        return ASCII
    blank = having(r"\p{White_Space}") & ~having(_LINES)
    if name == "Blank":
        return blank
    if name == "Print":
        return (~having(_NOT_GRAPH) | blank) & ~having(r"\p{Cc}")
    members = _UNICODE_POSIX.get(name)
    return None if members is None else having(members)


def _script(name: str) -> Points | None:
    return _lookup("Script", name)


def _block(name: str) -> Points | None:
    return _lookup("Block", name)


def _lookup(kind: str, name: str) -> Points | None:
    if not re.fullmatch("[A-Za-z0-9 _-]+", name):
        return None
    try:
        return having(rf"\p{{{kind}={name}}}")
    except regex.error:
        return None
