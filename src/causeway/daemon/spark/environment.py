"""The environment of Spark's processes: variables, a user account, and a class data archive.

With a local master Causeway sets all variables.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from causeway.java import java_identity
from causeway.relay import SECRET_VARIABLE

_log = logging.getLogger("causeway.spark")
_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
# With these another Spark or Hadoop installation would replace the PySpark that is installed with
# Causeway, or change its settings, its classes, its mode or its Python.
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


def prepare_local(secret: str) -> None:
    """Sets the variables of this process; its children are Spark's JVM and Python workers."""
    ours = {
        SECRET_VARIABLE: secret,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Else Python workers import modules in the working directory first.
        "PYTHONSAFEPATH": "1",
    }
    foreign = [name for name in _FOREIGN if os.environ.get(name, ours.get(name)) != ours.get(name)]
    if foreign:
        _log.info("environment variables ignored", extra={"variables": ", ".join(foreign)})
    for name in foreign:
        del os.environ[name]
    os.environ.update(ours)
    import causeway

    # So that workers find the package at the same place as the driver.
    root = os.path.dirname(os.path.dirname(os.path.abspath(causeway.__file__)))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths and "site-packages" not in root:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])


@contextlib.contextmanager
def submit_args(options: str) -> Iterator[None]:
    """Makes PySpark pass `options` to spark-submit, before the user's own options."""
    own = os.environ.get(_SUBMIT_ARGS)
    # Without the second one, a file replaces spark-defaults.conf.
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
_VARIABLES = ("SPARK_USER", "HADOOP_USER_NAME")  # the first one that is set names the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A home and a name for a user id that the system's list of users lacks.

    OpenShift runs containers with such an id by default. Java then takes `?` for the user's home,
    and Hadoop's login fails.
    """

    name: str
    home: str

    @property
    def java_options(self) -> str:
        # The launcher splits options at spaces, but not within quotes.
        return f'"-Duser.home={self.home}" "-Duser.name={self.name}"'

    def set_environment(self) -> None:
        """Sets the variables of this process and of the processes that it starts."""
        os.environ["HOME"] = self.home
        for variable in _VARIABLES:
            os.environ.setdefault(variable, self.name)

    def log_in(self, jvm: Any) -> None:
        """Hadoop's own login asks the system for the user's name, and ignores the variables."""
        users = jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(self.name))


def missing_account() -> Account | None:
    """The account to use, None if the system has one for this user id."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        named = filter(None, (os.environ.get(variable) for variable in _VARIABLES))
        return Account(name=next(named, _USER), home=_home())
    return None


def _home() -> str:
    home = os.environ.get("HOME", "")
    usable = os.path.isabs(home) and os.path.isdir(home) and os.access(home, os.W_OK | os.X_OK)
    return home if usable else tempfile.gettempdir()


def archive_path() -> Path:
    """The class data archive: `<cache>/causeway/spark/<version of Spark>-<build of Java>.jsa`.

    Java writes it once, see `rehearsal.py`. With it Spark's JVM starts in half the CPU time. All
    works as well without it, or if it does not fit.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "causeway" / "spark"
    return folder / f"{version('pyspark')}-{java_identity()}.jsa"


def archive_option() -> str:
    """The option for Java's command line; '' if there is no archive."""
    try:
        archive = archive_path()
        there = archive.exists()
    except (OSError, RuntimeError):  # no home, or not readable: the archive only saves time
        return ""
    return f' "-XX:SharedArchiveFile={archive}"' if there else ""
