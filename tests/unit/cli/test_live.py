"""What the live view makes of a snapshot."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from causeway.cli.live import render
from causeway.cli.present import share
from causeway.link_topics import LinkDirectives, PauseDirective, RuleCounts, Scope, Transformed
from causeway.model import State
from causeway.status import (
    LinkProblem,
    LinkStatus,
    PartitionStatus,
    Role,
    Snapshot,
    TransformStatus,
    topics_of,
    worst,
)
from tests.harness.statuses import replace

NOW = 1_700_000_000.0


def partition(
    topic: str, number: int = 0, *, position: int = 90, source_end: int | None = 100, **changes: Any
) -> PartitionStatus:
    left = None if source_end is None else max(0, source_end - position)
    base = PartitionStatus(
        topic=topic,
        partition=number,
        target_topic=f"A.{topic}",
        state=State.RUNNING,
        reason=None,
        lane=0,
        first=0,
        mirrored_to=position,
        source_end=source_end,
        lag_records=left,
        lag_ms=5_000 if left else left,
        newest_record_ms=int(NOW * 1000) - 60_000,
        records=90,
        bytes=9_000,
        records_per_s=10.0,
        bytes_per_s=1_000.0,
    )
    return replace(base, **changes)


def snapshot(*partitions: PartitionStatus, **changes: Any) -> Snapshot:
    link = LinkStatus(
        name="A->B",
        source="A",
        target="B",
        role=Role.LEADING,
        reason=None,
        planned=True,
        partitions=partitions,
        problems=(),
    )
    return Snapshot(
        started_at=NOW - 60,
        taken_at=NOW,
        bounded=False,
        draining=False,
        links=(replace(link, **changes),),
        lanes=(),
        lanes_wanted=2,
    )


def shown(taken: Snapshot, lines: int = 40, width: int = 160) -> str:
    out = StringIO()
    Console(file=out, width=width).print(render(taken, lines, width))
    return out.getvalue()


def test_a_topic_is_the_sum_of_its_partitions_and_its_worst_state() -> None:
    failed = partition("t", 1, state=State.FAILED, reason="no leader", position=50)

    (row,) = topics_of(snapshot(partition("t"), failed).links[0])

    assert (row.partitions, row.records, row.records_per_s) == (2, 180, 20.0)
    assert (row.lag_records, row.lag_ms, row.state) == (60, 5_000, State.FAILED)


def test_one_unknown_lag_makes_the_topic_s_unknown() -> None:
    unknown = partition("t", 1, source_end=None)

    (row,) = topics_of(snapshot(partition("t"), unknown).links[0])

    assert (row.lag_records, row.lag_ms) == (None, None)


def test_the_worst_state_comes_first() -> None:
    assert worst([State.RUNNING, State.STOPPED, State.FAILED]) is State.STOPPED
    assert worst([State.DONE, State.RUNNING]) is State.RUNNING
    assert worst([]) is None


def test_the_view_names_what_is_wrong() -> None:
    stopped = partition("t", 1, state=State.STOPPED, reason="the source topic was made anew")
    trouble = LinkProblem(topic="u", reason="needs 2 brokers, B has 1")

    text = shown(snapshot(partition("t"), stopped, problems=(trouble,)))

    assert "A->B" in text
    assert "t-1: the source topic was made anew" in text
    assert "u: needs 2 brokers, B has 1" in text
    assert "1.0 kB/s" not in text  # two partitions: 2.0
    assert "2.0 kB/s" in text


@pytest.mark.parametrize("width", [80, 100, 160])
def test_names_are_in_sight_on_each_screen(width: int) -> None:
    """The columns that matter least make room: at 80 characters, four letters of a name were
    left."""
    taken = snapshot(
        partition("payments.by-customer", position=10, source_end=12_345_678, records=98_765_432),
        partition("orders", state=State.FAILED, reason="no leader"),
    )

    lines = shown(taken, width=width).splitlines()

    assert any(line.startswith("payments.by-customer ") for line in lines)
    assert {"lag", "state"} <= set(lines[1].split())
    assert ("98,765,432" in "".join(lines)) is (width > 80)
    assert max(map(len, lines)) <= width


def test_a_standby_says_who_leads() -> None:
    assert "standby (host-7 leads)" in shown(
        snapshot(role=Role.STANDBY, reason="host-7 leads", partitions=())
    )


def test_many_topics_leave_those_that_need_a_look() -> None:
    late = partition("late", position=0, source_end=10_000)
    broken = partition("broken", state=State.FAILED, reason="x")
    calm = [partition(f"calm-{number:03}", position=100) for number in range(100)]

    text = shown(snapshot(broken, *calm, late), lines=15)

    assert len(text.splitlines()) <= 15
    assert "late" in text
    assert "broken" in text
    assert "topics more" in text


def test_how_far_a_bounded_run_is() -> None:
    taken = snapshot(
        partition("t", 0, first=10, position=60, stop_at=110),
        partition("t", 1, first=10, position=300, stop_at=110),
        partition("t", 2, first=50, position=50, stop_at=50),
    )

    assert share(taken) == (150, 200)


def test_transforms_say_what_they_did_and_what_they_never_met() -> None:
    pii = TransformStatus(
        name="pii",
        partitions=1,
        counts=Transformed(records_in=1_000, records_out=900, dropped=95, refused=5),
        rules=(RuleCounts("1 hash value.nmae", 0, 900), RuleCounts("2 drop value.x", 7, 0)),
        unseen=("hash value.nmae",),
        troubles=("Spark has no memory",),
    )
    idle = TransformStatus(name="idle", partitions=0)

    text = shown(snapshot(partition("t"), transforms=(pii, idle)))

    assert "transform pii: 1,000 in, 900 out, 95 dropped, 5 refused" in text
    assert "protects nothing so far: hash value.nmae" in text
    assert "1 hash value.nmae: 0 records with it, 900 without" in text
    assert "2 drop" not in text
    assert "problem transform pii: Spark has no memory" in text
    assert "idle" not in text


def test_many_transforms_leave_room_for_topics() -> None:
    many = tuple(TransformStatus(name=f"t{n}", partitions=1) for n in range(50))
    topics = [partition(f"topic{n:03}") for n in range(50)]

    lines = shown(snapshot(*topics, transforms=many), lines=20).splitlines()

    assert len(lines) <= 22
    assert sum("topic0" in line for line in lines) >= 8


def test_what_people_asked_for_is_shown() -> None:
    asked = PauseDirective(scope=Scope("orders"), who="anna@ops", why="too loud", at=0)
    some = snapshot(partition("orders", state=State.PAUSED, reason="paused by anna@ops"))
    text = shown(
        replace(some, links=(replace(some.links[0], directives=LinkDirectives.of([asked])),))
    )
    assert "paused orders by anna@ops since 1970-01-01T00:00:00Z: too loud" in text
    assert "problem" not in text
