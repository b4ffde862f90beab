"""Promotes mirrors: a mirror ends when nothing is left to copy, and its topics become writable.

    nothing lags ─► held ─► nothing has come since ─► groups ─► cut ─► read-only lifted ─► done
                            else: held no more, and refused

Each step is read off the clusters: the next call goes on with one that was killed. If there is no
next call, the leading driver releases the mirror: see Ending.holding.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from causeway.cluster import AclBinding, Connect, clusters
from causeway.config import LinkSettings, Settings
from causeway.control import MirroredTopic, acls, collisions, topic_changes, topics
from causeway.daemon import Sides
from causeway.errors import CausewayError, ConfigError, PartitionsFailedError
from causeway.link_topics import EndDirective, PartitionProgress, Scope, cuts_of
from causeway.model import ENDED, State, TopicPartition
from causeway.operate.directives import MOST_TEXT, WAIT_S, Wanted, choose, current_user
from causeway.operate.failover import last_groups
from causeway.operate.failover.ending import Ending, Guard, Say, refuse_mingled, wish
from causeway.operate.failover.results import LaggingPartition, Promoted
from causeway.status import GroupStatus

_POLL_S = 0.25
_SHOWN: Final = 5  # partitions named in a refusal
_GROUPS_S: Final = 60.0  # so long exact places of groups are looked for
_NOTHING: Final = "it mirrors no topics"
_WHY_NOTHING: Final = "`causeway plan` shows its topics, `causeway explain TOPIC` a reason"


def promote(
    settings: Settings,
    *,
    link: str | None = None,
    topic: str | None = None,
    reason: str | None = None,
    who: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
    say: Say = lambda _: None,
    guard: Guard | None = None,
) -> tuple[Promoted, ...]:
    """Ends the mirror of a link (all of the file without `link`) or topic (a name on the source),
    once it is proven that everything is copied: the source's ends do not move any more, and lie
    where the mirror is. The last places of consumer groups are brought over exactly, and mirrors
    that were made read-only are opened. `guard`: see `Ending.begin`.

    Waits up to `wait_s` for what lags, and as long for the leading driver, and raises
    PartitionsFailedError naming what lags, with the mirror going on as before, and the links that
    were promoted before it. Called again it goes on where it was, and changes nothing once it is
    done. Of several links, one that mirrors nothing is left (`left`). Raises ConfigError for
    unknown names, and if no link that is meant mirrors anything; ConflictError for a concurrent
    request; CausewayError.
    """
    with clusters() as connect:
        chosen = choose(settings, Wanted(link, topic, None, ahead=False), connect, "promote")
        who, scope = (who or current_user())[:MOST_TEXT], Scope(topic)
        moves = [
            LinkPromotion.open(
                each, scope, connect, settings.run.lease_s, say, guard, dry_run=dry_run
            )
            for each in chosen
        ]
        if all(each.mirrors_nothing for each in moves):
            names = ", ".join(each.name for each in chosen)
            raise ConfigError("promote", f"{scope} of {names}", _NOTHING, remedy=_WHY_NOTHING)
        done: list[Promoted] = []
        for each in moves:
            if each.mirrors_nothing:
                done.append(each.leave())
                continue
            try:
                done.append(each.run(wish(State.PROMOTING, scope, who, reason), wait_s))
            except CausewayError as error:
                if before := [one.link for one in done if one.changed]:
                    error.remedy = f"{', '.join(before)}: promoted by now; {error.remedy}"
                raise
        return tuple(done)


class LinkPromotion:
    """The promotion of one link."""

    def __init__(
        self, ending: Ending, sides: Sides, guard: Guard | None = None, *, dry_run: bool = False
    ) -> None:
        self._link = ending.link
        self._scope = ending.scope
        self._say = ending.say
        self._guard = guard
        self._dry_run = dry_run
        self._sides = sides
        self._ending = ending

    @classmethod
    def open(
        cls,
        link: LinkSettings,
        scope: Scope,
        connect: Connect,
        lease_s: float,
        say: Say,
        guard: Guard | None,
        *,
        dry_run: bool,
    ) -> LinkPromotion:
        """Raises CausewayError; ConfigError if both clusters write the link's topics."""
        refuse_mingled(link)
        sides = Sides(
            source=connect(link.source),
            target=connect(link.target),
            source_admin=connect(link.source_admin),
            target_admin=connect(link.target_admin),
        )
        ending = Ending(link, scope, connect, lease_s, say)
        return cls(ending, sides, guard, dry_run=dry_run)

    def run(self, asked: EndDirective, wait_s: float) -> Promoted:
        ending = self._ending
        end = ending.end
        if end is not None and end.how in ENDED and (end.done or end.how is not State.PROMOTED):
            cuts = cuts_of(ending.standing, self._scope)
            known = {name: each.cut for name, each in cuts.items() if each.cut is not None}
            return self._promoted(changed=False, before=end, cuts=known)
        if end is not None and end.how is State.PROMOTING and not self._dry_run:
            self._let_go(wait_s)
        if end is None or end.how is State.PROMOTING:
            lagging = self._await_nothing(wait_s)
            if self._dry_run:
                return self._promoted(changed=False, lagging=lagging, lifted=self._lifts())
            if lagging:
                raise refusal(self._link, self._scope, lagging)
            with ending.holding(wait_s):
                ending.begin(asked, wait_s, self._guard)
                groups, ahead = self._prove()
                ending.finish(State.PROMOTED, ending.cuts(), done=False, wait_s=wait_s)
        elif self._dry_run:
            return self._promoted(changed=False, lifted=self._lifts())
        else:
            groups, ahead = (), {}
            ending.finish(State.PROMOTED, {}, done=False, wait_s=wait_s)
        lifted = self._lifts()
        acls.remove_denials(lifted, self._sides.target_admin)
        ending.finish(State.PROMOTED, {}, done=True)
        cuts = cuts_of(ending.standing, self._scope)
        return self._promoted(
            changed=True,
            cuts={name: each.cut for name, each in cuts.items() if each.cut is not None},
            groups=groups,
            ahead=ahead,
            lifted=lifted,
        )

    @cached_property
    def mirrors_nothing(self) -> bool:
        """Whether no topic of the scope is mirrored, nor has been. Heartbeats do not count: they
        are written by mirrors themselves."""
        ending, is_heartbeats = self._ending, self._link.policy.is_heartbeats_topic
        if ending.end is not None:
            return False
        begun = any(not is_heartbeats(at.topic) for at in ending.progress())
        return not begun and not self._mirrored()

    def leave(self) -> Promoted:
        """The link as it is: it mirrors nothing."""
        return self._promoted(changed=False, left=_NOTHING)

    def _promoted(self, **found: Any) -> Promoted:
        return Promoted(
            link=self._link.name,
            source=self._link.source.alias,
            target=self._link.target.alias,
            scope=self._scope,
            dry_run=self._dry_run,
            **{"cuts": {}, **found},
        )

    def _let_go(self, wait_s: float) -> None:
        """Of a mirror that a call which was killed left held, if that lags: held, it would for
        ever."""
        self._ending.read_on()
        if self._lagging(self._mirrored()):
            self._ending.let_go(wait_s)

    def _prove(self) -> tuple[tuple[GroupStatus, ...], dict[str, int]]:
        """That nothing has come since the mirror is held. Then the groups, which may take a minute,
        and that once more. Returns the groups, and those that are ahead. Raises
        PartitionsFailedError if something has come."""
        mirrored = self._mirrored()
        self._ending.read_on()
        self._refuse_lag(mirrored)
        self._say(f"{self._link.name}: bringing consumer groups over")
        found = last_groups.sync(
            self._link,
            self._sides,
            mirrored,
            self._ending.progress(),
            self._ending.contents,
            _GROUPS_S,
        )
        ahead = last_groups.ahead_of(self._sides, self._ending.contents, found)
        self._refuse_lag(mirrored)
        return found, ahead

    # -- what lags --------------------------------------------------------------------------------

    def _refuse_lag(self, mirrored: Mapping[str, MirroredTopic]) -> None:
        if lagging := self._lagging(mirrored):
            raise refusal(self._link, self._scope, lagging)

    def _await_nothing(self, wait_s: float) -> tuple[LaggingPartition, ...]:
        deadline = time.monotonic() + wait_s
        while True:
            mirrored = self._mirrored()
            self._ending.read_on()
            lagging = self._lagging(mirrored)
            late = time.monotonic() > deadline or self._ending.driver is None
            if not lagging or late or self._dry_run:
                return lagging
            self._say(f"{self._link.name}: {len(lagging)} partitions lag, such as {lagging[0]}")
            time.sleep(_POLL_S)

    def _mirrored(self) -> dict[str, MirroredTopic]:
        """The topics of the scope that are to end now, by source name. Not heartbeats, which never
        end."""
        standing = self._ending.standing
        observed = topics.observe(self._sides.source_admin, self._sides.target_admin, self._link)
        begun = collisions.begun_by(self._ending.contents.partitions.values())
        plan = topics.plan(observed, self._link, begun)
        return {
            topic.source: topic
            for topic in plan.mirrored
            if self._scope.covers(at := Scope(topic.source))
            and not standing.has_ended(at)
            and not self._link.policy.is_heartbeats_topic(topic.source)
        }

    def _lagging(self, mirrored: Mapping[str, MirroredTopic]) -> tuple[LaggingPartition, ...]:
        places = _partitions_of(mirrored.values())
        # All records, also those that an open transaction, or a slow follower, hides from readers.
        ends = self._sides.source_admin.log_ends(places)
        partitions = self._ending.contents.partitions
        return lagging_partitions(self._link, mirrored.values(), ends, partitions)

    def _lifts(self) -> tuple[AclBinding, ...]:
        """What makes the mirrors of the scope read-only."""
        if not self._link.control.read_only_mirrors:
            return ()
        mirrors = {
            outlet.topic for each in self._ending.progress().values() for outlet in each.outlets
        }
        return acls.read_only_denials(self._sides.target_admin.describe_acls(), mirrors, self._link)


def _partitions_of(topics_: Iterable[MirroredTopic]) -> list[TopicPartition]:
    return sorted(TopicPartition(t.source, n) for t in topics_ for n in range(t.partitions))


def lagging_partitions(
    link: LinkSettings,
    mirrored: Iterable[MirroredTopic],
    ends: Mapping[TopicPartition, int | CausewayError],
    partitions: Mapping[TopicPartition, PartitionProgress],
) -> tuple[LaggingPartition, ...]:
    """The partitions with records left to copy. `ends`: of the source; `partitions`: their
    progress."""
    by_file = topic_changes.why_paused(link) if link.records_paused else None
    found = []
    for at in _partitions_of(mirrored):
        end, progress = ends[at], partitions.get(at)
        if isinstance(end, CausewayError):
            found.append(LaggingPartition(at=at, position=None, end=None, reason=str(end)))
        elif progress is None or not progress.outlets:
            why = "not begun"
            found.append(
                LaggingPartition(at=at, position=None, end=end, reason=why, paused=by_file)
            )
        elif progress.state is State.STOPPED:
            why = f"stopped: {progress.reason}"
            found.append(LaggingPartition(at=at, position=progress.position, end=end, reason=why))
        elif progress.position != end:
            held = by_file or (progress.reason if progress.state is State.PAUSED else None)
            found.append(LaggingPartition(at=at, position=progress.position, end=end, paused=held))
    return tuple(found)


def refusal(
    link: LinkSettings, scope: Scope, lagging: tuple[LaggingPartition, ...]
) -> PartitionsFailedError:
    shown = "; ".join(str(each) for each in lagging[:_SHOWN])
    more = f"; and {len(lagging) - _SHOWN} more" if len(lagging) > _SHOWN else ""
    first = "stop the producers"
    if any(each.paused for each in lagging):
        first = "take the pause back, let it catch up,"
    return PartitionsFailedError(
        "promote",
        f"{scope} of {link.name}",
        f"not all is mirrored: {shown}{more}",
        remedy=f"{first} and try again, or `causeway failover` loses what is left",
        retriable=True,
    )
