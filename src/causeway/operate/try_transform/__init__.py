"""Shows the result of a transform on real records, without writing any.

try_transform.py  reads records from the source, starts a Spark on this machine, makes the JSON
trials.py         sends records through the transform, as a stage does
"""

from causeway.operate.try_transform.trials import (
    Content,
    Decoded,
    OnStep,
    Read,
    TrialOutcome,
    Trials,
    Tried,
)
from causeway.operate.try_transform.try_transform import (
    Trial,
    as_json,
    local_spark,
    prepared,
    target_topic,
    try_out,
)
