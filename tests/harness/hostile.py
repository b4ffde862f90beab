"""What shortcuts must agree with Spark on: texts from plain to hostile, and chunks of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from causeway.records import PlainRecord, records_of
from causeway.transform import Chunk, ChunkOutcome
from causeway.transform.rules import Treat, stays
from causeway.transform.stage import Rows
from causeway.transform.stage.direct import Direct
from causeway.transform.stage.workers import OutcomeReader
from tests.harness.stage import batch_of, chunk_of, read
from tests.harness.transforms import record, run

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


def chunk(count: int, rng: random.Random, values: Sequence[bytes | None] = ()) -> Chunk:
    """Of several batches, with tombstones, headers without UTF-8 names and times beyond Spark's."""
    values, keys = [*values] or [*texts(count)], texts(count)
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


def _by_spark(session: Any, prepared: Any, rows: Iterable[pa.RecordBatch]) -> ChunkOutcome:
    batches = list(rows)
    given = session.range(0, 1, 1, 1).mapInArrow(partial(_these, batches), prepared.input)
    found = OutcomeReader()
    made = prepared.apply(given).toArrow()
    return next(one for batch in made.to_batches() for one in found.add(batch))


def _these(batches: list[pa.RecordBatch], start: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    for _ in start:
        pass
    yield from batches


def compare(
    session: Any,
    transform: Any,
    treat: Treat,
    keys: list[bytes | None],
    given: Sequence[bytes | None] = (),
) -> int:
    """Thousands of texts, or those `given`, as values, with `keys` in turn, both ways. How many
    records needed no Spark."""
    given = given or [*texts(4_000), None]
    rows = [
        record(at, text, topic="t", partition=3, key=keys[at % len(keys)])
        for at, text in enumerate(given)
    ]
    outputs = {row.offset: row for row in run(session, transform, rows, dropped=True)}
    treated = 0
    for at, text in enumerate(given):
        try:
            made = treat(keys[at % len(keys)], text, b"t\x003\x00", at)
        except (ValueError, RecursionError):
            continue
        treated += 1
        row = outputs.get(at)
        if not stays(made):
            if row is not None:  # of rules, whose rows stay
                assert row._seen < 0, text
                assert (row._seen + 2**63, row._missing, row._reason) == (*made, None), text
            continue
        assert row is not None, text
        assert row._reason is None, (text, row._reason)
        by_query = [None if one is None else bytes(one) for one in (row.key, row.value)]
        assert [*by_query, row._seen, row._missing] == [*made], text
    return treated


def compare_chunks(
    session: Any,
    prepared: Any,
    secrets: dict[str, str],
    seed: str,
    values: Sequence[bytes | None] = (),
) -> None:
    """A chunk of all sorts of records both ways, and one of those that need no Spark."""
    given, rows = chunk(700, random.Random(seed), values), Rows(secrets)
    wanted = _by_spark(session, prepared, rows.of(given))
    treat: Treat = prepared.work.shortcut.open(secrets)
    answer = Direct(treat, rows).answer(given)
    assert not isinstance(answer, ChunkOutcome)
    batches = list(answer)
    found = _by_spark(session, prepared, batches)
    assert found.without_spark > 50
    assert sum(batch.num_rows for batch in batches) == 1 + 700 - found.without_spark
    assert list(read(found)) == list(read(wanted))
    assert found.refused == wanted.refused
    assert len(found.refused) > 10
    assert found[3:6] == wanted[3:6]  # counts

    refused = {one.offset for one in wanted.refused}
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
    assert isinstance(outcome, ChunkOutcome)
    assert outcome.without_spark == outcome.records_in
    by_query = _by_spark(session, prepared, rows.of(given))
    assert outcome._replace(without_spark=0) == by_query
