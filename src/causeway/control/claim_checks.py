"""Decides whether a claimed partition may go on: whether its topics are still the same, and what it
has lost. Pure.

May it pass over source offsets that it lost before they were mirrored?

nothing was relayed since the claim            pass: the copy begins later
the first copy, which ends where the source    pass: a log under retention loses its oldest records
ended when the claim was made                  while it is copied, and the copy would never begin
causeway.on.data.loss = continue               pass, and count the lost records; but not damaged
                                               ones, because another replica may have them
else                                           stop, until `restart --adopt` acknowledges the loss

    source  ──P─────────────L──────►     P: the position, L: the log start
              ✗ lost          │          the next record has the same sequence as before, so
    target  ──T─end►◄─────────┘          (L, T, q) is a true pair once (P, T, q) was

The new pair is durable before a record from L on is sent: from then on the sequence is that
record's.

If the partition keeps its offsets, a lane then fills the offsets from T to L. If the lane still
fills the beginning, the beginning now ends at L.
"""

from __future__ import annotations

from typing import Literal

from causeway.control.topics import MirroredTopic
from causeway.link_topics import Outlet, PartitionProgress
from causeway.model import Loss, State, same_topic

ACT = "`causeway restart --adopt` goes on, or start with --from TIMESTAMP"
TO_REFILL = "causeway restart --refill"
RENAMED = "and the file calls its mirror"


def why_another(progress: PartitionProgress, topic: MirroredTopic) -> str | None:
    """Returns why `topic` is not the topic that was mirrored so far; None if it is the same one. In
    the text, `{}` is for the offset before which everything is mirrored."""
    if not same_topic(progress.topic_id, topic.source_id):
        act = ACT
        if topic.preserves:  # the target has used the offsets of the new topic
            act = f"`{TO_REFILL} {topic.source}` deletes {topic.target} and mirrors the new topic"
        return (
            f"{topic.source} was deleted and recreated on the source after offset {{}} was "
            f"mirrored ({act})"
        )
    if (before := other_name(progress, topic)) is not None:
        return (
            f"{topic.source} was mirrored to {before} up to offset {{}}, {RENAMED} "
            f"{topic.target} by now ({ACT})"
        )
    if not all(same_topic(o.topic_id, topic.target_id) for o in own_outlets(progress)):
        return f"{topic.target} was deleted and recreated on the target ({ACT})"
    return None


def other_name(progress: PartitionProgress, topic: MirroredTopic) -> str | None:
    """Returns the partition's target topic so far, if the file gives it another name now."""
    names = (outlet.topic for outlet in own_outlets(progress))
    return next((name for name in names if name != topic.target), None)


def own_outlets(progress: PartitionProgress) -> list[Outlet]:
    """Returns the partition's outlets without those to which a transform has led."""
    return [outlet for outlet in progress.outlets if outlet.routed is None]


def stopped(
    progress: PartitionProgress, reason: str, loss: Loss | None = None
) -> PartitionProgress:
    """Returns the progress of a partition that stops. It keeps all knowledge of the partition."""
    return progress.replace(
        state=State.STOPPED, reason=reason, loss=loss, dated=None, gone_at=-1, written_at=-1
    )


def is_over(progress: PartitionProgress, now_ms: int, retention_s: float | None) -> bool:
    """Returns whether a partition of a deleted topic leaves the status."""
    if progress.gone_at < 0 or retention_s is None:
        return False
    return now_ms - progress.gone_at >= retention_s * 1000


OnDataLoss = Literal["stop", "continue"]


def is_first_copy(progress: PartitionProgress) -> bool:
    """Returns whether the loss is in the first copy of a claim, which promises no record from
    before the claim."""
    loss, end = progress.loss, progress.first_copy_end
    if loss is None or loss.cause != "deleted" or end < 0:
        return False
    # A sequence alone does not show this, because sequences wrap. The claim of another version of a
    # transform begins where the first copy has come to, or behind its end.
    nothing = progress.leader_epoch < 0 and not any(o.pair.sequence for o in progress.outlets)
    return (nothing and loss.start <= end) or loss.to <= end


def passes(progress: PartitionProgress, on_data_loss: OnDataLoss) -> bool:
    """Returns whether the partition passes over its loss without an acknowledgement."""
    if progress.loss is None:
        return False
    if progress.loss.cause == "damaged":
        return False  # another replica may have the records
    return on_data_loss == "continue" or is_first_copy(progress)


def unnoticed(progress: PartitionProgress) -> str | None:
    """Returns why a partition that was stopped by its loss stops again: no lane would notice that
    loss by its pairs, see Found.lost_from. None if a lane would."""
    loss = progress.loss
    if loss is None or any(outlet.pair.source < loss.to for outlet in progress.outlets):
        return None
    return (
        f"the source deleted offsets {loss.start} to {loss.to - 1} before they were mirrored "
        "(`causeway restart --adopt` goes on without them)"
    )


def passed(
    progress: PartitionProgress, to: int, *, adopted_end: int | None = None
) -> PartitionProgress:
    """Returns `progress` behind its loss, at source offset `to`. Outside of the first copy the loss
    counts.

    `adopted_end`: the end of the source, if a person has acknowledged the loss. If records were
    deleted, retention is at work, so the partition copies the remaining records as a first copy.
    """
    start, is_first = to if progress.loss is None else progress.loss.start, is_first_copy(progress)
    damaged = progress.loss is not None and progress.loss.cause == "damaged"
    # Damaged records stay in the source, so they count in a first copy as well.
    lost = 0 if is_first and not damaged else max(0, to - start)
    fills = progress.begins
    outlets, differs_to = progress.outlets, to if progress.preserves else 0
    if not fills:
        outlets = tuple(
            each.replace(
                pair=each.pair._replace(source=max(each.pair.source, to)),
                differs_to=max(each.differs_to, differs_to),
            )
            for each in outlets
        )
    after = progress.replace(
        position=progress.position if fills else max(progress.position, to),
        offsets_from=max(progress.offsets_from, to) if fills else progress.offsets_from,
        outlets=outlets,
        state=State.WAITING,
        reason=None,
        loss=None,
        lost=progress.lost + lost,
        first_copy_end=max(progress.first_copy_end, to if is_first else -1),
    )
    if progress.loss is not None and progress.loss.cause == "damaged":
        # A later leader may have written the damaged batch. If the source were asked with the
        # earlier epoch, it would answer with an end below `to`, as if it had been truncated.
        after = after.replace(leader_epoch=-1)
    if adopted_end is None:
        return after
    after = after.replace(acknowledged=after.lost)
    if progress.loss is not None and progress.loss.cause == "damaged":
        return after
    return after.replace(first_copy_end=adopted_end)


def unacknowledged(progress: PartitionProgress) -> int:
    """Returns the number of source offsets that were passed over without an acknowledgement."""
    return max(0, progress.lost - progress.acknowledged)


def note(progress: PartitionProgress) -> str | None:
    """Returns the status's text about these offsets; None if there are none."""
    if not (lost := unacknowledged(progress)):
        return None
    return (
        f"up to {lost} records are lost: the source deleted them before they were mirrored, "
        "or they were damaged (`causeway restart --adopt` acknowledges the loss)"
    )


def about(before: PartitionProgress, to: int, *, adopted: bool) -> dict[str, str]:
    """Returns the fields of the event about `passed`."""
    start = to if before.loss is None else before.loss.start
    if adopted:
        why = "a person acknowledged the loss with --adopt"
    elif is_first_copy(before):
        why = "the source deleted its oldest records before they were copied for the first time"
    else:
        why = "causeway.on.data.loss = continue"
    about = {
        "partition": str(before.source),
        "offsets": f"{start} to {to - 1}",
        "records": f"up to {to - start}",
        "reason": why,
    }
    if before.preserves:
        about["offsets_to_fill"] = str(to - before.outlets[0].pair.target)
    return about


def why_incomplete(
    progress: PartitionProgress, target_end: int, source_first: int | None
) -> str | None:
    """Returns why a mirror lacks records that its lag does not count; None if it lacks none.

    `target_end`: the mirror's end, if this link is its only writer. `source_first`: the source's
    first offset, needed if `target_end` is 0."""
    written = progress.outlets[0].pair.target
    if target_end < written:
        return (
            f"the target ends at {target_end}, below {written}: it lost records that it had "
            "acknowledged, and gets them again from a running driver"
        )
    # A mirror that began at the source's end lags by nothing, but lacks all earlier records.
    if target_end > 0 or source_first is None or source_first >= progress.position:
        return None
    return (
        f"the mirror is empty: the source's offsets {source_first} to {progress.position - 1} lie "
        "before its beginning, or hold nothing to mirror"
    )
