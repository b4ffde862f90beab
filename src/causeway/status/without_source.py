"""Where a link stands whose source does not answer: what its target knows of it."""

from __future__ import annotations

import time

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.link_topics import LinkDirectives, ProgressContents, active_directives
from causeway.model import ENDED
from causeway.status import lag
from causeway.status.from_clusters import LinkStatus, PartitionStatus, driver_of, reached
from causeway.status.states import SOURCE_UNAVAILABLE


def without_source(
    link: LinkSettings, target: Cluster, contents: ProgressContents, reason: str
) -> LinkStatus:
    """Ends and lags are as the last driver saw them. A partition that had nothing left to mirror
    then lags by the time since, unless its mirror has ended. Raises CausewayError."""
    now_ms = int(time.time() * 1000)
    answered_ms = lag.answered_at(contents.tasks.values())
    told = active_directives(target, link, contents)
    standing = LinkDirectives({each.key: each for each in told.directives})
    return LinkStatus(
        link=link,
        driver=driver_of(contents.leases, now_ms),
        partitions=tuple(
            PartitionStatus(
                topic=tp.topic,
                partition=tp.partition,
                target=progress.outlets[0].topic if progress.outlets else "",
                source_end=progress.source_end if progress.source_end >= 0 else None,
                mirrored_to=reached(progress),
                lag_records=left,
                lag_ms=lag.lag_ms(
                    left,
                    progress.first_unmirrored,
                    now_ms,
                    None if progress.state in ENDED else lag.seen_at(progress, answered_ms),
                ),
                state=held[0] if held is not None else SOURCE_UNAVAILABLE,
                reason=held[1] if held is not None else progress.reason,
                gone=progress.gone_at >= 0,
            )
            for tp, progress in sorted(contents.partitions.items(), key=lambda item: item[0])
            for held in (standing.hold_of(tp),)
            for left in (lag.left_of(progress),)
        ),
        problems=(),
        tasks=tuple(contents.tasks[name] for name in sorted(contents.tasks)),
        asked=told,
        unavailable=reason,
    )
