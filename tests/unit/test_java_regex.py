"""Translation of Java patterns. The expected answers are those of java.util.regex (17)."""

from __future__ import annotations

import re

import pytest

from causeway.errors import ConfigError
from causeway.java_regex import translate


def matches(pattern: str, name: str) -> bool:
    return re.compile(translate(pattern)[0], re.ASCII).fullmatch(name) is not None


@pytest.mark.parametrize(
    "pattern",
    [
        ".*",
        r".*[\-\.]internal",
        r"orders-\d{2}",
        r"foo\.(?!bar).*",
        "a|b|(c|d)+?",
        r"[\w.-]+",
        "x*+y++z?+",
        "(?>a+)b",
        "(?:eu|us)-.*",
        r"(a)\.b",
    ],
)
def test_what_means_the_same_stays_as_it_is(pattern: str) -> None:
    assert translate(pattern)[0] == pattern


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"\Qa.b\E.*", ["a.b", "a.bc"], ["axb"]),
        (r"\Qa.b", ["a.b"], ["aab"]),
        ("(?i)foo.*", ["FOO1", "foo"], ["bar"]),
        ("a(?i)b|c", ["aB", "C", "c"], ["Ab"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("((?i)a)b", ["Ab"], ["AB"]),
        ("(?i)a(?-i)b", ["Ab"], ["aB"]),
        ("(?u)a", ["a"], ["A"]),
        ("(?<n>ab?)-\\k<n>", ["a-a", "ab-ab"], ["a-ab"]),
        (r"\p{Alpha}+", ["aB"], ["a1"]),
        (r"\P{Alpha}+", ["1-2"], ["a"]),
        (r"\p{L}\pN", ["a1"], ["aa"]),
        (r"\p{IsAlphabetic}[\p{Digit}_]", ["a1", "a_"], ["11"]),
        (r"[\p{Punct}]", [".", "-", "_"], ["a"]),
        ("[a-z&&[^bc]]+", ["ade"], ["ab"]),
        ("[a-z&&[^m-p]]", ["a", "z"], ["n"]),
        ("[a-c[x-z]]+", ["abz"], ["m"]),
        ("[^a-c[x-z]]", ["m"], ["a", "x"]),
        (r"[\w&&[^\d]]+", ["a_b"], ["a1"]),
        ("(?i)[a-z&&[^B]]", ["A", "c"], ["b", "B"]),
        (r"[^\D]", ["1"], ["a"]),
        (r"[\Qa-\E]", ["a", "-"], ["b"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a||b]", ["a", "|"], ["c"]),
        (r"\x41\u0062\x{63}\0144", ["Abcd"], ["abcd"]),
        (r"a\z", ["a"], ["b"]),
        ("[^\\W-:]", ["a"], ["-", ":"]),
        (".*(?<!-changelog|-repartition)", ["orders"], ["x-changelog", "x-repartition"]),
        (".*(?<=-eu|-us)", ["a-eu", "a-us"], ["a-asia"]),
    ],
)
def test_translated(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [name for name in yes if not matches(pattern, name)] == []
    assert [name for name in no if matches(pattern, name)] == []


@pytest.mark.parametrize(
    ("pattern", "cause"),
    [
        ("*", "nothing stands before"),
        ("a|*", "nothing stands before"),
        ("*.log", r"'\.\*' matches any name"),
        ("a{1", "no repetition"),
        ("a{x}", "no repetition"),
        ("(a", r"'\(' is not closed"),
        ("a)", "never opened"),
        ("[a", r"'\[' is not closed"),
        ("[b-a&&x]", "runs backwards"),
        (r"\p{IsGreek}", r"\\p\{IsGreek\} is not supported"),
        (r"a\y", "not known"),
        ("a\\", "backslash"),
        ("(?x)a b", r"\(\?x\) is not supported"),
        ("(?#c)", "not known"),
        ("[a&&]", "&& needs"),
        ("[é&&[a-z]]", "non-ASCII"),
        (r"\k<", r"\\k needs a name"),
    ],
)
def test_what_java_refuses_or_cannot_be_translated_is_refused(pattern: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        translate(pattern)
