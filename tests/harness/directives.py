"""Directives without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from causeway.link_topics import (
    BeginDirective,
    CutoverDirective,
    Directive,
    DirectiveKind,
    EndDirective,
    FenceDirective,
    MirrorDirective,
    OriginDirective,
    PauseDirective,
    RestartDirective,
    Scope,
    StepDownDirective,
    ThrottleDirective,
    write_directives,
)

_FIELDS: dict[DirectiveKind, tuple[type[Directive], dict[str, Any]]] = {
    DirectiveKind.PAUSE: (PauseDirective, {}),
    DirectiveKind.THROTTLE: (ThrottleDirective, {"bytes_per_s": None}),
    DirectiveKind.FENCE: (FenceDirective, {"until": -1}),
    DirectiveKind.CUTOVER: (CutoverDirective, {"until": -1}),
    DirectiveKind.RESTART: (RestartDirective, {}),
    DirectiveKind.STEP_DOWN: (StepDownDirective, {}),
    DirectiveKind.END: (EndDirective, {}),
    DirectiveKind.BEGIN: (BeginDirective, {}),
    DirectiveKind.MIRROR: (MirrorDirective, {}),
    DirectiveKind.ORIGIN: (OriginDirective, {"cluster": ""}),
}


def directive(
    kind: DirectiveKind,
    scope: Scope = Scope(),  # noqa: B008
    who: str = "anna@ops",
    at: int = 1,
    **fields: Any,
) -> Directive:
    """A directive of that kind; fields that it needs and that are not given have some value."""
    which, needed = _FIELDS[kind]
    return which(scope=scope, who=who, at=at, **needed | fields)


def replace_writes(patch: pytest.MonkeyPatch, write: Callable[..., Any]) -> None:
    """Has all modules call `write` in place of `write_directives`."""
    real = write_directives
    for module in list(sys.modules.values()):
        if getattr(module, "write_directives", None) is real:
            patch.setattr(module, "write_directives", write)
