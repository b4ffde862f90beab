"""Ends a mirror and reverses it: `promote` (nothing is lost), `failover` (at once), `failback`.

There is no state file. Each step is read from the clusters, so a second call continues where the
first ended. Decisions are written to the directives topic of the link on its target.

    end written ─► lanes let go ─► cut ─► groups, read-only lifted ─► done
    │              the driver says so, or its lead is taken           │
    └ no driver mirrors the topics any more                           └ a repeated call does nothing
"""

from causeway.operate.failover.ending import refuse_mingled
from causeway.operate.failover.failing_back import failback
from causeway.operate.failover.failing_over import failover
from causeway.operate.failover.keeping import Otherwise
from causeway.operate.failover.promotion import promote
from causeway.operate.failover.results import (
    FailbackStep,
    FailedBack,
    FailedOver,
    Keep,
    LinkResult,
    Promoted,
    by_group,
    failed_back_json,
    failed_over_json,
    promoted_json,
)
