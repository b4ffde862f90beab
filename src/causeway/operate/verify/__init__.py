"""Compares source and target record by record, and reports where they differ.

plan.py ─► stretches.py      what can be compared, cut into ranges between known pairs
   │
job.py ─► compare.py ─► logs.py     reads both logs in step, on executors
   │          ├───────► by_offset.py  the same where offsets are preserved
   │          └───────► differ.py   where both sides fit again, and what differs
run.py ─► report.py, state.py
"""

from causeway.operate.verify.outcome import Difference, DifferenceKind
from causeway.operate.verify.plan import NotCompared, Why
from causeway.operate.verify.report import Agreement, PartitionReport, Report, as_json, render, span
from causeway.operate.verify.run import Progress, verify
