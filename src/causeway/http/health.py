"""Probes: whether the driver lives, and whether it does what it is there for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from causeway.http.answers import AnyJSONResponse
from causeway.http.coalesced_cache import Paced
from causeway.http.view import View
from causeway.status.snapshot import Role, Snapshot

# The driver says how to look twice a second, but not while it drains, 60 s at the most.
_SILENT_S: Final = 120.0


def router(views: Paced[View], heard_at: Callable[[], float]) -> APIRouter:
    """`heard_at`: when the driver last gave a sign (monotonic)."""
    health = APIRouter(tags=["probes"])

    @health.get("/healthz")
    async def healthz() -> Response:
        """200 while the driver lives; 503 where its main thread has been silent for 2 minutes."""
        silent_s = time.monotonic() - heard_at()
        if silent_s > _SILENT_S:
            return AnyJSONResponse({"status": "hanging", "silent_s": round(silent_s)}, 503)
        return AnyJSONResponse({"status": "ok"})

    @health.get("/readyz")
    async def readyz() -> Response:
        """200 if each link is led by this process or another one, and no cluster has refused this
        process for 2 minutes; otherwise 503 with the reason."""
        reason = _not_ready((await views.newest()).snapshot)
        if reason is not None:
            return AnyJSONResponse({"status": "not ready", "reason": reason}, 503)
        return AnyJSONResponse({"status": "ready"})

    return health


def _not_ready(snapshot: Snapshot) -> str | None:
    if snapshot.draining:
        return "it is coming to its end"
    for link in snapshot.links:
        if link.role is Role.LEADING and not link.planned:
            return f"{link.name} looks for its topics"
        if link.name in snapshot.refused:
            return f"{link.name}: a cluster has refused new connections for minutes, see the log"
        if link.role not in (Role.LEADING, Role.STANDBY):
            return f"{link.name} is {link.role}"
    leads = any(link.role is Role.LEADING and link.partitions for link in snapshot.links)
    return "no lane is connected" if leads and not snapshot.lanes else None
