"""The environment of Spark's processes: settings, variables, a user account, a class data archive.

Spark's settings are those of the file, completed by the settings that lanes and stages need. With a
local master Causeway sets all variables.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import pwd
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from causeway.config import Secret, is_local
from causeway.errors import ConfigError
from causeway.java import java_identity
from causeway.relay import SECRET_VARIABLE
from causeway.transform import CONTEXT

_log = logging.getLogger("causeway.spark")
Conf = Mapping[str, str | Secret]
JVM_OPTIONS = "spark.driver.defaultJavaOptions"  # come before the options that people set
# The JVMs only schedule: a quick start and little memory matter more than speed in the long run.
SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# With transforms, records go through the JVM for weeks: good compilation pays off. The loop for
# a query is larger than what Java compiles by default, and Java would not inline into it.
STAGE_JVM = "-XX:+UseSerialGC -XX:-DontCompileHugeMethods -XX:-ClipInlining"
_DEFAULTS = {
    "spark.app.name": "causeway",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    # Causeway launches a failed lane again after a pause. Spark would do it without a pause.
    "spark.task.maxFailures": "1",
}
_LOCAL_DEFAULTS = {
    # A local Spark listens as well, and obeys each user of the machine. Spark makes the secret.
    "spark.authenticate": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",  # Spark refuses less than 450 MB
    "spark.driver.extraJavaOptions": f"{SMALL_JVM} -Xms64m",
    "spark.python.daemon.module": "causeway.worker_daemon",
}
# Spark's own errors quote the contents of records.
_STAGE_DEFAULTS = {"spark.log.level": "FATAL"}
_LOCAL_STAGE_DEFAULTS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": f"{STAGE_JVM} -Xms64m",
}
# These win over the file. If Spark retried a task, it would lose the cause of the first failure.
_STAGE_SETTINGS = {**CONTEXT, "spark.task.maxFailures": "1"}
# The limits of a container, by the kernel's cgroup-v2.rst and sched-bwc.rst: µs in each period.
_GROUPS: Final = Path("/sys/fs/cgroup")
_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
# With these variables, another Spark or Hadoop installation would replace the PySpark that is
# installed with Causeway, or change its settings, its classes, its mode or its Python.
_FOREIGN = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_LOCAL_HOSTNAME",
    "SPARK_LOCAL_IP",
    "SPARK_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_API_MODE",
    "SPARK_PREPEND_CLASSES",
    "SPARK_TESTING",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    _SUBMIT_ARGS,
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_DRIVER_PYTHON_OPTS",
)


def wanted_lanes(conf: Conf, lanes: int | None, least: int = 1) -> int | None:
    """Returns the number of lanes: from the file, or `N` of `local[N]`. Otherwise one for each two
    cores of this machine, but at least `least`, as far as there are cores (see decision 0040). None
    if only a running cluster knows."""
    if lanes is not None or (found := cores_of(conf)) is None:
        return lanes
    named = not plain(conf).get("spark.master", "local[*]").startswith("local[*")
    return found if named else max((found + 1) // 2, min(least, found))


def cores_of(conf: Conf) -> int | None:
    """Returns the number of tasks that a local master runs at once. None if only a running cluster
    knows."""
    spark = plain(conf)
    if not is_local(spark):
        return None
    master = spark.get("spark.master", "local[*]")
    if found := re.match(r"local\[(\d+)", master):
        return max(1, int(found[1]))
    return 1 if master == "local" else cores()


def cores(groups: Path = _GROUPS) -> int:
    """Returns the number of cores that this process may use: its CPU affinity, or the container's
    CPU limit, rounded up, if that is less."""
    mine = len(os.sched_getaffinity(0))
    try:
        if (newer := groups / "cpu.max").exists():
            quota, period = newer.read_text().split()
        else:
            quota = (groups / "cpu/cpu.cfs_quota_us").read_text()
            period = (groups / "cpu/cpu.cfs_period_us").read_text()
        limit = float(quota) / float(period)
    except (OSError, ValueError):  # no cgroups, or the limit is "max"
        return mine
    return max(1, min(mine, math.ceil(limit))) if limit > 0 else mine


def plain(conf: Conf) -> dict[str, str]:
    """Returns `conf` with its secrets revealed."""
    return {k: v.reveal() if isinstance(v, Secret) else v for k, v in conf.items()}


def complete(
    conf: Mapping[str, str], lanes: int | None, secret: str, staged: int = 0
) -> dict[str, str]:
    """Returns `conf` with all other settings for `lanes` lanes and `staged` stages at once. Raises
    ConfigError if a cluster's application cannot have a core for each of them."""
    local = is_local(conf)
    found = {**_DEFAULTS, **(_LOCAL_DEFAULTS if local else {})}
    if staged:
        found |= {**_STAGE_DEFAULTS, **(_LOCAL_STAGE_DEFAULTS if local else {})}
    found |= {**conf, **(_STAGE_SETTINGS if staged else {})}
    if local:
        # A transform on which a record hangs has a second stage: see relay/lane/stages.py.
        slots = (lanes or 1) + 2 * staged
        retries = re.match(r"local\[[^,\]]+,\s*(\d+)\]", conf.get("spark.master", ""))
        # With fewer slots than lanes, some lanes would wait for ever.
        again = f",{retries[1]}" if retries and not staged else ""
        found["spark.master"] = f"local[{slots}{again}]"
    else:
        most = conf.get("spark.cores.max", "")
        if staged and most.isdigit() and int(most) < (lanes or 1) + staged:
            raise ConfigError(
                "start Spark",
                "spark.cores.max",
                f"{most} cores are too few for {lanes or 1} lanes and {staged} stages of "
                "transforms",
                remedy="raise it, or lower causeway.lanes",
            )
        found[f"spark.executorEnv.{SECRET_VARIABLE}"] = secret
    return found


def prepare_local(secret: str) -> None:
    """Sets the variables of this process, which Spark's JVM and Python workers inherit."""
    ours = {
        SECRET_VARIABLE: secret,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Otherwise Python workers import modules from the working directory first.
        "PYTHONSAFEPATH": "1",
    }
    foreign = [name for name in _FOREIGN if os.environ.get(name, ours.get(name)) != ours.get(name)]
    if foreign:
        _log.info("environment variables ignored", extra={"variables": ", ".join(foreign)})
    for name in foreign:
        del os.environ[name]
    os.environ.update(ours)
    import causeway

    # Workers must find the package at the same place as the driver.
    root = os.path.dirname(os.path.dirname(os.path.abspath(causeway.__file__)))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths and "site-packages" not in root:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])


@contextlib.contextmanager
def submit_args(options: str) -> Iterator[None]:
    """Makes PySpark pass `options` to spark-submit, before the user's own options."""
    own = os.environ.get(_SUBMIT_ARGS)
    # Without the second option, the file would replace spark-defaults.conf.
    ours = f"{options} --load-spark-defaults"
    os.environ[_SUBMIT_ARGS] = f"{ours} {own or 'pyspark-shell'}"
    try:
        yield
    finally:
        if own is None:
            del os.environ[_SUBMIT_ARGS]
        else:
            os.environ[_SUBMIT_ARGS] = own


_USER = "causeway"
_VARIABLES = ("SPARK_USER", "HADOOP_USER_NAME")  # the first of these that is set names the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A home and a name for a user id that the system's list of users lacks.

    OpenShift runs containers with such an id by default. Java then takes `?` for the user's home,
    and Hadoop's login fails.
    """

    name: str
    home: str

    def set_environment(self) -> None:
        """Sets the variables of this process and of the processes that it starts."""
        os.environ["HOME"] = self.home
        for variable in _VARIABLES:
            os.environ.setdefault(variable, self.name)

    def log_in(self, jvm: Any) -> None:
        """Logs in for Hadoop, whose own login asks the system for the user's name and ignores the
        variables."""
        users = jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(self.name))


def missing_account() -> Account | None:
    """Returns the account to use. None if the system has one for this user id."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        named = filter(None, (os.environ.get(variable) for variable in _VARIABLES))
        home = os.environ.get("HOME", "")
        usable = os.path.isabs(home) and os.path.isdir(home) and os.access(home, os.W_OK | os.X_OK)
        return Account(name=next(named, _USER), home=home if usable else tempfile.gettempdir())
    return None


def archive_path() -> Path:
    """Returns the class data archive: `<cache>/causeway/spark/<version of Spark>-<build of
    Java>.jsa`.

    Java writes it once, see `rehearsal.py`. With it Spark's JVM starts in half the CPU time.
    Everything also works without it, or if it does not fit.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "causeway" / "spark"
    return folder / f"{version('pyspark')}-{java_identity()}.jsa"


def archive_option() -> str:
    """Returns the option for Java's command line; '' if there is no archive."""
    try:
        archive = archive_path()
        there = archive.exists()
    except (OSError, RuntimeError):  # no home, or not readable: the archive only saves time
        return ""
    return f' "-XX:SharedArchiveFile={archive}"' if there else ""
