"""Cuts topics over to the target: consumers, producers, and then the end of the mirror.

`cutover` looks at both clusters, decides by a pure plan, does one thing, and looks again. It keeps
no state: a second call continues where the first ended. `undo` lifts the fences.
"""

from causeway.operate.cutover.lock import Lifted, undo, undo_json
from causeway.operate.cutover.report import producer_lines
from causeway.operate.cutover.run import OnLook, cutover
from causeway.operate.cutover.values import (
    Act,
    Checklist,
    CheckMark,
    CutoverEnd,
    CutoverResult,
    CutoverStep,
    FirstMover,
    Look,
    Producer,
    StepState,
    Wishes,
    result_json,
)
