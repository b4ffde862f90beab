"""What `plan` and `status` print: names, patterns and messages come out as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from causeway.cli import plan, status, try_transform
from causeway.cli.common import console
from causeway.config import TransformSettings
from causeway.control import LeftOut, MirroredTopic, TopicProblem
from causeway.errors import CausewayError
from causeway.filters import compile_patterns
from causeway.link_topics import RuleCounts, TaskRecord, Transformed
from causeway.model import TopicPartition
from causeway.operate.plan import TransformPlan
from causeway.operate.try_transform import Content, Decoded, Trial, TrialOutcome, Tried, as_json
from causeway.status import LinkStatus, PartitionStatus, TransformStatus
from tests.builders.plans import planned
from tests.builders.settings import link
from tests.harness.statuses import ends

# What other tools take for markup, an emoji, or an order to the terminal.
ODD = ["[a-z]+-dlq", "billing[/eu]", "[red]", r"\[x]", "say :smile: 🙂", "clear\x1b[2J", "a\r\nb"]


def shown(text: str) -> str:
    """As one line that cannot give the terminal orders."""
    return text.replace("\x1b", "\\x1b").replace("\r", "\\r").replace("\n", "\\n")


@pytest.mark.parametrize("text", ODD)
def test_a_plan_prints_data_as_it_is(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = CausewayError("create", text, text)

    plan._show(
        console(),
        planned(
            left_out=(LeftOut(topic="orders", reason=text, code="excluded"),),
            problems=(TopicProblem(topic="orders", error=error),),
        ),
    )

    out = capsys.readouterr().out
    assert f"orders    {shown(text)}" in out
    assert f"problem orders: {shown(str(error))}" in out


def test_a_plan_says_what_kafka_3_left_out_and_what_stays_on_shared_topics(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ("x.internal", "orders")
    topics = tuple(
        MirroredTopic(
            source=name,
            target=f"A.{name}",
            partitions=1,
            source_id="0" * 32,
            target_id=None,
            target_partitions=1,
            max_message_bytes=1,
            notes=("compression.type=gzip stays",) if name == "orders" else (),
        )
        for name in names
    )

    plan._show(console(), planned(mirrored=topics))

    out = capsys.readouterr().out.replace("\n", " ")
    assert "(3.x treats them as internal): x.internal; causeway.internal.topics" in out
    assert "A.orders: compression.type=gzip stays" in out


@pytest.mark.parametrize("text", ODD)
def test_a_status_prints_data_as_it_is(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    partition = PartitionStatus(
        topic="orders",
        partition=0,
        target_topic="A.orders",
        source_end=1,
        mirrored_to=0,
        lag_records=1,
        lag_ms=0,
        state="failed",
        reason=text,
    )
    task = TaskRecord(name="groups", reason=text, items={text: "no"})

    link_status = LinkStatus(
        **ends(link()), driver=None, partitions=(partition,), problems=(), tasks=(task,)
    )
    console().print(status.render([link_status], 200))

    out = capsys.readouterr().out
    assert f"failed  {shown(text)}" in out
    assert f"task groups: {shown(text)}" in out
    assert f"groups {shown(text)}: no" in out


def test_a_status_shows_both_ends_where_a_transaction_is_open() -> None:
    assert status._of(120, 5_000) == "120 of 5,120"
    assert status._of(0, 5_000) == "0 of 5,000"
    assert status._of(120, 0) == status._of(120, None) == "120"


def test_a_plan_says_by_what_records_are_treated(capsys: pytest.CaptureFixture[str]) -> None:
    pii = TransformSettings(name="pii", topics=(), rules="drop value.a", dead_letters="dead")
    idle = TransformSettings(name="idle", topics=(), python="mine:filter")
    mirrored = tuple(
        MirroredTopic(
            source=name,
            target=f"A.{name}",
            partitions=1,
            source_id="0" * 32,
            target_id=None,
            target_partitions=1,
            max_message_bytes=1,
        )
        for name in ("orders", "rest")
    )
    changed = tuple((TopicPartition("orders", n), f"anew from {n}") for n in range(25))

    plan._show(
        console(),
        replace(
            planned(mirrored=mirrored),
            transforms=(
                TransformPlan(
                    settings=pii,
                    topics=("orders",),
                    sql="SELECT value\nFROM records",
                    replaces=("value",),
                    without_spark=True,
                ),
                TransformPlan(settings=idle),
            ),
            changed=changed,
        ),
    )

    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert ["orders", "A.orders", "by", "pii", "(rules)", "1"] in [row[:6] for row in rows]
    assert ["rest", "A.rest", "unchanged", "1"] in [row[:4] for row in rows]
    assert (
        "transform pii (rules): replaces value; plain records need no Spark; a record that" in out
    )
    assert "that cannot be transformed: dead" in out
    assert "  SELECT value\n  FROM records\n" in out
    assert "note transform idle matches no mirrored topic" in out
    assert "idle (python): only drops; all records need Spark; a record that cannot be" in out
    assert "that cannot be transformed: its partition stops" in out
    assert "  mine:filter\n" in out
    assert "orders-19: anew from 19" in out
    assert "orders-20" not in out
    assert "and 5 partitions more whose transform or treatment changed" in out


def test_a_trial_shows_what_schemas_tell(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody reads Avro as bytes, and the id tells by which version a part was written."""
    before = Content(
        timestamp=1,
        key=b"\0\0\0\0\3\2",
        value=b"\0\0\0\0\7\xff",
        headers=(),
        decoded={"key": Decoded(3, "1"), "value": Decoded(7, '{"mail":"a@b\\u0007"}')},
    )
    after = replace(before, value=b"\0\0\0\0\x08\xfe", decoded={"value": Decoded(8, '{"n":1}')})
    unread = replace(before, decoded={})
    at = TopicPartition("t", 0)
    tried = Tried(at=at, offset=5, before=before, after=(after,), outcome=TrialOutcome.CHANGED)
    fails = Tried(
        at=at, offset=6, before=unread, after=(), outcome=TrialOutcome.FAILS, reason="CAST_INVALID"
    )
    pii = TransformSettings(name="pii", topics=compile_patterns("t"), sql="SELECT 1")
    trial = Trial(link=link(), topic="t", transform=pii, sql="", records=(tried, fails))

    try_transform._show(console(), trial)

    out = " ".join(capsys.readouterr().out.split())
    assert 'value (schema 7) {"mail":"a@b\\u0007"} value (schema 8) {"n":1}' in out
    assert "key (schema 3) 1 key 0x" not in out
    assert "0x0000000007ff" in out
    assert "fails: CAST_INVALID" in out
    first, second = as_json(trial)["records"]
    assert first["before"]["key"] == {"schema_id": 3, "json": 1}
    assert first["before"]["value"] == {"schema_id": 7, "json": {"mail": "a@b\a"}}
    assert first["after"][0]["value"] == {"schema_id": 8, "json": {"n": 1}}
    assert second["before"]["value"] == {"base64": "AAAAAAf/"}


def test_a_status_says_what_transforms_did(capsys: pytest.CaptureFixture[str]) -> None:
    states = (
        TransformStatus(
            name="pii",
            kind="rules",
            partitions=2,
            counts=Transformed(records_in=10, records_out=8, dropped=1, refused=1),
            rules=(RuleCounts("1 hash value.mail", 0, 1_200),),
            unseen=("hash value.mail",),
            troubles=("no memory",),
        ),
        TransformStatus(name="eu", kind="sql", partitions=1),
    )

    link_status = LinkStatus(
        **ends(link()), driver=None, partitions=(), problems=(), transforms=states
    )
    console().print(status.render([link_status], 200))

    out = capsys.readouterr().out
    assert "transform pii (rules), 2 partitions: 10 in, 8 out, 1 dropped, 1 refused\n" in out
    assert "problem transform pii: no memory\n" in out
    assert "rule pii: 1 hash value.mail: 0 records with it, 1,200 without\n" in out
    assert "protects nothing so far pii: hash value.mail\n" in out
    assert "transform eu (sql), 1 partition: not started\n" in out


def test_on_a_narrow_screen_reasons_are_below_once(capsys: pytest.CaptureFixture[str]) -> None:
    some = tuple(
        PartitionStatus(
            topic="orders",
            partition=number,
            target_topic="A.orders",
            source_end=1,
            mirrored_to=0,
            lag_records=1,
            lag_ms=0,
            state="stopped",
            reason="the source was truncated",
        )
        for number in range(2)
    )
    made = LinkStatus(**ends(link()), driver=None, partitions=some, problems=())

    console().print(status.render([made], 80))

    out = capsys.readouterr().out
    assert "stopped orders 0, 1: the source was truncated\n" in out
    assert out.count("truncated") == 1
