"""Fail over: a mirror ends now, with what has been mirrored so far. The source need not be there.

    known ─► shown ─┬─ without a yes: that is all
                    └─► ended: no lane writes any more ─► cut ─► groups ─► read-only lifted ─► done

Each step is read off the target: a call that was killed is gone on with by the next.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from causeway.config.settings import ClientSettings, LinkSettings, Settings
from causeway.control import acls, directives
from causeway.control.cuts import Cut
from causeway.control.directives import Directive, Scope
from causeway.control.ending import cuts_of
from causeway.errors import CausewayError, ConfigError
from causeway.model import ENDED, State, TopicPartition
from causeway.operate.clusters import Connect, clusters
from causeway.operate.directives import MOST_TEXT, WAIT_S, whoever
from causeway.operate.moves import last_groups
from causeway.operate.moves.ending import Ending, Say, wish
from causeway.operate.moves.last_groups import GroupPlace
from causeway.operate.moves.promote import cuts_json
from causeway.operate.scopes import Wanted, choose
from causeway.relay.progress import Progress
from causeway.wire.cluster import AclBinding
from causeway.wire.offsets import LATEST, OffsetAt

SOURCE_S: Final = 4.0  # so long the source is waited for, for an exact figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Of one topic. `newest_ms`: the timestamp of the newest record that is surely mirrored (ms
    since 1970, -1 unknown), of the partition that is furthest behind, where any lags; `missing`:
    records of the source that are not, None where nobody knows; `exact`: the source itself has said
    so, now. Else its driver has, when it last saw it: what the source took in after that is missing
    too."""

    topic: str
    target: str
    partitions: int
    newest_ms: int
    missing: int | None
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedOver:
    """Of one link. `changed`: false where nothing was done: it was only looked (`before` None), or
    it had ended already, as `before` says. `seen_ms`: when a driver last led the link; `source`:
    why the source did not answer, None where it did."""

    link: str
    target: str
    scope: Scope
    changed: bool
    at_ms: int
    before: Directive | None = None
    seen_ms: int | None = None
    source: str | None = None
    topics: tuple[Known, ...] = ()
    groups: tuple[GroupPlace, ...] = ()
    failures: Mapping[str, str]  # of groups that could not be committed
    cuts: Mapping[str, Cut]
    lifted: tuple[AclBinding, ...] = ()

    @property
    def rpo_ms(self) -> int | None:
        """How old the newest record is that is surely mirrored, of the topic where that is oldest;
        0 where it is known that nothing is missing."""
        ages = [self.at_ms - each.newest_ms for each in self.topics if not _is_whole(each)]
        if any(each.newest_ms < 0 for each in self.topics if not _is_whole(each)):
            return None
        return max(ages, default=0)


def _is_whole(known: Known) -> bool:
    return known.exact and known.missing == 0


def failover(
    settings: Settings,
    *,
    yes: bool,
    link: str | None = None,
    topic: str | None = None,
    reason: str | None = None,
    who: str | None = None,
    wait_s: float = WAIT_S,
    say: Say = lambda _: None,
) -> tuple[FailedOver, ...]:
    """Ends the mirror of a link (all of the file without `link`) or topic (a name on the source)
    now. Without `yes` it only tells what is known: what is mirrored, what is missing, where groups
    will go on; with it, the mirror ends, groups are committed and read-only mirrors are opened.

    The source is asked for a few seconds at the most, a leading driver for `wait_s`; where that one
    does not act, the lead is taken from it. Called again it goes on where it was, and changes
    nothing once it is done. Raises NobodyLeadsError where a driver goes on mirroring in spite of
    it, ConflictError where somebody else acts at the same time; CausewayError.
    """
    quick = replace(settings, links=tuple(_hurried(each) for each in settings.links))
    with clusters() as connect:
        chosen = choose(quick, Wanted(link, topic, None, ahead=False), connect, "fail over")
        who, scope = (who or whoever())[:MOST_TEXT], Scope(topic)
        moves = [_Failover(each, scope, connect, settings.run.lease_s, say) for each in chosen]
        asked = wish(State.FAILED_OVER, scope, who, reason)
        return tuple(each.run(asked, wait_s) if yes else each.look() for each in moves)


def _hurried(link: LinkSettings) -> LinkSettings:
    """With a source that is not waited for."""
    return replace(
        link, source=_hurried_client(link.source), source_admin=_hurried_client(link.source_admin)
    )


def _hurried_client(client: ClientSettings) -> ClientSettings:
    most_ms = round(SOURCE_S * 1000)
    return replace(
        client,
        connect_timeout_ms=min(client.connect_timeout_ms, most_ms),
        request_timeout_ms=min(client.request_timeout_ms, most_ms),
    )


class _Failover:
    def __init__(
        self, link: LinkSettings, scope: Scope, connect: Connect, lease_s: float, say: Say
    ) -> None:
        self._link = link
        self._scope = scope
        self._say = say
        self._connect = connect
        self._target = connect(link.target_admin)
        self._ending = Ending(link, scope, connect, lease_s, say)
        if not self._ending.progress():
            raise ConfigError(
                "fail over", f"{scope} of {link.name}", "nothing of it has been mirrored yet"
            )

    def look(self) -> FailedOver:
        """What is known; changes nothing."""
        end = self._ending.end
        if end is not None and end.how in ENDED and end.done:
            return self._found(changed=False, before=end, cuts=self._cuts())
        ends, source = self._source_ends()
        known = last_groups.remembered(self._link, self._target, self._ending.progress().values())
        return self._found(
            changed=False,
            source=source,
            topics=topics_known(self._ending.progress().values(), ends),
            groups=known.places,
            lifted=self._lifts(),
        )

    def run(self, asked: Directive, wait_s: float) -> FailedOver:
        ending = self._ending
        end = ending.end
        if end is not None and end.how in ENDED:
            if end.done:
                return self._found(changed=False, before=end, cuts=self._cuts())
            if end.how is not State.FAILED_OVER:
                raise ConfigError(
                    "fail over",
                    f"{self._scope} of {self._link.name}",
                    f"its mirror was {end.how} {end.by}, with nothing left to copy",
                    remedy="`causeway promote` does what is left of that",
                )
        # Beside the rest: a source that is gone is no reason to wait.
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(self._source_ends)
            done = self._act(asked, wait_s)
            ends, source = asking.result()
        topics = topics_known(ending.progress().values(), ends)
        return self._found(changed=True, source=source, topics=topics, **done)

    def _act(self, asked: Directive, wait_s: float) -> dict[str, Any]:
        """What it has done, for a FailedOver."""
        ending = self._ending
        ending.begin(asked, wait_s)
        ending.finish(State.FAILED_OVER, ending.cuts(without=self._cuts()), done=False)
        self._say(f"{self._link.name}: committing consumer groups")
        progress = ending.progress().values()
        known = last_groups.remembered(self._link, self._target, progress)
        failures = last_groups.commit(self._target, known.plan)
        lifted = self._lifts()
        acls.lift(lifted, self._target)
        ending.finish(State.FAILED_OVER, {}, done=True)
        return {
            "groups": known.places,
            "failures": failures,
            "cuts": self._cuts(),
            "lifted": lifted,
        }

    def _found(self, **found: Any) -> FailedOver:
        leases = self._ending.contents.leases
        return FailedOver(
            link=self._link.name,
            target=self._link.target.alias,
            scope=self._scope,
            at_ms=int(time.time() * 1000),
            seen_ms=leases[-1].written_at if leases else None,
            **{"failures": {}, "cuts": {}, **found},
        )

    def _cuts(self) -> dict[str, Cut]:
        known = cuts_of(self._ending.standing, self._scope)
        return {name: each.cut for name, each in known.items() if each.cut is not None}

    def _source_ends(self) -> tuple[dict[TopicPartition, int], str | None]:
        """Where the source ends, as far as it answers at once; else why it does not."""
        self._say(f"{self._link.name}: asking the source, {SOURCE_S:g} s at the most")
        source = self._connect(self._link.source_admin)
        try:
            source.bootstrap_check(SOURCE_S)
            found = source.list_offsets(list(self._ending.progress()), LATEST, patience_s=SOURCE_S)
        except CausewayError as error:
            return {}, str(error)
        return {at: each.offset for at, each in found.items() if isinstance(each, OffsetAt)}, None

    def _lifts(self) -> tuple[AclBinding, ...]:
        if not self._link.control.read_only_mirrors:
            return ()
        mirrors = {
            outlet.topic for each in self._ending.progress().values() for outlet in each.outlets
        }
        return acls.lifts(self._target.describe_acls(), mirrors, self._link)


def topics_known(
    progress: Iterable[Progress], ends: Mapping[TopicPartition, int]
) -> tuple[Known, ...]:
    """What is known of each topic. `ends`: of the source, of those partitions that it told."""
    by_topic = groupby(sorted(progress, key=lambda each: each.source), lambda each: each.topic)
    found = []
    for topic, group in by_topic:
        parts = list(group)
        seen = {each.source: ends.get(each.source, each.source_end) for each in parts}
        missing_of = {
            at: None if seen[at] < 0 else max(0, seen[at] - each.position)
            for each in parts
            for at in (each.source,)
        }
        missing = list(missing_of.values())
        # Where anything is missing, one partition's newest record says nothing of another's.
        lagging = [each for each in parts if missing_of[each.source] != 0]
        times = [each.last_timestamp for each in lagging or parts]
        found.append(
            Known(
                topic=topic,
                target=parts[0].outlets[0].topic,
                partitions=len(parts),
                newest_ms=min(times) if lagging else max(times),
                missing=None if None in missing else sum(each or 0 for each in missing),
                exact=all(each.source in ends for each in parts),
            )
        )
    return tuple(found)


def as_json(each: FailedOver) -> dict[str, Any]:
    """For `--json`: stable keys."""
    return {
        "link": each.link,
        "target": each.target,
        "topic": each.scope.topic,
        "state": None if not each.changed and each.before is None else _state(each),
        "changed": each.changed,
        "before": None if each.before is None else directives.as_json(each.before),
        "driver_seen_ms": each.seen_ms,
        "source_reason": each.source,
        "rpo_ms": each.rpo_ms if each.before is None else None,
        "topics": [
            {
                "topic": one.topic,
                "target_topic": one.target,
                "partitions": one.partitions,
                "newest_ms": None if one.newest_ms < 0 else one.newest_ms,
                "missing_records": one.missing,
                "exact": one.exact,
            }
            for one in each.topics
        ],
        "groups": [
            {
                "group": one.group,
                "target_topic": one.partition.topic,
                "partition": one.partition.partition,
                "offset": one.offset,
                "committed": one.there,
                "behind_end": one.behind,
                "reason": each.failures.get(one.group, one.reason),
            }
            for one in each.groups
        ],
        "cuts": cuts_json(each.cuts),
        "lifted": [str(one) for one in each.lifted],
    }


def _state(each: FailedOver) -> str:
    return str(State.FAILED_OVER if each.before is None else each.before.how)


def by_group(places: Collection[GroupPlace]) -> dict[str, list[GroupPlace]]:
    """In the order of their names."""
    found: defaultdict[str, list[GroupPlace]] = defaultdict(list)
    for each in places:
        found[each.group].append(each)
    return dict(found)
