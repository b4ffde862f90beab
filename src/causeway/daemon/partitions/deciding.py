"""Decides for each partition that a leader finds: go on, begin, or stop. Pure.

a directive says where to begin, and that is       begin there, once; but not if the topic was
not done yet                                       recreated since
direction has ended                                came from the target
no progress, target empty, or others write too     begin
no progress, but MirrorMaker 2's positions         go on from there if the source has no more;
                                                   else after the target's last record, as
                                                   MirrorMaker 2 may have copied more; stop if that
                                                   record is not found
no progress, target has data                       stop: its relation to the source is unknown;
                                                   begin if the file says that others write to
                                                   the target too, or if another link wrote the
                                                   data, unless earlier progress was lost
progress, both topics are still the same           go on; a lane's recovery finds mistakes
the same, but the source has more partitions than  go on, by key from the source's end on
the target, and keys decide                        (see routing.py)
the same, but MirrorMaker 2 may have mirrored      go on after the target's last record; stop if
since: its positions and the target have grown     that record is not found in the source
progress, a topic was recreated                    stop; begin if it holds heartbeats
progress, and keys would change their partition    stop
progress that is for another transform, or for     begin right behind the mirrored records, if that
none                                               is one offset for all outlets; else stop
stopped by a loss that may be passed over, or      go on behind it, with the same producer ids
that a person acknowledges (see claim_checks.py)
stopped, and a person says --from TIMESTAMP        begin again there
stopped, and a person says --adopt                 begin after the target's last record; if it is
                                                   not found, where the partition stopped

preserving.py decides how a partition that keeps its offsets begins, also if a person asks for that.
If it was mirrored with translated offsets before, both logs must be the same. If its offsets are
translated from now on, it begins right behind the mirrored records.
"""

from __future__ import annotations

from causeway.control import Copied, MirroredTopic, UnconfirmedCopy, claim_checks
from causeway.daemon.partitions import preserving, routing
from causeway.daemon.partitions.decisions import (
    Adopt,
    Begin,
    BeginBehind,
    Candidate,
    Decision,
    GoByKey,
    GoOn,
    Offsets,
    PassOver,
    Stop,
)
from causeway.link_topics import TRANSLATED, PartitionProgress
from causeway.model import NO_TOPIC_ID, State, same_topic

_UNDER_WAY = "changed while records of the earlier version were under way"
_NO_MORE = "it has no transform or treatment any more"


def decide(one: Candidate) -> Decision:
    """Returns the decision about one partition."""
    topic, progress, offsets, wish = one.topic, one.progress, one.offsets, one.wish
    if (first := _after_failback(one)) is not None:
        if one.keeps and isinstance(first, Begin):
            return preserving.begin(one, one.start)
        return first
    if progress is None or one.is_new:
        return preserving.begin(one) if one.keeps else _decide_new(one)
    targets = routing.targets_of(topic, one.partition)
    turns = one.keeps and not progress.preserves  # it is to keep its offsets from now on
    if (
        not turns
        and transform_change(progress, one.transform)
        and not claim_checks.why_another(progress, topic)
    ):
        return _begin_behind(one, progress)
    over = _pass_over(one, progress)
    reason = None if over else _reason_to_stop(topic, progress)
    if reason is None:
        copied = one.copied
        if (
            copied is not None
            and not one.keeps
            and not copied.ours
            and copied.offset >= progress.position
            and len(progress.outlets) == 1
            and offsets.target_ends[progress.outlets[0].partition] > progress.outlets[0].pair.target
        ):
            # MirrorMaker 2 may have written to the target after us. But its position may also be
            # older than our claim, and our own records may have come after it. Only the records
            # themselves show which is true.
            return Adopt(
                start=None,
                target=targets[0],
                reason=_by_mirror_maker(topic, copied),
                floor=progress.position,
            )
        if over is not None:
            return over
        known = _with_ids(progress, topic)
        if turns:
            return preserving.go_on(one, known)
        if progress.preserves and not one.keeps:
            return preserving.translate(one, known, None)
        if routing.is_other(topic, progress):
            return GoByKey(progress=known, start=max(offsets.end, progress.position))
        return GoOn(progress=known)
    if one.keeps:
        return preserving.begin(one) if wish.acts else Stop(reason=reason, loss=progress.loss)
    another = claim_checks.why_another(progress, topic)
    if progress.preserves and another is None and (progress.loss is None or wish.translate):
        return preserving.translate(one, _with_ids(progress, topic), reason)
    if wish.translate and another is None:
        return GoOn(progress=_with_ids(progress, topic).replace(offsets_from=TRANSLATED))
    if wish.start_from is not None:
        return Begin(start=offsets.start, targets=targets)
    beats = one.link.policy.is_heartbeats_topic(topic.source)  # heartbeats may be lost
    if not (wish.adopt or beats):
        return Stop(reason=reason, loss=progress.loss)
    if not same_topic(progress.topic_id, topic.source_id):
        return Begin(start=offsets.log_start, targets=targets)
    start = _where_it_stopped(progress, offsets)
    if beats:
        return Begin(start=start, targets=targets)
    # The source does not contain the records that a transform has made.
    if len(targets) > 1 or not offsets.target_ends[targets[0]] or one.transform is not None:
        return Begin(start=start, targets=targets)
    return Adopt(start=start, target=targets[0], reason=reason)


def _after_failback(one: Candidate) -> Begin | Stop | None:
    """Returns the decision by a directive or by an ended reverse mirror; None if neither applies.
    None too if progress was lost, because the partition may have begun there already."""
    progress, start = one.progress, one.start
    if progress is None and one.progress_lost:
        return None
    if start is not None and not same_topic(start.of, one.topic.source_id):
        start = None  # another topic has the name now
    if start is not None and (progress is None or progress.begun != start.by):
        targets = routing.targets_of(one.topic, one.partition)
        return Begin(start=max(start.offset, one.offsets.log_start), targets=targets, by=start.by)
    if one.reverse_ended and not one.wish.acts and one.is_new:
        return Stop(
            reason=f"a mirror in the reverse direction, of {one.topic.target} to "
            f"{one.topic.source}, has ended: its records would come back; `causeway failback` "
            f"begins behind them ({claim_checks.ACT})"
        )
    return None


def _pass_over(one: Candidate, progress: PartitionProgress) -> PassOver | None:
    """Returns None if nothing is lost, or if the loss belongs to an earlier topic of that name."""
    loss = progress.loss
    if loss is None or one.wish.start_from is not None:
        return None
    if claim_checks.why_another(progress, one.topic) or routing.is_other(one.topic, progress):
        return None
    known = _with_ids(progress, one.topic)
    if one.wish.adopt:
        # Meanwhile more may be lost.
        return PassOver(progress=known, to=max(loss.to, one.offsets.log_start), adopted=True)
    if claim_checks.passes(progress, one.link.on_data_loss):
        return PassOver(progress=known, to=loss.to, adopted=False)
    return None


def _where_it_stopped(progress: PartitionProgress, offsets: Offsets) -> int:
    return max(min(progress.position, offsets.end), offsets.log_start)


def transform_change(progress: PartitionProgress, transform: str | None) -> str | None:
    """Returns the consequence for a partition if its transform or treatment has changed; None if it
    has not. `transform`: the identity of the current one."""
    if not progress.outlets or progress.transform == transform:
        return None
    if progress.transform is None:
        what = "go through a transform or treatment"
        return f"from offset {progress.position} on its records {what}"
    what = "its transform or treatment changed" if transform else _NO_MORE
    offsets = {outlet.pair.source for outlet in progress.outlets}
    if len(offsets) == 1:
        return (
            f"{what}: from offset {progress.position} on, if the earlier one's driver ended in "
            "order; else it stops"
        )
    return f"{what} while records of the earlier one were under way: it stops, unless they all came"


def _begin_behind(one: Candidate, progress: PartitionProgress) -> Begin | BeginBehind:
    targets = routing.targets_of(one.topic, one.partition)
    otherwise: Begin | Stop
    if one.wish.start_from is not None and not one.keeps:
        otherwise = Begin(start=one.offsets.start, targets=targets)
        if progress.state is State.STOPPED:
            return otherwise
    elif one.wish.adopt and not one.keeps:
        otherwise = Begin(start=_where_it_stopped(progress, one.offsets), targets=targets)
    else:
        what = "the transform or treatment" if progress.transform else "the relaying"
        otherwise = Stop(
            reason=f"{what} of {one.topic.source} {_UNDER_WAY}: run once with the earlier one and "
            "--finish-in-flight, which mirrors no more than those, or start with --from TIMESTAMP "
            "or --adopt"
        )
    return BeginBehind(progress=_with_ids(progress, one.topic), otherwise=otherwise)


def _decide_new(one: Candidate) -> Begin | Adopt | Stop:
    topic, offsets, link, wish, copied = one.topic, one.offsets, one.link, one.wish, one.copied
    targets = routing.targets_of(topic, one.partition)
    written = sum(offsets.target_ends[target] for target in targets)
    if copied is not None and written and len(targets) == 1 and wish.start_from is None:
        after = copied.offset + 1
        reason = _by_mirror_maker(topic, copied)
        if isinstance(copied, UnconfirmedCopy):  # only the records show the offset
            start = after if wish.adopt else None
            return Adopt(start=start, target=targets[0], reason=reason)
        # MirrorMaker 2 reads uncommitted records by default, so it may be past `end`.
        if after == offsets.high_watermark:
            return Begin(start=after, targets=targets)
        if after < offsets.high_watermark:
            start = after if wish.adopt else None
            return Adopt(start=start, target=targets[0], reason=reason, floor=after)
        if not wish.adopt:
            return Stop(
                reason=f"{reason}, and the source ends at {offsets.high_watermark}: it was "
                f"truncated or recreated ({claim_checks.ACT})"
            )
    alone = (link.sole_writer or (link.stops_on_data and not one.others)) and not one.shared
    ours = alone or one.progress_lost or copied is not None
    if written and ours and wish.start_from is None:
        reason = (
            f"{topic.target} has data already ({written} offsets), but there is no progress "
            f"that says what of {topic.source} it holds"
        )
        if one.progress_lost:
            reason += ": this link has mirrored before, and its progress topic was lost"
        if not (wish.adopt or wish.translate):
            act = claim_checks.ACT
            if not (link.sole_writer or one.progress_lost or copied is not None):
                # The topic's name does not show which tool wrote to it.
                act = (
                    f"start with --adopt if another tool has copied {topic.source} there: the "
                    "mirror goes on after the record that the topic ends with; start with --from "
                    "TIMESTAMP, or set causeway.sole.writer = false, if others wrote to it: the "
                    "mirror begins behind their records"
                )
            return Stop(reason=f"{reason} ({act})")
        if one.transform is not None:
            return Stop(reason=f"{reason}, and a transform made it (start with --from TIMESTAMP)")
        if len(targets) == 1:
            return Adopt(start=None, target=targets[0], reason=reason)
        return Stop(reason=f"{reason}, and keys spread it (start with --from TIMESTAMP)")
    return Begin(start=offsets.start, targets=targets)


def _by_mirror_maker(topic: MirroredTopic, copied: Copied) -> str:
    return f"MirrorMaker 2 has copied {topic.source} up to offset {copied.offset}"


def _reason_to_stop(topic: MirroredTopic, progress: PartitionProgress) -> str | None:
    reason = progress.reason or "stopped"
    # If only a later file has stopped the partition, it goes on with the earlier file.
    if (
        progress.state is State.STOPPED
        and _UNDER_WAY not in reason
        and claim_checks.RENAMED not in reason
        and preserving.CANNOT_KEEP not in reason
    ):
        return reason
    if why := claim_checks.why_another(progress, topic):
        return why.format(progress.position)
    if (unnoticed := claim_checks.unnoticed(progress)) is not None:
        return unnoticed
    if routing.is_other(topic, progress) and not routing.keys_stay(topic):
        return f"{routing.why_keys_move(topic)} ({claim_checks.ACT})"
    return None


def _with_ids(progress: PartitionProgress, topic: MirroredTopic) -> PartitionProgress:
    """Returns `progress` with the current topic ids: an older Causeway may not have noted them."""
    target_id = topic.target_id or NO_TOPIC_ID
    return progress.replace(
        topic_id=topic.source_id,
        outlets=tuple(o if o.routed else o.replace(topic_id=target_id) for o in progress.outlets),
    )
