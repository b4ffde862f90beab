"""Finds how a run keeps the offsets of topics, and which rights are missing for that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from causeway.cluster import Cluster, denies_transactional_id, topic_rights
from causeway.config import LinkSettings
from causeway.control import Filling, MirroredTopic, TopicProblem, preserving
from causeway.errors import AuthorizationError
from causeway.operate.plan.starts import Start
from causeway.operate.plan.transforms import TransformPlan

_TRANSACTIONS: Final = "__transaction_state"
_ROUTES: Final = {"topic", "partition"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOffsets:
    """One topic: how many offsets of its partitions are filled at the beginning, and about how many
    seconds that takes. `sees_filler`: read_uncommitted consumers may see filler."""

    topic: str
    fills: int
    seconds: float
    sees_filler: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "offsets_to_fill": self.fills,
            "seconds_to_fill": round(self.seconds, 1),
            "filler_visible_to_read_uncommitted": self.sees_filler,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsPlan:
    """`filling`: how gaps are filled; None if no topic keeps its offsets. `topics`: by their names
    on the source."""

    filling: Filling | None = None
    topics: tuple[KeptOffsets, ...] = ()
    problems: tuple[TopicProblem, ...] = ()

    @property
    def notes(self) -> Iterator[str]:
        if self.filling is None:
            return
        yield f"gaps of offsets are filled by {self.filling.way}{_why(self.filling)}"
        if seen := [each.topic for each in self.topics if each.sees_filler]:
            yield (
                "read_uncommitted consumers may see records without a value in large gaps of "
                f"{', '.join(seen)}, until the target compacts them (causeway.offsets.filler = "
                "stop stops the partition instead)"
            )


def _why(filling: Filling) -> str:
    return "" if filling.lacks is None else f", which is slower than markers: {filling.lacks}"


def plan(
    link: LinkSettings,
    target: Cluster,
    mirrored: Iterable[MirroredTopic],
    starts: Iterable[Start],
    transforms: Iterable[TransformPlan],
    there: Collection[str],
) -> OffsetsPlan:
    """`there`: the topics of the target. Writes nothing. Raises CausewayError if the target does
    not answer."""
    topics = [topic for topic in mirrored if topic.preserves]
    if not topics:
        return OffsetsPlan()
    fills: defaultdict[str, list[int]] = defaultdict(list)
    for start in starts:
        fills[start.topic].append(start.fills)
    kept = tuple(
        KeptOffsets(
            topic=topic.source,
            fills=sum(fills[topic.source]),
            seconds=max(fills[topic.source], default=0) / preserving.FILLED_PER_S,
            sees_filler=topic.compacted and link.offset_filler == "allow",
        )
        for topic in topics
    )
    return OffsetsPlan(
        filling=preserving.filling(link, target),
        topics=kept,
        problems=(
            *_not_one_to_one(link, {topic.source for topic in topics}, transforms),
            *_lacking(link, target, topics, kept, there),
        ),
    )


def _not_one_to_one(
    link: LinkSettings, topics: Collection[str], transforms: Iterable[TransformPlan]
) -> Iterator[TopicProblem]:
    for transform in transforms:
        parts = " and ".join(sorted(_ROUTES.intersection(transform.replaces)))
        does = f"chooses the {parts} of records" if parts else "may make several records of one"
        for topic in transform.topics if parts or transform.multiplies else ():
            if topic in topics:
                cause = f"its transform {transform.settings.name} {does}"
                yield TopicProblem(
                    topic=topic, error=preserving.refused(topic, cause, "change the query", link)
                )


def _lacking(
    link: LinkSettings,
    target: Cluster,
    topics: Sequence[MirroredTopic],
    kept: Sequence[KeptOffsets],
    there: Collection[str],
) -> Iterator[TopicProblem]:
    """Yields a problem for each right that filling needs and the target denies. Topics that do not
    exist yet cannot be asked about."""
    alias = link.target.alias
    filled = {each.topic for each in kept if each.fills}
    names = {t.target: t.source for t in topics if t.source in filled and t.target_id is not None}
    for name, rights in topic_rights(target, names).items():
        if rights is not None and "DELETE" not in rights:
            yield TopicProblem(
                topic=names[name],
                error=AuthorizationError(
                    "keep the offsets of",
                    names[name],
                    f"the filler at the beginning of {name} on {alias} could not be deleted",
                    remedy=f"grant DELETE on {name}",
                ),
            )
    # Asking for an id creates the topic of all ids if it does not exist yet.
    if _TRANSACTIONS in there and denies_transactional_id(target, f"{link.offsets_id}.fill"):
        yield TopicProblem(
            topic=link.name,
            error=AuthorizationError(
                "keep the offsets of",
                link.name,
                f"{alias} denies the transactional ids that fill gaps",
                remedy=f"grant WRITE on transactional ids with the prefix {link.offsets_id}",
            ),
        )
