"""Compares the running mirror with a file: the changes if the mirror took the file over.

driver.py       asks the running driver over HTTP
comparison.py   compares its settings, topics and groups with a plan of the file
"""

from causeway.operate.running.comparison import (
    FlowDifference,
    RunningDifference,
    TopicDifference,
    TopicStep,
    as_json,
    compare,
)
from causeway.operate.running.driver import RunningDriver
