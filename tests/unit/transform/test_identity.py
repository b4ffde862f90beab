"""What begins a new claim, and what does not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from causeway.config.settings import RegistrySettings, Secret, TransformSettings
from causeway.errors import ConfigError
from causeway.filters import compile_patterns
from causeway.transform import rules
from causeway.transform.identity import identity

TRANSFORM = TransformSettings(
    name="pii",
    topics=compile_patterns("customers"),
    sql="SELECT sha2(concat(key, secrets.SALT), 256) AS key FROM records",
    value_format="json",
    secrets={"SALT": Secret("pepper")},
    place="A->B.causeway.transform.pii.sql (line 7)",
)


@pytest.mark.parametrize(
    "change",
    [
        {"sql": "SELECT key FROM records"},
        {"sql": None, "rules": "drop value.$.email"},
        {"key_format": "string"},
        {"value_format": "string"},
        {"key_schema": "a int"},
        {"value_schema": "a int"},
        {"secrets": {"SALT": Secret("salt")}},
        {"secrets": {"SALZ": Secret("pepper")}},
        {"registry": RegistrySettings(url="http://registry")},
    ],
)
def test_what_decides_what_comes_out_changes_it(change: dict[str, object]) -> None:
    assert identity(replace(TRANSFORM, **change), {}) != identity(TRANSFORM, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"topics": compile_patterns("orders")},
        {"dead_letters": "dead"},
        {"lanes": 4},
        {"place": "elsewhere"},
    ],
)
def test_what_does_not_decide_it_changes_nothing(change: dict[str, object]) -> None:
    assert identity(replace(TRANSFORM, **change), {}) == identity(TRANSFORM, {})  # type: ignore[arg-type]


def test_rules_that_become_another_query_are_another_transform(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ruled = replace(TRANSFORM, sql=None, rules="drop value.$.email")
    before = identity(ruled, {})
    monkeypatch.setattr(rules, "to_sql", lambda _: "SELECT 1")
    assert identity(ruled, {}) != before


def test_sql_settings_count_others_and_those_that_are_overruled_do_not() -> None:
    plain = identity(TRANSFORM, {})
    assert identity(TRANSFORM, {"spark.master": "local[1]"}) == plain
    assert identity(TRANSFORM, {"spark.sql.session.timeZone": "Asia/Tokyo"}) == plain
    assert identity(TRANSFORM, {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}) == plain
    assert identity(TRANSFORM, {"spark.sql.json.enablePartialResults": "false"}) != plain


def test_it_is_the_same_in_another_process() -> None:
    """Sets, dictionaries and hashes of strings differ from process to process."""
    code = (
        "from tests.unit.transform.test_identity import TRANSFORM, identity;"
        "print(identity(TRANSFORM, {}))"
    )
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root), str(root / "src")])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == identity(TRANSFORM, {})


def test_the_code_of_a_function_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "my_transform.py"
    module.write_text("def f(records):\n    return records\n")
    python = replace(TRANSFORM, sql=None, python="my_transform:f")
    before = identity(python, {})
    assert identity(python, {}) == before
    module.write_text("def f(records):\n    return records.select('key')\n")
    assert identity(python, {}) != before


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"line 7.*there is no module not_there_at_all"):
        identity(replace(TRANSFORM, sql=None, python="not_there_at_all:f"), {})
