"""Promotes mirrors: a mirror ends when nothing is left to copy, and its topics become writable.

    nothing lags ─► held ─► no new record since ─► groups ─► cut ─► read-only lifted ─► done
                            else: released, and refused

Each step is read from the clusters. If a call was killed, the next call continues it. If there is
no next call, the leading driver releases the mirror: see Ending.holding.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Unpack

from causeway.cluster import clusters
from causeway.config import LinkSettings, Settings
from causeway.control import MirroredTopic, topic_changes
from causeway.errors import CausewayError, ConfigError, PartitionsFailedError
from causeway.link_topics import PartitionProgress, Scope
from causeway.model import ENDED, State, TopicPartition
from causeway.operate.directives import Asked, Wanted, choose
from causeway.operate.failover import last_groups
from causeway.operate.failover.ending import Ending, Guard, Say, refuse_mingled, wish
from causeway.operate.failover.results import LaggingPartition, Promoted

_POLL_S = 0.25
_SHOWN: Final = 5  # partitions named in a refusal
_GROUPS_S: Final = 60.0  # for the search for exact places of groups
_NOTHING: Final = "it mirrors no topics"
_WHY_NOTHING: Final = "`causeway plan` shows its topics, `causeway explain TOPIC` a reason"


def promote(
    settings: Settings,
    *,
    dry_run: bool = False,
    say: Say = lambda _: None,
    guard: Guard | None = None,
    **asked: Unpack[Asked],
) -> tuple[Promoted, ...]:
    """Ends the mirror of a link (all of the file without `link`) or topic, once it is proven that
    everything is copied: the source's ends do not move any more, and the mirror has reached them.
    The last commits of consumer groups are translated exactly, and read-only mirrors are opened.
    `guard`: see `Ending.begin`.

    Waits up to `wait_s` for partitions that lag, and for the leading driver. If some still lag, it
    raises PartitionsFailedError with their names and with the links that were promoted before; the
    mirror goes on. A second call continues from the same place, and changes nothing once all is
    done. Of several links, one that mirrors nothing is left out (`left`). Raises ConfigError for
    unknown names, and if no chosen link mirrors anything; ConflictError for a concurrent request;
    CausewayError.
    """
    wanted = Wanted(**asked)
    with clusters() as connect:
        moves = []
        for each in choose(settings, wanted, connect, "promote"):
            refuse_mingled(each)
            ending = Ending(each, wanted.scope, connect, settings.run.lease_s, say)
            moves.append(LinkPromotion(ending, wanted, guard, dry_run))
        if all(each.mirrors_nothing for each in moves):
            names = ", ".join(each.ending.link.name for each in moves)
            subject = f"{wanted.scope} of {names}"
            raise ConfigError("promote", subject, _NOTHING, remedy=_WHY_NOTHING)
        done: list[Promoted] = []
        for move in moves:
            try:
                done.append(move.run())
            except CausewayError as error:
                if before := [one.link for one in done if one.changed]:
                    error.remedy = f"{', '.join(before)}: already promoted; {error.remedy}"
                raise
        return tuple(done)


@dataclass
class LinkPromotion:
    """The promotion of one link."""

    ending: Ending
    wanted: Wanted
    guard: Guard | None = None
    dry_run: bool = False

    def run(self) -> Promoted:
        ending, wait_s = self.ending, self.wanted.wait_s or 0.0
        if self.mirrors_nothing:
            return self._promoted(changed=False, left=_NOTHING)
        end = ending.end
        if end is not None and end.how in ENDED and (end.done or end.how is not State.PROMOTED):
            return self._promoted(changed=False, before=end, cuts=ending.known_cuts)
        found: dict[str, Any] = {}
        if end is None or end.how is State.PROMOTING:
            if end is not None and not self.dry_run:
                # A killed call left the mirror held. While it is held, it can never catch up.
                ending.read_on()
                if self._lagging(self._mirrored()):
                    ending.let_go(wait_s)
            lagging = self._await_nothing(wait_s)
            if self.dry_run:
                return self._promoted(
                    changed=False, lagging=lagging, lifted=ending.read_only_rules()
                )
            self._refuse(lagging)
            with ending.holding(wait_s):
                asked = wish(State.PROMOTING, ending.scope, self.wanted.author, self.wanted.reason)
                ending.begin(asked, wait_s, self.guard)
                found = self._prove()
                ending.finish(State.PROMOTED, ending.cuts(), done=False, wait_s=wait_s)
        elif self.dry_run:
            return self._promoted(changed=False, lifted=ending.read_only_rules())
        else:
            ending.finish(State.PROMOTED, {}, done=False, wait_s=wait_s)
        lifted = ending.lift_read_only()
        ending.finish(State.PROMOTED, {}, done=True)
        return self._promoted(changed=True, cuts=ending.known_cuts, lifted=lifted, **found)

    @cached_property
    def mirrors_nothing(self) -> bool:
        """Whether no topic of the scope is mirrored or has been. Heartbeats do not count: mirrors
        themselves write them."""
        ending = self.ending
        if ending.end is not None:
            return False
        is_heartbeats = ending.link.policy.is_heartbeats_topic
        return all(is_heartbeats(at.topic) for at in ending.progress()) and not self._mirrored()

    def _promoted(self, **found: Any) -> Promoted:
        link = self.ending.link
        return Promoted(
            link=link.name,
            source=link.source.alias,
            target=link.target.alias,
            scope=self.ending.scope,
            dry_run=self.dry_run,
            **found,
        )

    def _prove(self) -> dict[str, Any]:
        """Proves that no record has come since the mirror is held. Then brings the groups up to
        date, which may take a minute, and proves it again. Returns the results about groups as
        fields of Promoted. Raises PartitionsFailedError if a record has come."""
        ending = self.ending
        mirrored = self._mirrored()
        ending.read_on()
        self._refuse(self._lagging(mirrored))
        ending.say("bringing consumer groups over")
        found = last_groups.sync(ending, mirrored, _GROUPS_S)
        ahead = last_groups.ahead_of(ending, found)
        self._refuse(self._lagging(mirrored))
        return {"groups": found, "ahead": ahead}

    # -- what lags --------------------------------------------------------------------------------

    def _refuse(self, lagging: Collection[LaggingPartition]) -> None:
        if lagging:
            raise refusal(self.ending.subject, lagging)

    def _await_nothing(self, wait_s: float) -> tuple[LaggingPartition, ...]:
        deadline = time.monotonic() + wait_s
        while True:
            mirrored = self._mirrored()
            self.ending.read_on()
            lagging = self._lagging(mirrored)
            late = time.monotonic() > deadline or self.ending.driver is None
            if not lagging or late or self.dry_run:
                return lagging
            self.ending.say(f"{len(lagging)} partitions lag, such as {lagging[0]}")
            time.sleep(_POLL_S)

    def _mirrored(self) -> dict[str, MirroredTopic]:
        """Returns the topics of the scope that end now, by source name."""
        has_ended = self.ending.directives.has_ended
        found = self.ending.mirrored()
        return {name: topic for name, topic in found.items() if not has_ended(Scope(name))}

    def _lagging(self, mirrored: Mapping[str, MirroredTopic]) -> tuple[LaggingPartition, ...]:
        ending, topics = self.ending, mirrored.values()
        # All records, including those that an open transaction or a slow follower hides.
        ends = ending.sides.source_admin.log_ends(_partitions_of(topics))
        return lagging_partitions(ending.link, topics, ends, ending.contents.partitions)


def _partitions_of(topics: Iterable[MirroredTopic]) -> list[TopicPartition]:
    return sorted(TopicPartition(t.source, n) for t in topics for n in range(t.partitions))


def lagging_partitions(
    link: LinkSettings,
    mirrored: Iterable[MirroredTopic],
    ends: Mapping[TopicPartition, int | CausewayError],
    partitions: Mapping[TopicPartition, PartitionProgress],
) -> tuple[LaggingPartition, ...]:
    """Returns the partitions with records left to copy. `ends`: the ends of the source.
    `partitions`: their progress."""
    by_file = topic_changes.why_paused(link) if link.records_paused else None
    found = []
    for at in _partitions_of(mirrored):
        end, progress, held = ends[at], partitions.get(at), by_file
        if isinstance(end, CausewayError):
            why, held = str(end), None
        elif progress is None or not progress.outlets:
            why = "not begun"
        elif progress.state is State.STOPPED:
            why, held = f"stopped: {progress.reason}", None
        elif progress.position == end:
            continue
        else:
            why = f"mirrored up to {progress.position:,} of {end:,}"
            if held is None and progress.state is State.PAUSED:
                held = progress.reason
        found.append(LaggingPartition(at, why, held))
    return tuple(found)


def refusal(subject: str, lagging: Collection[LaggingPartition]) -> PartitionsFailedError:
    shown = "; ".join(str(each) for each in list(lagging)[:_SHOWN])
    more = f"; and {len(lagging) - _SHOWN} more" if len(lagging) > _SHOWN else ""
    first = "stop the producers"
    if any(each.paused for each in lagging):
        first = "take the pause back, let it catch up,"
    return PartitionsFailedError(
        "promote",
        subject,
        f"not all is mirrored: {shown}{more}",
        remedy=f"{first} and try again, or `causeway failover` loses the other records",
        retriable=True,
    )
