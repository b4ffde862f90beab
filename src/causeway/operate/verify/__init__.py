"""Compares source and target record by record, and reports where they differ.

plan.py ─► stretches.py      finds the comparable records, cut into ranges between known pairs
   │
job.py ─► compare.py ─► logs.py     reads both logs in step, on executors
   │          ├───────► by_offset.py  does the same if offsets are preserved
   │          └───────► differ.py   finds where both sides fit again, and the differences
run.py ─► report.py, state.py
"""

from causeway.operate.verify.outcome import Difference, DifferenceKind
from causeway.operate.verify.plan import NotCompared, Why
from causeway.operate.verify.report import Agreement, PartitionReport, Report, as_json, render, span
from causeway.operate.verify.run import Progress, verify
