"""The environment variables of Spark's processes. With a local master Causeway sets them all."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator

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
