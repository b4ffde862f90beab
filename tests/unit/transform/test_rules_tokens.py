"""Tokens: the published answers of FF1, and what must hold for every text."""

from __future__ import annotations

import json

import pytest
from fastfpe import ff1
from hypothesis import assume, given
from hypothesis import strategies as st

from causeway.transform import aes_key
from causeway.transform.rules.parse import ALPHABETS
from causeway.transform.rules.treat import (
    min_length,
    token_json,
    tokenise,
    tokenise_number,
    tokens_json,
)

KEY = "2b7e151628aed2a6abf7158809cf4f3c"
DIGITS = ALPHABETS["digits"]


@pytest.mark.parametrize(
    ("key", "alphabet", "text", "token"),
    [  # NIST's examples for FF1 without a tweak
        (KEY, DIGITS, "0123456789", "2433477484"),
        ("2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f", DIGITS, "0123456789", "2830668132"),
        (
            "2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f7f036d6f04fc6a94",
            DIGITS,
            "0123456789",
            "6657667009",
        ),
    ],
)
def test_published_answers(key: str, alphabet: str, text: str, token: str) -> None:
    assert tokenise(text, alphabet, key) == token


@given(st.text(alphabet="0123456789 -+/ü🎉", max_size=40))
def test_a_token_has_the_form_of_its_text_and_leads_back(text: str) -> None:
    token = tokenise(text, DIGITS, KEY)
    digits = [at for at, char in enumerate(text) if char in DIGITS]
    if len(digits) < 6:
        assert token is None
        return
    assert token is not None
    assert len(token) == len(text)
    for at, char in enumerate(text):
        assert (token[at] in DIGITS) if at in digits else (token[at] == char)
    back = ff1.decrypt(aes_key(KEY).hex(), "", DIGITS, "".join(token[at] for at in digits))
    assert back == "".join(text[at] for at in digits)
    assert tokenise(text, DIGITS, KEY) == token


@given(st.integers(10**5, 10**18 - 1), st.integers(10**5, 10**18 - 1), st.sampled_from([1, -1]))
def test_numbers_stay_numbers_of_as_many_digits_each_its_own(one: int, two: int, sign: int) -> None:
    assume(one != two)
    first, second = tokenise_number(sign * one, KEY), tokenise_number(sign * two, KEY)
    assert first is not None
    assert first != second
    assert str(int(first)) == first
    assert len(first) == len(str(sign * one))


def test_no_two_numbers_of_six_digits_share_a_token() -> None:
    tokens = {tokenise_number(number, KEY) for number in range(100_000, 103_000)}
    assert len(tokens) == 3000
    assert None not in tokens


@pytest.mark.parametrize("name", list(ALPHABETS))
def test_a_text_of_the_least_length_has_a_token(name: str) -> None:
    alphabet = ALPHABETS[name]
    least = min_length(len(alphabet))
    assert len(alphabet) ** least >= 1_000_000
    token = tokenise(alphabet[:least], alphabet, KEY)
    assert token is not None
    assert set(token) <= set(alphabet)
    assert tokenise(alphabet[: least - 1], alphabet, KEY) is None


@pytest.mark.parametrize("text", ["null", "true", "1.5", '"12345"', "12345", "{}", '["123456"]'])
def test_what_has_no_token(text: str) -> None:
    assert token_json(text, DIGITS, KEY) is None
    assert tokens_json([text], DIGITS, KEY) == {text: None}


def test_tokens_of_json_are_json() -> None:
    assert json.loads(token_json('"ä 123456"', DIGITS, KEY) or "").startswith("ä ")
    assert isinstance(json.loads(token_json("123456", DIGITS, KEY) or ""), int)
    assert token_json(None, DIGITS, KEY) is None
    assert tokens_json(None, DIGITS, KEY) is None
