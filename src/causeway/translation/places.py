"""Where groups go on: places of source offsets, and what they make of a target partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from causeway.cluster import EARLIEST, Committed, OffsetAt
from causeway.control import Followed, TranslatedOffset
from causeway.daemon.partitions.mirrored import Feed, Mirrored
from causeway.errors import CausewayError
from causeway.model import TopicPartition


class Place(NamedTuple):
    """Where the first relayed record from a source offset on lies, or will lie. `note` says why it
    is not exact: `target` is then at or before the true place, or None where nothing is known.
    `mirrored`: that record is known to be there; else `target` is the end of the mirror, as far as
    we know, and may be behind it."""

    target: int | None
    note: str | None = None
    mirrored: bool = True

    @property
    def certain(self) -> bool:
        return self.note is None and self.mirrored


class Translation(NamedTuple):
    """`places`: by source offset. `shared`: the target partitions that several source partitions
    feed, and which."""

    places: Mapping[Feed, Mapping[int, Place]]
    shared: Mapping[TopicPartition, Collection[TopicPartition]]


def shared_by(fed: Iterable[Mirrored]) -> dict[TopicPartition, set[TopicPartition]]:
    """See Translation."""
    sources: dict[TopicPartition, set[TopicPartition]] = defaultdict(set)
    for each in fed:
        sources[each.target].add(each.source)
    return {target: feeding for target, feeding in sources.items() if len(feeding) > 1}


def within(
    starts: Mapping[Feed, OffsetAt | CausewayError], found: dict[Feed, dict[int, Place]]
) -> dict[Feed, dict[int, Place]]:
    """No place lies before the target's log start: a consumer sent there would be out of range,
    and might begin anew at the end."""
    for at, places in found.items():
        start = starts.get(at)
        if not isinstance(start, OffsetAt):
            continue
        for offset, place in places.items():
            if place.target is not None and place.target < start.offset:
                places[offset] = place._replace(target=start.offset)
    return found


def wanted(
    followed: Followed, shared: Mapping[TopicPartition, Collection[TopicPartition]]
) -> dict[TopicPartition, set[int]]:
    """The source offsets to translate. Where several partitions of a topic feed one of the
    target's, a group that has committed on one of them has read nothing of those on which it has
    not."""
    offsets: dict[TopicPartition, set[int]] = defaultdict(set)
    together: dict[str, set[TopicPartition]] = defaultdict(set)
    for feeding in shared.values():
        for at in feeding:
            together[at.topic].add(at)
    for commits in followed.commits.values():
        for at, committed in commits.items():
            offsets[at].add(committed.offset)
        for topic in {at.topic for at in commits} & together.keys():
            for at in together[topic] - commits.keys():
                offsets[at].add(EARLIEST)
    return offsets


def stands(
    followed: Followed, found: Translation
) -> dict[str, dict[TopicPartition, TranslatedOffset]]:
    """Where each group goes on in each target partition that what it reads feeds: at the first
    record that it has not read, by any of the source partitions. Those of which one is not known
    are missing."""
    by_source: dict[TopicPartition, list[TopicPartition]] = defaultdict(list)
    for feed in found.places:
        by_source[feed.source].append(feed.target)
    answer: dict[str, dict[TopicPartition, TranslatedOffset]] = {}
    for group, commits in followed.commits.items():
        topics = {at.topic for at in commits}
        targets = {target for at in commits for target in by_source.get(at, ())}
        answer[group] = {}
        for target in targets:
            feeding = {at for at in found.shared.get(target, ()) if at.topic in topics}
            feeding |= {at for at in commits if target in by_source.get(at, ())}
            stand = _stand(target, {at: commits.get(at) for at in feeding}, found)
            if stand is not None:
                answer[group][target] = stand
    return answer


def _stand(
    target: TopicPartition,
    commits: Mapping[TopicPartition, Committed | None],
    found: Translation,
) -> TranslatedOffset | None:
    least: TranslatedOffset | None = None
    certain = True
    for at, committed in sorted(commits.items()):
        offset = EARLIEST if committed is None else committed.offset
        place = found.places.get(Feed(at, target), {}).get(offset)
        if place is None or place.target is None:
            return None
        certain &= place.certain
        if least is None or place.target < least.downstream:
            metadata = "" if committed is None else committed.metadata
            least = TranslatedOffset(
                upstream=max(0, offset), downstream=place.target, metadata=metadata
            )
    if least is None:
        return None
    return least._replace(certain=certain, alone=len(commits) == 1)


def inexact(followed: Followed, found: Translation) -> dict[str, str]:
    """What should be known of places that are not exact, by group and partition."""
    notes: dict[str, str] = {}
    for feed, places in found.places.items():
        for group, commits in followed.commits.items():
            committed = commits.get(feed.source)
            if committed and (place := places.get(committed.offset)) and place.note:
                notes[f"{group} on {feed.source}"] = place.note
    return notes
