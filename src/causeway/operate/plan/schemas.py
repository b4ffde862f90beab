"""What a run would do in the registry of a link's target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from causeway.config import LinkSettings
from causeway.control import MirroredTopic, TopicProblem
from causeway.errors import CausewayError, ConflictError

if TYPE_CHECKING:
    from causeway.schemas import Due


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    subjects: tuple[Due, ...] = ()
    problems: tuple[TopicProblem, ...] = ()


def plan(link: LinkSettings, mirrored: Iterable[MirroredTopic]) -> SchemaPlan:
    """Asks both registries; writes nothing. One that does not answer is a problem."""
    if link.schemas is None:
        return SchemaPlan()
    from causeway.schemas import LinkSchemas

    try:
        due = LinkSchemas(link.schemas).due([(each.source, each.target) for each in mirrored])
    except CausewayError as error:
        return SchemaPlan(problems=(TopicProblem(topic=link.name, error=error),))
    return SchemaPlan(
        subjects=tuple(due),
        problems=tuple(
            TopicProblem(
                topic=one.pair.target,
                error=ConflictError(f"{link.schemas.mode} schemas of", one.pair.source, one.clash),
            )
            for one in due
            if one.clash is not None
        ),
    )


def as_json(planned: SchemaPlan) -> list[dict[str, Any]]:
    return [
        {
            "subject": one.pair.source,
            "target_subject": one.pair.target,
            "changes": list(one.changes),
            "clash": one.clash,
        }
        for one in planned.subjects
    ]
