"""Spark's logic of three values, and what is left to Spark, without Spark."""

from __future__ import annotations

import pickle
from hashlib import sha256

import pytest

from causeway.transform.json_text import NeedsSparkError, plain_objects
from causeway.transform.queries import (
    KEY,
    VALUE,
    Expression,
    QueryShortcut,
    ReadAs,
    Scalar,
    constant,
    whole,
)
from causeway.transform.rules import DROPPED

YES, NO, NULL = constant(True), constant(False), constant(None)


def made(function: str, *parts: Expression, options: tuple[object, ...] = ()) -> Expression:
    return Expression(function, parts, options)


def column(function: str, *options: object) -> Expression:
    return Expression(function, (), options)


def equal(left: Expression, right: Expression) -> Expression:
    return made("=", left, right)


def both(left: Expression, right: Expression) -> Expression:
    return made("and", left, right)


def either(left: Expression, right: Expression) -> Expression:
    return made("or", left, right)


def of(expression: Expression, value: object = None) -> Scalar:
    found: Scalar = pickle.loads(pickle.dumps(expression)).open({})((None, value, b"t.x\x003\0", 9))
    return found


def test_of_null_nothing_is_known() -> None:
    assert [of(both(NULL, one)) for one in (YES, NO, NULL)] == [None, False, None]
    assert [of(either(NULL, one)) for one in (YES, NO, NULL)] == [True, None, None]
    assert [of(made("not", one)) for one in (YES, NO, NULL)] == [False, True, None]
    assert of(equal(NULL, NULL)) is None
    assert of(made("<=>", NULL, NULL)) is True
    assert of(made("<=>", NULL, YES)) is False
    assert of(made("in", NULL, options=("a",))) is None
    assert of(made("in", constant("b"), options=("a", None))) is None
    assert of(made("in", constant("a"), options=("a", None))) is True
    assert of(made("in", constant("b"), options=("a",))) is False
    assert of(made("coalesce", NULL, constant("b"))) == "b"
    assert of(made("is null", NULL)) is True
    assert of(made("like", NULL, options=("a", ""))) is None


def test_members_are_texts() -> None:
    document = {"a": {"b": "x", "n": 7, "t": True, "l": [], "f": 1.5, "o": {}}, "z": None}

    def get(*names: str) -> Scalar:
        return of(column("member", VALUE, *names), document)

    assert (get("a", "b"), get("a", "n"), get("a", "t")) == ("x", "7", "true")
    assert get("y") is get("z") is get("z", "b") is get("a", "y") is None
    for names in (("a", "l"), ("a", "f"), ("a", "o"), ("a",), ("a", "b", "c"), ("a", "l", "b")):
        with pytest.raises(NeedsSparkError):
            get(*names)
    assert of(column("member", KEY, "a"), document) is None  # no key
    assert (of(column("topic")), of(column("partition"))) == ("t.x", 3)


@pytest.mark.parametrize("text", ["01", "+1", " 1", "1.0", "-0", "x", "", "2147483648", "1" * 40])
def test_what_is_not_surely_a_number_is_left_to_spark(text: str) -> None:
    with pytest.raises(NeedsSparkError):
        of(made("whole number", constant(text), options=(32,)))
    assert of(made("whole number", constant("-2147483648"), options=(32,))) == -(2**31)


@pytest.mark.parametrize(
    ("text", "parts", "fits"),
    [
        ("abc", ("abc",), True),
        ("abc", ("a", "c"), True),
        ("aba", ("ab", "ba"), False),  # they would overlap
        ("abcbc", ("a", "bc", "bc"), True),
        ("abc", ("a", "bc", "bc"), False),
        ("a\nb", ("", "\n", ""), True),
        ("", ("", ""), True),
    ],
)
def test_marks_of_like(text: str, parts: tuple[str, ...], fits: bool) -> None:
    assert of(made("like", constant(text), options=parts)) is fits


def test_a_part_that_cannot_be_known_leaves_the_record_to_spark() -> None:
    """Whatever the others say: Spark may ask it first."""
    odd = equal(column("member", VALUE, "f"), constant("x"))
    for one in (both(NO, odd), either(YES, odd), made("coalesce", YES, odd)):
        with pytest.raises(NeedsSparkError):
            of(one, {"f": 1.5})
    treat = QueryShortcut(((NO, False), (odd, True)), (ReadAs("bytes"), ReadAs("document"))).open(
        {}
    )
    with pytest.raises(NeedsSparkError):
        treat(None, b'{"f":1.5}', b"t\x003\0", 9)
    assert treat(None, b'{"f":"x"}', b"t\x003\0", 9) == DROPPED


def test_tombstones_pass_what_reads_the_value() -> None:
    gone = equal(column("member", VALUE, "a"), constant("x"))
    keyed = equal(whole(KEY), constant("k"))
    treat = QueryShortcut(
        ((gone, True), (keyed, False)), (ReadAs("text"), ReadAs("document"))
    ).open({})
    assert treat(b"k", None, b"", 0) == (b"k", None, 0, 0)
    assert treat(b"l", None, b"", 0) == DROPPED
    assert treat(b"k", b'{"a":"x"}', b"", 0) == (b"k", b'{"a":"x"}', 0, 0)
    assert treat(b"k", b'{"a":null}', b"", 0) == DROPPED
    with pytest.raises(UnicodeDecodeError):
        treat(b"\xff", b'{"a":"x"}', b"", 0)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"1", b"[]", b"{", b'{"a":1,"a":2}', b'{"a":{"b":1,"b":1}}', b'{"a":"\\u0041"}'),
        *(b'{"a":"\xff"}', b"\xef\xbb\xbf{}", b"{} {}", b"{'a':1}", b'{"a":NaN}', b'{"a":01}'),
        *(
            b'{"a":' + b"1" * 2_000 + b"}",
            b'{"a":' + b"[" * 300 + b"]" * 300 + b',"b":"' + b"x" * 999,
        ),
        b'{"a":"' + b"x" * 60_000 + b'"}',
    ],
)
def test_only_plain_objects_are_read(text: bytes) -> None:
    with pytest.raises((NeedsSparkError, UnicodeDecodeError)):
        plain_objects()(text)


FIELDS = (("name", "string"), ("n", "int"), ("big", "bigint"), ("ok", "boolean"), ("x", "double"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"name":"Ada","n":1,"big":2,"ok":true,"x":0.5}', ("Ada", 1, 2, True, 0.5)),
        (b' {"x":3,"ok":false,"big":-1,"n":-0,"name":""} ', ("", 0, -1, False, 3.0)),
        (b'{"n":null,"more":[{"n":"x"}]}', (None,) * 5),
        (b'{"N":1,"name":"a"}', ("a", None, None, None, None)),
    ],
)
def test_what_fits_a_schema_is_read(text: bytes, found: tuple[object, ...]) -> None:
    assert ReadAs("document", FIELDS).reader()(text) == found


@pytest.mark.parametrize(
    "text",
    [
        b'{"name":"Ada","n":1,"big":2,"ok":true,"x":0.5,"n":1}',
        b'{"name":"Ada","name":"B","n":1,"big":2,"ok":true,"x":0.5}',
        b'{"name":"Ada","n":1,"big":2,"ok":true,"x":0.5,"more":{"a":1,"a":1}}',
        b'{"name":"\\u0041","n":1,"big":2,"ok":true,"x":0.5}',
        b'{"n":1,"n":1}',
        *(b'{"n":2147483648}', b'{"n":1.0}', b'{"n":"1"}', b'{"n":true}', b'{"big":1e2}'),
        *(b'{"big":9223372036854775808}', b'{"ok":1}', b'{"name":1}', b'{"x":"1"}', b'{"x":1e999}'),
        *(b"[]", b"null", b"{", b"", b'{"more":"\xff"}', b'{"name":"\xff"}'),
    ],
)
def test_what_may_not_fit_a_schema_is_left_to_spark(text: bytes) -> None:
    with pytest.raises((NeedsSparkError, UnicodeDecodeError)):
        ReadAs("document", FIELDS).reader()(text)


def test_what_is_made_leaves_nulls_out_and_tombstones_alone() -> None:
    name = column("field", VALUE, 0)
    struct = made(
        "struct",
        made("mask", name, options=("X", "x", None, "-")),
        column("field", VALUE, 1),
        made("concat", column("secret", "pepper"), whole(KEY)),
        options=("m", "n", "k"),
    )
    forms = (ReadAs("text"), ReadAs("document", FIELDS))
    treat = QueryShortcut((), forms, (None, (struct, True))).open({"pepper": "p"})
    value = b'{"name":"Ada 7!","n":3}'
    assert treat(b"k", value, b"", 0) == (b"k", b'{"m":"Xxx-7-","n":3,"k":"pk"}', 0, 0)
    assert treat(None, b'{"n":3}', b"", 0) == (None, b'{"n":3}', 0, 0)
    assert treat(b"k", None, b"", 0) == (b"k", None, 0, 0)
    for key, value in ((b'"', b"{}"), (b"\n", b"{}"), (b"k", '{"name":"é"}'.encode())):
        with pytest.raises(NeedsSparkError):  # how Spark escapes, and masks
            treat(key, value, b"", 0)

    keyed = QueryShortcut((), forms, ((made("sha2", name, options=(256,)), True), None)).open({})
    digest = sha256(b"a").hexdigest().encode()
    assert keyed(b"k", b'{"name":"a"}', b"", 0) == (digest, b'{"name":"a"}', 0, 0)
    with pytest.raises(NeedsSparkError):  # Spark refuses it
        keyed(b"k", None, b"", 0)
