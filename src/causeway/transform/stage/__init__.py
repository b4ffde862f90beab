"""The Spark job of a transform, and the Python workers at both of its ends.

This door must not import Arrow: a worker sets Arrow's memory pool before it does.
"""

from causeway.transform.stage.job import explain, quiet, run_stage, threw, warm
from causeway.transform.stage.source_rows import Rows
from causeway.transform.stage.workers import OutcomeReader
