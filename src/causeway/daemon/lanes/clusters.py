"""The messages that tell lanes how to reach clusters."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from causeway.config import ClientSettings, RunSettings, to_wire
from causeway.relay import Clusters, Renewed, TreatmentStep

REPORT_INTERVAL_S = 1.0  # or a quarter of the lease, where that is shorter
BUFFER_BYTES = 64 << 20  # of a lane
FAR_BUFFER_BYTES = 256 << 20  # where it reads over a long line


def first(
    run: RunSettings,
    clusters: Mapping[str, ClientSettings],
    treatments: Mapping[str, tuple[TreatmentStep, ...]],
) -> Clusters:
    return Clusters(
        clusters={key: to_wire(settings) for key, settings in clusters.items()},
        lease_s=run.lease_s,
        report_interval_s=min(REPORT_INTERVAL_S, run.lease_s / 4),
        connections=run.connections,
        in_flight=run.in_flight,
        buffer_bytes=run.lane_buffer_bytes or BUFFER_BYTES,
        far_buffer_bytes=run.lane_buffer_bytes or FAR_BUFFER_BYTES,
        treatments=treatments,
    )


def renewed(before: Clusters, changed: Mapping[str, ClientSettings]) -> tuple[Clusters, Renewed]:
    """The message for new lanes, and the one for lanes that have `before`."""
    news = {key: to_wire(settings) for key, settings in changed.items()}
    after = msgspec.structs.replace(before, clusters={**before.clusters, **news})
    return after, Renewed(clusters=news)
