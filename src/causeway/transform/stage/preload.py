"""What a stage's workers need, for Spark's daemon of Python workers to load before it forks."""

import os

# As worker.settle has it; any other would take pages first.
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"

import msgspec  # noqa: F401
import pandas  # noqa: F401
import pyarrow.pandas_compat  # noqa: F401
import pyspark.worker  # noqa: F401
