"""What others write to the old source while the way back writes to it, and how it is saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.errors import ConfigError, ConflictError, PartitionsFailedError
from causeway.link_topics import (
    BeginDirective,
    DirectiveChange,
    DirectivePlan,
    EndDirective,
    LinkDirectives,
    PartitionProgress,
    Scope,
    TopicLog,
)
from causeway.model import Pair
from causeway.operate.failover import reverse_link, saving, unmirrored
from causeway.operate.failover.reverse_link import Looked
from causeway.operate.failover.unmirrored import Unmirrored
from causeway.records import records_of
from tests.builders.cluster import StubCluster
from tests.builders.daemon import row
from tests.harness.directives import replace_writes
from tests.harness.raw_batches import Rec
from tests.harness.world import FOREIGN, OURS, SOURCE, SOURCE_ID, FakeCluster, Log

END = EndDirective(who="anna@ops", at=7)


class Counting(FakeCluster):
    """Counts what is read of it."""

    fetches = 0

    def fetch(self, *arguments: Any, **named: Any) -> Any:
        self.fetches += 1
        return super().fetch(*arguments, **named)


def old_source(*stretches: tuple[int, int]) -> tuple[Counting, Log]:
    """100 records of before, then of each producer so many."""
    log = Log()
    log.append([Rec(offset=n) for n in range(100)])
    sequence = 0
    for producer, count in stretches:
        records = [Rec(offset=log.end + n, value=b"%d" % producer) for n in range(count)]
        ours = producer == OURS
        log.append(records, producer_id=producer, epoch=0, sequence=sequence if ours else 0)
        sequence += count if ours else 0
    return Counting(SOURCE.topic, SOURCE_ID, {0: log}, compacted=False), log


def way_back(target: int, sequence: int) -> PartitionProgress:
    (outlet,) = row().progress.outlets
    pair = Pair(source=9, target=target, sequence=sequence)
    outlet = outlet.replace(topic=SOURCE.topic, partition=0, producer_id=OURS, pair=pair)
    return row().progress.replace(topic=SOURCE.topic, outlets=(outlet,))


def look(
    source: Counting,
    progress: Sequence[PartitionProgress],
    kept: int = -1,
    until: int | None = None,
) -> tuple[Unmirrored, ...]:
    return unmirrored.find_late_writes(
        cast(Any, source),
        {SOURCE: Looked(100, kept)},
        progress,
        until={} if until is None else {SOURCE: until},
        read_committed=True,
    )


def test_a_log_that_only_the_mirror_writes_is_not_read() -> None:
    source, log = old_source((OURS, 30), (OURS, 20))
    assert look(source, [way_back(150, 50)]) == ()
    assert source.fetches == 0
    assert look(source, [way_back(130, 30)]) == (), "what came since the progress is looked at"
    assert source.fetches > 0
    assert log.end == 150


def test_records_of_others_are_found_and_those_of_the_mirror_are_not() -> None:
    source, _ = old_source((OURS, 5), (FOREIGN, 3), (OURS, 4), (-1, 2), (OURS, 6))
    (found,) = look(source, [way_back(120, 15)])
    assert (found.first, found.end, found.records, found.ours) == (105, 114, 5, ((108, 112),))
    assert [offset for offset in range(100, 120) if found.has(offset)] == [
        105,
        106,
        107,
        112,
        113,
    ]
    (before,) = look(source, [way_back(120, 15)], until=110)
    assert (before.end, before.records) == (108, 3), "what lies behind the cut is mirrored again"
    (rest,) = look(source, [way_back(120, 15)], kept=108)
    assert (rest.first, rest.records) == (112, 2)
    assert look(source, [way_back(120, 15)], kept=114) == ()


def test_what_comes_before_the_way_back_begins_is_others() -> None:
    source, _ = old_source((FOREIGN, 4))
    (found,) = look(source, [])
    assert (found.first, found.end, found.records) == (100, 104, 4)


def test_records_that_were_rolled_back_are_not_missing() -> None:
    source, log = old_source((OURS, 5))
    records = [Rec(offset=105 + n) for n in range(3)]
    log.append(records, producer_id=FOREIGN, epoch=0, sequence=0, transactional=True)
    (found,) = look(source, [way_back(105, 5)])
    assert found.records == 3
    log.aborted.append((FOREIGN, 105, 107))
    assert look(source, [way_back(105, 5)]) == ()


def test_an_open_transaction_is_an_error_and_not_an_empty_answer() -> None:
    source, log = old_source((OURS, 5))
    records = [Rec(offset=105 + n) for n in range(3)]
    log.append(records, producer_id=FOREIGN, epoch=0, sequence=0, transactional=True)
    log.stable = 105
    with pytest.raises(PartitionsFailedError, match="open there from offset 105"):
        look(source, [way_back(105, 5)])


def test_the_begin_directive_holds_how_far_the_log_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directives = LinkDirectives()

    def write(_: object, __: object, decide: Any) -> None:
        nonlocal directives
        plan: DirectivePlan = decide(directives)
        directives = directives.with_all(plan.changes)

    replace_writes(monkeypatch, write)
    nobody = cast(Any, None)
    wish = BeginDirective(who="anna@ops", at=7)
    reverse_link.begin(nobody, nobody, wish, {SOURCE: 40}, {SOURCE: 100}, {SOURCE.topic: "ab"})
    assert reverse_link.looked_of(directives, END) == {SOURCE: Looked(100, -1)}
    with pytest.raises(ConflictError, match="anna@ops had it begin meanwhile"):
        reverse_link.begin(nobody, nobody, wish, {SOURCE: 40}, {SOURCE: 120}, {})
    back: Any = SimpleNamespace(change=lambda decide: write(None, None, decide))
    reverse_link.note_kept(back, END, {SOURCE: 108})
    assert reverse_link.looked_of(directives, END) == {SOURCE: Looked(100, 108)}
    known = directives.get(BeginDirective, Scope(SOURCE.topic))
    assert known is not None
    assert (known.starts, known.at) == ({0: 40}, 7), "the link does not begin anew for it"
    assert known.source_id == "ab"
    assert reverse_link.looked_of(directives, END.replace(at=8)) == {}, "that was another end"
    before: DirectiveChange = (known.key, known.replace(looked={}, kept={}))
    assert reverse_link.looked_of(LinkDirectives().with_all([before]), END) == {}


WHAT = Unmirrored(at=SOURCE, first=105, end=114, records=5, surely=True, ours=((108, 112),))


def test_a_file_is_taken_for_saved_where_it_holds_the_very_records(tmp_path: Path) -> None:
    source, log = old_source((OURS, 5), (FOREIGN, 3), (OURS, 4), (FOREIGN, 2))
    path = tmp_path / "saved.jsonl"

    def save(*what: Unmirrored) -> None:
        saving.save(cast(Any, source), what, path, read_committed=True)

    save(WHAT)
    offsets = [json.loads(line)["offset"] for line in path.read_text().splitlines()]
    assert offsets == [105, 106, 107, 112, 113]
    before = path.stat().st_mtime_ns
    save(WHAT)
    assert path.stat().st_mtime_ns == before, "a call that was killed right after it left it"
    for other in (replace(WHAT, end=113), replace(WHAT, first=106)):
        with pytest.raises(ConfigError, match=r"kept: from line \d on.*another path"):
            save(other)
    log.append([Rec(offset=log.end)])
    with pytest.raises(ConfigError, match="from line 6 on"):
        save(replace(WHAT, end=log.end))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="from line 1 on"):
        save(WHAT)


def test_a_topic_gets_each_record_once() -> None:
    source, _ = old_source((OURS, 5), (FOREIGN, 3), (OURS, 4), (FOREIGN, 2))
    target = StubCluster()

    def save() -> list[int]:
        """The offsets on the source of all records that are saved by now."""
        saving.save_to_topic(cast(Any, source), [WHAT], target, "spare", read_committed=True)
        saved = [
            record for batch in TopicLog(target, "spare").batches() for record in records_of(batch)
        ]
        return [int(dict(record.headers)["causeway.offset"] or b"") for record in saved]

    assert save() == [105, 106, 107, 112, 113]
    (created,) = target.created
    assert created.configs["retention.ms"] == "-1", "their times are old"
    assert save() == [105, 106, 107, 112, 113]


def test_an_interrupted_save_to_a_topic_goes_on_with_the_missing_records() -> None:
    source, _ = old_source((OURS, 5), (FOREIGN, 3), (OURS, 4), (FOREIGN, 2))
    target = StubCluster()
    first = replace(WHAT, end=107)
    for what in (first, WHAT):
        saving.save_to_topic(cast(Any, source), [what], target, "spare", read_committed=True)
    (log,) = target.logs.values()
    assert [last + 1 - first for first, last, _ in log.batches] == [2, 3]


def test_up_to_the_position_of_a_way_back_that_preserves_offsets_all_is_its_own() -> None:
    """Its sequences begin again; and it stops at the first offset that another has taken."""
    source, _ = old_source((OURS, 30), (FOREIGN, 5))
    kept = way_back(130, 7).replace(offsets_from=0, position=130)
    (found,) = look(source, [kept])
    assert (found.first, found.end, found.records) == (130, 135, 5)
    source, _ = old_source((OURS, 30))
    assert look(source, [kept]) == ()
    assert source.fetches == 0


def test_filler_of_a_beginning_is_not_taken_for_records_of_others() -> None:
    source, _ = old_source((FOREIGN, 50))
    filling = way_back(100, 0).replace(offsets_from=500, position=100)
    assert look(source, [filling]) == ()
