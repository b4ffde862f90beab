"""Fails back: a mirror that has ended continues, after a reverse mirror has brought the records.

    A->B ended at its cut ─► what only A has: saved, or left ─► B->A begins at the cut
      ─► nothing lags ─► B->A promoted (its own cut) ─► A->B begins behind that cut

Where the mirror has another name than its topic, B's records are not its own to give back, and
where records of both lie in one topic, B->A takes them anyway: A->B goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from causeway.cluster import LATEST, Connect, OffsetAt, clusters
from causeway.config import LinkSettings, Settings, reverse_of
from causeway.control import CreateTopic, MirroredTopic, collisions, fences, topic_changes, topics
from causeway.daemon import Sides
from causeway.errors import ConfigError
from causeway.link_topics import BeginDirective, Cut, EndDirective, Scope, cuts_of
from causeway.model import ENDED, State, TopicPartition
from causeway.operate.directives import MOST_TEXT, WAIT_S, Wanted, choose, current_user, sharers_of
from causeway.operate.failover import promotion, reverse_link, saving, unmirrored
from causeway.operate.failover.ending import Ending, Say, refuse_mingled
from causeway.operate.failover.results import FailbackStep, FailedBack, Keep
from causeway.operate.failover.unmirrored import Unmirrored

_CREATED_S: Final = 10.0  # until brokers know a new topic, at the most
_POLL_S: Final = 0.25


def failback(
    settings: Settings,
    *,
    link: str | None = None,
    topic: str | None = None,
    save: Path | None = None,
    save_topic: str | None = None,
    drop: bool = False,
    create_topics: bool = False,
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
    cut. With `create_topics`, topics that the old source lacks (it may have been set up again) are
    created there like their mirrors. What others write to the old source from then on is looked
    for by each call, and is to be decided on likewise. With `turn_round`, once the producers of the
    other side have stopped, that link is promoted, and `link` begins behind its cut. Each call goes
    on where the last one ended. Raises ConfigError for what it cannot do, PartitionsFailedError
    where something lags, ConflictError; CausewayError.
    """
    with clusters() as connect:
        chosen = choose(settings, Wanted(link, topic, None, ahead=False), connect, "fail back")
        if len(chosen) != 1:
            names = ", ".join(each.name for each in chosen)
            raise ConfigError("fail back", names, "which one?", remedy="--link 'A->B'")
        ending = Ending(chosen[0], Scope(topic), connect, settings.run.lease_s, say)
        who = (who or current_user())[:MOST_TEXT]
        move = LinkFailback(settings, ending, connect, who, reason, dry_run=dry_run)
        keep = Keep(path=save, topic=save_topic, drop=drop)
        return move.run(keep, create=create_topics, turn_round=turn_round, wait_s=wait_s)


class LinkFailback:
    """The failback of one link."""

    def __init__(
        self,
        settings: Settings,
        ending: Ending,
        connect: Connect,
        who: str,
        why: str | None = None,
        *,
        dry_run: bool = False,
    ) -> None:
        link = ending.link
        self.who, self.why = who, why
        self._settings = settings
        self._link = link
        self._scope = ending.scope
        self._connect = connect
        self._say = ending.say
        self._dry_run = dry_run
        self._ending = ending
        self._sides = Sides(
            source=connect(link.source),
            target=connect(link.target),
            source_admin=connect(link.source_admin),
            target_admin=connect(link.target_admin),
        )
        self._reverse = reverse_of(settings, link)

    def run(self, keep: Keep, *, create: bool, turn_round: bool, wait_s: float) -> FailedBack:
        end = self._ending.standing.get(EndDirective, self._scope)
        wider = self._scope.wider and self._ending.standing.end_of(self._scope.wider)
        if wider is not None:
            raise ConfigError(
                "fail back",
                f"{self._scope} of {self._link.name}",
                f"the whole link was {wider.how} {wider.by}",
                remedy="leave out --topic: a part of the link cannot go on alone",
            )
        if end is None:
            return self._found(FailbackStep.GOES_ON, changed=False)
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
        if renamed or self._link.mingles:
            return self._go_on(end, cuts, wait_s)
        if self._reverse is None:
            return self._found(FailbackStep.NO_WAY_BACK, changed=False, lines=self._lines(cuts))
        reverse_link.check(self._link, self._reverse, cuts)
        reverse_link.check_places(self._link, cuts)
        if keep.topic is not None:
            reverse_link.check_keep(self._link, cuts, keep.topic)
        back = self._back()
        if reverse_link.is_begun(back.standing, end, cuts):
            reverse_link.check_end(self._link, self._reverse, back.end)
            changed, found = self._see_to_late(back, end, keep)
            found |= {"unfenced": self._lift_fences(), "begun": True}
            kept = bool(found.get("late") and keep)
            found["pending"] = self._dry_run and bool(turn_round or kept or found["unfenced"])
            if found.get("late") and turn_round and not kept:
                return self._found(FailbackStep.UNDECIDED, changed=False, **found)
        else:
            reverse_link.check_whole(self._link, self._reverse, back.standing, self._scope)
            created = self._create(self._reverse, cuts) if create else ()
            there = {name: cut for name, cut in cuts.items() if name not in created}
            sighting = unmirrored.find_unmirrored(
                self._link,
                self._sides,
                self._mirrored(),
                there if self._dry_run else cuts,
                self._ending.progress(),
            )
            found = {
                "created": created,
                "unmirrored": sighting.unmirrored,
                "lost": sighting.lost,
                "gone": sighting.gone,
            }
            if self._dry_run or (sighting.unmirrored and not keep):
                step = (
                    FailbackStep.UNDECIDED
                    if sighting.unmirrored and not keep
                    else FailbackStep.BACK
                )
                pending = self._dry_run and step is FailbackStep.BACK
                return self._found(step, changed=False, pending=pending, **found)
            found["saved"] = self._save(sighting.unmirrored, keep)
            self._begin(self._reverse, end, sighting.starts, sighting.ends, sighting.ids)
            found |= {"unfenced": self._lift_fences(), "begun": True}
            changed = True
        if turn_round:
            return self._turn_round(end, wait_s, keep, **found)
        lag = self._await_begun(end, cuts, 0.0 if self._dry_run else wait_s)
        if changed:
            found["late"] = self._late(self._back(), end)
        return self._found(FailbackStep.BACK, changed=changed, lag=lag, **found)

    def _turn_round(self, end: EndDirective, wait_s: float, keep: Keep, **found: Any) -> FailedBack:
        assert self._reverse is not None
        (promoted,) = promotion.promote(
            self._settings,
            link=self._reverse.name,
            topic=self._scope.topic,
            who=self.who,
            reason=self.why,
            wait_s=wait_s,
            dry_run=self._dry_run,
            say=self._say,
        )
        if self._dry_run:
            return self._found(FailbackStep.BACK, changed=False, promoted=promoted, **found)
        back = self._back()
        # What has come in the last moment, too: from here on nothing of the way back comes.
        _, more = self._see_to_late(back, end, keep)
        found |= more
        if found.get("late"):
            return self._found(FailbackStep.UNDECIDED, changed=True, promoted=promoted, **found)
        self._say(f"{self._link.name}: going on behind the cut")
        their = back.standing.get(EndDirective, self._scope)
        assert their is not None
        ids = {each.target: each.target_id for each in promoted.cuts.values()}
        self._begin(self._link, their, _targets(promoted.cuts), {}, ids)
        return self._found(FailbackStep.GOES_ON, changed=True, promoted=promoted, **found)

    # -- what others write to the old source meanwhile --------------------------------------------

    def _back(self) -> Ending:
        """The way back, as it is by now."""
        assert self._reverse is not None
        refuse_mingled(self._reverse)
        lease_s = self._settings.run.lease_s
        return Ending(self._reverse, self._scope, self._connect, lease_s, self._say)

    def _late(self, back: Ending, end: EndDirective) -> tuple[Unmirrored, ...]:
        """What others have written to the old source since it was looked at."""
        cuts = cuts_of(back.standing, self._scope)
        return unmirrored.find_late_writes(
            self._sides.source,
            reverse_link.looked_of(back.standing, end),
            back.contents.partitions.values(),
            until=_targets({name: each.cut for name, each in cuts.items() if each.cut is not None}),
            read_committed=self._link.fetch.read_committed,
            say=lambda text: self._say(f"{self._link.name}: {text}"),
        )

    def _see_to_late(
        self, back: Ending, end: EndDirective, keep: Keep
    ) -> tuple[bool, dict[str, Any]]:
        """Keeps it where that was asked for; whether it has, and what there is, for a
        FailedBack."""
        found = self._late(back, end)
        if not found or not keep or self._dry_run:
            return False, {"late": found}
        assert self._reverse is not None
        saved = self._save(found, keep)
        kept = {each.at: each.end for each in found}
        reverse_link.note_kept(self._connect(self._reverse.target_admin), self._reverse, end, kept)
        return True, {"unmirrored": found, "saved": saved}

    def _go_on(self, end: EndDirective, cuts: Mapping[str, Cut], wait_s: float) -> FailedBack:
        """Of mirrors with other names than their topics, or with records of both sides: the link
        itself, where it was."""
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
        changed = not self._dry_run
        return self._found(FailbackStep.GOES_ON, changed=changed, pending=not changed, reverse=None)

    def _found(self, step: FailbackStep, *, changed: bool, **more: Any) -> FailedBack:
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
        known = cuts_of(self._ending.standing, self._scope)
        return {
            name: each.cut
            for name, each in known.items()
            if each.cut is not None and not self._link.policy.is_heartbeats_topic(name)
        }

    def _mirrored(self) -> dict[str, MirroredTopic]:
        self._say(f"{self._link.name}: looking for what was never mirrored")
        observed = topics.observe(self._sides.source_admin, self._sides.target_admin, self._link)
        known = collisions.begun_by(self._ending.contents.partitions.values())
        return {
            topic.source: topic
            for topic in topics.plan(observed, self._link, known).mirrored
            if self._scope.covers(Scope(topic.source))
            and not self._link.policy.is_heartbeats_topic(topic.source)
        }

    def _create(self, reverse: LinkSettings, cuts: Collection[str]) -> tuple[str, ...]:
        """Creates those topics of the cuts that the old source lacks, like their mirrors. A dry run
        only names them. Raises CausewayError for the first that cannot be created."""
        self._say(f"{self._link.name}: looking for topics that {self._link.source.alias} lacks")
        begun_with = replace(reverse, chosen=frozenset(cuts))
        target, source = self._sides.target_admin, self._sides.source_admin
        planned = topics.plan(topics.observe(target, source, begun_with, cuts), begun_with)
        creates = [e for e in planned.changes if isinstance(e, CreateTopic) and e.topic in cuts]
        if creates and not self._dry_run:
            for error in topic_changes.apply(creates, source).values():
                if error is not None:
                    raise error
            self._await_there({each.topic for each in creates})
        return tuple(sorted(each.topic for each in creates))

    def _await_there(self, created: set[str]) -> None:
        """Waits until all brokers know the topics, for a moment at the most. The next step fails if
        they do not."""
        deadline = time.monotonic() + _CREATED_S
        while not created <= self._mirrored().keys() and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _save(self, parts: Sequence[Unmirrored], keep: Keep) -> str | None:
        """Where it was saved, None where it was not."""
        source, committed = self._sides.source, self._link.fetch.read_committed
        if parts and keep.path is not None:
            saving.save(source, parts, keep.path, read_committed=committed)
            return str(keep.path)
        if parts and keep.topic is not None:
            target = self._sides.target_admin
            saving.save_to_topic(source, parts, target, keep.topic, read_committed=committed)
            return f"{keep.topic} on {self._link.target.alias}"
        return None

    # -- to begin ---------------------------------------------------------------------------------

    def _begin(
        self,
        link: LinkSettings,
        end: EndDirective,
        starts: reverse_link.Places,
        looked: reverse_link.Places,
        ids: Mapping[str, str],
    ) -> None:
        """Has `link` begin there, as `end` the other way says so."""
        wish = BeginDirective(who=self.who, why=self.why, at=end.at, scope=self._scope)
        reverse_link.begin(self._connect(link.target_admin), link, wish, starts, looked, ids)
        if link.way_back:  # for this call; a driver learns it from the directives
            begun = replace(link, chosen=link.chosen | {at.topic for at in starts})
            links = tuple(begun if each is link else each for each in self._settings.links)
            self._settings = replace(self._settings, links=links)
            if link is self._reverse:
                self._reverse = begun

    def _lift_fences(self) -> tuple[str, ...]:
        """Of a cutover: they would keep the way back from writing as well. Which topics these
        are."""
        standing = self._ending.standing
        found = [
            fence
            for topic, fence in sorted(fences.fences(standing).items())
            if self._scope.covers(Scope(topic)) and standing.has_ended(Scope(topic))
        ]
        if not self._dry_run:
            sides, sharers = self._sides, sharers_of(self._settings, self._link, self._connect)
            errors = fences.lift(sides.source_admin, sides.target_admin, self._link, found, sharers)
            for error in errors.values():
                if error is not None:
                    raise error
        return tuple(str(fence.scope.topic) for fence in found)

    def _await_begun(self, end: EndDirective, cuts: Mapping[str, Cut], wait_s: float) -> int | None:
        back = self._back()
        source = self._connect(back.link.source_admin)
        return reverse_link.await_begun(back, source, end, set(_targets(cuts)), wait_s, self._say)

    def _lines(self, cuts: Mapping[str, Cut]) -> tuple[str, ...]:
        """What the file lacks for a way back."""
        link, name = self._link, f"{self._link.target.alias}->{self._link.source.alias}"
        return (
            f"{name}.enabled = true",
            f"{name}.causeway.way.back = true",
            f"{name}.topics = {', '.join(sorted(cuts))}",
            f"{name}.replication.policy.class = "
            f"org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            f"{name}.sync.group.offsets.enabled = "
            f"{str(link.control.sync_group_offsets_enabled).lower()}",
        )


def _targets(cuts: Mapping[str, Cut]) -> dict[TopicPartition, int]:
    """Where the mirrors ended, by partition of the target."""
    return {at: offset for c in cuts.values() for p in c.points for at, offset in p.targets}
