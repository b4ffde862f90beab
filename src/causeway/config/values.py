"""Types of keys' values: what text they take, and what a person is told of other text."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
PARTS = ("records", "checkpoints", "heartbeats")  # of a flow, that can be paused
_TOKEN_LENGTH = 16  # characters: shorter ones can be guessed


def _boolean(value: Any) -> Any:
    """As Java: `true` or `false` in any case, nothing else."""
    text = value.strip().lower() if isinstance(value, str) else value
    if text in ("true", "false"):
        return text == "true"
    if isinstance(value, bool):
        return value
    raise ValueError("true or false")


def whole(low: int, high: int, allowed: tuple[int, ...] = ()) -> BeforeValidator:
    expected = f"a whole number of at least {low}" if high >= INT_MAX else f"{low} to {high}"
    if allowed:
        expected += "".join(f", or {number}" for number in allowed)

    def parse(value: Any) -> Any:
        text = str(value).strip()
        digits = text.removeprefix("-").removeprefix("+")
        if digits.isascii() and digits.isdecimal() and len(digits) < 20:
            number = int(text)
            if low <= number <= high or number in allowed:
                return number
        raise ValueError(expected)

    taken: Any = Annotated[int, Field(ge=low, le=high)]
    if allowed:
        taken = taken | Literal[allowed]
    return BeforeValidator(parse, json_schema_input_type=taken)


def word(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _principal(value: Any) -> Any:
    kind, _, who = str(value).strip().partition(":")
    if kind and who:
        return f"{kind}:{who}"
    raise ValueError("a principal such as User:causeway")


def _token(value: Any) -> Any:
    text = str(value).strip()
    if len(text) >= _TOKEN_LENGTH and _is_plain(text):
        return text
    raise ValueError(f"at least {_TOKEN_LENGTH} ASCII characters without blanks")


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _header(value: Any) -> Any:
    text = str(value).strip()
    if text and _is_plain(text):
        return text
    raise ValueError("ASCII characters without blanks")


def _paused(value: Any) -> Any:
    found = [part.strip().lower() for part in str(value).split(",") if part.strip()]
    if set(found) <= set(PARTS):
        return ", ".join(part for part in PARTS if part in found)
    raise ValueError(f"of {', '.join(PARTS)}")


def _address(value: Any) -> Any:
    text = str(value).strip()
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if known and _is_plain(text):
        return text
    raise ValueError("an address such as https://host/path")


Bool = Annotated[bool, BeforeValidator(_boolean)]
Count = Annotated[int, whole(1, INT_MAX)]
Size = Annotated[int, whole(0, INT_MAX)]
Millis = Annotated[int, whole(1, LONG_MAX)]
Seconds = Annotated[int, whole(1, LONG_MAX)]
Replicas = Annotated[int, whole(1, 32767, (-1,))]
Text = Annotated[str, BeforeValidator(_stripped)]
Side = Annotated[Literal["source", "target"], BeforeValidator(word)]
Principal = Annotated[str, BeforeValidator(_principal)]
Token = Annotated[str, BeforeValidator(_token)]
Header = Annotated[str, BeforeValidator(_header)]
Paused = Annotated[str, BeforeValidator(_paused)]
Address = Annotated[str, BeforeValidator(_address)]
