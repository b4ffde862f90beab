"""Finds our records in a target's log: the last one after a pair, or before it if some are lost.

target  ──T────────[ours]──[others']──[ours]──end►      T, q: the pair
          │ sequence q                     ▲
          └ before it lies q − 1, or         the last batch of ours: count records since q
            records that were acknowledged are lost

Our batches in a log must follow one another by their sequences. A target that lost acknowledged
records may have lost all its knowledge of our producer as well. Then it takes the next batch that
arrives, with any sequence, and the records between are missing in the middle of the log:

    ──[ours, to q0 − 1] ┊ lost: q0 to q − 1      ──[ours, to q0 − 1]──[ours, q …]──

These records cannot be put there any more, so a partition with such a hole stops. Compaction leaves
gaps in the sequences, too. If we are the only writer, offsets show the difference: all our batches
in a log have the same difference of offset and sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from causeway.cluster import (
    EARLIEST,
    Cluster,
    Content,
    content_of,
    log_reader,
    offsets_at,
    value_of,
)
from causeway.errors import CausewayError, DivergedError, ProtocolError
from causeway.link_topics import Outlet
from causeway.records import (
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    SEQUENCE_SPACE,
    Record,
    advance,
    decode,
    distance,
)
from causeway.relay.messages import Assignment
from causeway.relay.recovery.survey import cleanup_policy

# Where others write and the broker has forgotten our producer, so much of the log is looked through
# for our last batch: an unclean election loses a log's newest records, and cheap it must be.
LOOKED_BACK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LastOfOurs:
    """The last record of ours that the target still has after the pair. `count`: how many of our
    records lie from the pair up to the last sequence; `index`: which of them (from 0) `content`
    is; None if compaction left no record of ours, or one too large to unpack. `following`: the
    sequence after the last batch of ours from the pair's target offset on, where `count` is 0 and
    there is one: records that the target had lost were sent again, up to the pair or less far."""

    count: int
    index: int
    content: Content | None
    foreign: bool
    append_times: bool = False
    following: int | None = None

    def comparable(self, content: Content) -> Content:
        """`content` without what the target changes."""
        return (None, *content[1:]) if self.append_times else content

    def is_copy_of(self, content: Content) -> bool:
        """Whether it is the source's record `content`."""
        return self.content is not None and (
            self.comparable(self.content) == self.comparable(content)
        )


class PairTooHighError(Exception):
    """What of ours came after a pair may lie below its target offset: see `lowered`. `otherwise`
    is what to say where it does not."""

    def __init__(self, otherwise: CausewayError) -> None:
        super().__init__(str(otherwise))
        self.otherwise = otherwise


class Before(NamedTuple):
    """The last batch of ours below some target offset. `following`: the sequence after it; `end`:
    the target offset after it; `content`: of its last record, None where compaction left none."""

    following: int
    end: int
    content: Content | None
    append_times: bool

    def can_be(self, content: Content) -> bool:
        """Whether the source's record `content` may be its last one."""
        if self.content is None:
            return True
        kept = slice(1, None) if self.append_times else slice(None)
        return self.content[kept] == content[kept]


def last_of_ours(assignment: Assignment, outlet: Outlet, end: int, target: Cluster) -> LastOfOurs:
    """Raises CausewayError, PairTooHighError."""
    pair = outlet.pair
    count, index, raw, foreign = 0, -1, None, False
    # Whether a batch does not lie where its sequence has it, each offset being a record of ours: an
    # old one that arrived late, perhaps in the place of the one that should lie there.
    moved = False
    following: int | None = None
    first: tuple[int, int] | None = None  # offset and sequence of the first batch of ours
    lacking: str | None = None
    for batch in log_reader.raw_batches(target, outlet.at, pair.target, end):
        fields = HEADER.unpack_from(batch)
        if not _is_ours(fields, outlet):
            foreign = True
            continue
        base, last_delta, sequence, records = fields[0], fields[6], fields[11], fields[12]
        first = first or (base, sequence)
        expected = pair.sequence if following is None else following
        ahead = distance(expected, sequence)
        if ahead > SEQUENCE_SPACE // 2:
            if following is not None:
                raise not_as_sent(outlet, f"sequence {sequence} lies where {expected} should")
        elif ahead and lacking is None:
            lacking = f"sequence {sequence} lies where {expected} should"
        following = advance(sequence, last_delta + 1)
        moved |= (base - pair.target) % SEQUENCE_SPACE != distance(pair.sequence, sequence)
        reached = distance(pair.sequence, following)
        if reached > SEQUENCE_SPACE // 2 or reached <= count:
            continue  # it lies before the pair
        count = reached
        if records:
            raw, index = batch, reached
    alone = assignment.is_ours_alone(outlet)
    if alone and foreign:
        raise DivergedError(
            "resume",
            str(outlet.at),
            f"another client wrote to it after offset {pair.target}",
            remedy="end the other writer and start with --adopt, or allow it with "
            "causeway.sole.writer=false",
        )
    if alone:
        if moved or 0 < count != end - pair.target:
            cause = f"it grew by {end - pair.target}, {count} records were sent"
            raise PairTooHighError(not_as_sent(outlet, cause))
        if count == 0:
            # Retention at the target may have deleted all that came after the pair. Nobody else
            # wrote, so each offset was one record of ours.
            return LastOfOurs(end - pair.target, -1, None, foreign)
    elif lacking and log_start(target, outlet) <= pair.target and not is_compacted(target, outlet):
        raise PairTooHighError(not_as_sent(outlet, lacking))
    elif first is not None:
        _check_follows(outlet, *first, target)
    if raw is None:
        return LastOfOurs(count, -1, None, foreign, following=following)
    fields = HEADER.unpack_from(raw)
    append_times = bool(fields[5] & LOG_APPEND_TIME)
    found = _decoded(raw)
    if not found:
        return LastOfOurs(count, -1, None, foreign, append_times)
    missing = fields[0] + fields[6] - found[-1].offset  # compacted away at the batch's end
    return LastOfOurs(count, index - 1 - missing, content_of(found[-1]), foreign, append_times)


def moved_since(outlet: Outlet, remembered: int | None, target: Cluster) -> int | None:
    """How many records of ours came after the pair, where others write and the log has none of ours
    after it: 0; more where the target deleted them since; less where it lost some of those before
    the pair, and others' lie there. None where nothing tells.

    `remembered`: our last sequence by the broker's memory, which it has from its log; it knows no
    more where it has forgotten our producer. Then the log itself is looked through.
    """
    pair = outlet.pair
    if remembered is not None:
        following = advance(remembered, 1)
    elif not pair.sequence or not pair.target:
        return None  # nothing lies before the pair
    else:
        found, whole = last_before(outlet, pair.target, target, most_bytes=LOOKED_BACK_BYTES)
        if found is not None:
            following = found.following
        elif whole and not log_start(target, outlet) and not is_compacted(target, outlet):
            return -pair.sequence  # it never deleted anything, and has nothing of ours: all is lost
        else:
            return None
    ahead = distance(pair.sequence, following)
    return ahead if ahead <= SEQUENCE_SPACE // 2 else ahead - SEQUENCE_SPACE


def _check_follows(outlet: Outlet, base: int, sequence: int, target: Cluster) -> None:
    """Check that our batch with `sequence`, at offset `base`, follows our batch before it. Raises
    DivergedError if the log shows that it does not."""
    before, whole = last_before(outlet, base, target, most_bytes=LOOKED_BACK_BYTES)
    if before is None:
        counted = outlet.pair.sequence <= outlet.pair.target  # from 0 on: sequences did not wrap
        if not whole or not counted or log_start(target, outlet):
            return
    following = before.following if before else 0
    if following != sequence and not is_compacted(target, outlet):
        raise not_as_sent(outlet, f"sequence {sequence} lies where {following} should")


def lowered(outlet: Outlet, end: int, target: Cluster) -> Outlet | None:
    """`outlet` with its pair lowered to the record with its sequence, in a log that ends at `end`;
    None where that record does not lie below the pair.

    The target lost others' newest records up to the pair. Our later records took their offsets, and
    the lane that sent them died before it could report that:

        ──[ours, to q − 1]──[others' ┊ lost]──T      ──[ours, to q − 1]──[others']──[ours, q …]──T

    Raises DivergedError where that record does not come right after the one with sequence q − 1:
    then the target lost records of ours as well, and has taken later ones in their place.
    """
    pair = outlet.pair
    stop = min(end, pair.target)
    newest, _ = last_before(outlet, stop, target)
    if newest is None or not is_past(pair.sequence, newest.following):
        return None
    before, _ = last_before(outlet, stop, target, upto=pair.sequence)
    start, following = (before.end, before.following) if before else (0, 0)
    for raw in log_reader.raw_batches(target, outlet.at, start, stop):
        fields = HEADER.unpack_from(raw)
        if not _is_ours(fields, outlet):
            continue
        base, sequence = fields[0], fields[11]
        if sequence != following:
            raise not_as_sent(outlet, f"sequence {sequence} lies where {following} should")
        lower = pair._replace(target=base + distance(sequence, pair.sequence))
        return outlet.replace(pair=lower) if lower.target < pair.target else None
    return None


def last_alone(outlet: Outlet, end: int, target: Cluster) -> tuple[Before | None, int | None]:
    """For a target with no other writer, whose log ends at `end`, at the pair or below it: the last
    batch, if it is ours, and the next sequence, None if the log does not show it.

    Raises DivergedError if the log has a hole, or holds a batch of another writer.
    """
    pair = outlet.pair
    raw = _last_batch(outlet, end, target)
    if raw is None:
        return None, None
    fields = HEADER.unpack_from(raw)
    if not _is_ours(fields, outlet):
        if fields[0] + fields[6] >= pair.target - pair.sequence:  # not before all of ours
            raise not_as_sent(outlet, f"a foreign batch is at offset {fields[0]}")
        return None, max(0, pair.sequence - (pair.target - end))  # compaction removed the rest
    last = _before(raw)
    if _shift(fields) != (pair.target - pair.sequence) % SEQUENCE_SPACE:
        _check_unbroken(outlet, fields, target)
    return last, advance(last.following, end - last.end)  # compaction removed the rest


def is_at_pair(outlet: Outlet, remembered: int | None, target: Cluster) -> bool:
    """Whether the record before the pair is our last one. For a target with no other writer, whose
    log ends at the pair. `remembered`: as in `moved_since`. Raises DivergedError as `last_alone`.
    """
    sequence = outlet.pair.sequence
    if remembered is not None and advance(remembered, 1) == sequence:
        return True
    _, following = last_alone(outlet, outlet.pair.target, target)
    return following is None or following == sequence


def _last_batch(outlet: Outlet, end: int, target: Cluster) -> memoryview | None:
    """The last batch below target offset `end`, of any producer."""
    stop, window = end, 1
    while True:
        start, last = max(0, end - window), None
        for raw in log_reader.raw_batches(target, outlet.at, start, stop):
            last = raw
        if last is not None or not start:
            return last
        stop, window = start, window * 16


def _check_unbroken(outlet: Outlet, newest: tuple[int, ...], target: Cluster) -> None:
    """Check that all our batches up to the one with the header fields `newest` have its difference
    of offset and sequence. That holds if the target lost all our records, and records of others
    before them: then the records that were sent again lie below the pair."""
    shift, stop, window = _shift(newest), newest[0], 1
    begun = not newest[11]
    while stop > 0 and not begun:
        start = max(0, stop - window)
        for raw in log_reader.raw_batches(target, outlet.at, start, stop):
            fields = HEADER.unpack_from(raw)
            if not _is_ours(fields, outlet):
                continue
            if _shift(fields) != shift:
                following = (newest[0] - _shift(fields)) % SEQUENCE_SPACE
                cause = f"sequence {newest[11]} lies where {following} should"
                raise not_as_sent(outlet, cause)
            begun |= not fields[11]
        stop, window = start, window * 16


def is_past(sequence: int, following: int) -> bool:
    """Whether records from `sequence` on come before sequence `following`."""
    return 0 < distance(sequence, following) <= SEQUENCE_SPACE // 2


def last_before(
    outlet: Outlet,
    end: int,
    target: Cluster,
    *,
    upto: int | None = None,
    most_bytes: int | None = None,
) -> tuple[Before | None, bool]:
    """The last batch of ours below target offset `end`, of those that end before sequence `upto`;
    looked for in ever longer stretches; and whether the whole log was looked through, where it has
    none in `most_bytes`."""
    stop, window, read = end, 1, 0
    while True:
        start = max(0, end - window)
        found = None
        for raw in log_reader.raw_batches(target, outlet.at, start, stop):
            read += len(raw)
            fields = HEADER.unpack_from(raw)
            if _is_ours(fields, outlet) and (upto is None or not is_past(upto, _following(fields))):
                found = raw
            if most_bytes is not None and read > most_bytes:
                return None, False
        if found is not None:
            return _before(found), False
        if start == 0:
            return None, True
        stop, window = start, window * 16


def fingerprints(outlet: Outlet, end: int, last: LastOfOurs, target: Cluster) -> dict[int, int]:
    """Our records from the pair to target offset `end`: which of them (from 0), and a hash of what
    the target did not change of it."""
    pair = outlet.pair
    found: dict[int, int] = {}
    for raw in log_reader.raw_batches(target, outlet.at, pair.target, end):
        fields = HEADER.unpack_from(raw)
        if not _is_ours(fields, outlet):
            continue
        first = distance(pair.sequence, fields[11])
        for record in _decoded(raw):
            index = (first + record.offset - fields[0]) % SEQUENCE_SPACE
            if index < last.count:
                found[index] = hash(last.comparable(content_of(record)))
    return found


def log_start(target: Cluster, outlet: Outlet) -> int:
    place = outlet.at
    return value_of(offsets_at(target, [place], EARLIEST)[place])


def is_compacted(target: Cluster, outlet: Outlet) -> bool:
    return "compact" in cleanup_policy(target, outlet.topic)


def _is_ours(fields: tuple[int, ...], outlet: Outlet) -> bool:
    return fields[9] == outlet.producer_id and not fields[5] & CONTROL


def _following(fields: tuple[int, ...]) -> int:
    return advance(fields[11], fields[6] + 1)


def _shift(fields: tuple[int, ...]) -> int:
    """Of a batch's offset and its sequence."""
    return (fields[0] - fields[11]) % SEQUENCE_SPACE


def _before(raw: memoryview) -> Before:
    fields = HEADER.unpack_from(raw)
    found = _decoded(raw)
    last = fields[0] + fields[6]
    content = content_of(found[-1]) if found and found[-1].offset == last else None
    return Before(_following(fields), last + 1, content, bool(fields[5] & LOG_APPEND_TIME))


def _decoded(raw: memoryview) -> list[Record]:
    """None of them where they are too large to be unpacked: lanes relay those as they are."""
    try:
        return decode(raw)
    except ProtocolError:
        return []


def not_as_sent(outlet: Outlet, cause: str) -> DivergedError:
    return DivergedError(
        "resume",
        str(outlet.at),
        f"what the target got since offset {outlet.pair.target} is not what was sent, in its order "
        f"({cause}): it holds some records twice, or lacks some, or holds foreign ones",
        remedy="compare both topics, then start with --adopt or --from",
    )
