"""What a failback has found and done, as values and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from causeway.link_topics import Scope
from causeway.model import TopicPartition
from causeway.operate.failover import promote as promoting
from causeway.operate.failover.promote import Promoted
from causeway.operate.failover.unmirrored import Unmirrored


class Step(StrEnum):
    """How far it has come."""

    GOES_ON = "mirrors again"  # there is nothing left to do
    UNDECIDED = "undecided"  # what is to become of records that were never mirrored?
    NO_WAY_BACK = "no way back"  # the file has no link the other way
    BACK = "mirrors back"  # the link the other way; the rest when producers have stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What is to become of records that were never mirrored: saved, left where they are (`drop`),
    or that is not said."""

    path: Path | None = None
    topic: str | None = None
    drop: bool = False

    def __bool__(self) -> bool:
        return self.drop or self.path is not None or self.topic is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedBack:
    """Of one link. `reverse`: the link the other way, None where none is needed. `unmirrored`: what
    only the old source has, as long as that can be told; `saved`: where it was saved; `gone`: so
    many offsets the old target has deleted since the cut: they never come back. `late`: what
    others have written there since, and nobody has said what is to become of. `unfenced`: topics of
    the old source whose fence, of a cutover, was (or would be) lifted; `created`: topics that were
    (or would be) created there. `lag`: of the reverse link, None while it has not begun.
    `promoted`: of the reverse link, when it ended. `begun`: the reverse link was told to begin at
    the cut. `pending`: a call that is no dry run would change something."""

    link: str
    reverse: str | None
    scope: Scope
    step: Step
    changed: bool
    dry_run: bool
    unmirrored: tuple[Unmirrored, ...] = ()
    late: tuple[Unmirrored, ...] = ()
    lost: tuple[TopicPartition, ...] = ()
    gone: Mapping[TopicPartition, int] = field(default_factory=dict)
    saved: str | None = None
    unfenced: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    lag: int | None = None
    lines: tuple[str, ...] = ()
    promoted: Promoted | None = None
    begun: bool = False
    pending: bool = False


def as_json(each: FailedBack) -> dict[str, Any]:
    """For `--json`: stable keys."""
    return {
        "link": each.link,
        "reverse": each.reverse,
        "topic": each.scope.topic,
        "step": str(each.step),
        "changed": each.changed,
        "dry_run": each.dry_run,
        "begun": each.begun,
        "pending": each.pending,
        "unmirrored": [_unmirrored_json(one) for one in each.unmirrored],
        "late": [_unmirrored_json(one) for one in each.late],
        "lost": [str(at) for at in each.lost],
        "gone": [
            {"topic": at.topic, "partition": at.partition, "offsets": offsets}
            for at, offsets in each.gone.items()
        ],
        "saved": each.saved,
        "unfenced": list(each.unfenced),
        "created": list(each.created),
        "lag_records": each.lag,
        "lines": list(each.lines),
        "promoted": None if each.promoted is None else promoting.as_json(each.promoted),
    }


def _unmirrored_json(one: Unmirrored) -> dict[str, Any]:
    return {
        "topic": one.at.topic,
        "partition": one.at.partition,
        "first": one.first,
        "end": one.end,
        "records": one.records,
        "deleted_offsets": one.deleted,
        "surely": one.surely,
    }
