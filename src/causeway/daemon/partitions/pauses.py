"""Holds the partitions that people have paused or ended.

paused    taken from its lane in order, after all answers have come; no lane gets it
resumed   assigned again at its position, like a partition whose lane is gone
ended     as paused; the link does not touch its topic and groups either
renewed   the end was withdrawn: the partition is let go of, and taken up again like a new one
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from causeway.config import LinkSettings
from causeway.control import topic_changes
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.rows import AT_REST
from causeway.link_topics import ClaimStart, DirectiveKind, Hold, LinkDirectives, Scope
from causeway.model import ENDED, HELD, State, TopicPartition

_log = logging.getLogger("causeway.link")


class Pauses:
    """The holds of one link. Thread-safe, except for `pause`, which belongs to one thread."""

    def __init__(
        self,
        link: str,
        registry: Registry,
        recall: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, bool]],
        by_file: Hold | None = None,
    ) -> None:
        """`recall` takes partitions from their lanes and returns those that no lane has any more.
        `by_file`: the hold of a file that pauses the link, whatever directives say."""
        self._link = link
        self._registry = registry
        self._recall = recall
        self._by_file = by_file
        # Held from the decision which partitions are paused until the others are assigned. A
        # partition that is paused after this is recalled. A holder of the registry's or the
        # fleet's lock never waits for this one.
        self.deciding = threading.RLock()
        self._directives = LinkDirectives()
        self._done = True  # the directives are carried out
        self.held = False  # a partition is, or was, on hold

    def update(self, directives: LinkDirectives) -> None:
        """Uses these directives for all later questions."""
        with self.deciding:
            if directives is not self._directives:
                self._directives, self._done = directives, False

    @property
    def are_any(self) -> bool:
        with self.deciding:
            return self._holds(self._directives)

    def has_ended(self, topic: str) -> bool:
        """Returns whether the mirror of `topic` has ended: then the link does not touch its
        target."""
        with self.deciding:
            return self._directives.has_ended(Scope(topic))

    def hold_of(self, at: TopicPartition) -> Hold | None:
        """Returns why no lane may get the partition; None if a lane may get it."""
        with self.deciding:
            return self._hold_of(self._directives, at)

    def start_of(self, at: TopicPartition) -> ClaimStart | None:
        """Returns the directive that says where the partition begins."""
        with self.deciding:
            return self._directives.start_of(at)

    def was_begun(self, topic: str) -> bool:
        """Returns whether a directive says where the partitions of `topic` begin."""
        with self.deciding:
            return (DirectiveKind.BEGIN, Scope(topic)) in self._directives.by_key

    def pause(self) -> bool:
        """Puts partitions on hold. Returns False if a lane still holds one of them."""
        with self.deciding:
            if self._done or not self._holds(self._directives):
                return True
            directives = self._directives
        wanted = {  # partitions that are not on hold yet, or are on hold for another reason
            row.progress.source: hold
            for row in self._registry.rows(lambda _: True)
            if (hold := self._hold_of(directives, row.progress.source)) is not None
            and not (
                row.progress.state is hold[0] and (row.progress.reason or "").startswith(hold[1])
            )
            # A partition at rest can end, but cannot be paused. An ended one is renewed first.
            and (hold[0] in ENDED or row.progress.state not in AT_REST | ENDED)
        }
        gone = self._recall(wanted) if wanted else {}
        # No lane sends their records, whatever the fleet still has in its list.
        rest = self._registry.rows(lambda row: row.progress.state in AT_REST | ENDED)
        idle = {row.progress.source for row in rest}
        held = {at: hold for at, hold in wanted.items() if at in gone or at in idle}
        self._registry.hold(held)
        if held:
            state, reason = next(iter(held.values()))
            about = {"partitions": len(held), "reason": reason}
            _log.warning(str(state), extra={"link": self._link, **about})
            self.held = True
        with self.deciding:
            self._done = len(held) == len(wanted) and directives is self._directives
            return self._done

    def over(self) -> list[TopicPartition]:
        """Returns the paused partitions that should resume."""
        return self._no_longer(
            HELD - ENDED, lambda directives, at: self._hold_of(directives, at) is None
        )

    def renewed(self) -> list[TopicPartition]:
        """Returns the ended partitions whose end was withdrawn."""
        return self._no_longer(ENDED, lambda directives, at: not directives.has_ended(at))

    def _no_longer(
        self, states: Collection[State], over: Callable[[LinkDirectives, TopicPartition], bool]
    ) -> list[TopicPartition]:
        with self.deciding:
            directives = self._directives
        if not self.held:
            return []
        held = self._registry.rows(lambda row: row.progress.state in states)
        return [at for row in held if over(directives, at := row.progress.source)]

    def hold(self, places: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Puts those of `places` on hold that no lane may get, and returns them. Call it with
        `deciding` held."""
        directives = self._directives
        if not self._holds(directives):
            return set()
        found = {at: self._hold_of(directives, at) for at in places}
        held = {at: hold for at, hold in found.items() if hold is not None}
        self._registry.hold(held)
        self.held |= bool(held)
        return set(held)

    def _holds(self, directives: LinkDirectives) -> bool:
        return self._by_file is not None or directives.holds

    def _hold_of(self, directives: LinkDirectives, at: TopicPartition) -> Hold | None:
        if directives.end_of(at) is not None:
            return directives.hold_of(at)
        return self._by_file or directives.hold_of(at)


def by_file(link: LinkSettings) -> Hold | None:
    """Returns the hold of a link whose file pauses it; None if the file does not."""
    if not link.records_paused:
        return None
    return State.PAUSED, topic_changes.why_paused(link)
