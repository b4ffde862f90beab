"""Patterns mean what they mean in Java: java.util.regex itself is asked.

Java 17's tables of Unicode are some years behind, so only characters are compared that have stood
there since. `\\b` is left out: beside other letters than ASCII's, Java 17 and Java 19 disagree.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from causeway.errors import ConfigError
from causeway.java import find_java
from causeway.patterns import compile_pattern

pytestmark = pytest.mark.integration

CLASSES = r"""
\p{L} \pL \PL \p{Lu} \p{Ll} \p{Lt} \p{Nd} \p{N} \p{P} \p{S} \p{Z} \p{M} \p{C} \p{LC} \p{LD} \p{L1}
\p{all} \p{gc=Lu} \p{general_category=Sc} \p{IsAlphabetic} \P{IsAlphabetic} \p{IsLetter} \p{IsDigit}
\p{IsLowercase} \p{IsUppercase} \p{IsTitlecase} \p{IsIdeographic} \p{IsWhite_Space} \p{IsAssigned}
\p{IsPunctuation} \p{IsHex_Digit} \p{IsAlpha} \p{IsPunct} \p{IsSpace} \p{IsLower} \p{IsLatin}
\p{IsGreek} \p{IsHan} \p{IsHiragana} \p{script=Cyrillic} \p{sc=Thai} \p{InGreek} \p{InBasic_Latin}
\p{block=Cyrillic} \p{Alpha} \p{Lower} \p{Upper} \p{Punct} \p{Graph} \p{Print} \p{Blank} \p{Cntrl}
\p{XDigit} \p{Space} \p{ASCII} \p{Alnum} \p{javaLowerCase} \p{javaUpperCase} \p{javaLetter}
\p{javaLetterOrDigit} \p{javaDigit} \p{javaSpaceChar} \p{javaISOControl} \p{javaMirrored}
\w \W \d \D \s \S \h \H \v \V \R . (?s). (?d). [^a] [^\n] (?U)\w (?U)\W (?U)\d (?U)\s (?U)\p{Alpha}
(?U)\p{Lower} (?U)\p{Punct} (?U)\p{Graph} (?U)\p{Print} (?U)\p{Blank} (?U)\p{Space} (?U)\p{XDigit}
(?i)\p{Lower} (?i)\p{Lu} (?i)\p{IsUppercase} (?i)\p{javaTitleCase} (?i)\p{Alpha} (?i)k (?iu)k
(?iu)[k] (?iu)[a-z] (?i)[a-z] (?i)[K-\u017f] (?iu)[à-ö] (?iu)[^à-ö] (?i)ü (?iu)ü (?iu)σ (?iu)ς
(?iu)Ω (?iu)i (?iu)ı (?iu)İ (?iu)s (?iu)ǅ (?iu)[ǅ] (?iu)µ (?iu)ÿ (?iu)å (?U)ü (?Ui)ü (?Ui-u)ü
[\p{L}&&[^a-z]] [\w&&[^\d]] [a-c[x-z]] [^a-c[x-z]] [^a&&b] [a-z&&b-d[x]] [[a-c]&&[b-d]e] []a]
[^]a] [a-] [-a] [a&b] [!-&&a] [a-[b]] [\d-z] [\Qa-\E] [^\P{L}] [\x41-\x{43}] [é-ü] \x{1F600}
[😀-😂] \cA \0101
"""
NAMES = (
    *map(chr, range(0x180)),
    *"ΩωςσͅΆαЖжя\u05d0\u0661\u0967\u0e01\u1e9e\u1f80\u2126\u212a\u212bǅǆ東あア한\u2160\u2028\u2029\u3000\ufeff",
    *"\u0300\u20dd\u200b\u200d\u2003\u180e\u202f\ue000\uffff€∑⟨‿😀😁😂𐐀𐐨𝟘",
)
# What never stood in both tables in the same place.
NAMES = tuple(name for name in NAMES if name not in "\u0295ß")

ATOMS = r"""
a b - _ . ^ $ K é ß İ k 東 😀 \. \w \W \d \s \S \p{L} \P{Lu} \p{IsAlphabetic} \R \h \v \z \Z \A
[a-c] [^a] [é-ü] [a-z&&[^b]] [^\d] [[a][b]] \Qa.b\E \x41 \n \r (?i) (?iu) (?s) (?m) (?d) (?U) (?-i)
"""
OPENINGS = ("(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?iu:", "(?s:")
LETTERS = (*"aAbB-_.kK1éÉ東😀Kİıi", "\n", "\r", "\x85", "\u2028")


@pytest.fixture(scope="module")
def java_regex() -> Iterator[Any]:
    port, token = launch_gateway(
        java_path=str(find_java()), javaopts=["-Xmx64m"], die_on_exit=True, enable_auth=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    yield gateway.jvm.java.util.regex.Pattern
    gateway.shutdown()


@pytest.mark.parametrize("pattern", CLASSES.split())
def test_a_class_holds_the_characters_that_it_holds_in_java(java_regex: Any, pattern: str) -> None:
    ours, theirs = compile_pattern(pattern)[0], java_regex.compile(pattern)
    wrong = [name for name in NAMES if ours.matches(name) is not theirs.matcher(name).matches()]
    assert wrong == []


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (r"\p{L}+-app", ["büro-app", "東京-app", "app-app", "-app"]),
        (r"(?iu)BÜRO-.*", ["büro-app", "BÜRO-", "buro-app"]),
        ("(?i)BÜRO-.*", ["büro-app", "bÜro-app"]),
        (".*", ["a\rb", "a\nb", "a\x85b", "a\u2028b", "ab\r", "a\tb", ""]),
        ("a.*z$", ["abz", "abz\n", "abz\r\n"]),
        (r"([a-z0-9]+-?)+", ["a" * 26 + "_", "a-b-c", "a--b"]),
        (r"^(?!.*-(test|dev)$)[\w.-]+$", ["orders", "orders-test", "orders-dev", "orders-devs"]),
        (r"(?<env>prod|test)\.\k<env>\..*", ["prod.prod.x", "prod.test.x"]),
    ],
)
def test_names_that_people_have(java_regex: Any, pattern: str, names: list[str]) -> None:
    ours = compile_pattern(pattern)[0]
    assert [ours.matches(name) for name in names] == [
        java_regex.matches(pattern, name) for name in names
    ]


def test_random_patterns_match_what_they_match_in_java(java_regex: Any) -> None:
    """Patterns that no person writes: flags that change midway, anchors in odd places, groups
    within groups. What we refuse must be refused by Java, or be one of the few limits."""
    rng = random.Random(20)
    compared, refusals = 0, set()
    for _ in range(400):
        pattern = _pattern(rng, depth=2)
        try:
            theirs = java_regex.compile(pattern)
        except (Py4JJavaError, AssertionError):  # the latter once PySpark was used before
            continue
        try:
            ours = compile_pattern(pattern)[0]
        except ConfigError as error:
            refusals.add(error.cause)
            continue
        for _ in range(10):
            name = "".join(rng.choices(LETTERS, k=rng.randint(0, 5)))
            answer = ours.matches(name)
            assert answer is theirs.matcher(name).matches(), (pattern, name)
            compared += 1
    assert compared > 2500
    assert {text.partition(" (")[0] for text in refusals} <= {
        "there is nothing to repeat before '{'; '.*' matches any name"
    }


def _pattern(rng: random.Random, depth: int) -> str:
    text = ""
    for _ in range(rng.randint(1, 4)):
        if depth and rng.random() < 0.3:
            text += rng.choice(OPENINGS) + _pattern(rng, depth - 1) + ")"
        else:
            text += rng.choice(ATOMS.split())
        if rng.random() < 0.3:
            text += rng.choice(("*", "+", "?", "{2}", "*?", "++", "?+"))
        if rng.random() < 0.12:
            text += "|"
    return text
