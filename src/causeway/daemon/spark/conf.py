"""Spark's settings: those of the file, completed by what lanes and stages need; and how many cores
there are."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from causeway.config import Secret, is_local
from causeway.errors import ConfigError
from causeway.relay import SECRET_VARIABLE
from causeway.transform import CONTEXT

Conf = Mapping[str, str | Secret]
JVM_OPTIONS = "spark.driver.defaultJavaOptions"  # come before the options that people set
# The JVMs only schedule: a quick start and little memory matter more than speed in the long run.
_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# With transforms, records go through the JVM for weeks: good compilation pays off. The loop for
# a query is larger than what Java compiles by default, and Java would not inline into it.
_STAGE_JVM = "-XX:+UseSerialGC -XX:-DontCompileHugeMethods -XX:-ClipInlining"
_DEFAULTS = {
    "spark.app.name": "causeway",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    # Causeway launches a failed lane again, after a pause. Spark would do so at once.
    "spark.task.maxFailures": "1",
}
_LOCAL_DEFAULTS = {
    # A local Spark listens as well, and obeys each user of the machine. Spark makes the secret.
    "spark.authenticate": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",  # Spark refuses less than 450 MB
    "spark.driver.extraJavaOptions": f"{_SMALL_JVM} -Xms64m",
    "spark.python.daemon.module": "causeway.worker_daemon",
}
# Spark's own errors quote what is in records.
_STAGE_DEFAULTS = {"spark.log.level": "FATAL"}
_LOCAL_STAGE_DEFAULTS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": f"{_STAGE_JVM} -Xms64m",
}
# These win over the file. If Spark retried a task, the cause of the first failure would be lost.
_STAGE_SETTINGS = {**CONTEXT, "spark.task.maxFailures": "1"}
# The limits of a container, by the kernel's cgroup-v2.rst and sched-bwc.rst: µs in each period.
_GROUPS: Final = Path("/sys/fs/cgroup")


def wanted_lanes(conf: Conf, lanes: int | None, least: int = 1) -> int | None:
    """The number of lanes: from the file, or `N` of `local[N]`, else one for each two cores of this
    machine, or `least` if there are so many cores (see decision 0040). None if only a running
    cluster knows."""
    if lanes is not None or (found := cores_of(conf)) is None:
        return lanes
    named = not plain(conf).get("spark.master", "local[*]").startswith("local[*")
    return found if named else max((found + 1) // 2, min(least, found))


def cores_of(conf: Conf) -> int | None:
    """The tasks that a local master runs at once; None if only a running cluster knows."""
    spark = plain(conf)
    if not is_local(spark):
        return None
    master = spark.get("spark.master", "local[*]")
    if found := re.match(r"local\[(\d+)", master):
        return max(1, int(found[1]))
    return 1 if master == "local" else cores()


def cores(groups: Path = _GROUPS) -> int:
    """The cores that this process may use: its CPU affinity, or the container's CPU limit, rounded
    up, if that is less."""
    mine = len(os.sched_getaffinity(0))
    limit = _container_limit(groups)
    return mine if limit is None else max(1, min(mine, math.ceil(limit)))


def _container_limit(groups: Path) -> float | None:
    try:
        if (newer := groups / "cpu.max").exists():
            quota, period = newer.read_text().split()
        else:
            quota = (groups / "cpu/cpu.cfs_quota_us").read_text()
            period = (groups / "cpu/cpu.cfs_period_us").read_text()
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):  # no cgroups, or the limit is "max"
        return None


def plain(conf: Conf) -> dict[str, str]:
    """`conf` with its secrets revealed."""
    return {k: v.reveal() if isinstance(v, Secret) else v for k, v in conf.items()}


def complete(
    conf: Mapping[str, str], lanes: int | None, secret: str, staged: int = 0
) -> dict[str, str]:
    """`conf` with all other settings for `lanes` lanes and `staged` stages at once. Raises
    ConfigError if a cluster's application cannot have a core for each of them."""
    local = is_local(conf)
    found = {**_DEFAULTS, **(_LOCAL_DEFAULTS if local else {})}
    if staged:
        found |= {**_STAGE_DEFAULTS, **(_LOCAL_STAGE_DEFAULTS if local else {})}
    found |= {**conf, **(_STAGE_SETTINGS if staged else {})}
    if local:
        # A transform on which a record hangs has a second stage: see relay/lane/second_stage.py.
        slots = (lanes or 1) + 2 * staged
        retries = re.match(r"local\[[^,\]]+,\s*(\d+)\]", conf.get("spark.master", ""))
        # With fewer slots than lanes, some lanes would wait for ever.
        again = f",{retries[1]}" if retries and not staged else ""
        found["spark.master"] = f"local[{slots}{again}]"
    else:
        _check_cores(conf, lanes or 1, staged)
        found[f"spark.executorEnv.{SECRET_VARIABLE}"] = secret
    return found


def executor_options(staged: int) -> str:
    """The default Java options of executors."""
    return _STAGE_JVM if staged else _SMALL_JVM


def _check_cores(conf: Mapping[str, str], lanes: int, staged: int) -> None:
    most = conf.get("spark.cores.max", "")
    if staged and most.isdigit() and int(most) < lanes + staged:
        raise ConfigError(
            "start Spark",
            "spark.cores.max",
            f"{most} cores are too few for {lanes} lanes and {staged} stages of transforms",
            remedy="raise it, or lower causeway.lanes",
        )
