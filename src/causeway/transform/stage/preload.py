"""Modules for a stage's workers, which Spark's daemon of Python workers loads before it forks."""

import os

# As in workers.settle; another pool would allocate pages first.
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"

import msgspec  # noqa: F401
import pandas  # noqa: F401
import pyarrow.pandas_compat  # noqa: F401
import pyspark.worker  # noqa: F401

import causeway.transform.stage.outcome  # noqa: F401  workers import it only when they need it
