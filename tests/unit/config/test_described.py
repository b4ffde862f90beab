"""Settings in force, as another process sees them: complete, and without secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from causeway.config import (
    SALT_BYTES,
    DescribedSetting,
    Settings,
    changed_rows,
    described,
    digests,
    equal,
    restored,
    rows_of,
)
from causeway.formats import load

SALT = b"s" * SALT_BYTES
TEXT = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="ann" password="{password}";
causeway.http.token = {token}
"""


def settings(directory: Path, password: str = "hunter22", token: str = "t" * 16) -> Settings:
    path = directory / "mm2.properties"
    path.write_text(TEXT.format(password=password, token=token))
    return load(path)


def changed(running: Settings, wanted: Settings) -> list[tuple[str, str | None, str | None]]:
    """As two processes compare: JSON goes one way, digests the other way."""
    here, there = rows_of(wanted), rows_of(running)
    sent = msgspec.json.encode(described(there))
    assert b"hunter" not in sent
    assert b"tttt" not in sent
    same = equal(there, SALT, digests(here, SALT))
    known = restored(msgspec.json.decode(sent, type=list[DescribedSetting]), same, here)
    return [(each.place, each.before, each.after) for each in changed_rows(known, here)]


def test_equal_settings_are_equal(tmp_path: Path) -> None:
    assert changed(settings(tmp_path), settings(tmp_path)) == []


def test_one_secret_differs(tmp_path: Path) -> None:
    found = changed(settings(tmp_path), settings(tmp_path, password="hunter23"))
    assert found == [("A.sasl.jaas.config", "(hidden)", "(changed)")]
    found = changed(settings(tmp_path), settings(tmp_path, token="u" * 16))
    assert found == [("causeway.http.token", "(hidden)", "(changed)")]


def test_a_secret_that_is_only_on_one_side(tmp_path: Path) -> None:
    whole = settings(tmp_path)
    without = replace(whole, run=replace(whole.run, http=replace(whole.run.http, token=None)))
    assert changed(whole, without) == [("causeway.http.token", "(hidden)", None)]
    assert changed(without, whole) == [("causeway.http.token", None, "(hidden)")]


def test_digests_depend_on_the_salt_and_have_no_secret(tmp_path: Path) -> None:
    rows = rows_of(settings(tmp_path))
    one, other = digests(rows, SALT), digests(rows, b"x" * SALT_BYTES)
    assert one.keys() == other.keys()
    assert not set(one.values()) & set(other.values())
    assert equal(rows, b"x" * SALT_BYTES, one) == []


@pytest.mark.parametrize("theirs", [{}, {"process causeway.http.token": "ü"}])
def test_digests_that_fit_nothing(tmp_path: Path, theirs: dict[str, str]) -> None:
    assert equal(rows_of(settings(tmp_path)), SALT, theirs) == []
