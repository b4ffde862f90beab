"""What begins a new claim, and what does not."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from causeway.config import RegistrySettings, Secret, TransformSettings
from causeway.control import Transforms
from causeway.errors import ConfigError, NeedsRestartError
from causeway.filters import compile_patterns
from causeway.transform import identity as identities
from causeway.transform import identity_of, rules
from tests.builders.settings import LINK

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
    assert identity_of(replace(TRANSFORM, **change), {}) != identity_of(TRANSFORM, {})  # type: ignore[arg-type]


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
    assert identity_of(replace(TRANSFORM, **change), {}) == identity_of(TRANSFORM, {})  # type: ignore[arg-type]


def test_rules_that_become_another_query_are_another_transform(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ruled = replace(TRANSFORM, sql=None, rules="drop value.$.email")
    before = identity_of(ruled, {})
    monkeypatch.setattr(rules, "to_sql", lambda _: "SELECT 1")
    assert identity_of(ruled, {}) != before


def test_sql_settings_count_others_and_those_that_are_overruled_do_not() -> None:
    plain = identity_of(TRANSFORM, {})
    assert identity_of(TRANSFORM, {"spark.master": "local[1]"}) == plain
    assert identity_of(TRANSFORM, {"spark.sql.session.timeZone": "Asia/Tokyo"}) == plain
    assert identity_of(TRANSFORM, {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}) == plain
    assert identity_of(TRANSFORM, {"spark.sql.json.enablePartialResults": "false"}) != plain


def test_it_is_the_same_in_another_process() -> None:
    """Sets, dictionaries and hashes of strings differ from process to process."""
    code = (
        "from tests.unit.transform.test_identity import TRANSFORM, identity_of;"
        "print(identity_of(TRANSFORM, {}))"
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
    assert ran.stdout.strip() == identity_of(TRANSFORM, {})


def test_the_code_of_a_function_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "my_transform.py"
    module.write_text("def f(records):\n    return records\n")
    python = replace(TRANSFORM, sql=None, python="my_transform:f")
    before = identity_of(python, {})
    assert identity_of(python, {}) == before
    module.write_text("def f(records):\n    return records.select('key')\n")
    assert identity_of(python, {}) != before


@pytest.mark.parametrize("changed", ["imported_function", "imported_words"])
def test_a_module_that_has_changed_since_its_import_needs_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """The process would run the earlier one under the identity of the new one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    texts = {
        "imported_function": "import imported_words\ndef f(records): ...\n",
        "imported_words": "",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    python = replace(TRANSFORM, sql=None, python="imported_function:f")
    before = identity_of(python, {})
    importlib.import_module("imported_function")
    assert identity_of(python, {}) == before
    assert identity_of(replace(python, secrets={}), {}) != before
    (tmp_path / f"{changed}.py").write_text(texts[changed] + "A = 1\n")
    with pytest.raises(NeedsRestartError, match=f"line 7.* module {changed} has changed"):
        identity_of(python, {})
    (tmp_path / f"{changed}.py").write_text(texts[changed])
    assert identity_of(python, {}) == before


@pytest.mark.parametrize("change", ["changes", "goes", "is moved"])
@pytest.mark.parametrize("helper", ["late_tables", "far_tables"])
def test_a_helper_that_changes_after_the_import_of_its_function_needs_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helper: str, change: str
) -> None:
    """Python workers import one when the function runs, and this process never; another one is in
    another folder of PYTHONPATH, and no part of the identity."""
    monkeypatch.setattr(identities, "_seen", {})
    monkeypatch.setattr(identities, "_needed", {})
    near, far = tmp_path / "near", tmp_path / "far"
    places = {"late_tables": near, "far_tables": far}
    for name, folder in places.items():
        folder.mkdir()
        (folder / f"{name}.py").write_text("A = 1")
        monkeypatch.syspath_prepend(str(folder))
    for name in ("needing_function", "other_function"):
        (near / f"{name}.py").write_text(
            "import json, far_tables\ndef f(records):\n    import late_tables\n"
        )
        monkeypatch.delitem(sys.modules, name, raising=False)
    python, other = (
        replace(TRANSFORM, sql=None, python=f"{name}:f")
        for name in ("needing_function", "other_function")
    )
    before = identity_of(python, {})
    path = places[helper] / f"{helper}.py"
    path.write_text("A = 2")
    assert (identity_of(python, {}) == before) is (helper == "far_tables"), "nothing is in use yet"
    path.write_text("A = 1")
    assert identity_of(python, {}) == before
    importlib.import_module("needing_function")
    assert identity_of(python, {}) == before
    if change == "changes":
        path.write_text("A = 2")
    else:
        path.unlink()
    if change == "is moved":
        (path.parent / helper).mkdir()
        (path.parent / helper / "__init__.py").write_text("A = 2")
    for each in (other, python):  # the other function is new, and may not have its own version
        with pytest.raises(NeedsRestartError, match=f"line 7.* module {helper} has changed"):
            identity_of(each, {})


def test_all_changed_modules_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "naming_function.py").write_text("import naming_words, naming_numbers")
    helpers = [tmp_path / f"naming_{name}.py" for name in ("words", "numbers")]
    for each in helpers:
        each.write_text("")
    python = replace(TRANSFORM, sql=None, python="naming_function:f")
    identity_of(python, {})
    importlib.import_module("naming_function")
    for each in helpers:
        each.write_text("A = 1")
    with pytest.raises(NeedsRestartError, match=r"modules naming_\w+, naming_\w+ have changed"):
        identity_of(python, {})


BY_FUNCTION = replace(TRANSFORM, sql=None, python="mine.masks:f")
BY_RULES = replace(TRANSFORM, sql=None, rules="drop value.$.email")
BY_AVRO = replace(TRANSFORM, value_format="avro")
BY_PROTOBUF = replace(TRANSFORM, key_format="protobuf")


@pytest.mark.parametrize(
    ("library", "those_it_decides_for"),
    [
        ("fastavro", {"avro"}),
        ("protobuf", {"protobuf"}),
        ("pandas", {"function"}),
        ("pyarrow", {"function"}),
        ("grpcio-tools", set[str]()),
    ],
)
def test_a_library_decides_by_its_first_number_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, those_it_decides_for: set[str]
) -> None:
    write(tmp_path, monkeypatch, masks="def f(records): ...")
    transforms = {
        "sql": TRANSFORM,
        "rules": BY_RULES,
        "function": BY_FUNCTION,
        "avro": BY_AVRO,
        "protobuf": BY_PROTOBUF,
    }

    def with_version(number: str) -> dict[str, str]:
        monkeypatch.setattr(
            identities, "version", lambda name: number if name == library else "1.0"
        )
        return {name: identity_of(each, {}) for name, each in transforms.items()}

    before = with_version("6.1.9")
    assert with_version("6.2.0") == before
    after = with_version("7.0.0")
    assert {name for name in after if after[name] != before[name]} == those_it_decides_for


def test_a_missing_library_does_not_prevent_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "fastavro":
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(identities, "version", version)
    assert identity_of(BY_AVRO, {}) != identity_of(TRANSFORM, {})


def test_python_decides_for_functions_and_by_no_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, monkeypatch, masks="def f(records): ...")

    def with_python(*numbers: int) -> tuple[str, str]:
        found = SimpleNamespace(**dict(zip(("major", "minor", "micro"), numbers, strict=True)))
        monkeypatch.setattr(identities, "sys", SimpleNamespace(version_info=found, path=[]))
        return identity_of(BY_FUNCTION, {}), identity_of(TRANSFORM, {})

    function, query = with_python(3, 11, 2)
    assert with_python(3, 11, 9) == (function, query)
    assert with_python(3, 12, 0)[0] != function
    assert with_python(3, 12, 0)[1] == query


@pytest.mark.parametrize("transform", [TRANSFORM, BY_RULES], ids=["sql", "rules"])
def test_spark_and_java_decide_for_all(
    transform: TransformSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = identity_of(transform, {}, 17)
    assert identity_of(transform, {}, 17) == before
    assert identity_of(transform, {}, 21) != before
    monkeypatch.setattr(identities, "version", lambda _: "4.3.1")
    newer = identity_of(transform, {}, 17)
    monkeypatch.setattr(identities, "version", lambda _: "4.3.2")
    assert identity_of(transform, {}, 17) != newer


def test_a_link_asks_which_java_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    link = replace(LINK, transforms=(TRANSFORM,))

    def with_java(number: int) -> str:
        monkeypatch.setattr("causeway.control.transforms.java_version", lambda: number)
        return Transforms(link, {}).all[0].identity

    assert with_java(17) == identity_of(TRANSFORM, {}, 17)
    assert with_java(21) == identity_of(TRANSFORM, {}, 21)


def write(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    """Of the package `mine`, in a folder of PYTHONPATH; `beside_…`: in that folder itself."""
    package = folder / "mine"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    for name, text in modules.items():
        beside = name.removeprefix("beside_")
        path = package / f"{name}.py" if beside == name else folder / f"{beside}.py"
        path.write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # an earlier test's
    monkeypatch.setattr(identities, "_seen", {})
    monkeypatch.setattr(identities, "_needed", {})


MASKS = """
import json
from . import words
from mine.deep import *

def f(records):
    from tables import countries
    return records
"""


@pytest.mark.parametrize(
    ("changed", "decides"),
    [
        ("masks", True),
        ("words", True),  # from . import
        ("deep", True),  # from mine.deep import *
        ("deeper", True),  # what that imports
        ("beside_tables", True),  # in a function
        ("__init__", True),  # run with each of them
        ("unused", False),
        ("beside_unused", False),
    ],
)
def test_of_a_function_what_lies_beside_it_counts_as_far_as_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, decides: bool
) -> None:
    names = ("words", "deep", "deeper", "beside_tables", "unused", "beside_unused")
    modules = dict.fromkeys(names, "A = 1")
    modules |= {"masks": MASKS, "deep": "from .deeper import A"}
    write(tmp_path, monkeypatch, **modules)
    before = identity_of(BY_FUNCTION, {})
    write(tmp_path, monkeypatch, **{changed: modules.get(changed, "") + "\nB = 2"})
    assert (identity_of(BY_FUNCTION, {}) != before) is decides


def test_of_what_lies_among_libraries_its_own_package_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tables-1.0.dist-info").mkdir()
    write(tmp_path, monkeypatch, masks=MASKS, words="", deep="", beside_tables="")
    before = identity_of(BY_FUNCTION, {})
    write(tmp_path, monkeypatch, beside_tables="A = 1")
    assert identity_of(BY_FUNCTION, {}) == before
    write(tmp_path, monkeypatch, words="A = 1")
    assert identity_of(BY_FUNCTION, {}) != before


def test_modules_that_import_each_other_or_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from . import words, nowhere\nfrom ... import too_far"
    write(tmp_path, monkeypatch, masks=text, words="from . import masks, broken", broken="def")
    before = identity_of(BY_FUNCTION, {})
    write(tmp_path, monkeypatch, broken="def f")
    assert identity_of(BY_FUNCTION, {}) != before


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"line 7.*there is no module not_there_at_all"):
        identity_of(replace(TRANSFORM, sql=None, python="not_there_at_all:f"), {})
