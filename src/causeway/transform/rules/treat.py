"""Spark SQL for the treatment of one text, number or variant by each kind of rule. An expression is
NULL if the rule cannot treat the value; a JSON null stays null.

Tokens keep a text's format: FF1 (NIST SP 800-38G) by fastfpe, as functions for Spark SQL. The same
text, alphabet and key always give the same token, and different texts give different tokens.
Characters that are not in the alphabet stay in place. A whole number becomes a whole number with
the same number of digits."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

from causeway.config import TransformSettings
from causeway.errors import PrerequisiteError
from causeway.extras import install_extra
from causeway.transform.crypto import (
    IV_BYTES,
    KEY_LABEL,
    NONCE_LABEL,
    PREFIX,
    SALT_BYTES,
    is_hex,
)
from causeway.transform.crypto import aes_key as key_of
from causeway.transform.rules.model import (
    DropRecord,
    Encrypt,
    Generalise,
    Hash,
    Kind,
    Mask,
    Tokenise,
    Truncate,
)
from causeway.transform.rules.parse import ALPHABETS, parse
from causeway.transform.rules.query import let, literal

_NUMBER = "{type} IN ('BIGINT', 'DOUBLE') OR {type} LIKE 'DECIMAL%'"
_LETTERS, _DIGITS = r"\p{L}\p{M}", r"\p{N}"
_DOMAIN = r"(?s)(?<=.)@[^@]*\z"
_DATE = "^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)?\z"
_MILLIS_FROM = 100_000_000_000  # smaller whole numbers are seconds since 1970, up to the year 5138
_MILLIS_TO = 60_000_000_000_000  # about the year 3871


def treats(kind: Kind) -> str:
    """Returns the values that a rule can treat, for the reason of a refused record."""
    match kind:
        case Mask():
            return "text and numbers"
        case Hash():
            return "text, numbers and booleans"
        case Tokenise():
            return (
                f"text with {min_length(len(kind.alphabet))} or more characters of its alphabet, "
                "and whole numbers"
            )
        case Generalise(size=None):
            return "ISO dates and timestamps, and whole numbers as seconds or milliseconds"
        case Generalise():
            return "numbers, as text too"
        case DropRecord():
            return "text, numbers and booleans"
        case _:
            return "text"


def min_length(radix: int) -> int:
    """Returns the least length of a text that can be tokenised: NIST SP 800-38G requires a million
    texts of that length."""
    length = 2
    while radix**length < 1_000_000:
        length += 1
    return length


def mask_text(mask: Mask, text: str) -> str:
    def masked(part: str) -> str:
        return f"regexp_replace({part}, {literal(_masked_class(mask))}, {_replacement(mask.char)})"

    if mask.domain:
        # If there is no text before the @, the whole text would be kept.
        domain = f"regexp_extract({text}, {literal(_DOMAIN)}, 0)"
        local = f"left({text}, length({text}) - length({domain}))"
        return f"concat({masked(local)}, {domain})"
    kept = mask.first + mask.last
    if not kept:
        return masked(text)
    parts = [f"left({text}, {mask.first})"] if mask.first else []
    parts.append(masked(f"substring({text}, {mask.first + 1}, length({text}) - {kept})"))
    if mask.last:
        parts.append(f"right({text}, {mask.last})")
    # A text that would be kept as a whole, because it is short, is masked as a whole.
    some = f"concat({', '.join(parts)})"
    return f"CASE WHEN length({text}) <= {kept} THEN {masked(text)} ELSE {some} END"


def mask_number(mask: Mask, text: str, *, exact: bool = True) -> str:
    """Returns SQL for the text of the masked number. If not `exact`, it may have an exponent, which
    must not grow."""
    char = mask.char if exact and mask.char in "0123456789" else "0"
    digits = Mask(first=mask.first, last=mask.last, char=char, only="digits")
    return f"regexp_replace({mask_text(digits, text)}, '^(-?)0+(?=[0-9])', '$1')"


def mask(rule: Mask, x: str) -> str:
    kind, text = f"schema_of_variant({x})", f"cast({x} AS string)"
    return (
        f"CASE WHEN {kind} = 'STRING' THEN cast({mask_text(rule, text)} AS variant) "
        f"WHEN {kind} = 'BIGINT' OR {kind} LIKE 'DECIMAL%' "
        f"THEN try_parse_json({mask_number(rule, text)}) "
        f"WHEN {kind} = 'DOUBLE' THEN try_parse_json({mask_number(rule, text, exact=False)}) "
        f"WHEN is_variant_null({x}) THEN {x} END"
    )


def hash_bytes(rule: Hash, data: str) -> str:
    mac = f"hmac(cast(secrets.{rule.key} AS binary), {data})"
    return f"lower(hex({mac}))" if rule.form == "hex" else f"base64({mac})"


def hash_variant(rule: Hash, x: str) -> str:
    kind = f"schema_of_variant({x})"
    digest = hash_bytes(rule, f"cast(cast({x} AS string) AS binary)")
    return (
        f"CASE WHEN is_variant_null({x}) THEN {x} "
        f"WHEN {kind} NOT LIKE 'OBJECT<%' AND {kind} NOT LIKE 'ARRAY<%' "
        f"THEN cast({digest} AS variant) END"
    )


def aes_key(name: str, text: str) -> str:
    """Returns SQL for the key. `text`: the secret, only to choose between hex and base64."""
    return f"unhex(secrets.{name})" if is_hex(text) else f"unbase64(secrets.{name})"


def box(rule: Encrypt, key: str, size: int, data: str, place: str, path: str) -> str:
    """Returns SQL for the box of causeway.transform.crypto around `data`, of type binary. `place`
    and `path`: SQL for the field's path, with indices and with `[*]`. `size`: of the key, in
    bytes."""
    where = f"concat_ws(chr(0), topic, `partition`, offset, {place}, '')"
    nonce = f"hmac({key}, concat(cast(concat('{NONCE_LABEL}', {where}) AS binary), data))"
    salt = f"left(nonce, {SALT_BYTES})"
    subkey = f"left(hmac({key}, concat(cast('{KEY_LABEL}' AS binary), {salt})), {size})"
    iv = f"substring(nonce, {SALT_BYTES + 1}, {IV_BYTES})"
    aad = f"cast(concat('{rule.key} ', {path}) AS binary)"
    sealed = f"aes_encrypt(data, {subkey}, 'GCM', 'DEFAULT', {iv}, {aad})"
    return let(data, "data", let(nonce, "nonce", f"concat(X'01', {salt}, {sealed})"))


def box_text(rule: Encrypt, boxed: str) -> str:
    text = rf"translate(base64({boxed}), '\r\n', '')"  # Spark may break it into lines
    return text if rule.id_in == "header" else f"concat('{PREFIX}{rule.key}:', {text})"


def generalise_text(rule: Generalise, text: str) -> str:
    if rule.size is not None:
        return _range(f"try_cast({text} AS decimal(38, 9))", rule.size)
    form = literal(rf"{_DATE}({_CLOCK}{_ZONE}|\z)")
    valid = f"{text} RLIKE {form} AND try_cast(left({text}, 10) AS date) IS NOT NULL"
    date = {
        "year": f"left({text}, 4), '-01-01'",
        "month": f"left({text}, 7), '-01'",
        "day": f"left({text}, 10)",
        "hour": f"left({text}, 13)",
    }[rule.unit or "day"]
    clock_from = 14 if rule.unit == "hour" else 11
    zone = f"regexp_extract(substring({text}, 11), {literal(_ZONE)}, 0)"
    clock = f"substring({text}, {clock_from}, length({text}) - {clock_from - 1} - length({zone}))"
    return (
        f"CASE WHEN {valid} THEN concat({date}, regexp_replace({clock}, '[0-9]', '0'), {zone}) END"
    )


def generalise_whole(rule: Generalise, number: str) -> str:
    """Returns SQL for seconds or milliseconds since 1970, cut to the start of their unit in UTC.
    `number`: bigint."""

    def cut(second: int) -> str:
        if rule.unit in ("day", "hour"):
            size = (86400 if rule.unit == "day" else 3600) * second
            return f"{number} - pmod({number}, {size})"
        days = f"cast(floor({number} / {86400 * second}D) AS int)"
        start = f"trunc(date_from_unix_date({days}), '{rule.unit}')"
        return f"unix_date({start}) * {86400 * second}L"

    return (
        f"CASE WHEN {number} BETWEEN -{_MILLIS_FROM} AND {_MILLIS_FROM - 1} THEN {cut(1)} "
        f"WHEN {number} BETWEEN -{_MILLIS_TO} AND {_MILLIS_TO} THEN {cut(1000)} END"
    )


def generalise(rule: Generalise, x: str) -> str:
    kind, text = f"schema_of_variant({x})", f"cast({x} AS string)"
    if rule.size is not None:
        number = _NUMBER.format(type=kind)
        spread = _range(f"try_cast({text} AS decimal(38, 9))", rule.size)
        if rule.as_number:
            low = _low(f"try_cast({text} AS decimal(38, 9))", rule.size)
            return (
                f"CASE WHEN {number} THEN cast({low} AS variant) "
                f"WHEN {kind} = 'STRING' THEN cast(cast({low} AS string) AS variant) "
                f"WHEN is_variant_null({x}) THEN {x} END"
            )
        return (
            f"CASE WHEN {kind} = 'STRING' OR {number} THEN cast({spread} AS variant) "
            f"WHEN is_variant_null({x}) THEN {x} END"
        )
    return (
        f"CASE WHEN {kind} = 'STRING' THEN cast({generalise_text(rule, text)} AS variant) "
        f"WHEN {kind} = 'BIGINT' "
        f"THEN cast({generalise_whole(rule, f'cast({x} AS bigint)')} AS variant) "
        f"WHEN is_variant_null({x}) THEN {x} END"
    )


def truncate(rule: Truncate, x: str) -> str:
    return (
        f"CASE WHEN schema_of_variant({x}) = 'STRING' "
        f"THEN cast(left(cast({x} AS string), {rule.length}) AS variant) "
        f"WHEN is_variant_null({x}) THEN {x} END"
    )


def _low(number: str, size: int) -> str:
    return f"cast(floor({number} / {size}) * {size} AS decimal(38, 0))"


def _range(number: str, size: int) -> str:
    low = _low(number, size)
    return f"concat({low}, '-', {low} + {size - 1})"


def _masked_class(mask: Mask) -> str:
    if mask.only is None:
        return f"[{_LETTERS}{_DIGITS}]"
    if mask.only == "letters":
        return f"[{_LETTERS}]"
    if mask.only == "digits":
        return f"[{_DIGITS}]"
    return "[" + "".join(rf"\x{{{ord(char):x}}}" for char in mask.only.removeprefix("'")) + "]"


def _replacement(char: str) -> str:
    return literal("\\" + char if char in "\\$" else char)


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
            remedy=install_extra("tokenise"),
        )
    from pyspark.sql.functions import udf
    from pyspark.sql.types import MapType, StringType

    text = StringType()
    one = udf(token_json, text, useArrow=True)
    many = udf(tokens_json, MapType(text, text), useArrow=True)
    session.udf.register("causeway_tokenise", one)
    session.udf.register("causeway_tokenise_all", many)


def token_json(text: str | None, alphabet: str, key: str | None) -> str | None:
    """Returns the token, as JSON, of a JSON text; None for values that cannot be tokenised."""
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
    """Returns the tokens of `texts`, by text."""
    if texts is None:
        return None
    return {text: token_json(text, alphabet, key) for text in texts}


def tokenise(text: str, alphabet: str, key: str) -> str | None:
    """Returns None if `text` has too few characters of the alphabet. `key`: hex or base64."""
    from fastfpe import ff1

    letters = set(alphabet)
    plain = "".join(char for char in text if char in letters)
    if len(plain) < min_length(len(alphabet)):
        return None
    token = iter(ff1.encrypt(key_of(key).hex(), "", alphabet, plain))
    return "".join(next(token) if char in letters else char for char in text)


def tokenise_number(number: int, key: str) -> str | None:
    """Returns a number of as many digits, of which the first is not zero: FF1 is repeated until it
    is not zero. The result is still one-to-one."""
    sign, digits = "-" * (number < 0), str(abs(number))
    while True:
        token = tokenise(digits, ALPHABETS["digits"], key)
        if token is None:
            return None
        if token[0] != "0":
            return sign + token
        digits = token
