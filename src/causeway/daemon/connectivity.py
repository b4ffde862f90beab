"""Whether the clusters answer, before anything else begins."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from causeway.daemon.partitions.discovery import Sides

_log = logging.getLogger("causeway.run")
_TICK_S: Final = 0.05
_LATE_S: Final = 5.0  # so long links whose clusters answer wait for those of others


def await_clusters(links: Iterable[Sides], stop: threading.Event, *, every: bool) -> bool:
    """Until the clusters of some link have answered, or those of `every` one: a wrong address
    should not look like an outage. The other links try on by themselves, and say so. False when
    told to stop meanwhile. Raises CausewayError where no link could work."""
    needs = [(one.source, one.target, one.source_admin, one.target_admin) for one in links]
    clusters = dict.fromkeys(cluster for each in needs for cluster in each)
    pool = ThreadPoolExecutor(max(1, len(clusters)))
    checks = {each: pool.submit(each.bootstrap_check) for each in clusters}
    pool.shutdown(wait=False)
    late_at: float | None = None
    while True:
        told = {each: check.exception() for each, check in checks.items() if check.done()}
        errors = {each: error for each, error in told.items() if error is not None}
        if errors and (every or not any(errors.keys().isdisjoint(each) for each in needs)):
            for cluster in clusters:
                cluster.close()  # which ends the checks
            raise next(iter(errors.values()))
        if len(told) == len(checks):
            break
        answered = told.keys() - errors.keys()
        if not every and any(answered.issuperset(each) for each in needs):
            late_at = late_at or time.monotonic() + _LATE_S
            if time.monotonic() > late_at:
                break
        if stop.wait(_TICK_S):
            for cluster in clusters:
                cluster.close()
            return False
    for error in errors.values():
        _log.warning("cluster does not answer", extra={"reason": str(error)})
    return True
