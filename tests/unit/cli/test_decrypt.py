"""`causeway decrypt` of files and standard input."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from causeway.cli.main import main

KEY = "000102030405060708090a0b0c0d0e0f"
# Made by `encrypt value.$.a with pii_key_2` at customers-0, offset 0, of {"a":"Ärger"}.
TEXT = "cw1:pii_key_2:AW/+Awn4Fll5urkoTzd0oq93H187p8Lo5zy99xp7DSsJC1qc2XHjKcVKt/HGUlGoDbVu+X8="
# And by `encrypt value with pii_key_2 id in field`.
WHOLE = (
    "cw1:pii_key_2:AQGZgB0JEBHiAoDteUUYtKawL7fN9e7oL2ezsujs0mZZ+dtbgU+7LCyF+oEzd9wwSQ+X0PrJo2fP+dU="
)


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PII_KEY", KEY)
    path = tmp_path / "keys.properties"
    path.write_text("pii_key_1 = AAECAwQFBgcICQoLDA0ODw==\npii_key_2 = ${env:PII_KEY}\n")
    return path


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["decrypt", *map(str, arguments)])
    code = caught.value.code
    assert isinstance(code, int)
    return code


def test_a_file(keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = tmp_path / "values.json"
    values.write_text(json.dumps({"b": [1, None], "a": TEXT}) + f"\n\n5\n{WHOLE}\n")
    assert run("--key-file", keys, "--input", values) == 0
    assert capsys.readouterr().out == '{"b":[1,null],"a":"Ärger"}\n5\n{"a":"Ärger"}\n'


def test_standard_input(
    keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"a": TEXT})))
    assert run("--key-file", keys) == 0
    assert json.loads(capsys.readouterr().out) == {"a": "Ärger"}


@pytest.mark.parametrize(
    ("line", "key", "cause"),
    [
        ({"a": TEXT}, KEY[:-1] + "0", "the key pii_key_2 does not fit, or the text was changed"),
        ({"b": TEXT}, KEY, "value.$.b of line 1"),
        ({"a": TEXT.replace("key_2", "key_3")}, KEY, "no key pii_key_3 is given"),
        ({"a": TEXT[:-4]}, KEY, "value.$.a of line 1"),
    ],
)
def test_what_cannot_be_read_ends_with_7(
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: dict[str, str],
    key: str,
    cause: str,
) -> None:
    monkeypatch.setenv("PII_KEY", key)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(line)))
    assert run("--key-file", keys) == 7
    out, err = capsys.readouterr()
    assert out == ""
    assert cause in err
    assert key not in err


def test_keys_that_are_none(
    keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PII_KEY", KEY[:-2])
    assert run("--key-file", keys) == 2
    err = capsys.readouterr().err
    assert "pii_key_2: it has 15 bytes" in err
    assert KEY[:-2] not in err
    assert run() == 2
    assert "there is no key" in capsys.readouterr().err
    assert run("--key-file", keys, "--input", "/nowhere/values") == 2
    monkeypatch.delenv("PII_KEY")
    assert run("--key-file", keys) == 2


FILE = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
A->B.causeway.transforms = pii
A->B.causeway.transform.pii.topics = customers
A->B.causeway.transform.pii.value.format = json
A->B.causeway.transform.pii.secret.pii_key_2 = ${env:PII_KEY}
A->B.causeway.transform.pii.secret.pepper = no key of AES, but of a hash
A->B.causeway.transform.pii.rules = encrypt value.$.a with pii_key_2
"""


@dataclass
class Record:
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    key: bytes | None = b"k"
    offset: int = 7
    timestamp: int = 1


def test_a_topic_with_the_keys_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PII_KEY", KEY)
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    box = TEXT.rpartition(":")[2]
    records = [
        Record(json.dumps({"a": TEXT}).encode(), [("h", b"\xff"), ("n", None)]),
        Record(json.dumps({"a": box}).encode(), [("causeway-encrypted", b"pii_key_2 value.$.*")]),
        Record(
            base64.b64decode(WHOLE.rpartition(":")[2]),
            [("causeway-encrypted", b"pii_key_2 value")],
        ),
        Record(None),
    ]
    asked = []

    def read(client: Any, topic: str) -> Any:
        asked.append((client.alias, topic))
        return ((2, record) for record in records)

    monkeypatch.setattr("causeway.cli.decrypt._records", read)
    assert run(file, "--cluster", "B", "--topic", "A.customers") == 0
    assert asked == [("B", "A.customers")]
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["value"] for one in found] == [{"a": "Ärger"}] * 3 + [None]
    assert found[0]["headers"] == [["h", {"base64": "/w=="}], ["n", None]]
    assert (found[0]["partition"], found[0]["offset"], found[0]["key"]) == (2, 7, "k")

    records[:] = [Record(json.dumps({"b": TEXT}).encode())]
    assert run(file, "--cluster", "B", "--topic", "A.customers") == 7
    assert "value.$.b of A.customers-2 at offset 7" in capsys.readouterr().err
    assert run(file, "--cluster", "C", "--topic", "A.customers") == 2
    assert run(file, "--topic", "A.customers") == 2
