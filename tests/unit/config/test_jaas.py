from __future__ import annotations

import pytest

from causeway.config.reading import parse_jaas
from causeway.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (f"{PLAIN} required username='a' password=b ;", {"username": "a", "password": "b"}),
        (f'{PLAIN} required\n  username="a"\n  password="x;y=z";', {"password": "x;y=z"}),
        (f'{PLAIN} required password="a\\"b\\\\c";', {"password": 'a"b\\c'}),
        (f'{PLAIN} REQUIRED password="a b // c /* d */";', {"password": "a b // c /* d */"}),
        (f'{PLAIN} required /* no */ password="a"; // end', {"password": "a"}),
        (f'{PLAIN} required password="\\101\\t";', {"password": "A\t"}),
        (f"{PLAIN} required username = 12345;", {"username": "12345"}),
        (f"{PLAIN} required password=\"one\ntwo\" username='\n';", {"password": "one\ntwo"}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_parsed(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert module.name == "PlainLoginModule"
    assert {**module.options, **options} == module.options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs a login module"),
        (PLAIN, "needs a login module"),
        (f'{PLAIN} username="hunter2";', "one of required"),
        (f'{PLAIN} required username="hunter2"', "must end with ';'"),
        (f'{PLAIN} required username "hunter2";', "option username is not written"),
        (f"{PLAIN} required username=;", "username has no value"),
        (f'{PLAIN} required username="hunter2;', "not closed"),
        (f'{PLAIN} required password="hunter2"hunter2";', "not closed|written name"),
        (f'{PLAIN} required a="b"; {PLAIN} required a="b";', "only one login module"),
    ],
)
def test_refusals_say_nothing_secret(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        parse_jaas(text)
    assert "hunter2" not in str(raised.value)


def test_options_are_not_in_the_repr() -> None:
    assert "hunter2" not in repr(parse_jaas(f'{PLAIN} required password="hunter2";'))
