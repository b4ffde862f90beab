"""What the source worker makes of records by rules is what the query makes of them, to the byte.

Thousands of texts, from plain to hostile, go both ways. Whatever the shortcut does not leave to the
query must come out alike: bytes, dropped or not, which rules were seen; and never where the query
refuses the record.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from causeway.transform.rules.shortcut import DROPPED, shortcut_of
from tests.harness.transforms import record, run, settings, spark_session

pytestmark = pytest.mark.integration

SECRETS = {
    "pepper": "a pepper, long enough",
    "long": "a key with more bytes than a block of SHA-256 has, so that it is hashed before",
    "k128": "AAECAwQFBgcICQoLDA0ODw==",
    "k256": "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
}
NAMES = ("name", "email", "id", "born", "country", "address", "note")
LEAVES = [
    *('"Ada Lovelace"', '"ada@example.org"', '"@x"', '"a@b@c.d"', '"x"', '""', '"1815-12-10"'),
    *(
        '"1815-02-30"',
        '"0000-01-01"',
        '"1815-12-10T10:15:00Z"',
        '"name"',
        '"email"',
        '"EU"',
        '"US"',
    ),
    *('"Ω, é, ß, ǅ"', '"日本 7"', '"e\u0301"', '"😀a"', '"\u00bd\u00b2"', '"a:b,c}d]"', '":"'),
    *(
        '"a\\"b"',
        '"\\u0041da"',
        '"\\\\"',
        '"\\/"',
        '"\x7f"',
        '"a\x01b"',
        '"\t"',
        '"{\\"name\\":1}"',
    ),
    *("0", "-0", "7", "-12", "12.50", "1e3", "1E400", "-0.0", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "123456789012345678901234567890123456789"),
    *(
        "true",
        "false",
        "null",
        "tru",
        "01",
        "+1",
        ".5",
        "NaN",
        "[]",
        "{}",
        "[1, 2]",
        '["name","x"]',
    ),
    *('{"name":"in"}', '{"a":1,"a":2}', '[{"a":1,"a":2}]', '[[["x"]]]', "1" * 299, "1" * 400),
    *("0." + "3" * 1100, "[" * 190 + "]" * 190, "[" * 999 + "]" * 999, "[" * 1001 + "]" * 1001),
]
ODD_NAMES = ["n\\u0061me", "Name", "", "é", "name ", "na\\nme", "x", "true"]
RULES = [
    "mask value.$.name; hash value.$.email with pepper",
    "mask value.$.email keep domain; mask value.$.name keep first 1 keep last 2 with 'x'; "
    "hash value.$.id with pepper as base64; truncate value.$.note to 3",
    "encrypt value.$.name with k256; encrypt value.$.address.name with k128; "
    "hash value.$.address.id with long",
    "drop record where value.$.country is 'US'; mask value.$.name only letters; "
    "generalise value.$.born to month",
    "drop record where value.$.id is not 7; generalise value.$.born to year; "
    "mask value.$.email only '@.é'",
    "drop record where value.$.note is null; mask value.$.name only digits; "
    "generalise value.$.born to day",
    "hash key with pepper; drop record where value.$.address.country is not null; "
    "mask value.$.address.email keep domain",
]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session() as session:
        yield session


def texts(count: int) -> list[bytes]:
    rng = random.Random(29)

    def space() -> str:
        return rng.choice(("", "", "", " ", "\n\t", "\r\n  "))

    def value(depth: int, wild: bool) -> str:
        if depth and rng.random() < 0.25:
            return document(depth - 1, wild)
        return rng.choice(LEAVES if wild else LEAVES[:14])

    def document(depth: int, wild: bool) -> str:
        names = [rng.choice(NAMES) for _ in range(rng.randrange(8))]
        if not wild or rng.random() < 0.7:
            names = list(dict.fromkeys(names))
        if wild and rng.random() < 0.2:
            names.append(rng.choice(ODD_NAMES))
        gap = space if rng.random() < 0.3 else str
        pairs = (f'{gap()}"{name}"{gap()}:{gap()}{value(depth, wild)}{gap()}' for name in names)
        return "{" + ",".join(pairs) + gap() + "}"

    def broken(text: bytes) -> bytes:
        at = rng.randrange(len(text))
        some = text[at : at + rng.randrange(1, 9)]
        more = rng.choice((b"", b'"', b"\\", b"\xff", b"\xed\xa0\x80", b"\x00", b"}", b",", some))
        return text[:at] + more + text[at + rng.randrange(3) :]

    found = []
    for at in range(count):
        text = document(2, at % 2 == 0).encode()
        if at % 4 == 2:
            text = broken(text)
        if at % 50 == 0:
            text = rng.choice((b"\xef\xbb\xbf", b"\x00", b" ", b"[", b"1")) + text
        if at % 50 == 1:
            text += rng.choice((b" ", b"\x00", b"{}", b",", b"//", b"\n\n", b"\x0b"))
        found.append(text)
    return [b"", b"null", b"1", b'"name"', b"[]", *found]


@pytest.mark.parametrize("rules", RULES)
def test_nothing_differs_from_what_the_query_makes(session: Any, rules: str) -> None:
    transform = settings(rules=rules, secrets=SECRETS, value_format="json", key_format="string")
    shortcut = shortcut_of(transform)
    assert shortcut is not None
    treat = shortcut.open(SECRETS)
    given = [*texts(4_000), None]
    keys = [b"k", "ключ".encode(), b"\xff", None]
    rows = [
        record(at, text, topic="t", partition=3, key=keys[at % 4]) for at, text in enumerate(given)
    ]
    outputs = {row.offset: row for row in run(session, transform, rows)}
    treated = 0
    for at, text in enumerate(given):
        key = keys[at % 4]
        try:
            made = treat(key, text, b"t\x003\x00", at)
        except (ValueError, RecursionError):
            continue
        treated += 1
        if made == DROPPED:
            assert at not in outputs, text
            continue
        assert at in outputs, text
        row = outputs[at]
        assert row._reason is None, (text, row._reason)
        by_query = [None if one is None else bytes(one) for one in (row.key, row.value)]
        assert [*by_query, row._seen] == [*made], text
    assert treated > 600


def test_every_character_is_masked_as_by_the_query(session: Any) -> None:
    texts = [
        b'{"name":"%b"}' % chr(code).encode()
        for code in range(0x20, 0x400)
        if chr(code) not in '"\\'
    ]
    for what in ("", " only letters", " only digits"):
        transform = settings(rules=f"mask value.$.name{what}", value_format="json")
        shortcut = shortcut_of(transform)
        assert shortcut is not None
        treat = shortcut.open({})
        rows = [record(at, text) for at, text in enumerate(texts)]
        known = 0
        for text, row in zip(texts, run(session, transform, rows), strict=True):
            try:
                made = treat(None, text, b"", 0)
            except ValueError:
                continue
            known += 1
            assert made == (None, bytes(row.value), row._seen), text
        assert known > 500
