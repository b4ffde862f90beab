"""Which partitions a change of a link's settings concerns. The others stay with their lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from causeway.config import LinkSettings
from causeway.control import Transforms
from causeway.daemon.partitions import claims
from causeway.errors import CausewayError

_Link = tuple[LinkSettings, Transforms]


def compared(before: _Link, now: _Link) -> Callable[[str], bool]:
    """Tells for a topic (a name on the source) whether anything has changed that decides what a
    lane does with its partitions, or that claims depend on."""

    @cache
    def other(topic: str) -> bool:
        return _of(topic, *before) != _of(topic, *now)

    return other


def _of(topic: str, link: LinkSettings, transforms: Transforms) -> tuple[Any, ...]:
    """All that decides it: see claims.assignment."""
    transform = transforms.of(topic)
    preserves = link.preserves(topic)
    filled = (link.offset_gaps, link.offset_filler, link.offset_filler_from) if preserves else ()
    return (
        link.decide_topic(topic).target_name,
        None if transform is None else transform.key,
        transforms.identity_of(topic),
        link.treatments_of(topic),
        replace(link.fetch, start="earliest"),  # of new partitions alone
        claims.compression(link),
        link.is_sole_writer(topic),
        link.joins,
        preserves,
        filled,
    )


def still_held(link: str) -> CausewayError:
    """A lane has not let go yet of partitions that are to go on with other settings."""
    return CausewayError(
        "change the settings of",
        link,
        "a lane has not let go of its partitions yet",
        retriable=True,
    )
