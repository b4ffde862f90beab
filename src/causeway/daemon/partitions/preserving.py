"""Decides how a partition that keeps its offsets begins. Pure.

    target   ·······filler·······S═══records═══E►     E, the log end, is the position
    source          ·············S═══records═══════►  S, where the mirror begins

the target's log is empty, and ends at or below S   begin there; a lane fills the offsets up to S
it has records, and the source has offset E         begin at E if the last records before E are the
                                                    source's at the same offsets
else                                                stop: an offset can be used only once
"""

from __future__ import annotations

from causeway.control import claim_checks
from causeway.daemon.partitions.decisions import (
    Adopt,
    Begin,
    BeginBehind,
    Candidate,
    GoOn,
    IfSame,
    Stop,
)
from causeway.link_topics import ClaimStart, PartitionProgress

CANNOT_KEEP = "so its records cannot keep their offsets"
_MARKS = {"provenance", "skip-header"}
TO_TRANSLATE = "causeway restart --translate"


def begin(one: Candidate, cut: ClaimStart | None = None) -> Begin | IfSame | Stop:
    """Returns the decision about a partition that this link has not mirrored with the same offsets
    yet. `cut`: the directive that says where it begins."""
    offsets, link, partition = one.offsets, one.link, one.partition
    end, first = offsets.target_ends[partition], offsets.target_starts.get(partition, 0)
    target = f"{one.topic.target} on {link.target.alias}"
    if one.shared:
        return Stop(
            reason=f"transforms lead records of other partitions to {target}, so the records of "
            f"{one.at} cannot keep their offsets there (correct the transform)"
        )
    by, start = -1 if cut is None else cut.by, offsets.start
    if cut is not None and end >= cut.offset:
        start = max(cut.offset, offsets.log_start)  # all records below came from the target
    if first == end <= start:
        return Begin(start=end, targets=(partition,), offsets_from=start, by=by)
    if first == end:
        return _stop(one, f"{target} is empty and ends at {end}, above offset {start}")
    if end > offsets.end:
        beyond = f"{target} ends at {end}, and {one.at} at {offsets.end}"
        if cut is not None:
            beyond += f": {target} has up to {end - offsets.end} records that were never mirrored"
        return _stop(one, beyond)
    if end < offsets.log_start:
        return _stop(one, f"{target} ends at {end}, and {one.at} now begins at {offsets.log_start}")
    if one.transform is not None and not _only_marks(one):
        return _stop(one, f"{target} has records already, and a transform or treatment made them")
    return IfSame(
        then=Begin(start=end, targets=(partition,), offsets_from=first, by=by),
        end=end,
        otherwise=_stop(
            one,
            f"{target} has records before offset {end} that are not those of {one.at} at the same "
            "offsets",
        ),
        marked=one.transform is not None,
    )


def _only_marks(one: Candidate) -> bool:
    """Returns whether its treatments do no more than change headers and leave records out."""
    kinds = {step.kind for step in one.link.treatments_of(one.topic.source)}
    return bool(kinds) and kinds <= _MARKS and one.link.transform_of(one.topic.source) is None


def go_on(one: Candidate, progress: PartitionProgress) -> GoOn | IfSame | Stop:
    """Returns the decision about a partition that was mirrored with translated offsets so far."""
    outlet, *led = progress.outlets
    end = one.offsets.target_ends[one.partition]
    otherwise = _stop(
        one, f"{one.at} was mirrored with translated offsets, which differ on the target"
    )
    alike = progress.transform == one.transform and (one.transform is None or _only_marks(one))
    if led or outlet.pair.source != outlet.pair.target or not alike:
        return otherwise
    first = one.offsets.target_starts.get(one.partition, 0)
    then = GoOn(progress=progress.replace(offsets_from=first))
    if first == end:  # no record is there that could have another offset
        return then if outlet.pair.target == end else otherwise
    return IfSame(then=then, end=end, otherwise=otherwise, marked=one.transform is not None)


def translate(
    one: Candidate, progress: PartitionProgress, reason: str | None
) -> Adopt | Begin | BeginBehind:
    """Returns the decision about a partition whose offsets are translated from now on. `reason`:
    why it stopped; None if it did not."""
    targets = (one.partition,)
    if progress.begins:  # it has only filler
        return Begin(start=max(progress.offsets_from, one.offsets.log_start), targets=targets)
    if reason is not None:
        # Its offsets may not be those of the source, but its last records are.
        return Adopt(start=None, target=one.partition, reason=reason)
    # Only the log shows the sequence of its last record: after markers, sequences begin with 0.
    return BeginBehind(
        progress=progress,
        otherwise=Stop(
            reason=f"{one.topic.source} kept its offsets until now, and {one.topic.target} does "
            f"not show its last mirrored offset ({claim_checks.ACT})"
        ),
    )


def _stop(one: Candidate, cause: str) -> Stop:
    topic = one.topic.source
    return Stop(
        reason=f"{cause}, {CANNOT_KEEP} (`{claim_checks.TO_REFILL} {topic}` deletes "
        f"{one.topic.target} and fills it again; `{TO_TRANSLATE} {topic}`, or causeway.offsets = "
        "translate, goes on with translated offsets)"
    )
