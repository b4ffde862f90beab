"""What the source worker makes of records by rules is what the query makes of them, to the byte.

Thousands of texts, from plain to hostile, go both ways. Whatever the shortcut does not leave to the
query must come out alike: bytes, dropped or not, which rules were seen; and never where the query
refuses the record.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from causeway.transform.analysis import prepare
from causeway.transform.channel import Chunk, Outcome
from causeway.transform.direct import Direct
from causeway.transform.rows import MARK, TREATED
from causeway.transform.rules.shortcut import DROPPED, shortcut_of
from causeway.transform.sink_worker import Chunks
from causeway.transform.source_rows import Rows
from causeway.wire.plain_records import PlainRecord
from causeway.wire.records import records_of
from tests.harness.stage import batch_of, chunk_of, read
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


KEYED = [
    "mask key.$.name keep last 2; mask value.$.name with '0'; drop record where key.$.id is 7; "
    "drop record where value.$.email is in ('US', 'x', 'name'); hash key.$.email with pepper",
    "drop record where key.$.country is null; encrypt key.$.name with k256; "
    "truncate value.$.note to 1; drop record where value.$.id is not in (7, 0, 'EU', true)",
    "hash value with long; truncate key.$.name to 2",
    "hash key with pepper as base64",
]


def chunk(count: int, rng: random.Random) -> Chunk:
    """Of several batches, with tombstones, headers without UTF-8 names and times beyond Spark's."""
    values, keys = texts(count), texts(count)
    rng.shuffle(keys)
    keys[::3] = [b'{"name":"Ada","id":7,"country":"US"}'] * len(keys[::3])
    records = [
        PlainRecord(
            0,
            rng.choice((-1, 0, 1_700_000_000_000, 1_700_000_000_001)) if at % 97 else 2**60,
            rng.choice((key, key, key, None)),
            rng.choice((value, value, value, value, None)),
            [("h", b"\xff"), ("", None)] if at % 5 else [],
        )
        for at, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    for at in range(0, count, 89):
        records[at] = records[at]._replace(headers=[("\udcff", b"")])
    cuts = [*range(0, count, 150), count]
    batches = []
    for start, stop in pairwise(cuts):
        batch = batch_of(records[start:stop], first=2 * start, codec=start % 4)
        if start % 4:  # compacted
            offsets = range(2 * start, 2 * stop, 2)
            batch = batch._replace(offsets=[*offsets], next=2 * stop)
        batches.append(batch)
    return chunk_of(7, *batches, topic="té.x", partition=3)


def by_spark(session: Any, prepared: Any, rows: Iterable[pa.RecordBatch]) -> Outcome:
    batches = list(rows)
    given = session.range(0, 1, 1, 1).mapInArrow(partial(_these, batches), prepared.input)
    found = Chunks()
    made = prepared.apply(given).toArrow()
    return next(one for batch in made.to_batches() for one in found.add(batch))


def _these(batches: list[pa.RecordBatch], start: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    for _ in start:
        pass
    yield from batches


@pytest.mark.parametrize("rules", [*KEYED, RULES[1]])
def test_a_chunk_becomes_the_same_with_and_without_the_shortcut(session: Any, rules: str) -> None:
    format = "json" if "key.$" in rules else "string"
    transform = settings(rules=rules, secrets=SECRETS, value_format="json", key_format=format)
    prepared = prepare(session, transform)
    given, rows = chunk(700, random.Random(rules)), Rows(SECRETS)
    wanted = by_spark(session, prepared, rows.of(given))
    assert prepared.shortcut is not None
    direct = Direct(prepared.shortcut.open(SECRETS), rows)
    answer = direct.answer(given)
    assert not isinstance(answer, Outcome)
    batches = list(answer)
    assert sum(batch[MARK].to_pylist().count(TREATED) for batch in batches) > 50
    found = by_spark(session, prepared, batches)
    assert list(read(found)) == list(read(wanted))
    assert found.refused == wanted.refused
    assert len(found.refused) > 10
    assert found[3:6] == wanted[3:6]  # counts

    # And those that need no Spark at all.
    treat, refused = prepared.shortcut.open(SECRETS), {one.offset for one in wanted.refused}
    plain = []
    for batch in given.batches:
        for at, one in enumerate(records_of(batch)):
            offset = batch.source_offset(at)
            try:
                treat(one.key, one.value, "té.x\0003\0".encode(), offset)
            except (ValueError, RecursionError):
                continue
            if offset not in refused:
                alone = PlainRecord(0, one.timestamp or 0, one.key, one.value, [*one.headers])
                plain.append(batch_of([alone], first=offset))
    given = chunk_of(8, *plain, topic="té.x", partition=3)
    outcome = Direct(treat, rows).answer(given)
    assert outcome == by_spark(session, prepared, rows.of(given))
