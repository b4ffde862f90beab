"""What `verify` shows, as a cutover sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from causeway.model import TopicPartition
from causeway.operate.cutover.values import Checklist, State, Verified
from causeway.operate.verify import Progress, Report, Verdict
from causeway.operate.verify.plan import Why

_LATER = (Why.NOT_MIRRORED,)  # what comes meanwhile is compared in the end


def verified(report: Report, ends: Mapping[TopicPartition, int]) -> Verified:
    """What a comparison has shown. `ends`: how far the mirror was when it began."""
    bad = [one for one in report.partitions if one.verdict is Verdict.DIFFERS]
    left = [(one, each) for one in report.partitions for each in one.left if each.why not in _LATER]
    text = ""
    if bad:
        many = sum(one.different for one in bad)
        text = f"{many:,} records differ, the first in {bad[0].topic}-{bad[0].partition}"
    unsure = ""
    if left:
        one, each = left[0]
        many = len({(one.topic, one.partition) for one, _ in left})
        where = f"{one.topic}-{one.partition}: {each.text}"
        unsure = f"not all could be compared in {many:,} partitions, such as {where}"
    return Verified(ends=ends, records=report.records, bad=text, unsure=unsure)


def under_way(checklist: Checklist, progress: Progress) -> Checklist:
    """With how far the comparison is."""
    share = progress.done / progress.size if progress.size else 1.0
    text = f"{min(share, 1.0):.0%} compared, {progress.records:,} records are the same"
    steps = (
        replace(step, text=text, left_s=progress.eta_s) if step.state is State.NOW else step
        for step in checklist.steps
    )
    return replace(checklist, steps=tuple(steps))
