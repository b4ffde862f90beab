"""A link is told where to begin, and until it has: the way back, and the link itself behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from causeway.cluster import LATEST, Cluster, OffsetAt
from causeway.config import LinkSettings
from causeway.errors import ConflictError
from causeway.link_topics import (
    BeginDirective,
    DirectiveChange,
    DirectivePlan,
    EndDirective,
    LinkDirectives,
    RestartDirective,
    Scope,
    plan_failback,
    write_directives,
)
from causeway.model import NO_TOPIC_ID, TopicPartition
from causeway.operate.failover.ending import Ending

_POLL_S = 0.25
Places = Mapping[TopicPartition, int]


def begin(
    target: Cluster,
    link: LinkSettings,
    wish: BeginDirective,
    starts: Places,
    looked: Places,
    ids: Mapping[str, str],
) -> None:
    """Has `link` begin at `starts`, whatever ended it before. `wish`: a begin of the scope, with
    the end the other way in its `at`; `looked`: see Directive, by partition of the target; `ids` of
    the topics of its source. Raises ConflictError, also where somebody else had it begin meanwhile;
    CausewayError."""
    decide = partial(_plan, wish, _by_topic(starts), _by_topic(looked), ids)
    write_directives(target, link, decide)


def _plan(
    wish: BeginDirective,
    starts: Mapping[str, Mapping[int, int]],
    looked: Mapping[str, Mapping[int, int]],
    ids: Mapping[str, str],
    standing: LinkDirectives,
) -> DirectivePlan:
    begins: list[DirectiveChange] = []
    for topic, places in sorted(starts.items()):
        known = standing.get(BeginDirective, Scope(topic))
        if known is not None and known.at == wish.at:
            # What it has written by now is not what we have looked at.
            raise ConflictError(
                "begin",
                topic,
                f"{known.who} had it begin meanwhile",
                remedy="nothing was changed; call this again: it goes on",
            )
        # A way back keeps names, so they are those of the other side as well.
        each = wish.replace(
            scope=Scope(topic),
            starts=places,
            source_id=ids.get(topic, NO_TOPIC_ID),
            looked=looked.get(topic, {}),
        )
        begins.append((each.key, each))
    now = int(time.time() * 1000)
    again = RestartDirective(scope=wish.scope, who=wish.who, why=wish.why, at=now)
    taken_back = plan_failback(standing, wish.scope).changes
    return DirectivePlan(changes=(*begins, *taken_back, (again.key, again)))


class Looked(NamedTuple):
    """Up to which offset of what it writes to was looked through before a link began, and later;
    -1 where nothing was found later."""

    first: int
    kept: int


def looked_of(standing: LinkDirectives, end: EndDirective) -> dict[TopicPartition, Looked]:
    """Of the link that was told to begin at `end`."""
    return {
        TopicPartition(str(each.scope.topic), number): Looked(offset, each.kept.get(number, -1))
        for each in standing.all(BeginDirective)
        if each.at == end.at
        for number, offset in each.looked.items()
    }


def note_kept(target: Cluster, link: LinkSettings, end: EndDirective, kept: Places) -> None:
    """That what others wrote was seen to, up to there. Raises as `begin`."""

    def decide(standing: LinkDirectives) -> DirectivePlan:
        changes: list[DirectiveChange] = []
        for topic, places in sorted(_by_topic(kept).items()):
            known = standing.get(BeginDirective, Scope(topic))
            if known is not None and known.at == end.at:
                after = known.replace(kept={**known.kept, **places})
                changes.append((after.key, after))
        return DirectivePlan(changes=tuple(changes))

    write_directives(target, link, decide)


def await_begun(
    back: Ending,
    source: Cluster,
    end: EndDirective,
    wanted: set[TopicPartition],
    wait_s: float,
    say: Callable[[str], None],
) -> int | None:
    """Until the link of `back`, told to begin at `end`, has begun with `wanted` partitions of its
    `source`, or so long; how far it lags then."""
    deadline = time.monotonic() + wait_s
    while True:
        begun = {
            at: each.position
            for at in wanted
            if (each := back.contents.partitions.get(at)) is not None and each.begun == end.at
        }
        if begun.keys() == wanted:
            break
        if time.monotonic() > deadline or (back.driver is None and wait_s <= 0):
            return None
        say(f"{back.link.name}: waiting for a driver to begin at the cut")
        time.sleep(_POLL_S)
        back.read_on()
    ends = source.list_offsets(sorted(begun), LATEST)
    return sum(
        max(0, found.offset - position)
        for at, position in begun.items()
        if isinstance(found := ends[at], OffsetAt)
    )


def _by_topic(places: Places) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for at, offset in places.items():
        found.setdefault(at.topic, {})[at.partition] = offset
    return found
