"""What the source worker makes of records by rules is what the query makes of them, to the byte.

Thousands of texts, from plain to hostile, go both ways. Whatever the shortcut does not leave to the
query must come out alike: bytes, dropped or not, which rules were seen; and never where the query
refuses the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from causeway.transform.plan import prepare
from causeway.transform.rules import shortcut_of
from tests.harness.hostile import compare, compare_chunks
from tests.harness.transforms import optional, record, run, settings, spark_session

pytestmark = pytest.mark.integration

SECRETS = {
    "pepper": "a pepper, long enough",
    "long": "a key with more bytes than a block of SHA-256 has, so that it is hashed before",
    "k128": "AAECAwQFBgcICQoLDA0ODw==",
    "k256": "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
}
KEYS = [b"k", "ключ".encode(), b"\xff", None]
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


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(optional(RULES[0]), marks=pytest.mark.slow),
        *map(optional, RULES[1:5]),
        *RULES[5:],
    ],
)
def test_nothing_differs_from_what_the_query_makes(session: Any, rules: str) -> None:
    transform = settings(rules=rules, secrets=SECRETS, value_format="json", key_format="string")
    shortcut = shortcut_of(transform)
    assert shortcut is not None
    treated = compare(session, transform, shortcut.open(SECRETS), KEYS)
    assert treated > (600 if "optional" in rules else 20)


@pytest.mark.slow
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
            assert made == (None, bytes(row.value), row._seen, row._missing), text
        assert known > 500


KEYED = [
    "mask key.$.name keep last 2; mask value.$.name with '0'; drop record where key.$.id is 7; "
    "drop record where value.$.email is in ('US', 'x', 'name'); hash key.$.email with pepper",
    "drop record where key.$.country is null; encrypt key.$.name with k256; "
    "truncate value.$.note to 1; drop record where value.$.id is not in (7, 0, 'EU', true)",
    "hash value with long; truncate key.$.name to 2",
    "hash key with pepper as base64",
]


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(optional(each), marks=[] if "$" not in each else [pytest.mark.slow])
        for each in (*KEYED, RULES[1])
    ],
)
def test_a_chunk_becomes_the_same_with_and_without_the_shortcut(session: Any, rules: str) -> None:
    format = "json" if "key.$" in rules else "string"
    transform = settings(rules=rules, secrets=SECRETS, value_format="json", key_format=format)
    prepared = prepare(session, transform)
    assert prepared.work.shortcut is not None
    compare_chunks(session, prepared, SECRETS, rules)
