"""Fail back: a mirror that has ended goes on, by way of one the other way round.

    A->B ended at its cut ─► what only A has: saved, or left ─► B->A begins at the cut
      ─► nothing lags ─► B->A promoted (its own cut) ─► A->B begins behind that cut

Where the mirror has another name than its topic, B's records are not its own to give back: A->B
goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from causeway.config.settings import LinkSettings, Settings
from causeway.control import directive_log, ending, topics
from causeway.control.cuts import Cut
from causeway.control.directives import Change, Directive, Kind, Plan, Scope, Standing
from causeway.control.topics import MirroredTopic
from causeway.daemon.partitions.discovery import Sides
from causeway.errors import ConfigError
from causeway.model import ENDED, State, TopicPartition
from causeway.operate.clusters import Connect, clusters
from causeway.operate.directives import MOST_TEXT, WAIT_S, whoever
from causeway.operate.moves import promote as promoting
from causeway.operate.moves import unmirrored, way_back
from causeway.operate.moves.ending import Ending, Say
from causeway.operate.moves.promote import Promoted
from causeway.operate.moves.unmirrored import Unmirrored
from causeway.operate.scopes import Wanted, choose
from causeway.wire.offsets import LATEST, OffsetAt

_POLL_S = 0.25


class Step(StrEnum):
    """How far it has come."""

    GOES_ON = "mirrors again"  # there is nothing left to do
    UNDECIDED = "undecided"  # what is to become of records that were never mirrored?
    NO_WAY_BACK = "no way back"  # the file has no link the other way
    BACK = "mirrors back"  # the link the other way; the rest when producers have stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedBack:
    """Of one link. `reverse`: the link the other way, None where none is needed. `unmirrored`: what
    only the old source has, as long as that can be told; `saved`: where it was saved. `lag`: of the
    reverse link, None while it has not begun. `promoted`: of the reverse link, when it ended."""

    link: str
    reverse: str | None
    scope: Scope
    step: Step
    changed: bool
    dry_run: bool
    unmirrored: tuple[Unmirrored, ...] = ()
    lost: tuple[TopicPartition, ...] = ()
    saved: str | None = None
    lag: int | None = None
    lines: tuple[str, ...] = ()
    promoted: Promoted | None = None


def failback(
    settings: Settings,
    *,
    link: str | None = None,
    topic: str | None = None,
    save: Path | None = None,
    save_topic: str | None = None,
    drop: bool = False,
    turn_round: bool = False,
    dry_run: bool = False,
    reason: str | None = None,
    who: str | None = None,
    wait_s: float = WAIT_S,
    say: Say = lambda _: None,
) -> FailedBack:
    """Takes `link` up again, which was failed over or promoted (a topic of it, where that was).

    The first call looks for records that were never mirrored, has them saved (`save`, `save_topic`
    on the target) or left where they are (`drop`), and has the link the other way begin at the
    cut. With `turn_round`, once the producers of the other side have stopped, that one is promoted,
    and `link` begins behind its cut. Each call goes on where the last one ended. Raises ConfigError
    for what it cannot do, PartitionsFailedError where something lags, ConflictError; CausewayError.
    """
    with clusters() as connect:
        chosen = choose(settings, Wanted(link, None, None, ahead=False), connect, "fail back")
        if len(chosen) != 1:
            names = ", ".join(each.name for each in chosen)
            raise ConfigError("fail back", names, "which one?", remedy="--link A->B")
        move = _Failback(settings, chosen[0], Scope(topic), connect, say, dry_run=dry_run)
        move.who, move.why = (who or whoever())[:MOST_TEXT], reason
        return move.run(save, save_topic, drop=drop, turn_round=turn_round, wait_s=wait_s)


class _Failback:
    who: str
    why: str | None

    def __init__(
        self,
        settings: Settings,
        link: LinkSettings,
        scope: Scope,
        connect: Connect,
        say: Say,
        *,
        dry_run: bool,
    ) -> None:
        self._settings = settings
        self._link = link
        self._scope = scope
        self._connect = connect
        self._say = say
        self._dry_run = dry_run
        self._ending = Ending(link, scope, connect, settings.run.lease_s, say)
        self._sides = Sides(
            source=connect(link.source),
            target=connect(link.target),
            source_admin=connect(link.source_admin),
            target_admin=connect(link.target_admin),
        )
        self._reverse = next(
            (
                each
                for each in settings.links
                if (each.source.alias, each.target.alias) == (link.target.alias, link.source.alias)
            ),
            None,
        )

    def run(
        self,
        save: Path | None,
        save_topic: str | None,
        *,
        drop: bool,
        turn_round: bool,
        wait_s: float,
    ) -> FailedBack:
        end = self._ending.standing.by_key.get((Kind.END, self._scope))
        wider = self._scope.wider and self._ending.standing.end_of(self._scope.wider)
        if wider is not None:
            raise ConfigError(
                "fail back",
                f"{self._scope} of {self._link.name}",
                f"the whole link was {wider.how} {wider.by}",
                remedy="the same without --topic: a part of it cannot go on alone",
            )
        if end is None:
            return self._found(Step.GOES_ON, changed=False)
        if end.how not in ENDED or not end.done:
            command = "failover" if end.how is State.FAILED_OVER else "promote"
            raise ConfigError(
                "fail back",
                f"{self._scope} of {self._link.name}",
                f"{end.how} {end.by}, and not done yet",
                remedy=f"`causeway {command}` goes on with it",
            )
        cuts = self._cuts()
        renamed = [name for name, cut in cuts.items() if cut.target != name]
        if renamed:
            return self._go_on(end, cuts, wait_s)
        if self._reverse is None:
            return self._found(Step.NO_WAY_BACK, changed=False, lines=self._lines(cuts))
        back = Ending(
            self._reverse, self._scope, self._connect, self._settings.run.lease_s, self._say
        )
        way_back.check(self._link, self._reverse, cuts)
        changed = False
        found: dict[str, Any] = {}
        if way_back.is_begun(back.standing, end, cuts):
            way_back.check_end(self._link, self._reverse, back.end)
        else:
            sighting = unmirrored.look(
                self._link, self._sides, self._mirrored(), cuts, self._ending.progress()
            )
            found = {"unmirrored": sighting.unmirrored, "lost": sighting.lost}
            kept = drop or save is not None or save_topic is not None
            if self._dry_run or (sighting.unmirrored and not kept):
                step = Step.UNDECIDED if sighting.unmirrored and not kept else Step.BACK
                return self._found(step, changed=False, **found)
            found["saved"] = self._save(sighting.unmirrored, save, save_topic)
            self._begin(self._reverse, end, _by_topic(sighting.starts))
            changed = True
        if not turn_round:
            lag = self._await_begun(end, cuts, wait_s)
            return self._found(Step.BACK, changed=changed, lag=lag, **found)
        return self._turn_round(end, wait_s, **found)

    def _turn_round(self, end: Directive, wait_s: float, **found: Any) -> FailedBack:
        assert self._reverse is not None
        (promoted,) = promoting.promote(
            self._settings,
            link=self._reverse.name,
            topic=self._scope.topic,
            who=self.who,
            reason=self.why,
            wait_s=wait_s,
            dry_run=self._dry_run,
            say=self._say,
        )
        if not self._dry_run:
            back = Ending(
                self._reverse, self._scope, self._connect, self._settings.run.lease_s, self._say
            )
            their = back.standing.by_key[Kind.END, self._scope]
            starts = {
                at: offset
                for cut in promoted.cuts.values()
                for point in cut.points
                for at, offset in point.targets
            }
            self._say(f"{self._link.name}: going on behind the cut")
            self._begin(self._link, their, _by_topic(starts))
        step = Step.BACK if self._dry_run else Step.GOES_ON
        return self._found(step, changed=not self._dry_run, promoted=promoted, **found)

    def _go_on(self, end: Directive, cuts: Mapping[str, Cut], wait_s: float) -> FailedBack:
        """Of mirrors with other names than their topics: the link itself, where it was."""
        places = {at: t for c in cuts.values() for p in c.points for at, t in p.targets}
        ends = self._sides.target.list_offsets(sorted(places), LATEST)
        written = sorted(
            at
            for at, offset in places.items()
            if isinstance(found := ends[at], OffsetAt) and found.offset > offset
        )
        if written and self._link.sole_writer:
            raise ConfigError(
                "fail back",
                f"{self._link.name}",
                f"others have written to {written[0]} since the cut ({len(written)} partitions), "
                "and no link brings a mirror's records back",
                remedy="move them, and set causeway.sole.writer = false to go on beside others",
            )
        if not self._dry_run:
            self._ending.take_back(wait_s)
        return self._found(Step.GOES_ON, changed=not self._dry_run, reverse=None)

    def _found(self, step: Step, *, changed: bool, **more: Any) -> FailedBack:
        reverse = None if self._reverse is None else self._reverse.name
        return FailedBack(
            link=self._link.name,
            scope=self._scope,
            step=step,
            changed=changed,
            dry_run=self._dry_run,
            **{"reverse": reverse, **more},
        )

    def _cuts(self) -> dict[str, Cut]:
        known = ending.cuts_of(self._ending.standing, self._scope)
        return {
            name: each.cut
            for name, each in known.items()
            if each.cut is not None and not self._link.policy.is_heartbeats_topic(name)
        }

    def _mirrored(self) -> dict[str, MirroredTopic]:
        self._say(f"{self._link.name}: looking for what was never mirrored")
        observed = topics.observe(self._sides.source_admin, self._sides.target_admin, self._link)
        return {
            topic.source: topic
            for topic in topics.plan(observed, self._link).mirrored
            if self._scope.covers(Scope(topic.source))
            and not self._link.policy.is_heartbeats_topic(topic.source)
        }

    def _save(
        self, what: Collection[Unmirrored], path: Path | None, topic: str | None
    ) -> str | None:
        """Where it was saved, None where it was not."""
        parts = tuple(what)
        committed = self._link.fetch.read_committed
        if parts and path is not None:
            unmirrored.save(self._sides.source, parts, path, read_committed=committed)
            return str(path)
        if parts and topic is not None:
            target = self._sides.target_admin
            unmirrored.save_to_topic(
                self._sides.source, parts, target, topic, read_committed=committed
            )
            return f"{topic} on {self._link.target.alias}"
        return None

    def _begin(
        self, link: LinkSettings, end: Directive, starts: Mapping[str, Mapping[int, int]]
    ) -> None:
        """Has `link` begin there, as `end` the other way says so, whatever ended it before."""

        def decide(standing: Standing) -> Plan:
            own = Directive(
                kind=Kind.BEGIN, who=self.who, why=self.why, at=end.at, scope=self._scope
            )
            begins: list[Change] = []
            for topic, places in sorted(starts.items()):
                each = replace(own, scope=Scope(topic), starts=places)
                begins.append((each.key, each))
            again = replace(own, kind=Kind.RESTART, at=int(time.time() * 1000))
            taken_back = ending.back(standing, self._scope).changes
            return Plan(changes=(*begins, *taken_back, (again.key, again)))

        directive_log.write(self._connect(link.target_admin), link, decide)

    def _await_begun(self, end: Directive, cuts: Mapping[str, Cut], wait_s: float) -> int | None:
        """Until the reverse link has begun, or so long; how far it lags then."""
        assert self._reverse is not None
        back = Ending(
            self._reverse, self._scope, self._connect, self._settings.run.lease_s, self._say
        )
        wanted = {at for c in cuts.values() for p in c.points for at, _ in p.targets}
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
            self._say(f"{self._reverse.name}: waiting for a driver to begin at the cut")
            time.sleep(_POLL_S)
            back.read_on()
        ends = self._connect(self._reverse.source_admin).list_offsets(sorted(begun), LATEST)
        return sum(
            max(0, found.offset - position)
            for at, position in begun.items()
            if isinstance(found := ends[at], OffsetAt)
        )

    def _lines(self, cuts: Mapping[str, Cut]) -> tuple[str, ...]:
        """What the file lacks for a way back."""
        link, name = self._link, f"{self._link.target.alias}->{self._link.source.alias}"
        return (
            f"{name}.enabled = true",
            f"{name}.topics = {', '.join(sorted(cuts))}",
            f"{name}.replication.policy.class = "
            f"org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            f"{name}.sync.group.offsets.enabled = "
            f"{str(link.control.sync_group_offsets_enabled).lower()}",
        )


def _by_topic(starts: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for at, offset in starts.items():
        found.setdefault(at.topic, {})[at.partition] = offset
    return found


def as_json(each: FailedBack) -> dict[str, Any]:
    """For `--json`: stable keys."""
    return {
        "link": each.link,
        "reverse": each.reverse,
        "topic": each.scope.topic,
        "step": str(each.step),
        "changed": each.changed,
        "dry_run": each.dry_run,
        "unmirrored": [
            {
                "topic": one.at.topic,
                "partition": one.at.partition,
                "first": one.first,
                "end": one.end,
                "records": one.records,
                "surely": one.surely,
            }
            for one in each.unmirrored
        ],
        "lost": [str(at) for at in each.lost],
        "saved": each.saved,
        "lag_records": each.lag,
        "lines": list(each.lines),
        "promoted": None if each.promoted is None else promoting.as_json(each.promoted),
    }
