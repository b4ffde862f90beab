"""Recovery where a transform drops records, makes several of one, and routes them.

As test_recovery.py, over the same model: the series is what the transform makes of the source.
"""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from causeway.errors import DivergedError
from causeway.model import Pair
from causeway.relay import gone
from tests.harness.examples import examples
from tests.harness.raw_batches import Rec
from tests.harness.world import OURS, START, Log, World, compact, refused, resumed, worlds

MANY = settings(max_examples=examples(150))


def drops_and_doubles(
    offset: int, key: bytes | None, value: bytes | None
) -> list[tuple[int, bytes, bytes]]:
    """To one target partition."""
    return [
        (0, b"%s/%d" % (key, at), b"%s.%d" % (value, at)) for at in range((1, 0, 3, 2)[offset % 4])
    ]


def routes(offset: int, key: bytes | None, value: bytes | None) -> list[tuple[int, bytes, bytes]]:
    """To three, several at once from one record."""
    places = ([0], [], [1, 1, 2], [2, 0])[offset % 4]
    return [(place, b"%s" % key, b"%s.%d" % (value, at)) for at, place in enumerate(places)]


def pairs_of(data: st.DataObject, world: World) -> dict[int, Pair]:
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


@MANY
@given(worlds(transform=drops_and_doubles), st.data())
def test_resumes_after_the_last_record_copied(world: World, data: st.DataObject) -> None:
    (found,) = resumed(world.recover(pairs_of(data, world))).outlets
    world.check(0, found)


@MANY
@given(worlds(transform=drops_and_doubles, foreign=True), st.data())
def test_among_other_writers(world: World, data: st.DataObject) -> None:
    (found,) = resumed(world.recover(pairs_of(data, world))).outlets
    world.check(0, found)


@MANY
@given(worlds(transform=routes, outlets=3), st.data())
def test_each_of_several_outlets(world: World, data: st.DataObject) -> None:
    outlets = resumed(world.recover(pairs_of(data, world))).outlets
    for partition, found in enumerate(outlets):
        world.check(partition, found)


@MANY
@given(worlds(transform=drops_and_doubles), st.data())
def test_the_target_lost_its_newest(world: World, data: st.DataObject) -> None:
    log = world.targets[0]
    pairs = pairs_of(data, world)
    keep = data.draw(st.integers(0, len(log.batches)))
    assume(keep or world.first_sequence == 0)
    log.batches = log.batches[:keep]
    log.end = log.batches[-1][1] + 1 if log.batches else 0
    world.copied[0] = log.end

    (found,) = resumed(world.recover(pairs)).outlets

    world.check(0, found)


@MANY
@given(worlds(transform=drops_and_doubles), st.data())
def test_the_source_deleted_its_oldest(world: World, data: st.DataObject) -> None:
    """It resumes, or stops; it never skips a record, nor sends one twice."""
    pairs = pairs_of(data, world)
    world.source.start = data.draw(st.integers(0, world.source.end))
    share, copied = world.shares[0], world.copied[0]
    lost = [r for r in share[copied:] if r.offset < world.source.start]

    answer = world.recover(pairs)

    if isinstance(answer, DivergedError):
        return
    (found,) = resumed(answer).outlets
    assert not lost or found.pair.source <= min(r.offset for r in lost)
    world.check(0, found)


@MANY
@given(worlds(transform=drops_and_doubles, keys=3), st.data())
def test_logs_compacted_after_the_copy(world: World, data: st.DataObject) -> None:
    """It resumes at the right place, or stops where nothing tells."""
    world.compacted = True
    pairs = pairs_of(data, world)
    compact(world.source, data.draw(st.integers(0, world.source.end)), world.source.aborted)
    log = world.targets[0]
    newest = log.batches[-1][0] if log.batches else 0
    compact(log, data.draw(st.integers(0, newest)), [])

    answer = world.recover(pairs)

    if not isinstance(answer, DivergedError):
        world.check(0, resumed(answer).outlets[0])


def test_some_of_what_one_record_became_is_not_taken_for_all_of_it() -> None:
    """It was sent in one batch, so somebody else must have been at work."""
    source, target = Log(), Log()
    source.append([Rec(offset=at, key=b"k", value=b"%d" % at) for at in range(4)])
    copied = [Rec(offset=0, key=b"k/0", value=b"0.0"), Rec(offset=1, key=b"k/0", value=b"2.0")]
    target.append(copied, producer_id=OURS, epoch=0, sequence=0)
    world = World(
        source=source,
        targets={0: target},
        series=[],
        shares={0: []},
        copied={0: 2},
        places={0: [0, 1]},
        first_sequence=0,
        exclusive=True,
        transform=drops_and_doubles,
    )
    assert "only some of the records" in refused(world, START)


def test_what_a_predecessor_dropped_for_ever_is_walked_once() -> None:
    """A target that lost its only records, long before a stretch of which nothing was copied."""

    def only_first(
        offset: int, key: bytes | None, value: bytes | None
    ) -> list[tuple[int, bytes, bytes]]:
        return [(0, b"k", b"v")] if offset == 0 else []

    source, target = Log(), Log()
    for _ in range(300):
        source.append([Rec(offset=source.end + at, key=b"k") for at in range(10)])
    world = World(
        source=source,
        targets={0: target},
        series=[],
        shares={0: [Rec(offset=0)]},
        copied={0: 0},
        places={0: []},
        first_sequence=0,
        exclusive=True,
        transform=only_first,
    )
    (found,) = resumed(world.recover({0: Pair(source=3000, target=1, sequence=1)})).outlets
    assert found.pair.sequence == 0
    assert found.pair.source == 0


def test_what_a_transform_that_is_gone_has_made_is_not_taken_for_what_was_relayed() -> None:
    """Of records that are all alike every other one was let through: counted as they are, they
    would end in the wrong place."""
    source, target = Log(), Log()
    source.append(
        [Rec(offset=at, timestamp=1, key=b"k", value=b"xy"[at % 2 :][:1]) for at in range(5)]
    )
    target.append(
        [Rec(offset=at, timestamp=1, key=b"k", value=b"x") for at in range(3)],
        producer_id=OURS,
        epoch=0,
        sequence=0,
    )
    world = World(
        source=source,
        targets={0: target},
        series=[],
        shares={0: []},
        copied={0: 3},
        places={0: [0, 1, 2]},
        first_sequence=0,
        exclusive=True,
        series_hook=gone,
    )
    assert "cannot be made again" in refused(world, START)
    ended = {0: Pair(source=5, target=3, sequence=3)}
    assert resumed(world.recover(ended)).outlets[0].pair == ended[0]
