"""Recovery where a treatment leaves records out and changes others.

As test_recovery.py, over the same model: the series is what the treatment leaves of the source.
"""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from causeway.errors import DivergedError
from causeway.model import Pair
from tests.harness.examples import examples
from tests.harness.world import World, compact, resumed, worlds

MANY = settings(max_examples=examples(150))


def leaves_out(
    offset: int, key: bytes | None, value: bytes | None
) -> list[tuple[int, bytes, bytes]]:
    """Two of five; it changes the others."""
    return [] if offset % 5 < 2 else [(0, b"%s" % key, b"%s!" % value)]


def pairs_of(data: st.DataObject, world: World) -> dict[int, Pair]:
    world.treated = True
    index = data.draw(st.sampled_from([0, *_ends(world)]))
    return {0: world.pair(0, index, data.draw(st.integers(0, 3)))}


def _ends(world: World) -> list[int]:
    places = world.places[0]
    return [places.index(last) + 1 for _, last, _ in world.targets[0].batches if last in places]


@MANY
@given(worlds(transform=leaves_out), st.data())
def test_resumes_after_the_last_record_copied(world: World, data: st.DataObject) -> None:
    (found,) = resumed(world.recover(pairs_of(data, world))).outlets
    world.check(0, found)


@MANY
@given(worlds(transform=leaves_out, foreign=True), st.data())
def test_among_other_writers(world: World, data: st.DataObject) -> None:
    """As where mirrors go both ways."""
    (found,) = resumed(world.recover(pairs_of(data, world))).outlets
    world.check(0, found)


@MANY
@given(worlds(transform=leaves_out), st.data())
def test_the_target_lost_its_newest(world: World, data: st.DataObject) -> None:
    log, pairs = world.targets[0], pairs_of(data, world)
    keep = data.draw(st.integers(0, len(log.batches)))
    assume(keep or world.first_sequence == 0)
    log.batches = log.batches[:keep]
    log.end = log.batches[-1][1] + 1 if log.batches else 0
    world.copied[0] = log.end

    (found,) = resumed(world.recover(pairs)).outlets

    world.check(0, found)


@MANY
@given(worlds(transform=leaves_out), st.data())
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
@given(worlds(transform=leaves_out, keys=3), st.data())
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
