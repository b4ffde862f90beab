"""Translation of Java patterns. The expected answers are those of java.util.regex (17)."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.errors import ConfigError
from causeway.patterns import _backtrack, compile_pattern


def matches(pattern: str, name: str) -> bool | None:
    return compile_pattern(pattern)[0].matches(name)


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
        (r"\p{Alpha}+", ["aB"], ["a1", "ü"]),
        (r"\p{L}+(-app)?", ["büro-app", "東京", "заказы"], ["a1", "٣"]),
        (r"\p{IsAlphabetic}+", ["büro", "東京", "हिन्दी".replace("\u094d", "")], ["a-b"]),
        (r"\w+", ["a_1"], ["ü"]),
        (r"(?U)\w+", ["a_1", "ü"], ["-"]),
        ("(?i)BÜRO", ["bÜro"], ["büro"]),
        ("(?iu)BÜRO", ["büro", "BüRO"], ["buro"]),
        ("(?iu)[à-ö]k", ["ÀK", "àk", "à\u212a"], ["ek"]),
        (r"\p{IsGreek}+|\p{InCyrillic}", ["λόγος", "я"], ["l", "яя"]),
        ("a.b", ["a\tb", "a😀b", "a\x0bb"], ["a\rb", "a\nb", "a\x85b", "a\u2028b", "a\u2029b"]),
        ("(?s)a.b", ["a\rb", "a\nb"], ["ab"]),
        ("(?d)a.b", ["a\rb", "a\x85b"], ["a\nb"]),
        ("^(a|b)$", ["a", "b"], ["a\n", "ab"]),
        ("^a$|^b$", ["a", "b"], ["a\n"]),
        ("(?!a$).*", ["ab", "b"], ["a"]),
        (r"a$(\r\n)?", ["a", "a\r\n"], ["a\n"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\10\11", ["abcdefghijja1"], ["abcdefghijjk"]),
        ("(?i)(a)\\1", ["aA"], ["ab"]),
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
        ("*", "there is nothing to repeat before"),
        ("a|*", "there is nothing to repeat before"),
        ("*.log", r"'\.\*' matches any name"),
        ("a{1", "no repetition"),
        ("a{x}", "no repetition"),
        ("(a", r"'\(' is not closed"),
        ("a)", "never opened"),
        ("[a", r"'\[' is not closed"),
        ("[b-a&&x]", "runs backwards"),
        (r"\p{IsGeek}", r"\\p\{IsGeek\} is not known"),
        (r"\p{Alphabetic}", r"\\p\{Alphabetic\} is not known"),
        (r"(?U)a\b", r"\\b under \(\?U\) is not supported"),
        (r"a\b{g}", "not supported"),
        (r"(?iu)(a)\1", r"back-reference under \(\?iu\)"),
        (r"(a)\2", "no group 2"),
        (r"(?<n>a)(?<n>b)", "two groups named n"),
        ("a**", "there is nothing to repeat before"),
        ("(?i)*", "there is nothing to repeat before"),
        (r"a\y", "not known"),
        ("a\\", "backslash"),
        ("(?x)a b", r"\(\?x\) is not supported"),
        ("(?#c)", "not known"),
        ("[a&&]", "&& needs"),
        (r"\k<", r"\\k needs the name"),
    ],
)
def test_what_java_refuses_or_cannot_be_translated_is_refused(pattern: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        compile_pattern(pattern)


def test_the_time_of_a_match_is_bounded_for_every_name() -> None:
    """Java matches the first in no time too; Python's own engine takes years."""
    started = time.perf_counter()
    assert matches("([a-z0-9]+-?)+", "a" * 248 + "_") is False
    assert matches(r"(\p{L}|ü)*", "ü" * 248 + "_") is False
    assert time.perf_counter() - started < 10
    wicked = compile_pattern(r"(?!x)(a|aa)+\.")[0]
    assert wicked.matches("aaa.") is True
    assert wicked.matches("a" * 248) is None
    assert wicked.matches("a" * 248) is None  # as it was found before
    kept = _backtrack.cache_info().currsize
    assert matches("[a-z]+", "never-asked-before") is False
    assert _backtrack.cache_info().currsize == kept, "a name that costs nothing takes no memory"
    assert time.perf_counter() - started < 10


def test_other_threads_run_while_a_match_is_sought() -> None:
    ticks = 0
    wicked = compile_pattern(r"(?!y)(a|aa)+\.")[0]
    searching = threading.Thread(target=lambda: wicked.matches("a" * 248))
    searching.start()
    while searching.is_alive():
        time.sleep(0.001)
        ticks += 1
    assert ticks > 10


def test_what_is_too_large_for_one_engine_is_matched_by_the_other() -> None:
    assert matches("(?:a{900}){3}", "a" * 2700) is True
    assert matches("a{2000}", "a" * 1999) is False


ATOMS = (
    "a",
    "(a|ab)",
    "(a*)",
    "(ab|a)(b*)",
    "(.*)",
    "(.*?)",
    "(b|c)?",
    "(?:a|(b))*",
    "(|a)",
    "[bc]",
)


@given(
    atoms=st.lists(st.sampled_from(ATOMS), min_size=1, max_size=5),
    name=st.text("abc", max_size=20),
)
def test_groups_hold_the_first_way_that_matches(atoms: list[str], name: str) -> None:
    """As Java's and any backtracking engine's do."""
    pattern = compile_pattern("".join(atoms))[0]
    assert pattern.linear
    assert pattern.capture(name) == replace(pattern, linear=False).capture(name)
