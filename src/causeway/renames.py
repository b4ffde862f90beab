r"""Rules that rename mirrored topics: a pattern, and the name on the target of topics that match.

    orders\.(.*) => sales.$1       orders.eu  ->  sales.eu

The pattern has to match the whole name. `$1` is the text of its first group, `$0` the whole name.
The first matching rule counts.

A name shows its origin only if the replacement does. `made` checks only the form of a name, so it
may accept names that the rule has not made. `origin` is exact if there is only one answer: if the
pattern has at most one group, and plain text around it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from causeway.errors import ConfigError
from causeway.patterns import Pattern, compile_pattern

KEY = "causeway.rename"
ARROW = "=>"
_END = re.compile(r"[;\n]")  # of a rule; names do not contain them, so no pattern needs them
_REFERENCE = re.compile(r"\$(\d*)")
_TEXT = re.compile(r"[a-zA-Z0-9._-]*")
# Of translated patterns: an escaped character, a class, the begin of a group, another character.
_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?P<\w+>|\(\?:|.", re.DOTALL)
_REPEATS = ("*", "+", "?", "{")
_ANY = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """`rule`: as in the file. `replacement`: texts, and numbers of groups. `image`: a pattern for
    all names that the rule can make. `exact`: the text before and after the only group of the
    pattern, or the whole text; None if a name does not show its origin."""

    rule: str
    pattern: Pattern
    replacement: tuple[str | int, ...]
    image: Pattern
    exact: tuple[str, str] | tuple[str] | None

    def apply(self, name: str) -> str | None:
        """Returns the new name of `name`, None if the rule does not match. Raises TimeoutError if
        the pattern gives no answer in time."""
        held = self.pattern.capture(name)
        if held is None:
            raise TimeoutError
        if not held:
            return None
        return "".join(held[part] if isinstance(part, int) else part for part in self.replacement)

    def made(self, name: str) -> bool:
        """Returns whether the rule may have made `name`. False is certain."""
        return self.image.matches(name) is not False

    def origin(self, name: str) -> str | None:
        """Returns the only name that the rule renames to `name`. None if there is none, or if there
        may be several."""
        if self.exact is None or not (held := self.image.capture(name)):
            return None
        origin = self.exact[0] if len(self.exact) == 1 else held[1].join(self.exact)
        return origin if self.apply(origin) == name else None


def parse(text: str) -> tuple[Rename, ...]:
    """Returns the rules of a value: one per line, or separated by `;`. Raises ConfigError for the
    first rule that cannot be used."""
    return tuple(_parse(rule.strip()) for rule in _END.split(text) if rule.strip())


def _parse(rule: str) -> Rename:
    pattern, arrow, replacement = (part.strip() for part in rule.rpartition(ARROW))
    if not arrow or not pattern or not replacement:
        raise _refused(rule, f"a rule is written `pattern {ARROW} name`")
    if ARROW in pattern:
        raise _refused(rule, f"it has '{ARROW}' twice", "end each rule with ';' or a line's end")
    compiled, _ = compile_pattern(pattern)
    parts = _replacement(rule, replacement, compiled.groups)
    pieces = _pieces(compiled)
    return Rename(
        rule=rule,
        pattern=compiled,
        replacement=parts,
        image=_image(rule, parts, pieces),
        exact=_exact(parts, pieces, compiled.groups),
    )


def _refused(rule: str, cause: str, remedy: str = "") -> ConfigError:
    return ConfigError(f"use {KEY}", rule, cause, remedy=remedy)


def _replacement(rule: str, text: str, groups: int) -> tuple[str | int, ...]:
    """As Java reads `$12`: group 12 if there is one, else group 1 and a 2."""
    parts: list[str | int] = []
    at = 0
    for found in _REFERENCE.finditer(text):
        digits = found.group(1)
        while len(digits) > 1 and int(digits) > groups:
            digits = digits[:-1]
        if not digits or int(digits) > groups:
            cause = f"'{found.group()}' is not one of the pattern's {groups} groups"
            raise _refused(rule, cause, "$0 is the whole name, $1 what the first (…) holds")
        parts += [text[at : found.start()], int(digits)]
        at = found.start() + 1 + len(digits)
    parts.append(text[at:])
    for part in parts:
        if isinstance(part, str) and not _TEXT.fullmatch(part):
            cause = f"{part!r} cannot be in a topic's name"
            raise _refused(rule, cause, "letters, digits, '.', '_', '-', and $1 for a group")
    return tuple(part for part in parts if part != "")


def _pieces(pattern: Pattern) -> tuple[str | tuple[int, str] | None, ...] | None:
    """Returns the parts of `pattern`: plain text; a group that always takes part, with its number
    and its own pattern (any text if it depends on its neighbours); None for any other part. None
    instead of parts for a pattern with alternatives, look-around or back-references."""
    if not pattern.linear:
        return None
    pieces: list[str | tuple[int, str] | None] = []
    captures, depth, number, inside = 0, 0, 0, ""
    for match in _TOKEN.finditer(pattern.text):
        part = match.group()
        capturing = part == "(" or part.startswith("(?P<")
        captures += capturing
        if part.startswith("("):
            depth += 1
            if depth == 1:
                number, inside = captures if capturing else 0, ""
                continue
        elif part == ")":
            depth -= 1
            if depth == 0:
                pieces.append((number, inside) if number else None)
                continue
        if depth:
            # Neither groups within nor what looks at its neighbours can be said again elsewhere.
            elsewhere = capturing or (part[0] == "\\" and part[1].isalnum())
            inside = _ANY if elsewhere or inside == _ANY else inside + part
        elif part == "|":
            return None
        elif part.startswith(_REPEATS):
            if pieces:
                pieces[-1] = None
        elif len(part) == 1 and part not in ".[^$":
            pieces.append(part)
        elif part[0] == "\\" and not part[1].isalnum():
            pieces.append(part[1])
        else:
            pieces.append(None)
    return tuple(pieces)


def _image(
    rule: str,
    replacement: tuple[str | int, ...],
    pieces: tuple[str | tuple[int, str] | None, ...] | None,
) -> Pattern:
    own = {piece[0]: piece[1] for piece in pieces or () if isinstance(piece, tuple)}
    text = "".join(
        f"({own.get(part, _ANY)})" if isinstance(part, int) else re.escape(part)
        for part in replacement
    )
    return Pattern(pattern=rule, text=text, linear=True)


def _exact(
    replacement: tuple[str | int, ...],
    pieces: tuple[str | tuple[int, str] | None, ...] | None,
    groups: int,
) -> tuple[str, str] | tuple[str] | None:
    if pieces is None or None in pieces:
        return None
    text = "".join(piece if isinstance(piece, str) else "\0" for piece in pieces)
    used = [part for part in replacement if isinstance(part, int)]
    if not groups and not used:
        return (text,)
    if groups == 1 and text.count("\0") == 1 and used == [1]:
        before, after = text.split("\0")
        return before, after
    return None
