"""Shows the result of a transform on real records, without writing any.

try_transform.py  reads records from the source, and starts a Spark on this machine
records.py        takes records through the transform, as a stage does
result.py         the results, and their JSON
"""

from causeway.operate.try_transform.records import Read, Trials
from causeway.operate.try_transform.result import (
    Content,
    Decoded,
    OnStep,
    Trial,
    TrialOutcome,
    Tried,
    as_json,
    target_topic,
)
from causeway.operate.try_transform.try_transform import local_spark, prepared, try_out
