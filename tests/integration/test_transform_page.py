"""What docs/how-to/transforms.md says can be written is what Spark, and we, take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causeway.config import Secret, TransformSettings
from causeway.errors import ConfigError
from causeway.formats import load_mm2
from causeway.operate.try_transform import local_spark, prepared

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "transforms.md").read_text()
LINES = "id BIGINT, lines ARRAY<STRUCT<product: STRING, count: INT>>"
SECRETS = {
    "pepper": Secret("pepper-of-32-bytes-or-somewhat-more"),
    "name_key": Secret("ab" * 32),
    "token_key": Secret("cd" * 32),
}


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with local_spark({}) as session:
        yield session


def of(*, sql: str | None = None, rules: str | None = None) -> TransformSettings:
    return TransformSettings(
        name="t",
        topics=(),
        value_format="json",
        key_format="string",
        secrets=SECRETS,
        sql=sql,
        rules=rules,
    )


@pytest.mark.slow
def test_the_queries(session: Any) -> None:
    queries = [
        query
        for block in blocks("sql")
        for query in ([*block.strip().splitlines()] if "  -- " in block else [block])
    ]
    assert len(queries) >= 7
    for query in queries:
        transform = of(sql=query)
        if "lines" in query:
            transform = replace(transform, value_schema=LINES)
        assert prepared(session, transform).sql


@pytest.mark.slow
def test_the_rules(session: Any) -> None:
    (rules,) = [block for block in blocks("") if block.startswith("drop")]
    for rule in rules.strip().splitlines():
        try:
            prepared(session, of(rules=rule))
        except ConfigError as error:
            pytest.fail(f"{rule}: {error}")


def test_the_example(session: Any, tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(blocks("properties")[0])

    settings = load_mm2(file, environment={"PEPPER": "p" * 32})

    assert settings.warnings == ()
    pii, eu = settings.links[0].transforms
    assert settings.links[0].transform_of("orders.eu") is eu
    assert prepared(session, pii).replaces == {"value"}
    assert not prepared(session, eu).replaces
