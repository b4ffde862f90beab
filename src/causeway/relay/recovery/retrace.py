"""Reads the source again: finds the position of a copy that has n records since a pair.

    source  ──S──────────●────►        n records of the series from S on. The last one must be the
              0 1 2 … n-1              record that the target ends with

    compacted since    n records reach too far. Records below S + n were copied for sure (each took
                       at least one offset); later records only if the target has them too
    deleted since      S is gone. The target's last record is searched for in the remaining log
    lost by target     the target lost n copied records before S: the position is n records back

The search for a record must find only one record. Others may be alike (the same key, value and
timestamp, or no timestamp). If their neighbours do not tell them apart either, the partition stops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from causeway.cluster import Cluster, Content, content_of, raw_batches, relayed
from causeway.errors import DivergedError
from causeway.model import Pair
from causeway.records import (
    SEQUENCE_SPACE,
    Batch,
    BatchHeader,
    advance,
    clip,
    distance,
    records_of,
)
from causeway.relay.messages import Assignment
from causeway.relay.recovery.ours import LastOfOurs, PairTooHighError, TargetLog
from causeway.relay.recovery.survey import KEEPS_MOVING, ResumedOutlet, is_compacted, not_settled
from causeway.relay.treatment import Series


class _SourceRecord(NamedTuple):
    """A record of the source. `timed`: it has a timestamp, and the target kept it."""

    offset: int
    epoch: int
    fingerprint: int
    timed: bool


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The log of a source partition, from `start` to `end`, which is the last stable offset if only
    committed data is read. `series`: the records that its records become."""

    cluster: Cluster
    assignment: Assignment
    start: int
    end: int
    series: Series

    def relayed(self, position: int, target: TargetLog, stop: int | None = None) -> Iterator[Batch]:
        """Yields the relayed series from source offset `position` to the log's end, for one
        outlet. Reads no further than needed for the offsets below `stop`."""
        assignment = self.assignment
        which = assignment.outlets.index(target.outlet)
        batches = relayed(
            self.cluster,
            assignment.source_partition,
            position,
            read_committed=assignment.read_committed,
            end=self.end,
            stop=stop,
        )
        for parts in self.series(assignment, batches):
            share = parts[which]
            if share is not None:
                yield share

    def between(self, start: int, stop: int, target: TargetLog) -> Iterator[Batch]:
        """Yields the relayed series in source offsets `start` to `stop` - 1."""
        for batch in self.relayed(start, target, stop):
            inside = clip(batch, stop=stop)
            if inside is not None:
                yield inside
            if inside is not batch:
                return

    def first(self, last: LastOfOurs, position: int, target: TargetLog) -> list[_SourceRecord]:
        """Returns the first records of the series from `position` on, as many as the target has."""
        found: list[_SourceRecord] = []
        for batch in self.relayed(position, target):
            for index, record in enumerate(records_of(batch)):
                if len(found) == last.count:
                    return found
                content = last.comparable(content_of(record))
                timed = content[0] is not None and content[0] >= 0
                at = batch.source_offset(index)
                found.append(_SourceRecord(at, batch.leader_epoch, hash(content), timed))
        return found

    @property
    def is_compacted(self) -> bool:
        return is_compacted(self.cluster, self.assignment.topic)

    def diverged(
        self, cause: str, remedy: str = "compare both topics, then start with --adopt or --from"
    ) -> DivergedError:
        subject = f"{self.assignment.link} {self.assignment.source_partition}"
        return DivergedError("resume", subject, cause, remedy=remedy)


def walk(last: LastOfOurs, source: SourceLog, target: TargetLog) -> tuple[int, int]:
    """Returns the source offset after the last record that the target has, and that record's
    epoch."""
    pair = target.outlet.pair
    seen = 0
    content: Content | None = None
    following: int | None = None
    epoch = -1
    for batch in source.relayed(pair.source, target):
        if seen <= last.index < seen + batch.records:
            content = content_of(records_of(batch)[last.index - seen])
        if seen + batch.records >= last.count:
            left = last.count - seen
            _check_whole(source, batch, left)
            following = batch.next if left == batch.records else batch.source_offset(left - 1) + 1
            epoch = batch.leader_epoch
            break
        seen += batch.records
    agrees = last.content is None or (content is not None and last.is_copy_of(content))
    # If each offset has a record, nothing was compacted away. (Offsets up to `next` were dropped.)
    gapless = following is not None and following - pair.source == last.count
    if following is not None and agrees and gapless:
        return following, epoch
    if not gapless and source.is_compacted:
        return _walk_compacted(last, source, target)
    if following is not None and agrees:
        return following, epoch
    raise source.diverged(
        f"the target holds {last.count} records since source offset {pair.source}, and "
        + (
            "the source no longer has as many"
            if following is None
            else "the last of them is not the source's record at that place"
        ),
    )


def _walk_compacted(last: LastOfOurs, source: SourceLog, target: TargetLog) -> tuple[int, int]:
    """Like `walk`, for a source that was compacted after it was copied. It has at most `last.count`
    of the copied records. The position is after the last of them that the target has as well.

    Records that were copied after that record are in neither log any more. Compaction removed them
    from the target because of later records of the copy. The source has these later records too, so
    compaction removed the earlier ones there as well.
    """
    pair = target.outlet.pair
    if last.content is None:
        raise _nothing_to_compare(source, pair)
    copied = target.fingerprints(last)
    left = source.first(last, pair.source, target)
    if (
        len(left) == len(copied) == last.count
        and len(set(copied.values())) == len(copied) > 1
        and all(left[index].fingerprint == one for index, one in copied.items())
    ):
        return left[-1].offset + 1, left[-1].epoch  # nothing is missing: the gaps are older
    # Each record took at least one offset, unless a transform makes several records of one.
    certain = pair.source + (0 if source.assignment.transform else last.count)
    following, epoch = certain, source.assignment.leader_epoch
    times, places = Counter(copied.values()), Counter(one.fingerprint for one in left)
    ambiguous = False
    for one in left:
        if one.offset < certain:
            epoch = one.epoch
        elif one.fingerprint in times:
            following, epoch = one.offset + 1, one.epoch
            ambiguous = not one.timed or times[one.fingerprint] + places[one.fingerprint] > 2
    if ambiguous:
        raise _alike(source, following - 1)
    return following, epoch


def walk_remains(
    last: LastOfOurs, source: SourceLog, target: TargetLog
) -> tuple[int, int, int | None]:
    """Like `walk`, for a source that has deleted its log beyond the pair. There is no record to
    count from, so the target's last record is searched for in the rest of the log. Returns the
    position, the epoch, and `ResumedOutlet.lost_from`."""
    assignment, pair = source.assignment, target.outlet.pair
    if last.content is None:
        raise _nothing_to_compare(source, pair)
    compacted = source.is_compacted
    copied = {} if compacted else target.fingerprints(last)
    left = source.first(last, source.start, target)
    wanted = hash(last.comparable(last.content))
    # Each record took at least one offset.
    earliest = pair.source + (0 if assignment.transform else last.index)
    matches = []
    for place, one in enumerate(left):
        if one.fingerprint != wanted or one.offset < earliest:
            continue
        before = range(1, min(place, last.index) + 1)
        stretch = [back for back in before if last.index - back in copied]
        if all(left[place - back].fingerprint == copied[last.index - back] for back in stretch):
            matches.append((one, bool(stretch)))
    if matches:
        one, compared = matches[0]
        if len(matches) > 1 or not (one.timed or compared):
            raise _alike(source, one.offset)
        return one.offset + 1, one.epoch, None
    # If the copy reached into the remaining log, its last record would have been found there,
    # unless compaction removed it. So the copy ended before the remaining log. Nothing is lost only
    # if it ended right at its start.
    transformed = assignment.transform is not None
    least = pair.source + (0 if transformed else last.count)
    if least > source.start or compacted:
        raise source.diverged(
            f"the target holds {last.count} records since source offset {pair.source}. The source "
            f"has deleted its records below {source.start}, and the last record of the target is "
            "not among the remaining ones",
        )
    # If each offset is a record of this outlet, the copy ended at `least`.
    if transformed or assignment.treated or len(assignment.outlets) > 1:
        return source.start, assignment.leader_epoch, least if least < source.start else None
    return least, assignment.leader_epoch, None


def count_back(source: SourceLog, target: TargetLog) -> ResumedOutlet:
    """Finds the position in a target that lost acknowledged records (an unclean election). The
    sequence of our last record there gives the number of relayed records to go back from the pair.
    Raises CausewayError and PairTooHighError."""
    pair = target.outlet.pair
    if target.alone:
        before, following = target.last_alone()
    else:
        before, _ = target.last_before(min(target.end, pair.target))
        following = before.following if before else None
        if target.remembered is not None:
            following = advance(target.remembered, 1)
    if following is not None:
        lost = distance(following, pair.sequence)
    elif target.alone:
        lost = min(pair.target - target.end, pair.sequence)
    elif target.has_all:
        lost = pair.sequence  # the target has no record of ours
    else:
        raise source.diverged(
            f"the target ({target.outlet.at}) lost records before offset {pair.target}, and "
            "the logs do not show how many of them were ours",
        )
    if lost > SEQUENCE_SPACE // 2:  # no record is lost: our last record comes after the pair
        raise PairTooHighError(not_settled(target.outlet.at, KEEPS_MOVING))
    # One more record, which the target still has, shows whether the count is right.
    window = wanted = lost + 1
    while True:
        position = max(source.start, pair.source - window)
        between = source.between(position, pair.source, target)
        count = sum(batch.records for batch in between)
        if count >= wanted or position == source.start:
            break
        window *= 2
    if count < lost:
        raise source.diverged(
            f"the target lost {lost} records that it had acknowledged, and the source no longer "
            "has them all",
            remedy="start with --from to go on with the remaining records",
        )
    epoch = source.assignment.leader_epoch
    lost_from = advance(pair.sequence, -lost)
    skipped = max(0, count - wanted)
    first: Batch | None = None
    for first in source.between(position, pair.source, target):
        if skipped < first.records:
            epoch = first.leader_epoch
            break
        skipped -= first.records
    if first and count >= wanted:
        kept = records_of(first)[skipped]
        position = first.source_offset(skipped) + 1
        _check_whole(source, first, skipped + 1)
        gapless = pair.source - position == lost  # nothing was compacted away
        if (
            not gapless
            and before is not None
            and before.following == lost_from
            and not before.can_be(content_of(kept))
        ):
            raise source.diverged(
                f"the target lost {lost} records that it had acknowledged, and its log does not "
                f"end with the source's record at offset {position - 1}",
            )
    # The source may have deleted the next records. Then the caller stops the flow.
    back = Pair(source=min(position, pair.source), target=target.end, sequence=lost_from)
    return target.resumed(back, epoch)


def check_epoch(source: SourceLog) -> None:
    """Checks a source whose log has no entry for the leader epoch of the last relayed record.

    Either compaction left no record of that epoch, and the log was rebuilt from the others. Or
    another leader had other records at the same offsets: then the batch before our position has
    another epoch. Raises DivergedError in the second case. It cannot be seen if compaction has
    removed that batch.
    """
    assignment = source.assignment
    place, epoch = assignment.source_partition, assignment.leader_epoch
    position = max(outlet.pair.source for outlet in assignment.outlets)
    if epoch < 0 or position <= source.start:
        return
    for raw in raw_batches(source.cluster, place, position - 1, position):
        found = BatchHeader.of(raw).leader_epoch
        # With a transform, the last relayed record may be older than the batch before our position.
        if found < epoch or (found > epoch and assignment.transform is None):
            raise source.diverged(
                f"the source's record at offset {position - 1} has leader epoch {found}, but the "
                f"record that was mirrored from there had {epoch}: the source was truncated, and "
                "written to since",
            )


def _check_whole(source: SourceLog, batch: Batch, index: int) -> None:
    """Checks that no source record became records on both sides of `index` in `batch`: the target
    has the records before `index` and no later ones. All records that one source record became were
    sent in one batch, so the target has all of them or none."""
    offsets = batch.offsets
    if offsets is not None and index < len(offsets) and offsets[index] == offsets[index - 1]:
        raise source.diverged(
            "the target has only some of the records that the source's record at offset "
            f"{offsets[index]} became",
        )


def _alike(source: SourceLog, offset: int) -> DivergedError:
    return source.diverged(
        "the source has several records that are like the last one of the target (one is at "
        f"offset {offset}), or they have no timestamp: the logs do not show which was copied last",
    )


def _nothing_to_compare(source: SourceLog, pair: Pair) -> DivergedError:
    return source.diverged(
        f"the target has deleted all records that it got since source offset {pair.source}, and "
        "the source has deleted some of them too: the logs do not show how far the copy had come",
        remedy="start with --adopt or --from",
    )
