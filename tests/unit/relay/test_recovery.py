"""Recovery against a model that knows what was copied, over logs that live in memory.

The model writes a source log (transactions, gaps), copies a prefix of the relayed series to the
target in batches cut anyhow, then lets both sides age: compaction, retention, other writers.
Whatever true pair recovery is told, it must resume with the first record that was not copied.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from causeway.cluster.metadata import LeaderEpochs
from causeway.errors import BrokerError, DivergedError
from causeway.model import NO_TOPIC_ID, Pair
from causeway.relay.recovery import LossError
from tests.harness import world as world_module
from tests.harness.examples import examples
from tests.harness.raw_batches import Rec, raw_batch
from tests.harness.world import (
    FOREIGN,
    OURS,
    SOURCE_ID,
    START,
    TARGET_ID,
    FakeCluster,
    Log,
    World,
    compact,
    plain_world,
    refused,
    resumed,
    worlds,
)


def _pairs(data: st.DataObject, world: World) -> dict[int, Pair]:
    """Any pairs that were ever true: at a place where a batch of ours ended."""
    pairs = {}
    for partition, log in world.targets.items():
        ends = [0] + [
            world.places[partition].index(last) + 1
            for _, last, _ in log.batches
            if last in world.places[partition]
        ]
        index = data.draw(st.sampled_from(ends))
        pairs[partition] = world.pair(partition, index, data.draw(st.integers(0, 3)))
    return pairs


MANY = settings(max_examples=examples(150))


@MANY
@given(worlds(), st.data())
def test_resumes_after_the_last_record_copied(world: World, data: st.DataObject) -> None:
    (found,) = resumed(world.recover(_pairs(data, world))).outlets
    world.check(0, found)
    assert found.exclusive


@MANY
@given(worlds(foreign=True), st.data())
def test_other_writers_do_not_matter_where_they_are_allowed(
    world: World, data: st.DataObject
) -> None:
    (found,) = resumed(world.recover(_pairs(data, world))).outlets
    world.check(0, found)


@MANY
@given(worlds(outlets=3), st.data())
def test_each_of_several_target_partitions(world: World, data: st.DataObject) -> None:
    """Resumed where the one that is furthest behind stands. Keys may decide from the middle on."""
    outlets = resumed(world.recover(_pairs(data, world))).outlets
    for partition, found in enumerate(outlets):
        world.check(partition, found)


@MANY
@given(worlds(keys=3), st.data())
def test_logs_compacted_after_the_copy(world: World, data: st.DataObject) -> None:
    """Up to some offset each side keeps only the last record of a key; in the target the newest
    batch is never touched (a segment that is written to is not compacted)."""
    world.compacted = True
    pairs = _pairs(data, world)
    compact(world.source, data.draw(st.integers(0, world.source.end)), world.source.aborted)
    log = world.targets[0]
    newest = log.batches[-1][0] if log.batches else 0
    compact(log, data.draw(st.integers(0, newest)), [])

    (found,) = resumed(world.recover(pairs)).outlets

    world.check(0, found)


@MANY
@given(worlds(), st.data())
def test_the_target_deleted_its_oldest(world: World, data: st.DataObject) -> None:
    pairs = _pairs(data, world)
    world.targets[0].start = data.draw(st.integers(0, world.targets[0].end))

    (found,) = resumed(world.recover(pairs)).outlets

    world.check(0, found)


@MANY
@given(worlds(), st.data())
def test_the_source_deleted_its_oldest(world: World, data: st.DataObject) -> None:
    """It resumes, or says that records are gone which were never copied; it never skips one."""
    pairs = _pairs(data, world)
    world.source.start = data.draw(st.integers(0, world.source.end))
    share, copied = world.shares[0], world.copied[0]
    lost = [r for r in share[copied:] if r.offset < world.source.start]

    answer = world.recover(pairs)

    if lost:
        assert isinstance(answer, DivergedError), answer
    if isinstance(answer, LossError):
        _check_passed(world, 0, answer)
    elif not isinstance(answer, DivergedError):
        world.check(0, resumed(answer).outlets[0])


@MANY
@given(worlds(outlets=3), st.data())
def test_the_source_deleted_what_several_outlets_had_yet_to_get(
    world: World, data: st.DataObject
) -> None:
    pairs = _pairs(data, world)
    world.source.start = data.draw(st.integers(0, world.source.end))

    answer = world.recover(pairs)

    if isinstance(answer, LossError):
        for partition in world.targets:
            _check_passed(world, partition, answer)


def _check_passed(world: World, partition: int, answer: LossError) -> None:
    """Whoever goes on where the source's log begins doubles nothing, and each record that was lost
    lies in the loss that is told."""
    share, copied = world.shares[partition], world.copied[partition]
    lost = {r.offset for r in share[copied:] if r.offset < world.source.start}
    assert lost <= set(range(answer.loss.start, answer.loss.to))
    place = answer.outlets[partition]
    after = place.pair._replace(source=max(place.pair.source, answer.loss.to))
    if all(record.offset < world.source.start for record in share[:copied]):
        world.check(partition, dataclasses.replace(place, pair=after))
    else:
        assert place.pair.source >= answer.loss.to, "it had come further"
        world.check(partition, place)


@MANY
@given(worlds(), st.data())
def test_the_target_lost_its_newest(world: World, data: st.DataObject) -> None:
    """What it had acknowledged is sent again, from the first record that it lacks."""
    log = world.targets[0]
    pairs = _pairs(data, world)
    keep = data.draw(st.integers(0, len(log.batches)))
    assume(keep or world.first_sequence == 0)  # a claim begins at sequence 0
    log.batches = log.batches[:keep]
    log.end = log.batches[-1][1] + 1 if log.batches else 0
    world.copied[0] = log.end

    (found,) = resumed(world.recover(pairs)).outlets

    world.check(0, found)


# -- what must stop it -----------------------------------------------------------------------------


def test_records_that_are_there_twice() -> None:
    world = plain_world(9, 4)
    again = [Rec(offset=4 + i, value=b"%d" % i) for i in range(4)]
    world.targets[0].append(again, producer_id=OURS, epoch=0, sequence=0)
    assert "twice" in refused(world)


@pytest.mark.parametrize("then", [0, 3], ids=["the last", "others after it"])
def test_old_records_in_the_place_of_others(then: int) -> None:
    """As many as should lie there: neither the log's end nor the last sequence tells."""
    world = plain_world(12, 6)
    log = world.targets[0]
    old = [Rec(offset=6 + i, value=b"%d" % i) for i in range(3)]
    log.append(old, producer_id=OURS, epoch=0, sequence=0)
    if then:
        new = [Rec(offset=9 + i, value=b"%d" % (9 + i)) for i in range(then)]
        log.append(new, producer_id=OURS, epoch=0, sequence=9)
    assert "not the records that were" in refused(world, {0: Pair(source=6, target=6, sequence=6)})


def test_recovery_finds_doubled_records_among_those_of_others() -> None:
    world = plain_world(9, 4)
    world.exclusive = False
    again = [Rec(offset=4 + i, value=b"%d" % i) for i in range(4)]
    world.targets[0].append(again, producer_id=OURS, epoch=0, sequence=0)
    assert "twice" in refused(world)


def test_a_record_that_is_not_the_sources() -> None:
    world = plain_world(9, 0)
    other = [Rec(offset=i, value=b"other") for i in range(4)]
    world.targets[0].append(other, producer_id=OURS, epoch=0, sequence=0)
    assert "not the source's record" in refused(world)


def test_more_records_than_the_source_has() -> None:
    world = plain_world(3, 0)
    more = [Rec(offset=i, value=b"%d" % i) for i in range(4)]
    world.targets[0].append(more, producer_id=OURS, epoch=0, sequence=0)
    assert "no longer has as many" in refused(world)


def test_a_record_of_another_producer_in_an_exclusive_topic() -> None:
    world = plain_world(9, 4)
    world.targets[0].append([Rec(offset=4)], producer_id=FOREIGN, epoch=0, sequence=0)
    assert "another client wrote" in refused(world)


def test_a_source_leader_that_is_out_of_date_is_no_truncated_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the broker says of its log's end does not count."""
    world = plain_world(9, 9)
    world.leader_epoch, world.source.end = 3, 7
    noted: list[tuple[str, int, int]] = []

    def metadata(cluster: FakeCluster, names: Any) -> Any:
        found = honest(cluster, names)
        if cluster.topic_id != SOURCE_ID:
            return found
        epochs = LeaderEpochs()
        for each in noted:
            epochs.note(*each)
        return epochs.checked(found, "A")[0]

    honest = FakeCluster.metadata
    monkeypatch.setattr(FakeCluster, "metadata", metadata)
    monkeypatch.setattr(FakeCluster, "note_leader_epoch", lambda _, *each: noted.append(each))
    answer = world.recover({0: Pair(source=9, target=9, sequence=9)})
    assert isinstance(answer, BrokerError)
    assert answer.retriable
    assert "leader epoch 0, but epoch 3" in str(answer)


@pytest.mark.parametrize(
    ("epochs", "diverged"),
    [
        ((2, None, 4), False),  # compaction left nothing of the last record's batch
        ((2, 3, 4), False),
        ((2, 2, 4), True),  # a record of another leader lies there
        ((2, 4, 4), True),
    ],
)
def test_an_epoch_that_the_source_has_no_entry_for(
    epochs: tuple[int | None, ...], diverged: bool
) -> None:
    """Three batches of a record each; the last one relayed was the second, of leader epoch 3."""
    world = plain_world(3, 2)
    world.leader_epoch, world.diverging = 3, True
    world.source.batches = [
        (at, at, raw_batch([Rec(offset=at)], leader_epoch=epoch))
        for at, epoch in enumerate(epochs)
        if epoch is not None
    ]
    pairs = {0: Pair(source=2, target=2, sequence=2)}
    if diverged:
        assert "was truncated, and written to since" in refused(world, pairs)
    else:
        assert resumed(world.recover(pairs)).outlets[0].pair == pairs[0]


def test_a_source_that_ends_before_our_place() -> None:
    world = plain_world(9, 9)
    pairs = {0: Pair(source=9, target=9, sequence=9)}
    world.source.end = 7
    assert "truncated" in refused(world, pairs)


@pytest.mark.parametrize("side", ["source", "target"])
def test_recreated_topics(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id of another topic under the same name."""
    replaced = SOURCE_ID if side == "source" else TARGET_ID
    world = plain_world(9, 4)
    init = FakeCluster.__init__

    def anew(self: FakeCluster, topic: str, topic_id: str, *more: Any) -> None:
        init(self, topic, "c" * 32 if topic_id == replaced else topic_id, *more)

    monkeypatch.setattr(FakeCluster, "__init__", anew)
    why = refused(world)
    assert f"the {side} topic was deleted and recreated" in why
    assert ("causeway restart --refill" in why) is (side == "source")


def test_topics_whose_ids_were_not_known_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_module, "SOURCE_ID", NO_TOPIC_ID)
    monkeypatch.setattr(world_module, "TARGET_ID", NO_TOPIC_ID)
    clusters = iter([SOURCE_ID, TARGET_ID])
    init = FakeCluster.__init__

    def with_ids(self: FakeCluster, topic: str, _: str, *more: Any) -> None:
        init(self, topic, next(clusters), *more)

    monkeypatch.setattr(FakeCluster, "__init__", with_ids)
    (found,) = resumed(plain_world(9, 4).recover(START)).outlets
    assert found.pair == Pair(source=4, target=4, sequence=4)


@pytest.mark.parametrize(("remembered", "sequence"), [(6, 7), (None, None)])
def test_what_the_log_and_its_offsets_do_not_tell_the_broker_may_remember(
    remembered: int | None, sequence: int | None
) -> None:
    """Others write too, and the target has deleted everything since the pair."""
    world = plain_world(9, 7)
    world.exclusive = False
    world.targets[0].append([Rec(offset=7)], producer_id=FOREIGN, epoch=0, sequence=0)
    world.targets[0].start = 8
    world.remembered = {0: {} if remembered is None else {OURS: remembered}}

    answer = world.recover(START)

    if sequence is None:
        assert "how many of them were ours" in str(answer)
    else:
        (found,) = resumed(answer).outlets
        assert found.pair == Pair(source=7, target=8, sequence=7)


@pytest.mark.parametrize("size", [1, 40 * 1024 * 1024])
def test_a_record_that_cannot_be_unpacked_is_counted(size: int) -> None:
    """Lanes relay it as it is. One with a header's name that is not UTF-8 is compared."""
    records = [Rec(offset=i, headers=[("\udcff", b"x")]) for i in range(5)]
    records[2] = dataclasses.replace(records[2], value=b"\0" * size)
    world = plain_world(5, 3)
    world.source, world.targets[0] = Log(), Log()
    world.source.append(records, compressed=True)
    world.targets[0].append(records[:3], compressed=True, producer_id=OURS, epoch=0, sequence=0)

    (found,) = resumed(world.recover(START)).outlets

    assert found.pair == Pair(source=3, target=3, sequence=3)


def test_a_later_twin_of_a_copied_record_is_not_taken_for_it() -> None:
    """Source records 0 to 2 were copied, 2 is compacted away; 5 is the same as 1, and new."""
    records = [Rec(offset=i, key=b"%d" % i, value=b"%d" % i) for i in range(6)]
    records[5] = dataclasses.replace(records[1], offset=5)
    world = plain_world(6, 3)
    world.compacted = True
    world.source = Log()
    world.source.append([*records[:2], *records[3:]], 6)
    world.targets[0] = Log()
    world.targets[0].append(records[:3], producer_id=OURS, epoch=0, sequence=0)

    (found,) = resumed(world.recover(START)).outlets

    assert found.pair == Pair(source=3, target=3, sequence=3)


def test_a_claim_past_the_last_stable_offset_is_no_truncation() -> None:
    """Who mirrored before us has read a transaction that is open still."""
    world = plain_world(9, 0)
    world.source.stable = 5
    (found,) = resumed(world.recover({0: Pair(source=8, target=0, sequence=0)})).outlets
    assert found.pair.source == 8
    assert "truncated" in refused(world, {0: Pair(source=10, target=0, sequence=0)})


# -- records that look alike -----------------------------------------------------------------------


def _logs(world: World, source: dict[int, bytes], target: bytes, timestamp: int = -1) -> None:
    """The source's records by offset, and the target's: each a letter, its key and value."""

    def record(offset: int, letter: int) -> Rec:
        text = bytes([letter])
        return Rec(offset=offset, timestamp=timestamp, key=text, value=text)

    world.source, world.targets[0] = Log(), Log()
    letters = [record(offset, letter[0]) for offset, letter in source.items()]
    world.source.append(letters, letters[-1].offset + 1)
    copies = [record(offset, letter) for offset, letter in enumerate(target)]
    world.targets[0].append(copies, producer_id=OURS, epoch=0, sequence=0)


def test_a_longer_stretch_tells_records_apart_that_look_alike() -> None:
    """The source begins at q now; b and the second x come after the first."""
    world = plain_world(9, 4)
    _logs(world, {3: b"q", 4: b"x", 5: b"b", 6: b"x", 7: b"c"}, b"qxbx")
    world.source.start = 3

    (found,) = resumed(world.recover(START)).outlets

    assert found.pair == Pair(source=7, target=4, sequence=4)


@pytest.mark.parametrize("source", [b"xbxc", b"xxxx", b"xcde"])
def test_what_no_stretch_tells_apart_stops(source: bytes) -> None:
    """The target ends with an x without a time; the source begins with one, or has several."""
    world = plain_world(9, 4)
    _logs(world, {4 + i: source[i : i + 1] for i in range(len(source))}, b"axbx")
    world.source.start = 4
    assert "like the last one" in refused(world)


def test_counting_is_not_confirmed_by_a_look_alike() -> None:
    """a, b and x were copied, and b is compacted away; the third record that is left looks like x.
    What comes after may be of use to nobody, but nothing may be skipped on a guess."""
    world = plain_world(9, 3)
    world.compacted = True
    _logs(world, {0: b"a", 2: b"x", 3: b"x", 4: b"b"}, b"abx", timestamp=1_600_000_000_000)
    assert "like the last one" in refused(world)


def test_gaps_that_were_there_before_are_no_doubt() -> None:
    """Compacted before it was copied; the records carry no time, but each is where it was."""
    world = plain_world(9, 3)
    world.compacted = True
    _logs(world, {0: b"a", 4: b"b", 7: b"c", 8: b"d"}, b"abc")

    (found,) = resumed(world.recover(START)).outlets

    assert found.pair == Pair(source=8, target=3, sequence=3)


def test_a_record_that_neither_side_has_is_not_counted_in_a_new_one() -> None:
    """0 to 9 were copied; 9, a tombstone, is gone from both. The tenth that is left is new."""
    world = plain_world(15, 0)
    world.compacted = True
    records = [Rec(offset=i, timestamp=1_600_000_000_000 + i, value=b"%d" % i) for i in range(15)]
    world.source = Log()
    world.source.append([*records[:9], *records[10:]], 15)
    world.targets[0].append(records[:9], 10, producer_id=OURS, epoch=0, sequence=0)

    (found,) = resumed(world.recover(START)).outlets

    assert found.pair == Pair(source=10, target=10, sequence=10)


def test_nothing_is_copied_again_where_the_source_compacts_and_deletes() -> None:
    """0 to 6 were copied, so the copy reached into what remains: 7 and 8. It does not end there,
    for 6 was compacted away."""
    world = plain_world(9, 7)
    world.compacted = True
    world.source = Log()
    world.source.append([Rec(offset=i, value=b"%d" % i) for i in (7, 8)], 9)
    world.source.start = 5
    assert "is not among the remaining ones" in refused(world)


def test_a_target_that_lost_records_of_a_compacted_source() -> None:
    """Counted back over a gap, the record that the target should end with must be there."""
    world = plain_world(9, 4)
    world.compacted = True
    world.source = Log()
    world.source.append([Rec(offset=i, value=b"%d" % i) for i in (0, 1, 2, 4, 6)], 9)
    assert "does not end with" in refused(world, {0: Pair(source=7, target=7, sequence=7)})
