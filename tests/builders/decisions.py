"""Decisions and claims from positional facts, as the tests of claims write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from causeway.config import LinkSettings
from causeway.control import Copied, MirroredTopic
from causeway.daemon.partitions import Begin, Candidate, Decision, Offsets, Wish, claims, deciding
from causeway.link_topics import PartitionProgress
from tests.builders.records import NO_WISH


def decide(
    topic: MirroredTopic,
    partition: int,
    progress: PartitionProgress | None,
    offsets: Offsets,
    link: LinkSettings,
    wish: Wish,
    copied: Copied | None = None,
    **more: Any,
) -> Decision:
    return deciding.decide(
        Candidate(
            topic=topic,
            partition=partition,
            progress=progress,
            offsets=offsets,
            link=link,
            wish=wish,
            copied=copied,
            **more,
        )
    )


def claim(
    topic: MirroredTopic,
    partition: int,
    begin: Begin,
    offsets: Offsets,
    producers: Mapping[int, tuple[int, int]],
    link: LinkSettings,
    *,
    before: PartitionProgress | None = None,
    taken_over: bool = False,
) -> PartitionProgress:
    one = Candidate(
        topic=topic,
        partition=partition,
        progress=before,
        offsets=offsets,
        link=link,
        wish=NO_WISH,
    )
    return claims.claim(one, begin, producers, taken_over=taken_over)
