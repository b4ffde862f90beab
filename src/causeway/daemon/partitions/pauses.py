"""Which partitions are not to be mirrored now, because a person wants it so.

paused    taken from its lane, in order: what it has sent is answered for; no lane gets it
resumed   assigned again where it was, like one whose lane is gone
ended     as paused; nothing else is done for it either
renewed   what had ended is let go of, and taken up again like what is new
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from causeway.config import LinkSettings
from causeway.control import topic_changes
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.rows import AT_REST, Row
from causeway.link_topics import ClaimStart, DirectiveKind, Hold, LinkDirectives, Scope
from causeway.model import ENDED, HELD, State, TopicPartition

_log = logging.getLogger("causeway.link")


class Pauses:
    """Of one link. Thread-safe but for `pause`, which belongs to one thread."""

    def __init__(
        self,
        link: str,
        registry: Registry,
        recall: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, bool]],
        by_file: Hold | None = None,
    ) -> None:
        """`recall` takes partitions from their lanes: those that no lane has any more. `by_file`:
        how the file holds all that has not ended, whatever is asked for."""
        self._link = link
        self._registry = registry
        self._recall = recall
        self._by_file = by_file
        # Held from asking what is paused until the rest is with the fleet: what is paused later is
        # taken from there. Nobody who has the registry's lock, or the fleet's, waits for it.
        self.deciding = threading.RLock()
        self._standing = LinkDirectives()
        self._done = True  # with what stands
        self._held = False  # something is, or was

    def stand(self, standing: LinkDirectives) -> None:
        """What counts from now on: whoever asks afterwards hears of it."""
        with self.deciding:
            if standing is not self._standing:
                self._standing, self._done = standing, False

    @property
    def are_any(self) -> bool:
        with self.deciding:
            return self._holds(self._standing)

    def has_ended(self, topic: str) -> bool:
        """Its mirror, so that nothing is done for it."""
        with self.deciding:
            return self._standing.has_ended(Scope(topic))

    def hold_of(self, at: TopicPartition) -> Hold | None:
        """Why it is not to go to a lane; None where it may."""
        with self.deciding:
            return self._hold_of(self._standing, at)

    def start_of(self, at: TopicPartition) -> ClaimStart | None:
        """Where it has to be claimed anew, as a person wants it so."""
        with self.deciding:
            return self._standing.start_of(at)

    def was_begun(self, topic: str) -> bool:
        """Whether a person has said where its partitions begin."""
        with self.deciding:
            return (DirectiveKind.BEGIN, Scope(topic)) in self._standing.by_key

    def pause(self) -> bool:
        """Pauses what is to be paused; False where a lane has yet to let go of something."""
        with self.deciding:
            if self._done or not self._holds(self._standing):
                return True
            standing = self._standing
        wanted = self._to_hold(standing)
        gone = self._recall(wanted) if wanted else {}
        # Of these nothing is sent, whatever the fleet still knows of them.
        rest = self._registry.rows(lambda row: row.progress.state in AT_REST | ENDED)
        idle = {row.progress.source for row in rest}
        held = {at: hold for at, hold in wanted.items() if at in gone or at in idle}
        self._registry.hold(held)
        if held:
            state, reason = next(iter(held.values()))
            about = {"partitions": len(held), "reason": reason}
            _log.warning(str(state), extra={"link": self._link, **about})
            self._held = True
        with self.deciding:
            self._done = len(held) == len(wanted) and standing is self._standing
            return self._done

    def _to_hold(self, standing: LinkDirectives) -> dict[TopicPartition, Hold]:
        """Those that are not held yet, or for another reason."""
        return {
            row.progress.source: hold
            for row in self._registry.rows(lambda _: True)
            if (hold := self._hold_of(standing, row.progress.source)) is not None
            and not _is_held(row, hold)
            # What is at rest can end, but is not paused; what had ended is renewed first.
            and (hold[0] in ENDED or row.progress.state not in AT_REST | ENDED)
        }

    def over(self) -> list[TopicPartition]:
        """What is held, has not ended, and should be held no more."""
        return self._no_longer(
            HELD - ENDED, lambda standing, at: self._hold_of(standing, at) is None
        )

    def renewed(self) -> list[TopicPartition]:
        """What has ended, and should go on."""
        return self._no_longer(ENDED, lambda standing, at: not standing.has_ended(at))

    def _no_longer(
        self, states: Collection[State], over: Callable[[LinkDirectives, TopicPartition], bool]
    ) -> list[TopicPartition]:
        with self.deciding:
            standing = self._standing
        if not self._held:
            return []
        held = self._registry.rows(lambda row: row.progress.state in states)
        return [at for row in held if over(standing, at := row.progress.source)]

    def hold(self, places: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Of partitions that are about to go to lanes, those that must not; they are held. Call it
        with `deciding` held."""
        standing = self._standing
        if not self._holds(standing):
            return set()
        found = {at: self._hold_of(standing, at) for at in places}
        held = {at: hold for at, hold in found.items() if hold is not None}
        self._registry.hold(held)
        self._held |= bool(held)
        return set(held)

    def _holds(self, standing: LinkDirectives) -> bool:
        return self._by_file is not None or standing.holds

    def _hold_of(self, standing: LinkDirectives, at: TopicPartition) -> Hold | None:
        if standing.end_of(at) is not None:
            return standing.hold_of(at)
        return self._by_file or standing.hold_of(at)

    def note_held(self) -> None:
        """Rows were added that are held already."""
        self._held = True


def by_file(link: LinkSettings) -> Hold | None:
    """How the link's file holds its records; None where it does not."""
    if not link.records_paused:
        return None
    return State.PAUSED, topic_changes.why_paused(link)


def _is_held(row: Row, hold: Hold) -> bool:
    state, reason = hold
    return row.progress.state is state and (row.progress.reason or "").startswith(reason)
