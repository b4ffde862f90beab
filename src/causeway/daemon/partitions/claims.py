"""What becomes of each partition that a leader finds: go on, begin, or stop. Pure.

    no progress, target empty (or not ours alone)      begin
    no progress, but MirrorMaker 2's positions         go on from there if the source has no more;
                                                       else after the record that the target ends
                                                       with, as it may have copied more; stop where
                                                       that can't be found
    no progress, target has data                       stop: what of the source it holds is unknown;
                                                       begin if the file says that others write to
                                                       it as well, or if another link wrote it,
                                                       unless earlier progress was lost
    progress, both topics are still the same           go on; a lane's recovery finds what is amiss
    the same, but the source outgrew the target, and   go on, by key from the source's end on
    keys decide                                        (see routing.py)
    the same, but MirrorMaker 2 may have mirrored      go on after the record that the target ends
    since: its positions and the target have grown     with; stop where that can't be found
    progress, a topic was made anew                    stop; begin if it holds heartbeats
    progress, and keys would change their partition    stop
    progress, and another transform than it was for    begin right behind what was mirrored, if that
    (or none)                                          is one place for all outlets; else stop
    stopped by a loss that may be passed over, or      go on behind it, with the same producer ids
    that a person acknowledges (see control/claim_checks.py)
    stopped, and a person says --from TIMESTAMP        begin again there
    stopped, and a person says --adopt                 begin after the record that the target ends
                                                       with; if it can't be found, where it stopped

To begin is to claim: a fresh producer id for each outlet, sequence 0, and the pair (S, T, 0) with
T the target's end. It must be in the progress topic before anybody relays a record.
"""

from __future__ import annotations

from collections.abc import Mapping

from causeway.config import LinkSettings
from causeway.control import Copied, MirroredTopic, UnconfirmedCopy, claim_checks
from causeway.daemon.partitions import routing
from causeway.daemon.partitions.decisions import (
    Adopt,
    Begin,
    BeginBehind,
    Decision,
    GoByKey,
    GoOn,
    Offsets,
    PassOver,
    Stop,
    Wish,
    is_new,
)
from causeway.link_topics import Outlet, PartitionProgress
from causeway.model import NO_TOPIC_ID, Loss, Pair, State, same_topic

_UNDER_WAY = "changed while records of the earlier version were under way"
_NO_MORE = "it has no transform or treatment any more"
_MOST_EARLIER = 32  # producer ids of earlier claims, of one partition


def decide(
    topic: MirroredTopic,
    partition: int,
    progress: PartitionProgress | None,
    offsets: Offsets,
    link: LinkSettings,
    wish: Wish,
    copied: Copied | None = None,
    *,
    progress_lost: bool = False,
    transform: str | None = None,
    shared: bool = False,
    others: bool = False,
) -> Decision:
    """`copied`: what MirrorMaker 2's book says of it; `progress_lost`: see daemon.leadership;
    `transform`: the identity of what its records go through by now; `shared`: transforms lead
    records of other partitions to its target as well; `others`: all that the target has came since
    another link of Causeway began there, see daemon.partitions.others."""
    targets = routing.targets_of(topic, partition)
    if progress is None or is_new(progress):
        alone = (link.sole_writer or (link.stops_on_data and not others)) and not shared
        return _decide_new(
            topic, targets, offsets, link, alone, wish, copied, progress_lost, transform
        )
    if (change := transform_change(progress, transform)) and not claim_checks.why_another(
        progress, topic
    ):
        return _begin_behind(topic, progress, offsets, targets, wish, change)
    over = _pass_over(topic, progress, offsets, link, wish)
    reason = None if over else _reason_to_stop(topic, progress)
    if reason is None:
        if copied is not None and _may_have_mirrored_since(copied, progress, offsets):
            # The entry may be from before our claim, and what was written since our own: only the
            # records themselves tell.
            return Adopt(
                start=None,
                target=targets[0],
                reason=_by_its_book(topic, copied),
                floor=progress.position,
            )
        if over is not None:
            return over
        known = _with_ids(progress, topic)
        if routing.is_other(topic, progress):
            return GoByKey(progress=known, start=max(offsets.end, progress.position))
        return GoOn(progress=known)
    if wish.start_from is not None:
        return Begin(start=offsets.start, targets=targets)
    beats = link.policy.is_heartbeats_topic(topic.source)  # heartbeats may be lost
    if not (wish.adopt or beats):
        return Stop(reason=reason, loss=progress.loss)
    if not same_topic(progress.topic_id, topic.source_id):
        return Begin(start=offsets.log_start, targets=targets)
    start = _where_it_stopped(progress, offsets)
    if beats:
        return Begin(start=start, targets=targets)
    # What a transform has made is not found in the source.
    if len(targets) > 1 or not offsets.target_ends[targets[0]] or transform is not None:
        return Begin(start=start, targets=targets)
    return Adopt(start=start, target=targets[0], reason=reason)


def _pass_over(
    topic: MirroredTopic,
    progress: PartitionProgress,
    offsets: Offsets,
    link: LinkSettings,
    wish: Wish,
) -> PassOver | None:
    """None if nothing is lost, or if the loss is of an earlier topic of that name."""
    loss = progress.loss
    if loss is None or wish.start_from is not None:
        return None
    if claim_checks.why_another(progress, topic) or routing.is_other(topic, progress):
        return None
    known = _with_ids(progress, topic)
    if wish.adopt:
        # More may be lost by now.
        return PassOver(progress=known, to=max(loss.to, offsets.log_start), adopted=True)
    if claim_checks.passes(progress, link.on_data_loss):
        return PassOver(progress=known, to=loss.to, adopted=False)
    return None


def _where_it_stopped(progress: PartitionProgress, offsets: Offsets) -> int:
    return max(min(progress.position, offsets.end), offsets.log_start)


def transform_change(progress: PartitionProgress, transform: str | None) -> str | None:
    """What a change of what its records go through means to a partition, None where there is none.
    `transform`: the identity of what they go through by now."""
    if not progress.outlets or progress.transform == transform:
        return None
    if progress.transform is None:
        what = "go through a transform or treatment"
        return f"from offset {progress.position} on its records {what}"
    what = "its transform or treatment changed" if transform else _NO_MORE
    places = {outlet.pair.source for outlet in progress.outlets}
    if len(places) == 1:
        return (
            f"{what}: from offset {progress.position} on, if the earlier one's driver ended in "
            "order; else it stops"
        )
    return f"{what} while records of the earlier one were under way: it stops, unless they all came"


def _begin_behind(
    topic: MirroredTopic,
    progress: PartitionProgress,
    offsets: Offsets,
    targets: tuple[int, ...],
    wish: Wish,
    change: str,
) -> Begin | BeginBehind:
    otherwise: Begin | Stop
    if wish.start_from is not None:
        if progress.state is State.STOPPED:
            return Begin(start=offsets.start, targets=targets)
        otherwise = Begin(start=offsets.start, targets=targets)
    elif wish.adopt:
        otherwise = Begin(start=_where_it_stopped(progress, offsets), targets=targets)
    else:
        what = "the transform or treatment" if progress.transform else "what was relayed"
        otherwise = Stop(
            reason=f"{what} of {topic.source} {_UNDER_WAY}: run once with the earlier one and "
            "--finish-in-flight, which mirrors no more than those, or start with --from TIMESTAMP "
            "or --adopt"
        )
    return BeginBehind(progress=_with_ids(progress, topic), otherwise=otherwise)


def _decide_new(
    topic: MirroredTopic,
    targets: tuple[int, ...],
    offsets: Offsets,
    link: LinkSettings,
    alone: bool,
    wish: Wish,
    copied: Copied | None,
    progress_lost: bool,
    transform: str | None,
) -> Begin | Adopt | Stop:
    written = sum(offsets.target_ends[target] for target in targets)
    if copied is not None and written and len(targets) == 1 and wish.start_from is None:
        after = copied.offset + 1
        reason = _by_its_book(topic, copied)
        if isinstance(copied, UnconfirmedCopy):  # by the records alone
            start = after if wish.adopt else None
            return Adopt(start=start, target=targets[0], reason=reason)
        # It reads uncommitted records unless it is told otherwise, so it may be past `end`.
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
    ours = alone or progress_lost or copied is not None
    if written and ours and wish.start_from is None:
        reason = (
            f"{topic.target} has data already ({written} offsets), but there is no progress "
            f"that says what of {topic.source} it holds"
        )
        if progress_lost:
            reason += ": this link has mirrored before, and its progress topic was lost"
        if not wish.adopt:
            known = link.sole_writer or progress_lost or copied is not None
            return Stop(reason=f"{reason} ({claim_checks.ACT if known else _asks(topic)})")
        if transform is not None:
            return Stop(reason=f"{reason}, and a transform made it (start with --from TIMESTAMP)")
        if len(targets) == 1:
            return Adopt(start=None, target=targets[0], reason=reason)
        return Stop(reason=f"{reason}, and keys spread it (start with --from TIMESTAMP)")
    return Begin(start=offsets.start, targets=targets)


def _asks(topic: MirroredTopic) -> str:
    """The question to a person if the name of a topic does not tell which tool wrote to it."""
    return (
        f"start with --adopt if another tool has copied {topic.source} there: the mirror goes on "
        "after the record that the topic ends with; start with --from TIMESTAMP, or set "
        "causeway.sole.writer = false, if others wrote to it: the mirror begins behind their "
        "records"
    )


def _by_its_book(topic: MirroredTopic, copied: Copied) -> str:
    return f"MirrorMaker 2 has copied {topic.source} up to offset {copied.offset}"


def _may_have_mirrored_since(copied: Copied, progress: PartitionProgress, offsets: Offsets) -> bool:
    """Whether MirrorMaker 2 may have written to the target since we have."""
    if copied.ours or copied.offset < progress.position or len(progress.outlets) != 1:
        return False
    outlet = progress.outlets[0]
    return offsets.target_ends[outlet.partition] > outlet.pair.target


def _reason_to_stop(topic: MirroredTopic, progress: PartitionProgress) -> str | None:
    reason = progress.reason or "stopped"
    # By the earlier version, what stopped only for a later one goes on.
    if (
        progress.state is State.STOPPED
        and _UNDER_WAY not in reason
        and claim_checks.RENAMED not in reason
    ):
        return reason
    if anew := claim_checks.why_another(progress, topic):
        return anew.format(progress.position)
    if (unnoticed := claim_checks.unnoticed(progress)) is not None:
        return unnoticed
    if routing.is_other(topic, progress) and not routing.keys_stay(topic):
        return f"{routing.why_keys_move(topic)} ({claim_checks.ACT})"
    return None


def deleted(topic: str) -> str:
    """The reason of a partition whose topic is gone; `{}` as in `why_another`."""
    return f"{topic} was deleted at the source; all before offset {{}} is mirrored"


def target_deleted(progress: PartitionProgress, topic: MirroredTopic) -> str:
    """The reason of a partition whose target is not there."""
    if claim_checks.other_name(progress, topic) is not None and (
        anew := claim_checks.why_another(progress, topic)
    ):
        return anew.format(progress.position)
    return f"{topic.target} was deleted at the target ({claim_checks.ACT})"


def _with_ids(progress: PartitionProgress, topic: MirroredTopic) -> PartitionProgress:
    """Progress of an older Causeway may lack ids that its clusters had not given to topics yet."""
    target_id = topic.target_id or NO_TOPIC_ID
    return progress.replace(
        topic_id=topic.source_id,
        outlets=tuple(o if o.routed else o.replace(topic_id=target_id) for o in progress.outlets),
    )


def claim(
    topic: MirroredTopic,
    partition: int,
    begin: Begin,
    offsets: Offsets,
    producers: Mapping[int, tuple[int, int]],
    link: LinkSettings,
    *,
    transform: str | None = None,
    before: PartitionProgress | None = None,
    taken_over: bool = False,
) -> PartitionProgress:
    """The progress of a partition that begins; `producers` has (id, epoch) by target partition;
    `transform`: the identity of its transform; `before`: its progress so far; `taken_over`: the
    target's records are a copy of the source that another tool has made."""
    earlier = {} if before is None else {o.partition: o for o in claim_checks.own_outlets(before)}
    lost, goes_on = 0 if before is None else before.lost, begin.first_copy_end
    return PartitionProgress(
        topic=topic.source,
        partition=partition,
        topic_id=topic.source_id,
        leader_epoch=-1,
        position=begin.start,
        transform=transform,
        state=State.WAITING,
        begun=begin.by,
        first_copy_end=max(offsets.end, begin.start) if goes_on is None else goes_on,
        lost=lost,
        acknowledged=lost if before is None or goes_on is None else before.acknowledged,
        outlets=tuple(
            _after(
                Outlet(
                    topic=topic.target,
                    partition=target,
                    topic_id=topic.target_id or NO_TOPIC_ID,
                    producer_id=producers[target][0],
                    producer_epoch=producers[target][1],
                    pair=Pair(source=begin.start, target=offsets.target_ends[target], sequence=0),
                    exclusive=link.sole_writer,
                    claimed_at=offsets.target_ends[target],
                    copied_to=offsets.target_ends[target] if taken_over else 0,
                ),
                earlier.get(target),
            )
            for target in begin.targets
        ),
    )


def _after(outlet: Outlet, before: Outlet | None) -> Outlet:
    """`outlet` with the knowledge of the claim `before` it."""
    if before is None or not same_topic(before.topic_id, outlet.topic_id):
        return outlet
    ids = (*before.earlier, *([before.producer_id] if before.producer_id >= 0 else []))
    return outlet.replace(
        copied_to=max(outlet.copied_to, before.copied_to), earlier=ids[-_MOST_EARLIER:]
    )


def stopped(
    topic: MirroredTopic,
    partition: int,
    progress: PartitionProgress | None,
    reason: str,
    loss: Loss | None = None,
) -> PartitionProgress:
    """The progress of a partition that stops, with all that is known of it."""
    return PartitionProgress(
        topic=topic.source,
        partition=partition,
        topic_id=progress.topic_id if progress else topic.source_id,
        leader_epoch=progress.leader_epoch if progress else -1,
        position=progress.position if progress else -1,
        outlets=progress.outlets if progress else (),
        keys_from=progress.keys_from if progress else 0,
        transform=progress.transform if progress else None,
        begun=progress.begun if progress else -1,
        first_copy_end=progress.first_copy_end if progress else -1,
        lost=progress.lost if progress else 0,
        acknowledged=progress.acknowledged if progress else 0,
        loss=loss,
        state=State.STOPPED,
        reason=reason,
        source_end=progress.source_end if progress else -1,
        last_timestamp=progress.last_timestamp if progress else -1,
    )
