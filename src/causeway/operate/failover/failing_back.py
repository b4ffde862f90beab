"""Fails back: a mirror that has ended continues, after a reverse mirror has brought the records.

    A->B ended at its cut ─► records that only A has: saved, or left ─► B->A begins at the cut
      ─► nothing lags ─► B->A promoted (its own cut) ─► A->B begins behind that cut

In two cases A->B goes on at its own end instead. If the mirror has another name than its topic, B's
records are not its own to give back. If the records of both sides are in one topic, B->A mirrors
them anyway.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

from causeway.cluster import LATEST, Connect, OffsetAt, clusters
from causeway.config import LinkSettings, Settings, reverse_of
from causeway.control import CreateTopic, fences, topic_changes, topics
from causeway.errors import CausewayError, ConfigError
from causeway.link_topics import BeginDirective, Cut, EndDirective, Scope
from causeway.model import ENDED, State, TopicPartition
from causeway.operate.directives import Asked, Wanted, choose, sharers_of
from causeway.operate.failover import keeping, promotion, reverse_link, saving, unmirrored
from causeway.operate.failover.ending import Ending, Say, refuse_mingled
from causeway.operate.failover.keeping import Otherwise, ReturningOffsets
from causeway.operate.failover.results import FailbackStep, FailedBack, Keep
from causeway.operate.failover.unmirrored import Unmirrored, UnmirroredRecords

_CREATED_S: Final = 10.0  # the longest wait until brokers know a new topic
_DELETED_S: Final = 30.0  # the longest wait until brokers no longer know a topic
_POLL_S: Final = 0.25
_NO_KEEP: Final = Keep()


def failback(
    settings: Settings,
    *,
    keep: Keep = _NO_KEEP,
    otherwise: Otherwise | None = None,
    create_topics: bool = False,
    turn_round: bool = False,
    dry_run: bool = False,
    say: Say = lambda _: None,
    **asked: Unpack[Asked],
) -> FailedBack:
    """Continues `link` (or one of its topics), which was failed over or promoted.

    The first call looks for records that were never mirrored, saves them or leaves them where they
    are (`keep`), and has the reverse link begin at the cut. With `create_topics`, topics that the
    old source lacks (it may have been set up again) are created there like their mirrors. Each call
    looks for records that others have written to the old source since then; they need the same
    decision. If topics keep their offsets, and their logs there go beyond the cut, `otherwise` says
    how they go on. With `turn_round`, once the producers of the other side have stopped, the
    reverse link is promoted, and `link` begins behind its cut. Each call continues where the last
    one ended. Raises ConfigError for things that it cannot do, PartitionsFailedError if partitions
    lag, ConflictError; CausewayError.
    """
    wanted = Wanted(**asked)
    with clusters() as connect:
        chosen = choose(settings, wanted, connect, "fail back")
        if len(chosen) != 1:
            names = ", ".join(each.name for each in chosen)
            raise ConfigError("fail back", names, "which one?", remedy="--link 'A->B'")
        ending = Ending(chosen[0], wanted.scope, connect, settings.run.lease_s, say)
        move = LinkFailback(settings, ending, connect, wanted, keep, otherwise, say, dry_run)
        return move.run(create=create_topics, turn_round=turn_round)


@dataclass(slots=True)
class LinkFailback:
    """The failback of one link."""

    settings: Settings
    ending: Ending
    connect: Connect
    wanted: Wanted
    keep: Keep = _NO_KEEP
    otherwise: Otherwise | None = None
    say: Say = lambda _: None
    dry_run: bool = False

    @property
    def _reverse(self) -> LinkSettings | None:
        return reverse_of(self.settings, self.ending.link)

    def run(self, *, create: bool, turn_round: bool) -> FailedBack:
        ending, link, keep = self.ending, self.ending.link, self.keep
        end = ending.directives.get(EndDirective, ending.scope)
        wider = ending.scope.wider and ending.directives.end_of(ending.scope.wider)
        if wider is not None:
            raise reverse_link.refusal(
                ending.subject,
                f"the whole link was {wider.how} {wider.by}",
                "leave out --topic: a part of the link cannot go on alone",
            )
        if end is None:
            return self._found(FailbackStep.GOES_ON)
        if end.how not in ENDED or not end.done:
            command = "failover" if end.how is State.FAILED_OVER else "promote"
            raise reverse_link.refusal(
                ending.subject,
                f"{end.how} {end.by}, and not done yet",
                f"`causeway {command}` goes on with it",
            )
        is_heartbeats = link.policy.is_heartbeats_topic
        cuts = {name: cut for name, cut in ending.known_cuts.items() if not is_heartbeats(name)}
        if link.mingles or any(cut.target != name for name, cut in cuts.items()):
            return self._go_on(cuts)
        reverse = self._reverse
        if reverse is None:
            lines = reverse_link.lines_for(link, cuts)
            return self._found(FailbackStep.NO_WAY_BACK, lines=lines)
        reverse_link.check(link, reverse, cuts)
        if keep.topic is not None:
            reverse_link.check_keep(link, cuts, keep.topic)
        back = self._back()
        if reverse_link.is_begun(back.directives, end, cuts):
            reverse_link.check_end(link, reverse, back.end)
            changed, found = self._see_to_late(back, end)
            found |= {"unfenced": self._lift_fences(), "begun": True}
            kept = bool(found.get("late") and keep)
            found["pending"] = self.dry_run and bool(turn_round or kept or found["unfenced"])
            if found.get("late") and turn_round and not kept:
                return self._found(FailbackStep.UNDECIDED, **found)
        else:
            reverse_link.check_whole(link, reverse, back.directives, ending.scope)
            create |= self.otherwise is Otherwise.REFILL  # a killed call may have deleted topics
            created = self._create(reverse, cuts) if create else ()
            looked = {n: c for n, c in cuts.items() if n not in created or not self.dry_run}
            ending.say("looking for records that were never mirrored")
            sighting = unmirrored.find_unmirrored(
                link, ending.sides, ending.mirrored(), looked, ending.progress()
            )
            only_here = sighting.unmirrored
            found = {
                "created": created,
                "unmirrored": only_here,
                "lost": sighting.lost,
                "gone": sighting.gone,
            }
            keeps = keeping.returning_offsets(reverse, cuts, sighting)
            found |= self._otherwise(keeps, sighting)
            if (only_here and not keep) or (keeps.blocked and self.otherwise is None):
                return self._found(FailbackStep.UNDECIDED, **found)
            if self.dry_run:
                return self._found(FailbackStep.BACK, pending=True, **found)
            found["saved"] = self._save(only_here)
            if refilled := found["refilled"]:
                again = self._refill(reverse, {name: cuts[name] for name in refilled})
                if again.unmirrored:  # others wrote since the topic was deleted
                    found["unmirrored"] = again.unmirrored
                    return self._found(FailbackStep.UNDECIDED, changed=True, **found)
                sighting = replace(
                    sighting,
                    starts={**sighting.starts, **again.starts},
                    ends={**sighting.ends, **again.ends},
                    ids={**sighting.ids, **again.ids},
                )
            self._begin(
                reverse,
                end,
                sighting.starts,
                sighting.ends,
                sighting.ids,
                translated=found["translated"],
            )
            found |= {"unfenced": self._lift_fences(), "begun": True}
            changed = True
        if turn_round:
            return self._turn_round(end, found)
        wait_s = 0.0 if self.dry_run else self.wanted.wait_s or 0.0
        back = self._back()
        lag = reverse_link.await_begun(back, end, set(_targets(cuts)), wait_s)
        if changed:
            found["late"] = self._late(self._back(), end)
        return self._found(FailbackStep.BACK, changed=changed, lag=lag, **found)

    def _turn_round(self, end: EndDirective, found: dict[str, Any]) -> FailedBack:
        wanted, reverse = self.wanted, self._reverse
        assert reverse is not None
        (promoted,) = promotion.promote(
            self.settings,
            link=reverse.name,
            topic=wanted.topic,
            who=wanted.who,
            reason=wanted.reason,
            wait_s=wanted.wait_s,
            dry_run=self.dry_run,
            say=self.say,
        )
        found["promoted"] = promoted
        if self.dry_run:
            return self._found(FailbackStep.BACK, **found)
        back = self._back()
        # This includes the records of the last moment: now the way back brings no more.
        found |= self._see_to_late(back, end)[1]
        if found.get("late"):
            return self._found(FailbackStep.UNDECIDED, changed=True, **found)
        self.ending.say("going on behind the cut")
        their = back.directives.get(EndDirective, self.ending.scope)
        assert their is not None
        ids = {each.target: each.target_id for each in promoted.cuts.values()}
        # The records of the old target itself have other offsets than those that came back.
        link = self.ending.link
        translated = tuple(
            sorted(n for n, cut in promoted.cuts.items() if link.preserves(n) and not cut.preserves)
        )
        found["translated"] = translated
        starts = _targets(promoted.cuts)
        self._begin(link, their, starts, {}, ids, translated=translated)
        return self._found(FailbackStep.GOES_ON, changed=True, **found)

    # -- what others write to the old source meanwhile --------------------------------------------

    def _back(self) -> Ending:
        """Returns the reverse link in its present state."""
        reverse = self._reverse
        assert reverse is not None
        refuse_mingled(reverse)
        lease_s = self.settings.run.lease_s
        return Ending(reverse, self.ending.scope, self.connect, lease_s, self.say)

    def _late(self, back: Ending, end: EndDirective) -> tuple[Unmirrored, ...]:
        """Returns the records that others have written to the old source since the last look."""
        return unmirrored.find_late_writes(
            self.ending.sides.source,
            reverse_link.looked_of(back.directives, end),
            back.contents.partitions.values(),
            until=_targets(back.known_cuts),
            read_committed=self.ending.link.fetch.read_committed,
            say=self.ending.say,
        )

    def _see_to_late(self, back: Ending, end: EndDirective) -> tuple[bool, dict[str, Any]]:
        """Saves late records if `keep` says so. Returns whether it has, and the records as fields
        of FailedBack."""
        found = self._late(back, end)
        if not found or not self.keep or self.dry_run:
            return False, {"late": found}
        saved = self._save(found)
        reverse_link.note_kept(back, end, {each.at: each.end for each in found})
        return True, {"unmirrored": found, "saved": saved}

    def _go_on(self, cuts: Mapping[str, Cut]) -> FailedBack:
        """Continues the link itself at its end. Only for mirrors with other names than their
        topics, or with the records of both sides."""
        link, places = self.ending.link, _targets(cuts)
        ends = self.ending.sides.target.list_offsets(sorted(places), LATEST)
        written = sorted(
            at
            for at, offset in places.items()
            if isinstance(found := ends[at], OffsetAt) and found.offset > offset
        )
        if written and link.sole_writer:
            raise reverse_link.refusal(
                link.name,
                f"others have written to {written[0]} since the cut ({len(written)} partitions), "
                "and no link brings a mirror's records back",
                "move them, and set causeway.sole.writer = false to go on beside others",
            )
        if not self.dry_run:
            self.ending.take_back(self.wanted.wait_s or 0.0)
        changed = not self.dry_run
        return self._found(FailbackStep.GOES_ON, changed=changed, pending=not changed, reverse=None)

    def _found(self, step: FailbackStep, *, changed: bool = False, **more: Any) -> FailedBack:
        reverse = self._reverse
        return FailedBack(
            link=self.ending.link.name,
            scope=self.ending.scope,
            step=step,
            changed=changed,
            dry_run=self.dry_run,
            **{"reverse": None if reverse is None else reverse.name, **more},
        )

    def _create(self, reverse: LinkSettings, cuts: Collection[str]) -> tuple[str, ...]:
        """Creates those topics of the cuts that the old source lacks, like their mirrors. A dry run
        only names them. Raises CausewayError for the first that cannot be created."""
        self.ending.say(f"looking for topics that {self.ending.link.source.alias} lacks")
        begun_with = replace(reverse, chosen=frozenset(cuts))
        target, source = self.ending.sides.target_admin, self.ending.sides.source_admin
        planned = topics.plan(topics.observe(target, source, begun_with, cuts), begun_with)
        creates = [e for e in planned.changes if isinstance(e, CreateTopic) and e.topic in cuts]
        created = sorted(each.topic for each in creates)
        if creates and not self.dry_run:
            _raise_first(topic_changes.apply(creates, source).values())
            # Waits until all brokers know the topics. If they do not, the next step fails.
            deadline = time.monotonic() + _CREATED_S
            while not self.ending.mirrored().keys() >= set(created):
                if time.monotonic() > deadline:
                    break
                time.sleep(_POLL_S)
        return tuple(created)

    def _otherwise(self, keeps: ReturningOffsets, sighting: UnmirroredRecords) -> dict[str, Any]:
        """Returns, as fields of FailedBack, how topics go on that cannot keep their offsets."""
        blocked = tuple(sorted(keeps.blocked))
        found: dict[str, Any] = {"keeps": keeps, "refilled": (), "translated": ()}
        if self.otherwise is Otherwise.REFILL:
            found["refilled"] = blocked
        elif self.otherwise is Otherwise.TRANSLATE:
            found["translated"] = blocked
        if blocked and self.otherwise is not Otherwise.TRANSLATE:
            target = self.ending.sides.target
            found["again"] = keeping.offsets_held(target, blocked, sighting.starts)
        return found

    def _refill(self, reverse: LinkSettings, cuts: Mapping[str, Cut]) -> UnmirroredRecords:
        """Deletes the topics of `cuts` on the old source and creates them again, empty. The reverse
        link fills them with the same offsets. If a call was killed, the same call continues it.
        Returns what is in them now. Raises CausewayError."""
        ending, source = self.ending, self.ending.sides.source_admin
        alias = ending.link.source.alias
        ending.say(f"deleting {', '.join(cuts)} on {alias}")
        for name, error in source.delete_topics(cuts).items():
            if error is not None and name in topics.topics_named(source, [name]):
                raise error
        deadline = time.monotonic() + _DELETED_S
        while left := sorted(topics.topics_named(source, cuts)):
            if time.monotonic() > deadline:
                cause, remedy = f"{alias} has not deleted it yet", "call this again: it goes on"
                raise CausewayError("fail back", left[0], cause, remedy=remedy, retriable=True)
            time.sleep(_POLL_S)
        self._create(reverse, cuts)
        return unmirrored.find_unmirrored(
            ending.link, ending.sides, ending.mirrored(), cuts, ending.progress()
        )

    def _save(self, parts: Sequence[Unmirrored]) -> str | None:
        """Returns where the records were saved; None if they were not."""
        sides, link, keep = self.ending.sides, self.ending.link, self.keep
        committed = link.fetch.read_committed
        if parts and keep.path is not None:
            saving.save(sides.source, parts, keep.path, read_committed=committed)
            return str(keep.path)
        if parts and keep.topic is not None:
            target = sides.target_admin
            saving.save_to_topic(sides.source, parts, target, keep.topic, read_committed=committed)
            return f"{keep.topic} on {link.target.alias}"
        return None

    # -- to begin ---------------------------------------------------------------------------------

    def _begin(
        self,
        link: LinkSettings,
        end: EndDirective,
        starts: reverse_link.Places,
        looked: reverse_link.Places,
        ids: Mapping[str, str],
        *,
        translated: Collection[str] = (),
    ) -> None:
        """Has `link` begin at `starts`. `end`: the end in the other direction."""
        wish = BeginDirective(
            who=self.wanted.author, why=self.wanted.reason, at=end.at, scope=self.ending.scope
        )
        target = self.connect(link.target_admin)
        reverse_link.begin(target, link, wish, starts, looked, ids, translated)
        if link.way_back:  # for this call; a driver learns it from the directives
            begun = replace(link, chosen=link.chosen | {at.topic for at in starts})
            links = tuple(begun if each is link else each for each in self.settings.links)
            self.settings = replace(self.settings, links=links)

    def _lift_fences(self) -> tuple[str, ...]:
        """Lifts the fences of a cutover, because they would also keep the way back from writing.
        Returns their topics."""
        ending, directives = self.ending, self.ending.directives
        found = {
            topic: fence
            for topic, fence in sorted(fences.fences(directives).items())
            if ending.scope.covers(Scope(topic)) and directives.has_ended(Scope(topic))
        }
        if not self.dry_run:
            sides, sharers = ending.sides, sharers_of(self.settings, ending.link, self.connect)
            errors = fences.lift(
                sides.source_admin, ending.target, ending.link, found.values(), sharers
            )
            _raise_first(errors.values())
        return tuple(found)


def _raise_first(errors: Collection[CausewayError | None]) -> None:
    for error in errors:
        if error is not None:
            raise error


def _targets(cuts: Mapping[str, Cut]) -> dict[TopicPartition, int]:
    """Returns the offsets at which the mirrors ended, by partition of the target."""
    return {at: offset for c in cuts.values() for p in c.points for at, offset in p.targets}
