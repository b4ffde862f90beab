from __future__ import annotations

from pathlib import Path

import pytest

from causeway.config import Problems
from causeway.errors import ConfigError
from causeway.formats import load_properties


def load(tmp_path: Path, text: str, **environment: str) -> dict[str, str]:
    path = tmp_path / "x.properties"
    path.write_bytes(text.encode("latin-1"))
    file = load_properties(path, problems := Problems(str(path)), environment)
    problems.raise_if_any()
    return {name: entry.value for name, entry in file.entries.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("  a = b ", {"a": "b "}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("# x\n! y\na=1", {"a": "1"}),
        ("a\\:b=c", {"a:b": "c"}),
        ("a=\\u00e9\\t\\\\.", {"a": "é\t\\."}),
        ("a=é", {"a": "é"}),
        ("a", {"a": ""}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("a=1\na=2", {"a": "2"}),
        ("A->B.x = 1", {"A->B.x": "1"}),
        ("A->B.topics = x\\\\.y", {"A->B.topics": "x\\.y"}),
    ],
)
def test_syntax(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    assert load(tmp_path, text) == expected


def test_lines_are_those_of_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_text("# comment\na=1\\\n  2\n\nb=3\na=4\n")
    file = load_properties(path, Problems(""))
    assert {name: entry.line for name, entry in file.entries.items()} == {"b": 5, "a": 6}
    assert [entry.line for entry in file.repeated] == [2]


def test_environment(tmp_path: Path) -> None:
    text = "a=${env:USER_NAME}\nb=x${PW}y${env:USER_NAME}"
    assert load(tmp_path, text, USER_NAME="ann", PW="1") == {"a": "ann", "b": "x1yann"}


def test_file_and_directory(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("pw = secret\n")
    (tmp_path / "token").write_text("t")
    text = f"a=${{file:{tmp_path}/s.properties:pw}}\nb=${{dir:{tmp_path}:token}}"
    assert load(tmp_path, text) == {"a": "secret", "b": "t"}


def test_declared_providers(tmp_path: Path) -> None:
    package = "org.apache.kafka.common.config.provider."
    text = (
        "config.providers = e, f\n"
        f"config.providers.e.class = {package}EnvVarConfigProvider\n"
        f"config.providers.f.class = {package}FileConfigProvider\n"
        "a=${e:X}\n"
    )
    assert load(tmp_path, text, X="1")["a"] == "1"


def test_what_came_from_outside_is_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_text("a=${X}\nb=plain\nsasl.jaas.config=word\n")
    entries = load_properties(path, Problems(""), {"X": "hunter2"}).entries
    assert "hunter2" not in repr(entries)
    assert [entries[name].shown for name in ("a", "b", "sasl.jaas.config")] == [
        "(hidden)",
        "'plain'",
        "(hidden)",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=${env:NOPE}", r"a \(line 1\): the environment variable NOPE is not set"),
        ("x=1\na=${NOPE}", r"a \(line 2\): the environment variable NOPE is not set"),
        ("a=${file:/no/such:k}", r"a \(line 1\): /no/such: there is no such file"),
        ("a=${file:FILE:k}", r"a \(line 1\): .*x\.properties has no key k"),
        ("a=${dir:/no:../x}", r"\.\./x is not the name of a file"),
        ("a=${dir:/no:x}", r"/no/x: No such file"),
        ("a=${vault:x}", "no config provider called vault"),
        ("config.providers=v", r"config\.providers\.v\.class is missing"),
        (
            "config.providers=v\nconfig.providers.v.class=com.x.Vault\na=${v:x}",
            r"com\.x\.Vault is not supported",
        ),
        ("a=\\u00g", "invalid escape"),
        ("# nothing", "the file sets no property"),
        ("", "the file sets no property"),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        load(tmp_path, text.replace("FILE", str(tmp_path / "x.properties")))
    assert "\n" not in str(raised.value)
    assert "x.properties" in str(raised.value)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_properties(tmp_path / "nope", Problems(""))
    with pytest.raises(ConfigError, match="is a directory"):
        load_properties(tmp_path, Problems(""))


def test_all_missing_values_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, "a=${X}\nb=${Y}")
    assert "2 problems" in str(raised.value)
    assert "variable X" in str(raised.value)
    assert "variable Y" in str(raised.value)


def test_a_line_end_after_a_value_from_outside_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("hunter2\n")
    (tmp_path / "key.pem").write_text("-----BEGIN X-----\nabc\n-----END X-----\n")
    (tmp_path / "secrets").write_text("word = hunter2\\r\\n\n")
    text = (
        f'a="${{dir:{tmp_path}:word}}"\n'
        "b=${env:X}\n"
        "c=${X}\n"
        f"d=${{file:{tmp_path}/secrets:word}}\n"
        f"e=${{dir:{tmp_path}:key.pem}}\n"
    )
    assert load(tmp_path, text, X="hunter2\n") == {
        "a": '"hunter2"',
        "b": "hunter2",
        "c": "hunter2",
        "d": "hunter2",
        "e": "-----BEGIN X-----\nabc\n-----END X-----",
    }
