"""Parses the text of `.rules`: rules, separated by semicolons or line ends.
docs/reference/transform-rules.md describes the language."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, NoReturn, cast

from causeway.errors import ConfigError
from causeway.transform.rules.model import (
    Drop,
    DropRecord,
    ElementStep,
    Encrypt,
    FieldStep,
    Generalise,
    Hash,
    Kind,
    Mask,
    PartName,
    RulePath,
    Step,
    Tokenise,
    TransformRule,
    Truncate,
)

ALPHABETS = {
    "digits": "0123456789",
    "letters": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    "capitals": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "alphanumeric": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    "hex": "0123456789abcdef",
}
MAX_RULES = 63  # bits of a bigint
_VERBS = "drop, mask, hash, tokenise, encrypt, generalise or truncate"
_UNITS = ("year", "month", "day", "hour")
_TOKEN = re.compile(r"\s*(?:'(?P<text>(?:[^']|'')*)'|(?P<mark>[(),])|(?P<word>[^\s(),']+))")
_CONSTANT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|true|false")
_NAME = re.compile(r"[\w-]+")
_QUOTED = re.compile(r"""\[\s*(?:'((?:[^'])*)'|"([^"]*)")\s*\]""")
_INDEX = re.compile(r"\[\s*([0-9]{1,9}|\*)\s*\]")
_PART = re.compile(r"(value|key|headers)(?=[.\[\s;]|$)")


class _Token(NamedTuple):
    text: str
    quoted: bool
    at: int


def parse(text: str, place: str = "") -> tuple[TransformRule, ...]:
    """Returns the rules in their order. Raises ConfigError with the rule, the character of the
    text, and the words that were expected there. `place`: the key and line of the text."""
    rules: list[TransformRule] = []
    for start, end in _pieces(text, place):
        number = len(rules) + 1
        rules.append(_RuleText(text[:end], start, number, place).rule())
    if not rules:
        raise ConfigError("read the rules", place, "there is none", remedy=f"expected {_VERBS}")
    if len(rules) > MAX_RULES:
        raise ConfigError(
            "read the rules",
            place,
            f"there are {len(rules)}; one transform takes {MAX_RULES} at most",
            remedy="use `.sql`, or wildcards in paths",
        )
    return tuple(rules)


def rule_names(text: str) -> tuple[str, ...]:
    """Returns names for people, like `mask value.$.card`, in the order of the bits of `_seen`."""
    return tuple(rule.name for rule in parse(text))


def _pieces(text: str, place: str) -> list[tuple[int, int]]:
    """Returns start and end of each rule. Separators within quotes do not count."""
    pieces: list[tuple[int, int]] = []
    start, quote = 0, ""
    for at, char in enumerate(text + ";"):
        if quote:
            quote = "" if char == quote else quote
            if at == len(text):
                raise ConfigError(
                    "read the rules",
                    place,
                    f"rule {len(pieces) + 1} has a quote that does not end",
                )
        elif char in "'\"":
            quote = char
        elif char in ";\n":
            if text[start:at].strip():
                pieces.append((start + len(text[start:at]) - len(text[start:at].lstrip()), at))
            start = at + 1
    return pieces


class _RuleText:
    """Parses the text of one rule from left to right."""

    def __init__(self, text: str, start: int, number: int, place: str) -> None:
        self._text = text
        self._start = start
        self._at = start
        self._number = number
        self._place = place

    def rule(self) -> TransformRule:
        verb = self._word(_VERBS, "|".join(("drop", *_TREATING)))
        if verb != "drop":
            path = self._path()
            kind = _TREATING[verb](self, path)
        elif self._accept("record"):
            self._expect("where")
            path = self._path()
            kind = self._condition()
        else:
            path, kind = self._path(), Drop()
        required = self._accept("required") or (False if self._accept("optional") else None)
        left = self._next()
        if left is not None:
            self._fail_at(
                left,
                "expected required, optional or the rule's end (a semicolon or a new line), "
                f"not {left.text!r}",
            )
        return TransformRule(self._number, self._start + 1, path, kind, required)

    def _condition(self) -> DropRecord:
        self._expect("is")
        negated = self._accept("not")
        if self._accept("null"):
            return DropRecord(values=None, negated=not negated)
        if not self._accept("in"):
            return DropRecord(values=(self._value(),), negated=negated)
        self._expect("(")
        values = [self._value()]
        while self._accept(","):
            values.append(self._value())
        self._expect(")")
        return DropRecord(values=tuple(values), negated=negated)

    def _mask(self, path: RulePath) -> Mask:
        found: dict[str, Any] = {}
        while (token := self._next()) is not None:
            match token.text:
                case "keep":
                    what = self._choice("first", "last", "domain")
                    found[what] = what == "domain" or self._count()
                case "with":
                    expected = "one character in quotes, to mask with"
                    found["char"] = self._take(expected, _is_char).text
                case "only":
                    expected = "letters, digits, or at least one character in quotes"
                    chosen = self._take(expected, _is_choice)
                    found["only"] = f"'{chosen.text}" if chosen.quoted else chosen.text
                case "required" | "optional":
                    self._at = token.at
                    break
                case _:
                    self._fail_at(
                        token,
                        "expected keep, with, only, required, optional or the rule's end, "
                        f"not {token.text!r}",
                    )
        if "domain" in found and found.keys() & {"first", "last"}:
            self._fail("expected either `keep domain`, or first and last characters")
        return Mask(**found)

    def _hash(self, path: RulePath) -> Hash:
        self._expect("with")
        key = self._secret()
        form = self._choice("hex", "base64") if self._accept("as") else "hex"
        return Hash(key=key, form=cast('Literal["hex", "base64"]', form))

    def _tokenise(self, path: RulePath) -> Tokenise:
        alphabet = ALPHABETS["digits"]
        if self._accept("as"):
            expected = f"{', '.join(ALPHABETS)}, or 2 to 1000 characters in quotes, none twice"
            token = self._take(expected, _is_alphabet)
            alphabet = token.text if token.quoted else ALPHABETS[token.text]
        self._expect("with")
        return Tokenise(key=self._secret(), alphabet=alphabet)

    def _encrypt(self, path: RulePath) -> Encrypt:
        self._expect("with")
        key = self._secret()
        where = "header" if path.steps is None else "field"
        if self._accept("id"):
            self._expect("in")
            where = self._choice("field", "header")
        return Encrypt(key=key, id_in=cast('Literal["field", "header"]', where))

    def _generalise(self, path: RulePath) -> Generalise:
        self._expect("to")
        expected = f"{', '.join(_UNITS)}, or `ranges of` a number"
        unit = self._word(expected, "|".join((*_UNITS, "ranges")))
        if unit != "ranges":
            return Generalise(unit=cast('Literal["year", "month", "day", "hour"]', unit))
        self._expect("of")
        size = self._count()
        if as_number := self._accept("as"):
            self._expect("number")
        return Generalise(size=size, as_number=as_number)

    def _truncate(self, path: RulePath) -> Truncate:
        self._expect("to")
        return Truncate(length=self._count())

    def _path(self) -> RulePath:
        self._skip_space()
        found = _PART.match(self._text, self._at)
        if found is None:
            self._fail("expected a path: value, key or headers, like value.$.address.city")
        part = cast(PartName, found[1])
        self._at = found.end()
        header = None
        if part == "headers":
            header = self._header()
        steps: tuple[Step, ...] | None = None
        if self._text.startswith(".$", self._at):
            self._at += 2
            steps = self._steps()
            if not steps:
                self._fail(f"expected a field after $, like {part}.$.name")
        if self._at < len(self._text) and not self._text[self._at].isspace():
            self._fail("expected .name, ['name'], [0], [*], .* or a space in the path")
        return RulePath(part, steps, header)

    def _header(self) -> str | None:
        if self._text.startswith(".*", self._at):
            self._at += 2
            return None
        step = self._field()
        if step is None:
            self._fail("expected a header's name, like headers.trace-id or headers['x.y']")
        return step.name

    def _steps(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        while True:
            if self._text.startswith(".*", self._at):
                self._at += 2
                steps.append(FieldStep(None))
            elif index := _INDEX.match(self._text, self._at):
                self._at = index.end()
                steps.append(ElementStep(None if index[1] == "*" else int(index[1])))
            elif field := self._field():
                steps.append(field)
            else:
                return tuple(steps)

    def _field(self) -> FieldStep | None:
        if quoted := _QUOTED.match(self._text, self._at):
            name = quoted[1] if quoted[1] is not None else quoted[2]
            if not name or not {"'", '"', "\\"}.isdisjoint(name):
                self._fail("expected a name without quotes and backslashes between the quotes")
            self._at = quoted.end()
            return FieldStep(name)
        if self._text.startswith(".", self._at) and (
            name_found := _NAME.match(self._text, self._at + 1)
        ):
            self._at = name_found.end()
            return FieldStep(name_found[0])
        return None

    def _skip_space(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _next(self) -> _Token | None:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        if found["text"] is not None:
            return _Token(found["text"].replace("''", "'"), True, found.start("text") - 1)
        group = "mark" if found["mark"] else "word"
        return _Token(found[group], False, found.start(group))

    def _take(
        self, expected: str, fits: Callable[[_Token], object], *, quoting: bool = True
    ) -> _Token:
        """Returns the next token. Raises an error at its place if it does not fit."""
        token = self._next()
        if token is None:
            self._skip_space()
            self._fail(f"expected {expected}")
        if not fits(token):
            said = f", not {token.text!r}" if quoting else ""
            self._fail_at(token, f"expected {expected}{said}")
        return token

    def _word(self, expected: str, pattern: str, *, quoting: bool = True) -> str:
        def fits(token: _Token) -> object:
            return not token.quoted and re.fullmatch(pattern, token.text)

        return self._take(expected, fits, quoting=quoting).text

    def _choice(self, *allowed: str) -> str:
        expected = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        return self._word(expected, "|".join(allowed))

    def _accept(self, word: str) -> bool:
        at = self._at
        token = self._next()
        if token is not None and not token.quoted and token.text == word:
            return True
        self._at = at
        return False

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            self._skip_space()
            self._fail(f"expected {word!r}")

    def _count(self) -> int:
        return int(self._word("a whole number, 1 or more", r"[1-9][0-9]{0,8}"))

    def _secret(self) -> str:
        expected = "the name of a secret: letters, digits and underscores"
        # An error must not quote the token: it may be the secret.
        return self._word(expected, r"[A-Za-z_][A-Za-z0-9_]*", quoting=False)

    def _value(self) -> str | int | float | bool:
        expected = "a text in quotes, a number, true or false"
        token = self._take(expected, lambda it: it.quoted or _CONSTANT.fullmatch(it.text))
        if token.quoted:
            return token.text
        if token.text in ("true", "false"):
            return token.text == "true"
        return float(token.text) if "." in token.text else int(token.text)

    def _fail_at(self, token: _Token, cause: str) -> NoReturn:
        self._at = token.at
        self._fail(cause)

    def _fail(self, cause: str) -> NoReturn:
        where = f"rule {self._number}, character {self._at + 1}"
        raise ConfigError("read the rules", self._place, f"{where}: {cause}")


def _is_char(token: _Token) -> bool:
    return token.quoted and len(token.text) == 1 and not token.text.isspace()


def _is_choice(token: _Token) -> bool:
    return bool(token.text) if token.quoted else token.text in ("letters", "digits")


def _is_alphabet(token: _Token) -> bool:
    text = token.text
    if not token.quoted:
        return text in ALPHABETS
    return 2 <= len(text) <= 1000 and len(set(text)) == len(text)


_TREATING: Mapping[str, Callable[[_RuleText, RulePath], Kind]] = {
    "mask": _RuleText._mask,
    "hash": _RuleText._hash,
    "tokenise": _RuleText._tokenise,
    "tokenize": _RuleText._tokenise,
    "encrypt": _RuleText._encrypt,
    "generalise": _RuleText._generalise,
    "generalize": _RuleText._generalise,
    "truncate": _RuleText._truncate,
}
