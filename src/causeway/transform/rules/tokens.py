"""Tokens that keep a text's format: FF1 (NIST SP 800-38G) by fastfpe, as functions for Spark SQL.

The same text, alphabet and key always give the same token, and different texts give different
tokens. Characters that are not in the alphabet stay in place. A whole number becomes a whole number
with the same number of digits."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

from causeway.config import TransformSettings
from causeway.errors import PrerequisiteError
from causeway.transform.crypto import aes_key
from causeway.transform.rules.model import Tokenise
from causeway.transform.rules.parse import ALPHABETS, parse
from causeway.transform.rules.treat import min_length


def register(session: Any, transform: TransformSettings) -> None:
    """Registers the functions that the query of `transform` calls in `session` (a SparkSession).
    Does nothing if no rule tokenises. Raises PrerequisiteError."""
    if transform.rules is None or not any(
        isinstance(rule.kind, Tokenise) for rule in parse(transform.rules, transform.place)
    ):
        return
    if find_spec("fastfpe") is None:
        raise PrerequisiteError(
            "tokenise",
            f"in the transform {transform.name}",
            "the package fastfpe is not installed",
            remedy="pip install 'causeway[tokenise]'",
        )
    from pyspark.sql.functions import udf
    from pyspark.sql.types import MapType, StringType

    text = StringType()
    one = udf(token_json, text, useArrow=True)
    many = udf(tokens_json, MapType(text, text), useArrow=True)
    session.udf.register("causeway_tokenise", one)
    session.udf.register("causeway_tokenise_all", many)


def token_json(text: str | None, alphabet: str, key: str | None) -> str | None:
    """The token, as JSON, of a JSON text; None for values that cannot be tokenised."""
    if text is None or key is None:
        return None
    value = json.loads(text)
    if isinstance(value, str):
        token = tokenise(value, alphabet, key)
        return None if token is None else json.dumps(token)
    if isinstance(value, int) and not isinstance(value, bool):
        return tokenise_number(value, key)
    return None


def tokens_json(
    texts: list[str] | None, alphabet: str, key: str | None
) -> dict[str, str | None] | None:
    """The tokens of `texts`, by text."""
    if texts is None:
        return None
    return {text: token_json(text, alphabet, key) for text in texts}


def tokenise(text: str, alphabet: str, key: str) -> str | None:
    """None: `text` has too few characters of the alphabet. `key`: hex or base64."""
    from fastfpe import ff1

    letters = set(alphabet)
    plain = "".join(char for char in text if char in letters)
    if len(plain) < min_length(len(alphabet)):
        return None
    token = iter(ff1.encrypt(aes_key(key).hex(), "", alphabet, plain))
    return "".join(next(token) if char in letters else char for char in text)


def tokenise_number(number: int, key: str) -> str | None:
    """As many digits, the first not zero: FF1 is repeated until it is not zero, which is still
    one-to-one."""
    sign, digits = "-" * (number < 0), str(abs(number))
    while True:
        token = tokenise(digits, ALPHABETS["digits"], key)
        if token is None:
            return None
        if token[0] != "0":
            return sign + token
        digits = token
