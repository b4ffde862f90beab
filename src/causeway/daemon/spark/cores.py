"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

# What a container may have, by the kernel's cgroup-v2.rst and sched-bwc.rst: µs in each period.
_GROUPS: Final = Path("/sys/fs/cgroup")


def cores(groups: Path = _GROUPS) -> int:
    """Those it may run on, or as many as its container's limit of CPU comes to, rounded up."""
    mine = len(os.sched_getaffinity(0))
    limit = _limit(groups)
    return mine if limit is None else max(1, min(mine, math.ceil(limit)))


def _limit(groups: Path) -> float | None:
    try:
        if (newer := groups / "cpu.max").exists():
            quota, period = newer.read_text().split()
        else:
            quota = (groups / "cpu/cpu.cfs_quota_us").read_text()
            period = (groups / "cpu/cpu.cfs_period_us").read_text()
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):  # there are no groups, or it says "max"
        return None
