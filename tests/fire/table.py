"""The result of a fire as Markdown: what was done, and the mirror's longest pauses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.fire.actions import Action, Step
from tests.fire.pauses import MirrorPause

_SLACK_S = 1.0  # a partition may be behind when a step begins
_LONGEST = 8


def table(
    actions: Sequence[Action], steps: Sequence[Step], pauses: Sequence[MirrorPause]
) -> Iterator[str]:
    """Pauses count for all actions of the last step that began before the pause."""
    after = _by_step(steps, pauses)
    yield "| action | times | longest pause after it |"
    yield "|---|---:|---:|"
    for action in actions:
        taken = [at for at, step in enumerate(steps) if action in step.actions]
        longest = max((p.seconds for at in taken for p in after[at]), default=0.0)
        yield f"| {action.name} | {len(taken)} | {_shown(longest) if taken else '–'} |"
    yield ""
    yield "| longest pauses | partition | during |"
    yield "|---:|---|---|"
    by_step = {id(pause): at for at, found in after.items() for pause in found}
    for pause in sorted(pauses, key=lambda pause: -pause.seconds)[:_LONGEST]:
        at = by_step.get(id(pause))
        during = "the start" if at is None else steps[at].names
        yield f"| {_shown(pause.seconds)} | {pause.place[0]}-{pause.place[1]} | {during} |"


def _by_step(
    steps: Sequence[Step], pauses: Sequence[MirrorPause]
) -> defaultdict[int, list[MirrorPause]]:
    found: defaultdict[int, list[MirrorPause]] = defaultdict(list)
    for pause in pauses:
        before = [at for at, step in enumerate(steps) if step.begun <= pause.begun + _SLACK_S]
        if before:
            found[before[-1]].append(pause)
    return found


def _shown(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds else "below 1 s"
