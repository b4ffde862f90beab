"""Exact places of groups on the target, looked up once each: they stay true for ever."""

from __future__ import annotations

from collections.abc import Mapping

from causeway.cluster import Committed
from causeway.config import LinkSettings, Settings
from causeway.model import TopicPartition
from causeway.translation import MappedOffset, Question, translate

Commits = Mapping[TopicPartition, Committed]


class Places:
    """Of one link."""

    def __init__(self, settings: Settings, link: LinkSettings) -> None:
        self._settings = settings
        self._link = link
        self._known: dict[tuple[TopicPartition, int], tuple[MappedOffset, ...]] = {}

    def of(
        self, groups: Mapping[str, Commits]
    ) -> dict[str, tuple[dict[TopicPartition, Committed], str | None]]:
        """Where each group goes on in partitions of the target, by what it has committed on the
        source; and why, if that is not known of all of them. Raises CausewayError."""
        asked = {(at, each.offset) for commits in groups.values() for at, each in commits.items()}
        new = sorted(asked - self._known.keys())
        reasons: dict[tuple[TopicPartition, int], str] = {}
        questions = [Question(topic=at.topic, partition=at.partition, offset=o) for at, o in new]
        answers = translate(self._settings, questions, link=self._link.name) if new else ()
        for answer in answers:
            question = answer.question
            assert question.offset is not None
            key = TopicPartition(question.topic, question.partition), question.offset
            if answer.exact:
                self._known[key] = answer.places
            else:
                notes = [answer.note, *(place.note for place in answer.places)]
                reasons[key] = f"{key[0]}: " + next(
                    (note for note in notes if note), "its place is not known exactly"
                )
        found = {}
        for name, commits in groups.items():
            stands: dict[TopicPartition, Committed] = {}
            reason = None
            for at, each in commits.items():
                reason = reason or reasons.get((at, each.offset))
                for place in self._known.get((at, each.offset), ()):
                    if place.offset is None:
                        continue
                    there = place.at
                    before = stands.get(there)
                    # The first record, by any of the source partitions, that it has not read.
                    if before is None or place.offset < before.offset:
                        stands[there] = Committed(offset=place.offset, metadata=each.metadata)
            found[name] = stands, reason
        return found
