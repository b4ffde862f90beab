"""`causeway verify`: source and target agree, or where they do not.

    plan.py ─► stretches.py      what can be compared, cut into ranges between true pairs
       │
    job.py ─► task.py ─► compare.py ─► logs.py       both logs walked in step, on executors
       │                     └─► differ.py           where both fit again, and what lies between
    run.py ─► report.py, state.py

What is exported is imported when it is asked for: executors need the second line alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causeway.operate.verify.report import PartitionReport, Report, Verdict, as_json
    from causeway.operate.verify.run import Progress, verify

__all__ = ["PartitionReport", "Progress", "Report", "Verdict", "as_json", "verify"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from causeway.operate.verify import report, run

    return getattr(run, name, None) or getattr(report, name)
