"""Compares source and target record by record, and reports where they differ.

    plan.py ─► stretches.py      what can be compared, cut into ranges between known pairs
       │
    job.py ─► compare.py ─► logs.py, sides.py     reads both logs in step, on executors
       │          └───────► differ.py             where both sides fit again, and what differs
    run.py ─► report.py, state.py

Exports are imported at their first use: executors need the second line only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from causeway.operate.verify.outcome import Difference, DifferenceKind
    from causeway.operate.verify.plan import NotCompared, Why
    from causeway.operate.verify.report import (
        Agreement,
        PartitionReport,
        Report,
        as_json,
        render,
    )
    from causeway.operate.verify.run import Progress, verify

__all__ = [
    "Agreement",
    "Difference",
    "DifferenceKind",
    "NotCompared",
    "PartitionReport",
    "Progress",
    "Report",
    "Why",
    "as_json",
    "render",
    "verify",
]
_MODULES: Final = ("run", "report", "plan", "outcome")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    modules = (import_module(f"{__name__}.{each}") for each in _MODULES)
    return next(getattr(each, name) for each in modules if hasattr(each, name))
