"""Which mirrored partitions have changed: their topics or their routing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from causeway.control import claim_checks
from causeway.daemon.partitions import claims, routing
from causeway.daemon.partitions.discovery import Found
from causeway.daemon.partitions.rows import Row


def changed(rows: Sequence[Row], found: Found, gone: Collection[str]) -> list[tuple[Row, str]]:
    """Those of `rows` whose topic is no longer the one that was mirrored, each with the reason. In
    a reason `{}` is the place of the offset before which all is mirrored. `gone`: source topics."""
    reasons = []
    for row in rows:
        name = row.progress.topic
        now = found.mirrored.get(name)
        if name in gone:
            reason = claims.deleted(name)
        elif name in found.lost_targets:
            reason = claims.target_deleted(row.progress, row.topic)
        elif now is None:
            continue
        elif why := claim_checks.why_another(row.progress, now):
            reason = why
        elif routing.is_other(now, row.progress) and not routing.keys_stay(now):
            reason = f"{routing.why_keys_move(now)} ({claim_checks.ACT})"
        else:
            continue
        reasons.append((row, reason))
    return reasons


def to_turn(rows: Sequence[Row], found: Found) -> list[Row]:
    """Those of `rows` that go by key from now on, and did not before."""
    mirrored = found.mirrored
    return [
        row
        for row in rows
        if (now := mirrored.get(row.progress.topic)) is not None
        and routing.is_other(now, row.progress)
    ]
