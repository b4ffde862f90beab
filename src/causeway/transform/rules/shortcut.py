"""Applies rules in the worker itself, to records of a plain form.

The meaning of rules is their query (compile.py). Most records do not need the query: their JSON has
no backslash, no repeated name in an object, and the name of a treated field only once. Then the
value is replaced in the text, as documents.py does it in SQL. All other records go to Spark
(NeedsSparkError). So the shortcut may treat fewer records than the query, but its results must
never differ: tests/integration/test_rules_shortcut.py compares the two."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from causeway.config import TransformSettings
from causeway.transform.crypto import (
    IV_BYTES,
    KEY_LABEL,
    NONCE_LABEL,
    PREFIX,
    SALT_BYTES,
    VERSION,
    aes_key,
    common_path,
)
from causeway.transform.json_text import NeedsSparkError, check_whole, plain_objects
from causeway.transform.rules.checks import must_be_there
from causeway.transform.rules.model import (
    DropRecord,
    Encrypt,
    FieldStep,
    Generalise,
    Hash,
    Kind,
    Mask,
    PartName,
    TransformRule,
    Truncate,
    is_plain_name,
)
from causeway.transform.rules.parse import parse

_END = re.compile(rb"[,}\]]")  # of a number or boolean
_MISSING, _NOTHING = object(), object()  # a value other than null, and null, that ends a path early
DROPPED = (0, 0)

# New key and value; bits of the rules whose path was found, and of those whose path was missing
# (see rows.py). For a dropped record only the bits.
Treated = tuple[bytes | None, bytes | None, int, int] | tuple[int, int]
# Treats a key, a value, `topic NUL partition NUL` and an offset. Raises NeedsSparkError or another
# ValueError.
Treat = Callable[[bytes | None, bytes | None, bytes, int], Treated]
_TreatedPart = tuple[bytes | None, int, int, bool]  # the bool: the record is dropped
_TreatPart = Callable[[bytes | None, bytes, int], _TreatedPart]


def stays(treated: Treated) -> bool:
    """Returns whether the record is kept."""
    return len(treated) == 4


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The work of a shortcut; can be pickled and holds no secret. `formats`: of key and value.
    `required`: the numbers of the rules that refuse a record without their path."""

    rules: tuple[TransformRule, ...]
    formats: Mapping[str, str]
    required: frozenset[int] = frozenset()

    def open(self, secrets: Mapping[str, str]) -> Treat:
        of_key, of_value = self._part("key", secrets), self._part("value", secrets)

        def treat(key: bytes | None, value: bytes | None, spot: bytes, offset: int) -> Treated:
            seen = missing = 0
            goes = False
            if of_value is not None:
                value, seen, missing, goes = of_value(value, spot, offset)
            if of_key is not None:
                key, found, lacking, dropped = of_key(key, spot, offset)
                seen, missing, goes = seen | found, missing | lacking, goes or dropped
            return (seen, missing) if goes else (key, value, seen, missing)

        return treat

    def _part(self, part: PartName, secrets: Mapping[str, str]) -> _TreatPart | None:
        rules = [rule for rule in self.rules if rule.path.part == part]
        if not rules:
            return None
        if rules[0].path.steps is None:
            return _whole(rules[0], self.formats[part], secrets)
        return _document(rules, secrets, self.required)


def shortcut_of(transform: TransformSettings) -> Shortcut | None:
    """Returns None if `transform` has no rules, or rules that only the query can apply. `to_sql`
    must accept the rules."""
    if transform.rules is None:
        return None
    rules = parse(transform.rules, transform.place)
    formats = transform.formats
    if any(schema is not None for schema in transform.schemas.values()):
        return None
    for rule in rules:
        path, others = rule.path, [other for other in rules if other is not rule]
        if path.part == "headers" or any(path.overlaps(other.path) for other in others):
            return None
        if path.steps is None:
            known = isinstance(rule.kind, Hash) and formats[path.part] in _TEXTS
        else:
            known = formats[path.part] == "json" and all(
                isinstance(step, FieldStep) and step.name is not None and is_plain_name(step.name)
                for step in path.steps
            )
            known = known and (isinstance(rule.kind, DropRecord) or can_make(rule.kind))
        if not known:
            return None
    required = (rule.number for rule in rules if must_be_there(rule, transform))
    return Shortcut(rules, formats, frozenset(required))


_TEXTS = ("json", "string", "binary")


def _whole(rule: TransformRule, format: str, secrets: Mapping[str, str]) -> _TreatPart:
    assert isinstance(rule.kind, Hash)
    make, bit = digest(rule.kind, secrets), 1 << (rule.number - 1)

    def treat(data: bytes | None, spot: bytes, offset: int) -> _TreatedPart:
        if data is None:
            return None, 0, 0, False
        if format != "binary" and not data.isascii():
            data.decode()  # the query refuses other bytes
        return make(data), bit, 0, False

    return treat


class _Spot(NamedTuple):
    """The field of a rule."""

    names: tuple[str, ...]
    token: bytes  # its name in quotes
    bit: int
    make: Maker | None  # None: only its presence counts


def _document(
    rules: list[TransformRule], secrets: Mapping[str, str], required: frozenset[int]
) -> _TreatPart:
    read = plain_objects()
    conditions, spots = [], []
    refusing = 0  # bits of the rules that are required
    for rule in rules:
        names = tuple(
            step.name or "" for step in rule.path.steps or () if isinstance(step, FieldStep)
        )
        bit, make = 1 << (rule.number - 1), None
        refusing |= bit if rule.number in required else 0
        if isinstance(rule.kind, DropRecord):
            conditions.append((names, rule.number in required, drops(rule.kind)))
        else:
            make = maker(rule, secrets)
        token = b'"%s"' % names[-1].encode()
        spots.append(_Spot(names, token, bit, make))

    def treat(text: bytes | None, spot: bytes, offset: int) -> _TreatedPart:
        if text is None:
            return None, 0, 0, False
        document = read(text)
        goes = False  # but the query may refuse the record
        for names, must, dropped in conditions:
            x = _at(document, names)
            if x is not _MISSING or not must:
                goes = dropped(None if x is _MISSING or x is _NOTHING else x) or goes
        seen = missing = 0
        for names, token, bit, make in spots:
            x = document.get(names[0], _MISSING) if len(names) == 1 else _at(document, names)
            if x is _MISSING:
                missing |= bit
            elif x is not _NOTHING:
                seen |= bit
                if make is not None and x is not None:
                    text = _put(text, token, type(x) is str, make(x, spot, offset))
        if missing & refusing and not goes:
            raise NeedsSparkError
        return text, seen, missing, goes

    return treat


def _at(document: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if type(document) is not dict:
            return _NOTHING if document is None else _MISSING
        document = document.get(name, _MISSING)
    return document


def _put(text: bytes, token: bytes, quoted: bool, new: bytes) -> bytes:
    """Returns `text` with `new` for the value of the field with the name `token`. The field exists,
    so if the token occurs only once, it is its name. Raises NeedsSparkError."""
    at = text.find(token)
    after = at + len(token)
    if at < 0 or text.find(token, after) >= 0:
        raise NeedsSparkError
    if quoted:
        end = text.index(b'"', text.index(b'"', after) + 1) + 1
    else:
        found = _END.search(text, after)
        if found is None:
            raise NeedsSparkError
        end = found.start()
    return text[:after] + b":" + new + text[end:]


# The treatment of a value, as treat.py does it in SQL. Only for values whose result is certain,
# such as texts without a quote, backslash or control character, which JSON does not escape. For all
# others it raises NeedsSparkError. Returns the new JSON text for a Python value (neither null nor
# missing), `topic NUL partition NUL` and an offset.
Maker = Callable[[Any, bytes, int], bytes]
_KNOWN = 0x250  # below this, all versions of Unicode agree on letters and digits
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BLOCK = 64  # bytes, of SHA-256


def can_make(kind: Kind) -> bool:
    """Returns whether `maker` can treat a field by this rule; otherwise only the query can."""
    match kind:
        case Mask(char=char):
            return len(char) == 1 and " " <= char <= "~" and char not in '"\\'
        case Encrypt(id_in=id_in):
            return id_in == "field"
        case Generalise(size=size, unit=unit):
            return size is None and unit != "hour"
        case _:
            return isinstance(kind, Hash | Truncate)


def maker(rule: TransformRule, secrets: Mapping[str, str]) -> Maker:
    """Returns the treatment by a rule that `can_make` accepts. Raises KeyError if its secret is
    missing."""
    match rule.kind:
        case Mask() as mask:
            return _mask(mask)
        case Hash() as hash:
            return _hash(digest(hash, secrets))
        case Encrypt() as encrypt:
            return _encrypt(encrypt, str(rule.path), secrets[encrypt.key])
        case Truncate(length=length):
            return _of_text(lambda text: text[:length])
        case Generalise(unit=unit):
            return _of_text(_generalise(unit or "day"))
        case _:
            raise AssertionError(rule.kind)


def digest(rule: Hash, secrets: Mapping[str, str]) -> Callable[[bytes], bytes]:
    mac = hmac_of(secrets[rule.key].encode())
    encode = base64.b64encode if rule.form == "base64" else binascii.hexlify
    return lambda data: encode(mac(data))


def drops(kind: DropRecord) -> Callable[[Any], bool]:
    """Returns a function of a record's value (None for missing or null): whether the record is
    dropped."""
    if kind.values is None:
        return lambda x: (x is not None) != kind.negated

    def dropped(x: Any) -> bool:
        found = False
        for value in kind.values or ():
            if x is None:
                continue
            if type(x) is not type(value) or type(x) is float:
                raise NeedsSparkError
            if type(x) is int:
                check_whole(x)
            found = found or x == value
        return found != kind.negated

    return dropped


def _of_text(change: Callable[[str], str]) -> Maker:
    def make(x: Any, spot: bytes, offset: int) -> bytes:
        if type(x) is not str:
            raise NeedsSparkError
        return b'"' + change(x).encode() + b'"'

    return make


def _mask(mask: Mask) -> Maker:
    chars = (chr(code) for code in range(_KNOWN))
    table = "".join(mask.char if _is_masked(mask, char) else char for char in chars)
    first, last, domain = mask.first, mask.last, mask.domain
    kept = first + last

    def make(x: Any, spot: bytes, offset: int) -> bytes:
        if type(x) is not str or (not x.isascii() and ord(max(x)) >= _KNOWN):
            raise NeedsSparkError
        if domain and (at := x.rfind("@")) > 0:
            masked = x[:at].translate(table) + x[at:]
        elif 0 < kept < len(x):
            end = len(x) - last
            masked = x[:first] + x[first:end].translate(table) + x[end:]
        else:
            masked = x.translate(table)
        return f'"{masked}"'.encode()

    return make


def _is_masked(mask: Mask, char: str) -> bool:
    kind = unicodedata.category(char)[0]
    match mask.only:
        case None:
            return kind in "LMN"
        case "letters":
            return kind in "LM"
        case "digits":
            return kind == "N"
        case chosen:
            return char in chosen.removeprefix("'")


def _hash(digest: Callable[[bytes], bytes]) -> Maker:
    def make(x: Any, spot: bytes, offset: int) -> bytes:
        return b'"%b"' % digest(x.encode() if type(x) is str else _plain(x))

    return make


def _encrypt(rule: Encrypt, path: str, secret: str) -> Maker:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key = aes_key(secret)
    mac, size = hmac_of(key), len(key)
    label, key_label = NONCE_LABEL.encode(), KEY_LABEL.encode()
    place, head = path.encode(), f'"{PREFIX}{rule.key}:'.encode()
    aad = f"{rule.key} {common_path(path)}".encode()

    def make(x: Any, spot: bytes, offset: int) -> bytes:
        data = b'"' + x.encode() + b'"' if type(x) is str else _plain(x)
        nonce = mac(b"%b%b%d\0%b\0%b" % (label, spot, offset, place, data))
        salt, iv = nonce[:SALT_BYTES], nonce[SALT_BYTES : SALT_BYTES + IV_BYTES]
        sealed = AESGCM(mac(key_label + salt)[:size]).encrypt(iv, data, aad)
        return head + base64.b64encode(VERSION + salt + iv + sealed) + b'"'

    return make


def _generalise(unit: str) -> Callable[[str], str]:
    def start(text: str) -> str:
        if not _DATE.fullmatch(text):
            raise NeedsSparkError
        date.fromisoformat(text)  # raises ValueError for other dates
        return {"year": f"{text[:4]}-01-01", "month": f"{text[:7]}-01", "day": text}[unit]

    return start


def _plain(x: Any) -> bytes:
    """Returns the JSON text of a boolean or whole number."""
    if type(x) is bool:
        return b"true" if x else b"false"
    if type(x) is not int:
        raise NeedsSparkError
    check_whole(x)
    return b"%d" % x


def hmac_of(key: bytes) -> Callable[[bytes], bytes]:
    """Returns HMAC-SHA-256 with the key's blocks computed once: it takes a fifth of the time of
    `hmac`."""
    if len(key) > _BLOCK:
        key = hashlib.sha256(key).digest()
    key = key.ljust(_BLOCK, b"\0")
    inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in key)) for pad in (0x36, 0x5C))

    def mac(data: bytes) -> bytes:
        first, second = inner.copy(), outer.copy()
        first.update(data)
        second.update(first.digest())
        return second.digest()

    return mac
