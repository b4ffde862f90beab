"""Requests that a broker works on though their connection is gone.

    sent ── connection reset ── read from the broker's socket, appended: seconds later
            │                                                           │
            └── at latest `late_by` ────────────────────────────────────┘

A reset takes nothing back that the broker has read, or is still to read from its socket: behind a
throttled channel that was seen 12 s later. As long as the broker remembers our producer, sequences
keep such a request out. It forgets old records' producers, so those wait until none can come.
"""

from __future__ import annotations

from collections.abc import Iterable

from causeway.cluster import is_young
from causeway.records import Batch
from causeway.relay.lane.flow import Flow


def must_wait(flow: Flow, batches: Iterable[Batch]) -> bool:
    """Whether one of `batches` is old, and what was sent before it may still arrive, or may have
    arrived since the flow's place was looked for. Then the flow waits until `late_by`, and looks at
    the target's log again before it sends. Without a producer that the broker could forget, waiting
    is of no use.

    Late batches can be cut in other ways, so the first record of a batch counts as well as the
    newest: alone in a late batch, an old record would make the broker forget the producer."""
    return (
        flow.sought_at < flow.late_by
        and any(outlet.idempotent for outlet in flow.outlets)
        and not all(is_young(min(batch.base_timestamp, batch.max_timestamp)) for batch in batches)
    )
