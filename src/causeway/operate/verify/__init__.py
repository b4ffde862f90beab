"""`causeway verify`: source and target agree, or where they do not.

plan.py ─► stretches.py      what can be compared, cut into ranges between true pairs
   │
job.py ─► task.py ─► compare.py ─► logs.py       both logs walked in step, on executors
   │                     └─► differ.py           where both fit again, and what lies between
run.py ─► report.py, state.py
"""

from causeway.operate.verify.report import PartitionReport, Report, Verdict, as_json
from causeway.operate.verify.run import Progress, verify

__all__ = ["PartitionReport", "Progress", "Report", "Verdict", "as_json", "verify"]
