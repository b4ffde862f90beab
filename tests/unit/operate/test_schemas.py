"""What a plan says of subjects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from causeway.cli import plan as shown
from causeway.cli.common import console
from causeway.config import SchemaSettings
from causeway.control import MirroredTopic
from causeway.operate.plan import Plan, as_json
from causeway.operate.plan.planning import _plan_schemas
from tests.builders.plans import planned
from tests.builders.settings import link
from tests.harness.registry_stand_in import registry_stand_in

TOPIC = MirroredTopic(
    source="orders",
    target="A.orders",
    partitions=1,
    source_id="0" * 32,
    target_id=None,
    target_partitions=1,
    max_message_bytes=1,
)


def test_without_registries_nothing_is_said() -> None:
    assert _plan_schemas(link(), [TOPIC]) == ((), ())


def test_what_would_be_done_and_what_clashes(capsys: pytest.CaptureFixture[str]) -> None:
    with registry_stand_in(first_id=40) as source, registry_stand_in() as target:
        source.register("orders-value", "1")
        source.register("orders-key", "2")
        target.register("A.orders-key", "other")
        settings = SchemaSettings(mode="copy", source=source.settings, target=target.settings)
        before = len(target.ids("A.orders-value"))
        subjects, problems = _plan_schemas(replace(link(), schemas=settings), [TOPIC])
        assert len(target.ids("A.orders-value")) == before
        assert not [line for line in target.asked if not line.startswith("GET ")]
        source.down = True
        _, silent = _plan_schemas(replace(link(), schemas=settings), [TOPIC])
    whole = planned(subjects=subjects, problems=problems)
    key, value = as_json(Plan(links=(whole,), own=()))["links"][0]["schemas"]
    assert value == {
        "subject": "orders-value",
        "target_subject": "A.orders-value",
        "changes": ["put it into mode IMPORT", "register version 1 with id 40"],
        "clash": None,
    }
    assert "another schema there" in key["clash"]
    assert [str(one.error) for one in whole.problems] == [
        f"copy schemas of orders-key: {key['clash']}"
    ]
    shown._show(console(), whole)
    assert "A.orders-value: register version 1 with id 40" in capsys.readouterr().out
    (problem,) = silent
    assert "HTTP 503" in str(problem.error)
