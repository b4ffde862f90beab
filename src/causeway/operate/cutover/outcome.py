"""How a call ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from causeway.config import LinkSettings
from causeway.operate.cutover.values import Checklist, Look, Producer, Wishes


class End(StrEnum):
    """How a call ended."""

    DONE = "done"
    SHOWN = "shown"  # nothing was to be changed
    BLOCKED = "blocked"  # a person has to act
    LIFTED = "lifted"  # the fence's time was over
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`pause_ms`: how long nobody could write, from the fence, or the last record seen, to the
    promotion; None if that is not known. `through`: the producers that wrote through the fence."""

    link: LinkSettings
    wishes: Wishes
    end: End
    checklist: Checklist
    look: Look
    pause_ms: int | None = None
    through: tuple[Producer, ...] = ()


def result_of(
    link: LinkSettings,
    wishes: Wishes,
    end: End,
    checklist: Checklist,
    look: Look,
    pause_ms: int | None = None,
    through: tuple[Producer, ...] = (),
) -> Result:
    return Result(
        link=link,
        wishes=wishes,
        end=end,
        checklist=checklist,
        look=look,
        pause_ms=pause_ms,
        through=through,
    )


def pause_ms_of(look: Look, promoted_ms: int | None) -> int | None:
    """How long nobody could write: from the fence, or without one the last record that was seen to
    be written."""
    if promoted_ms is None:
        return None
    fenced = [fence.record.at for fence in look.fences.values()]
    since = min(fenced, default=look.at_ms - round(look.still_s * 1000))
    return max(0, promoted_ms - since)
