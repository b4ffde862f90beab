"""Back to the old source: what only that has is left or saved as was said, also what others write
to it while the way back does; and mirrors whose partitions are not those of their source."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from causeway.config import LinkSettings, RunSettings, Settings
from causeway.model import TopicPartition
from causeway.operate.failover import FailbackStep, FailedBack, Keep, failback, failover
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka_tools import KafkaTools
from tests.harness.links import await_same, fill, identity, turned
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


def settings_of(*links: LinkSettings) -> Settings:
    return Settings(links=links, run=RunSettings(lease_s=2.0), spark={})


def values(kafka: KafkaTools, topic: str) -> list[bytes]:
    found = kafka.read(topic).values()
    return sorted(record.value or b"" for records in found for record in records)


def test_what_others_write_to_the_old_source_is_told_and_kept(
    source: KafkaTools,
    target: KafkaTools,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, link = prefix + "one", identity(source, target, prefix)
    back, path = turned(link), tmp_path / "late.jsonl"
    both = settings_of(link, back)

    def go(**more: Any) -> FailedBack:
        return failback(both, link=link.name, **{"wait_s": 60.0, **more})

    source.create_topic(topic, 1)
    fill(source, topic, 100)
    with RunningDaemon(monkeypatch, link, lease_s=2.0):
        await_same(source, target, topic)
    failover(settings_of(link), yes=True)
    fill(source, topic, 20, first=1000)
    fill(target, topic, 10, first=2000)
    with RunningDaemon(monkeypatch, link, back, lease_s=2.0):
        undecided = go(wait_s=0)
        assert undecided.step is FailbackStep.UNDECIDED
        assert [(one.first, one.records) for one in undecided.unmirrored] == [(100, 20)]
        assert go(keep=Keep(drop=True), dry_run=True).step is FailbackStep.BACK
        begun = go(keep=Keep(drop=True))
        assert (begun.step, begun.saved, begun.late) == (FailbackStep.BACK, None, ())
        assert begun.lag is not None
        await_until(lambda: source.offsets(topic) == {0: 130}, 60, "B's records come to A")
        # Somebody at A writes on, and so does somebody at B.
        fill(source, topic, 5, first=3000)
        fill(target, topic, 10, first=2010)
        await_until(lambda: source.offsets(topic) == {0: 145}, 60, "B's records come to A")
        told = go()
        assert (told.step, told.changed) == (FailbackStep.BACK, False)
        (late,) = told.late
        assert (late.at, late.first, late.end, late.records) == (
            TopicPartition(topic, 0),
            130,
            135,
            5,
        )
        refused = go(turn_round=True)
        assert (refused.step, refused.promoted) == (FailbackStep.UNDECIDED, None)
        done = go(turn_round=True, keep=Keep(path=path))
        assert (done.step, done.saved, done.late) == (FailbackStep.GOES_ON, str(path), ())
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [base64.b64decode(line["value"]) for line in lines] == [
            b"value %d" % n for n in range(3000, 3005)
        ]
        fill(source, topic, 5, first=4000)
        await_until(lambda: target.offsets(topic) == {0: 125}, 60, "A's records come to B again")
    here, there = values(source, topic), values(target, topic)
    assert len(set(here)) == len(here) == 150
    assert len(set(there)) == len(there) == 125
    alone = {b"value %d" % n for n in (*range(1000, 1020), *range(3000, 3005))}
    assert set(here) - set(there) == alone, "dropped, or saved, as was said"
