"""Where does a flow stand? Read it off the target's log; never guess, never resend blindly.

    source  ──S────────────────────●──────────►      S, T, q: the pair (progress, or newer)
              │ walk `count` records on     ▲        count: from q to the last sequence found
    target  ──T────────[ours]──[ours]───●──end►      ●: must be the same record

The last batch in the target's log from T on that bears our producer id says, by its last sequence,
how many records since S are there. The source is walked that many relayed records on; the last
one must equal the last one found in the target. A mismatch stops the partition.

Where the source was compacted meanwhile, counting walks too far; then the last source record that
the target holds too is where we stand. Where the source has deleted what was copied, the last
record found is looked for in what remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from causeway.errors import CausewayError, DivergedError, ProtocolError
from causeway.model import Pair, TopicPartition
from causeway.relay import walk
from causeway.relay.messages import Assignment, Outlet
from causeway.relay.route import shares
from causeway.relay.survey import Request, Survey, offsets_at, place_of, value_of
from causeway.relay.walk import Content, content_of
from causeway.wire.batches import (
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    SEQUENCE_SPACE,
    Batch,
    advance,
    distance,
)
from causeway.wire.cluster import Cluster
from causeway.wire.offsets import EARLIEST, LATEST
from causeway.wire.producers import last_sequence
from causeway.wire.records import decode, records_of, split


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedOutlet:
    """`pair` starts right after the last record found; `node` leads the target partition;
    `append_times`: the target gives our records times of its own (LogAppendTime)."""

    pair: Pair
    end: int
    exclusive: bool
    append_times: bool
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    outlets: tuple[ResumedOutlet, ...]
    leader_epoch: int
    source_node: int
    source_end: int


@dataclass(frozen=True, slots=True)
class _LastOfOurs:
    """The last record of ours that the target still has after the pair. `count`: how many of our
    records lie from the pair up to the last sequence; `index`: which of them (from 0) `content`
    is; None where compaction left no record of ours, or one that our codec can't read."""

    count: int
    index: int
    content: Content | None
    foreign: bool
    append_times: bool = False

    def comparable(self, content: Content) -> Content:
        """`content` without what the target changes."""
        return (None, *content[1:]) if self.append_times else content

    def is_copy_of(self, content: Content) -> bool:
        """Whether it is the source's record `content`."""
        return self.content is not None and (
            self.comparable(self.content) == self.comparable(content)
        )


def recover(
    requests: Sequence[Request], source: Cluster, target: Cluster
) -> dict[TopicPartition, Resumption | CausewayError]:
    """Find the place of each request's flow (all of one link). Blocks; keyed by source partition.

    A DivergedError needs a person; any other error can be tried again.
    """
    answers: dict[TopicPartition, Resumption | CausewayError] = {}
    try:
        survey = Survey.take(requests, source, target)
    except CausewayError as error:
        return {request.assignment.source_partition: error for request in requests}
    for request in requests:
        try:
            answer: Resumption | CausewayError = _recover_one(request, survey, source, target)
        except CausewayError as error:
            answer = error
        except Exception as error:  # a fault of ours in one flow holds up no other
            answer = CausewayError(
                "resume", str(request.assignment.source_partition), f"internal error: {error!r}"
            )
        answers[request.assignment.source_partition] = answer
    return answers


def _recover_one(request: Request, survey: Survey, source: Cluster, target: Cluster) -> Resumption:
    assignment = request.assignment
    place = assignment.source_partition
    source_node = value_of(survey.source_nodes[place])
    log = _SourceLog(
        source, value_of(survey.source_starts[place]), value_of(survey.source_ends[place])
    )
    resumed, epochs = [], []
    for outlet in assignment.outlets:
        node = value_of(survey.target_nodes[place_of(outlet)])
        end = value_of(survey.target_ends[place_of(outlet)])
        found = _find_place(assignment, outlet, log, end, target)
        epochs.append(found.epoch)
        resumed.append(
            ResumedOutlet(
                pair=found.pair,
                end=end,
                exclusive=found.exclusive,
                append_times=found.append_times,
                node=node,
            )
        )
    position = min(outlet.pair.source for outlet in resumed)
    if position < log.start:
        raise DivergedError(
            "resume",
            f"{assignment.link} {place}",
            f"the source deleted offsets {position} to {log.start - 1} before they were mirrored",
            remedy="start with --adopt to go on without them",
        )
    source_end = log.end
    if source_end < position:  # or another lane has mirrored what came since it was asked for
        source_end = _source_end(source, assignment)
    if source_end < position and position > _high_watermark(source, assignment):
        raise DivergedError(
            "resume",
            f"{assignment.link} {place}",
            f"the source ends at offset {source_end}, below {position}, which was mirrored: "
            "it was truncated",
            remedy="decide what the target should keep, then start with --adopt or --from",
        )
    first = min(range(len(resumed)), key=lambda i: resumed[i].pair.source)
    return Resumption(
        outlets=tuple(resumed),
        leader_epoch=epochs[first],
        source_node=source_node,
        source_end=source_end,
    )


class _SourceLog(NamedTuple):
    """`start`, `end`: of the source partition (for committed reads, its last stable offset)."""

    cluster: Cluster
    start: int
    end: int


class _Found(NamedTuple):
    """The pair after the last record of ours, that record's leader epoch in the source, whether
    nobody else writes, whether the target sets the times."""

    pair: Pair
    epoch: int
    exclusive: bool
    append_times: bool = False


def _find_place(
    assignment: Assignment,
    outlet: Outlet,
    source: _SourceLog,
    end: int,
    target: Cluster,
) -> _Found:
    pair, epoch = outlet.pair, assignment.leader_epoch
    if outlet.producer_id < 0 or end == pair.target:
        return _Found(pair, epoch, outlet.exclusive)
    if end < pair.target:
        return _count_back(assignment, outlet, source, end, target)
    last = _last_of_ours(assignment, outlet, end, target)
    exclusive = outlet.exclusive and not last.foreign
    if last.count == 0:
        following = pair.source
        return _Found(Pair(source=following, target=end, sequence=pair.sequence), epoch, exclusive)
    if source.start > pair.source:
        following, epoch = _walk_remains(assignment, pair, last, outlet, source)
    else:
        following, epoch = _walk_source(assignment, pair, last, outlet, end, source, target)
    sequence = advance(pair.sequence, last.count)
    moved = Pair(source=following, target=end, sequence=sequence)
    return _Found(moved, epoch, exclusive, last.append_times)


def _count_back(
    assignment: Assignment,
    outlet: Outlet,
    source: _SourceLog,
    end: int,
    target: Cluster,
) -> _Found:
    """The place in a target that lost what it had acknowledged (an unclean election): its last
    record of ours tells by its sequence how many relayed records before the pair to go back."""
    pair = outlet.pair
    found = _last_sequence_before(outlet, end, target)
    if found is not None:
        lost = distance(found, pair.sequence)
    elif outlet.exclusive:
        # Each offset was one record of ours, as far back as we began.
        lost = min(pair.target - end, pair.sequence)
    else:
        raise DivergedError(
            "resume",
            str(place_of(outlet)),
            f"the target lost offsets {end} to {pair.target - 1}, and nothing tells how many of "
            "them were ours",
            remedy="start with --adopt or --from",
        )
    lost_from = advance(pair.sequence, -lost)
    position = max(source.start, pair.source - lost)
    while True:
        batches = list(_relayed_between(source, assignment, position, pair.source, outlet))
        count = sum(batch.records for batch in batches)
        if count >= lost or position == source.start:
            break
        position = max(source.start, position - (lost - count))
    if count != lost:
        raise DivergedError(
            "resume",
            f"{assignment.link} {assignment.source_partition}",
            f"the target lost {lost} records that it had acknowledged, and the source no longer "
            "has them all",
            remedy="start with --from to go on with what is left",
        )
    epoch = batches[0].leader_epoch if batches else assignment.leader_epoch
    back = Pair(source=position, target=end, sequence=lost_from)
    return _Found(back, epoch, outlet.exclusive)


def _last_sequence_before(outlet: Outlet, end: int, target: Cluster) -> int | None:
    """The sequence after the last batch of ours below target offset `end`; None where the log has
    none."""
    window = 1
    while True:
        found = None
        start = max(0, end - window)
        for raw in walk.raw_batches(target, place_of(outlet), start, end):
            fields = HEADER.unpack_from(raw)
            if fields[9] == outlet.producer_id and not fields[5] & CONTROL:
                found = advance(fields[11], fields[6] + 1)
        if found is not None or start == 0:
            return found
        window *= 16


def _relayed_between(
    source: _SourceLog, assignment: Assignment, start: int, stop: int, outlet: Outlet
) -> Iterator[Batch]:
    """The relayed series in source offsets `start` to `stop` - 1."""
    for batch in _relayed(source, assignment, start, outlet):
        inside = sum(batch.source_offset(index) < stop for index in range(batch.records))
        if inside:
            yield batch if inside == batch.records else split(batch, 0, inside)
        if inside < batch.records:
            return


def _last_of_ours(assignment: Assignment, outlet: Outlet, end: int, target: Cluster) -> _LastOfOurs:
    pair = outlet.pair
    count, index, raw, foreign = 0, -1, None, False
    # Whether a batch does not lie where its sequence has it, each offset being a record of ours: an
    # old one that arrived late, perhaps in the place of the one that should lie there.
    moved = False
    following: int | None = None
    for batch in walk.raw_batches(target, place_of(outlet), pair.target, end):
        fields = HEADER.unpack_from(batch)
        base, attributes, last_delta, producer_id, sequence, records = (
            fields[0],
            fields[5],
            fields[6],
            fields[9],
            fields[11],
            fields[12],
        )
        if producer_id != outlet.producer_id or attributes & CONTROL:
            foreign = True
            continue
        if following is not None and distance(following, sequence) > SEQUENCE_SPACE // 2:
            raise _not_as_sent(outlet, f"sequence {sequence} lies where {following} should")
        following = advance(sequence, last_delta + 1)
        moved |= (base - pair.target) % SEQUENCE_SPACE != distance(pair.sequence, sequence)
        reached = distance(pair.sequence, following)
        if reached > SEQUENCE_SPACE // 2 or reached <= count:
            continue  # it lies before the pair
        count = reached
        if records:
            raw, index = batch, reached
    if foreign and outlet.exclusive and assignment.sole_writer:
        raise DivergedError(
            "resume",
            str(place_of(outlet)),
            f"somebody else wrote to it after offset {pair.target}",
            remedy="end the other writer and start with --adopt, or allow it with "
            "causeway.sole.writer=false",
        )
    if outlet.exclusive and not foreign:
        if moved or 0 < count != end - pair.target:
            raise _not_as_sent(outlet, f"it grew by {end - pair.target}, {count} records were sent")
        if count == 0:
            # Retention at the target may have deleted all that came after the pair. Nobody else
            # wrote, so each offset was one record of ours.
            return _LastOfOurs(end - pair.target, -1, None, foreign)
    if count == 0 and value_of(
        offsets_at(target, [place_of(outlet)], EARLIEST)[place_of(outlet)]
    ) > (pair.target):
        return _LastOfOurs(_remembered(outlet, target), -1, None, foreign)
    if raw is None:
        return _LastOfOurs(count, -1, None, foreign)
    fields = HEADER.unpack_from(raw)
    append_times = bool(fields[5] & LOG_APPEND_TIME)
    try:
        found = decode(raw)
    except ProtocolError:  # too large to be unpacked: lanes relay it as it is
        return _LastOfOurs(count, -1, None, foreign, append_times)
    missing = fields[0] + fields[6] - found[-1].offset  # compacted away at the batch's end
    return _LastOfOurs(count, index - 1 - missing, content_of(found[-1]), foreign, append_times)


def _not_as_sent(outlet: Outlet, cause: str) -> DivergedError:
    return DivergedError(
        "resume",
        str(place_of(outlet)),
        f"what the target got since offset {outlet.pair.target} is not what was sent, in its order "
        f"({cause}): it holds some twice, or lacks some, or holds somebody else's",
        remedy="compare both topics, then start with --adopt or --from",
    )


def _remembered(outlet: Outlet, target: Cluster) -> int:
    """How many records of ours came after the pair, by the broker's memory: the log has none of
    them any more, and where others write its offsets do not tell."""
    last = last_sequence(target, place_of(outlet), outlet.producer_id)
    if last is None:
        raise DivergedError(
            "resume",
            str(place_of(outlet)),
            f"the target has deleted what came after offset {outlet.pair.target}, and nothing "
            "tells how much of that was ours",
            remedy="start with --adopt or --from",
        )
    count = distance(outlet.pair.sequence, advance(last, 1))
    return count if count <= SEQUENCE_SPACE // 2 else 0


def _walk_source(
    assignment: Assignment,
    pair: Pair,
    last: _LastOfOurs,
    outlet: Outlet,
    end: int,
    source: _SourceLog,
    target: Cluster,
) -> tuple[int, int]:
    """The source offset after the last record that the target has, and that record's epoch."""
    seen = 0
    content: Content | None = None
    following: int | None = None
    epoch = -1
    for batch in _relayed(source, assignment, pair.source, outlet):
        if seen <= last.index < seen + batch.records:
            content = content_of(records_of(batch)[last.index - seen])
        if seen + batch.records >= last.count:
            left = last.count - seen
            following = batch.next if left == batch.records else batch.source_offset(left - 1) + 1
            epoch = batch.leader_epoch
            break
        seen += batch.records
    if following is not None and content is not None and last.is_copy_of(content):
        return following, epoch
    if "compact" in _cleanup_policy(source.cluster, assignment.topic):
        return _walk_compacted(assignment, pair, last, outlet, end, source, target)
    if following is not None and last.content is None:
        return following, epoch
    raise DivergedError(
        "resume",
        f"{assignment.link} {assignment.source_partition}",
        f"the target holds {last.count} records since source offset {pair.source}, and "
        + (
            "the source no longer has as many"
            if following is None
            else "the last of them is not the source's record at that place"
        ),
        remedy="compare both topics, then start with --adopt or --from",
    )


def _walk_remains(
    assignment: Assignment,
    pair: Pair,
    last: _LastOfOurs,
    outlet: Outlet,
    source: _SourceLog,
) -> tuple[int, int]:
    """As _walk_source, where the source has deleted its log past the pair: nothing is left to count
    from, so the last record found is looked for in what remains."""
    if last.content is None:
        raise _nothing_to_compare(assignment, pair)
    seen = 0
    earliest = pair.source + last.index  # each record took at least one offset
    for batch in _relayed(source, assignment, source.start, outlet):
        for index, record in enumerate(records_of(batch)):
            offset = batch.source_offset(index)
            if offset >= earliest and last.is_copy_of(content_of(record)):
                return offset + 1, batch.leader_epoch
        seen += batch.records
        if seen >= last.count:
            break
    # Had the copy reached into what remains, its last record would have been found there. So it
    # ended before; nothing is lost only if it ended right there.
    return min(pair.source + last.count, source.start), assignment.leader_epoch


def _nothing_to_compare(assignment: Assignment, pair: Pair) -> DivergedError:
    return DivergedError(
        "resume",
        f"{assignment.link} {assignment.source_partition}",
        f"the target has deleted all that it got since source offset {pair.source}, and of what "
        "the source had there some is gone as well: nothing tells how far the copy had come",
        remedy="start with --adopt or --from",
    )


def _walk_compacted(
    assignment: Assignment,
    pair: Pair,
    last: _LastOfOurs,
    outlet: Outlet,
    end: int,
    source: _SourceLog,
    target: Cluster,
) -> tuple[int, int]:
    """As _walk_source, for a source that was compacted after it was copied: it holds `last.count`
    records of the copied stretch or fewer, and the last of those that the target holds as well is
    where we stand. What was copied after that one is in neither log any more: what superseded it
    in the target came later in the copied stretch, and so in the source, where it superseded it
    too. (Of several records with the same key, value and timestamp one may be taken for another.)
    """
    if last.content is None:
        raise _nothing_to_compare(assignment, pair)
    copied = {
        hash(last.comparable(content_of(record)))
        for raw in walk.raw_batches(target, place_of(outlet), pair.target, end)
        if HEADER.unpack_from(raw)[9] == outlet.producer_id
        for record in decode(raw)
    }
    following, epoch = pair.source, assignment.leader_epoch
    seen = 0
    for batch in _relayed(source, assignment, pair.source, outlet):
        for index, record in enumerate(records_of(batch)):
            seen += 1
            if seen > last.count:
                return following, epoch
            if hash(last.comparable(content_of(record))) in copied:
                following = batch.source_offset(index) + 1
                epoch = batch.leader_epoch
    return following, epoch


def _relayed(
    source: _SourceLog, assignment: Assignment, position: int, outlet: Outlet
) -> Iterator[Batch]:
    """The relayed series from source offset `position` to the log's end, for one outlet."""
    count = len(assignment.outlets)
    which = assignment.outlets.index(outlet)
    for batch in walk.relayed(
        source.cluster,
        assignment.source_partition,
        position,
        read_committed=assignment.read_committed,
        end=source.end,
    ):
        share = batch if count == 1 else shares(batch, assignment)[which]
        if share is not None:
            yield share


def _source_end(source: Cluster, assignment: Assignment) -> int:
    place, committed = assignment.source_partition, assignment.read_committed
    return value_of(offsets_at(source, [place], LATEST, read_committed=committed)[place])


def _high_watermark(source: Cluster, assignment: Assignment) -> int:
    """A claim may lie past the last stable offset: who mirrored before us read what is open."""
    place = assignment.source_partition
    return value_of(offsets_at(source, [place], LATEST)[place])


def _cleanup_policy(cluster: Cluster, topic: str) -> str:
    entries = cluster.describe_configs([topic])[topic]
    if isinstance(entries, CausewayError):
        raise entries
    entry = entries.get("cleanup.policy")
    return (entry.value or "") if entry else ""
