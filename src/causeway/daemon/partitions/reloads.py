"""Decides which partitions a change of a link's settings concerns. Lanes keep the others."""

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
    """Returns a function that says, for a topic of the source, whether a change affects the work of
    lanes on its partitions, or their claims."""

    @cache
    def other(topic: str) -> bool:
        return _of(topic, *before) != _of(topic, *now)

    return other


def _of(topic: str, link: LinkSettings, transforms: Transforms) -> tuple[Any, ...]:
    """Returns all settings that decide this: see claims.assignment."""
    transform = transforms.of(topic)
    preserves = link.preserves(topic)
    filled = (link.offset_gaps, link.offset_filler, link.offset_filler_from) if preserves else ()
    return (
        link.decide_topic(topic).target_name,
        None if transform is None else transform.key,
        transforms.identity_of(topic),
        link.treatments_of(topic),
        replace(link.fetch, start="earliest"),  # the start only matters for new partitions
        claims.compression(link),
        link.is_sole_writer(topic),
        link.joins,
        preserves,
        filled,
    )


def still_held(link: str) -> CausewayError:
    """Returns the error if a lane still holds partitions that must go on with other settings."""
    return CausewayError(
        "change the settings of",
        link,
        "a lane has not let go of its partitions yet",
        retriable=True,
    )
