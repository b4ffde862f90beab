"""Finds the offset at which a run would start each partition, with the code of the driver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from causeway.config import LinkSettings
from causeway.control import MirroredTopic, TopicProblem, mm2_offsets
from causeway.daemon import Sides
from causeway.daemon.partitions import (
    Adopt,
    Begin,
    BeginBehind,
    Candidate,
    Decision,
    Found,
    GoByKey,
    GoOn,
    IfSame,
    Offsets,
    OthersHere,
    PassOver,
    Stop,
    Wish,
    compared,
    decide,
    discovery,
    routing,
)
from causeway.errors import AuthorizationError, DivergedError
from causeway.link_topics import Outlet, ProgressContents
from causeway.model import TopicPartition
from causeway.naming import progress_topic

GROUP_RULE = "a group gets no offset after a record that it has not read there"
_IDS = "__transaction_state"


class How(StrEnum):
    BEGIN = "begin"
    GO_ON = "go on"
    SEARCH = "search"  # for the target's last record in the source
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """`offset`: the first source record that would be mirrored; None if only a search or an
    operator can decide. `first` and `end`: of the source log. `fills`: offsets to fill before the
    first record, so that it gets its own offset."""

    topic: str
    partition: int
    how: How
    offset: int | None
    first: int
    end: int
    fills: int = 0

    @property
    def left_out(self) -> int:
        """The number of existing offsets that the mirror would not have."""
        return self.offset - self.first if self.how is How.BEGIN and self.offset else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """`problems`: partitions that could not be read, or that would stop. `notes`: facts that only a
    run can show."""

    partitions: tuple[Start, ...] = ()
    problems: tuple[TopicProblem, ...] = ()
    notes: tuple[str, ...] = ()


def plan(
    sides: Sides,
    link: LinkSettings,
    topics: Iterable[MirroredTopic],
    contents: ProgressContents,
    there: Mapping[str, int],
    identity_of: Callable[[str], str | None] = lambda _: None,
) -> Starts:
    """`there`: the number of partitions of each existing target topic. `identity_of`: the identity
    of a topic's transform, see control.transforms. Raises CausewayError if a cluster does not
    answer."""
    wanted = [(topic, number) for topic in topics for number in range(topic.partitions)]
    if not wanted:
        return Starts()
    try:
        wants = link.control.mm2_offsets
        copied = mm2_offsets.positions_of(link, sides.target).read() if wants else {}
    except AuthorizationError as error:
        return Starts(problems=(TopicProblem(topic=error.subject, error=error),))
    # Partitions that the target does not have yet are empty, and would not answer.
    new = [(topic, number) for topic, number in wanted if number >= there.get(topic.target, 0)]
    old = [(topic, number) for topic, number in wanted if number < there.get(topic.target, 0)]
    found, created = Found(), Found(created={topic.target for topic, _ in new})
    places = {
        at: place
        for part, result in ((old, found), (new, created))
        for at, place in discovery.find_places(
            sides, link, part, lambda _: Wish(), result, lambda _: True, copied
        ).items()
    }
    lost = _progress_lost(sides, link, contents, there)
    led = routing.led_to(contents.partitions.values())
    others = OthersHere(sides.target, link)
    uncertain = set()
    taken_over: set[TopicPartition] = set()
    starts: list[Start] = []
    problems = [
        TopicProblem(topic=trouble.topic, error=error)
        for result in (found, created)
        for trouble, error in zip(result.problems, result.errors, strict=True)
    ]
    for topic, number in wanted:
        at = TopicPartition(topic.source, number)
        if at not in places:
            continue
        place = places[at]
        one = Candidate(
            topic=topic,
            partition=number,
            progress=contents.partitions.get(at),
            offsets=place,
            link=link,
            wish=Wish(),
            copied=copied.get(at),
            progress_lost=bool(lost),
            transform=identity_of(topic.source),
            shared=(topic.target, number) in led,
        )
        one = replace(one, others=one.is_new and others.brought(topic, number, place.target_ends))
        decided = decision = decide(one)
        if isinstance(decided, IfSame):
            decision = compared(one, decided, sides)
        if lost is None and type(decide(replace(one, progress_lost=True))) is not type(decided):
            uncertain.add(topic.target)
        if at in copied or isinstance(decision, Adopt):
            taken_over.add(at)
        how, offset = _start_of(decision)
        fills = 0
        if isinstance(decision, Begin) and decision.offsets_from >= 0:
            offset = max(decision.start, decision.offsets_from)
            fills = offset - decision.start
            if isinstance(decided, IfSame):
                how = How.GO_ON
        starts.append(
            Start(
                topic=topic.source,
                partition=number,
                how=how,
                offset=offset,
                first=place.log_start,
                end=place.end,
                fills=fills,
            )
        )
        if isinstance(decision, Stop):
            problems.append(
                TopicProblem(
                    topic=topic.source, error=DivergedError("mirror", str(at), decision.reason)
                )
            )
    notes: tuple[str, ...] = ()
    if uncertain:
        notes = (
            f"if {link.name} has mirrored before, its progress topic {link.progress_topic} is lost:"
            f" then a run stops topics that have data on the target already"
            f" ({', '.join(sorted(uncertain))})",
        )
    notes += _foreign_before(link, wanted, places, contents, taken_over)
    return Starts(partitions=tuple(starts), problems=tuple(problems), notes=notes)


def _start_of(decision: Decision) -> tuple[How, int | None]:
    match decision:
        case Begin(start=start):
            return How.BEGIN, start
        case GoOn(progress=progress) | GoByKey(progress=progress) | BeginBehind(progress=progress):
            return How.GO_ON, progress.position
        case Adopt(start=start):
            return How.SEARCH, start
        case PassOver(to=to):
            return How.GO_ON, to
        case Stop() | IfSame():
            return How.STOP, None


def _progress_lost(
    sides: Sides, link: LinkSettings, contents: ProgressContents, there: Collection[str]
) -> bool | None:
    """Returns whether the progress topic was lost: the last driver has found this, or the first one
    will find it (see daemon.leadership). None if only a run can find out."""
    noted = [lease.progress_lost for lease in contents.leases if lease.progress_lost is not None]
    if noted:
        return noted[-1]
    if link.delivery != "exactly-once":
        return False
    # Asking for an id creates the topic of all ids if it does not exist yet.
    return sides.target.knows_transactional_id(link.transactional_id) if _IDS in there else None


def _foreign_before(
    link: LinkSettings,
    wanted: Sequence[tuple[MirroredTopic, int]],
    places: Mapping[TopicPartition, Offsets],
    contents: ProgressContents,
    taken_over: set[TopicPartition],
) -> tuple[str, ...]:
    """Returns a note for each target topic that had records before the mirror. `taken_over`: source
    partitions whose records another tool has copied."""
    if link.sole_writer or link.reverse or not link.control.sync_group_offsets_enabled:
        return ()
    topics: dict[str, None] = {}
    for topic, number in wanted:
        at = TopicPartition(topic.source, number)
        if at not in places or at in taken_over:
            continue
        progress = contents.partitions.get(at)
        outlets: tuple[Outlet, ...] = () if progress is None else progress.outlets
        if (
            any(o.claimed_at > o.copied_to and not o.earlier for o in outlets)
            if outlets
            else any(places[at].target_ends.values())
        ):
            topics[topic.target] = None
    return tuple(
        f"{topic} on {link.target.alias} has records that {link.name} did not write: {GROUP_RULE}"
        for topic in topics
    )


def groups_both_ways(
    link: LinkSettings, contents: ProgressContents, on_source: Collection[str]
) -> Iterator[str]:
    """Yields where groups go on if programs write the topics on both clusters, and the price.
    `on_source`: the names of all topics on the source."""
    control, source, target = link.control, link.source.alias, link.target.alias
    if not link.reverse or not (
        control.emit_checkpoints_enabled or control.sync_group_offsets_enabled
    ):
        return
    task = contents.tasks.get("groups")
    figures = {} if task is None else task.figures
    price = "some records"
    if figures:
        group = max(figures, key=lambda name: figures[name])
        price = f"some records (group {group} at most {figures[group]:,}, no other group more)"
    yield (
        f"on {target} groups go on at the first record that they have not read, of {source} or of"
        f" {target}. The logs have their records in different orders, so groups read {price} again"
    )
    topic = progress_topic(target, source)
    if topic not in on_source:
        yield (
            f"{source} has no topic {topic} yet: groups get no offsets on {target} until"
            f" {target}->{source} has begun"
        )
