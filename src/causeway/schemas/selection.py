"""Which subjects belong to a link, and what they are called on its target.

By TopicNameStrategy, a topic's are `TOPIC-key` and `TOPIC-value`. They follow the topic: that of
`orders`, which is `A.orders` on the target, is `A.orders-value` there. Subjects of other strategies
are named by patterns, and keep their names; so do those that others refer to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from causeway.config import SchemaSettings
from causeway.filters import excludes

PARTS = ("key", "value")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Pair:
    """A subject, by its name in both registries."""

    source: str
    target: str


def subject_of(topic: str, part: str) -> str:
    """`part`: key or value."""
    return f"{topic}-{part}"


def chosen(
    settings: SchemaSettings, topics: Iterable[tuple[str, str]], subjects: Iterable[str]
) -> list[Pair]:
    """Of the source's `subjects` those that belong to mirrored `topics` (name on the source, on the
    target) or to the patterns of `settings`."""
    known = frozenset(subjects)
    found: set[Pair] = set()
    for source, target in topics:
        for part in PARTS:
            subject = subject_of(source, part)
            if subject in known:
                found |= {
                    Pair(source=subject, target=name)
                    for name in names(settings.names, subject, subject_of(target, part))
                }
    of_topics = {pair.source for pair in found}
    for subject in known - of_topics:
        if excludes(settings.subjects, subject):
            found.add(Pair(source=subject, target=subject))
    return sorted(found)


def names(kind: str, own: str, mirrors: str) -> Iterator[str]:
    """What a topic's subject `own` is called on the target, where its mirror's is `mirrors`, by
    `SchemaSettings.names`; the first is the one that records are translated by."""
    if kind in ("mirror", "both"):
        yield mirrors
    if kind == "source" or (kind == "both" and own != mirrors):
        yield own
