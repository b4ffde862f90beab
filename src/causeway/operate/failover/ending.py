"""Ends the mirror of a link, or of a topic.

Only lanes may still write to the mirror. No lane does after the leading driver has said so: its
lanes have let go. If the driver does not say it, the lead is taken from it:

    lead taken     its progress is refused from now on; the next leader reads of the end first
    leases over    its lanes send nothing any more, unless the driver still renews their leases
    mirrors still  it renews none: meanwhile no producer of the mirror has sent anything
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

from causeway.cluster import LATEST, AclBinding, Cluster, Connect, log_reader, offsets_at, value_of
from causeway.config import LinkSettings
from causeway.control import MirroredTopic, acls, collisions, topics
from causeway.daemon import Leadership, Sides
from causeway.errors import AuthorizationError, CausewayError, ConfigError, NobodyLeadsError
from causeway.link_topics import (
    PROMOTION_HOLD_S,
    Cut,
    CutPoint,
    DirectiveKind,
    DirectiveLog,
    DirectivePlan,
    DirectivesRecord,
    EndDirective,
    LeaseRecord,
    LinkDirectives,
    Outlet,
    PartitionProgress,
    Scope,
    WrittenDirectives,
    cuts_of,
    finish_end,
    plan_end,
    plan_failback,
    recognise,
    renew_promotion,
    withdraw_promotion,
)
from causeway.model import State, TopicPartition
from causeway.operate.directives import LinkRequests
from causeway.records import HEADER

_STILL_S = 0.5
_LEASES: Final = 3  # the number of leases to wait for a lease that is not renewed
_RENEW_S = 8.0  # between two renewals of a promotion
Say = Callable[[str], None]
Guard = Callable[[LinkDirectives], None]


def refuse_mingled(link: LinkSettings) -> None:
    """Raises ConfigError if both clusters write the link's topics: groups have no single place."""
    if link.mingles:
        raise ConfigError(
            "end the mirror",
            link.name,
            "both clusters write its topics, so there is nothing to move: programs go over to the"
            " other cluster as they are",
            remedy="docs/explanation/provenance.md says where a consumer group goes on",
        )


class Ending(LinkRequests):
    """The end of one link and scope. `directives`: the directives at the last read. Not
    thread-safe."""

    def __init__(
        self, link: LinkSettings, scope: Scope, connect: Connect, lease_s: float, say: Say
    ) -> None:
        """Reads progress and directives. Raises CausewayError."""
        super().__init__(link, connect)
        recognise(link, connect, self.contents)
        self.scope = scope
        self.sides = Sides.of(link, connect)
        self._connect = connect
        self._lease_s = lease_s
        self._say = say
        self._run = uuid.uuid4().hex
        self._writing = threading.Lock()  # two writers of one process would fence each other
        self._read_directives()

    def _read_directives(self) -> None:
        log = DirectiveLog(self.target, self.link.directives_topic)
        log.look()
        self.directives = log.directives

    def say(self, text: str) -> None:
        self._say(f"{self.link.name}: {text}")

    @property
    def subject(self) -> str:
        """The link and scope, for messages."""
        return f"{self.scope} of {self.link.name}"

    @property
    def end(self) -> EndDirective | None:
        """The directive that ends the scope, or is about to; None if there is none."""
        return self.directives.end_of(self.scope)

    @property
    def known_cuts(self) -> dict[str, Cut]:
        """The scope's cuts in the directives, by topic."""
        return cuts_of(self.directives, self.scope)

    def progress(self, scope: Scope | None = None) -> dict[TopicPartition, PartitionProgress]:
        """Returns the progress of partitions of the scope (or of `scope`) that have begun."""
        scope = scope or self.scope
        return {
            at: each
            for at, each in sorted(self.contents.partitions.items())
            if scope.covers(at) and has_begun(each)
        }

    def mirrored(self) -> dict[str, MirroredTopic]:
        """Returns the topics of the scope that the link mirrors, or would mirror, by source name.
        Leaves out heartbeats, which never end."""
        sides, link = self.sides, self.link
        observed = topics.observe(sides.source_admin, sides.target_admin, link)
        begun = collisions.begun_by(self.contents.partitions.values())
        return {
            each.source: each
            for each in topics.plan(observed, link, begun).mirrored
            if self.scope.covers(Scope(each.source))
            and not link.policy.is_heartbeats_topic(each.source)
        }

    def read_only_rules(self) -> tuple[AclBinding, ...]:
        """Returns the ACLs that make the mirrors of the scope read-only."""
        if not self.link.control.read_only_mirrors:
            return ()
        mirrors = {outlet.topic for outlet in _outlets(self.progress().values())}
        return acls.read_only_denials(self.target.describe_acls(), mirrors, self.link)

    def lift_read_only(self) -> tuple[AclBinding, ...]:
        lifted = self.read_only_rules()
        acls.remove_denials(lifted, self.target)
        return lifted

    # -- writing ----------------------------------------------------------------------------------

    def begin(self, wish: EndDirective, wait_s: float, guard: Guard | None = None) -> None:
        """Records the end of the mirror. Returns when no lane writes to it any more. `guard` is
        called in the step that writes the end; it can raise to prevent it. Raises ConflictError for
        a concurrent request, NobodyLeadsError if a driver goes on mirroring, CausewayError."""

        def decide(directives: LinkDirectives) -> DirectivePlan:
            if guard is not None:
                guard(directives)
            return plan_end(directives, mine)

        mine = wish
        if wish.how is State.PROMOTING:
            mine = wish.replace(until=_hold_until(), run=self._run)
        written = self._write(decide)
        self.say("waiting until no lane writes to the mirror")
        if not self._await_word(written, wait_s):
            self._take_lead(written.topic_id)

    def finish(
        self,
        how: State,
        cuts: dict[str, Cut],
        *,
        done: bool,
        groups: Collection[str] = (),
        wait_s: float = 0.0,
    ) -> None:
        """See finish_end. Waits up to `wait_s` until a leading driver has acted on it."""
        decide = partial(finish_end, scope=self.scope, how=how, cuts=cuts, done=done)
        written = self._write(partial(decide, groups=groups, run=self._run))
        self._await_word(written, wait_s)

    def note_left(self, scope: Scope, groups: Collection[str]) -> None:
        """Notes which groups a finished failover of `scope` could not commit yet."""
        how = State.FAILED_OVER
        self._write(partial(finish_end, scope=scope, how=how, cuts={}, done=True, groups=groups))

    def let_go(self, wait_s: float) -> None:
        """Takes back a promotion, whichever command began it. The mirror goes on."""
        self._await_word(self._write(partial(withdraw_promotion, scope=self.scope)), wait_s)

    @contextmanager
    def holding(self, wait_s: float) -> Iterator[None]:
        """Renews the promotion that begins in this block. An error or an interruption takes that
        promotion back, and its mirror goes on. If this process is killed, the leading driver takes
        the promotion back after PROMOTION_HOLD_S."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(_RENEW_S):
                with suppress(CausewayError), self._writing:  # `finish` reports a lost promotion
                    decide = partial(renew_promotion, scope=self.scope, run=self._run)
                    self.change(partial(decide, until=_hold_until()))

        thread = threading.Thread(target=renew, name="promotion", daemon=True)
        thread.start()
        try:
            yield
        except (CausewayError, KeyboardInterrupt) as error:
            over.set()
            self.say("taking the promotion back")
            interrupted = isinstance(error, KeyboardInterrupt)
            with suppress(CausewayError):  # then the leading driver does so
                withdraw = partial(withdraw_promotion, scope=self.scope, run=self._run)
                self._await_word(self._write(withdraw), 0.0 if interrupted else wait_s)
            raise
        finally:
            over.set()
            thread.join()

    def take_back(self, wait_s: float) -> None:
        """Takes the end back: the scope is mirrored again with all of its parts."""
        self._await_word(self._write(partial(plan_failback, scope=self.scope)), wait_s)

    def _write(self, decide: Callable[[LinkDirectives], DirectivePlan]) -> WrittenDirectives:
        with self._writing:
            written = self.change(decide)
        self._read_directives()
        return written

    # -- until no lane writes ----------------------------------------------------------------------

    def _await_word(self, written: WrittenDirectives, wait_s: float) -> bool:
        """Returns whether the leading driver says in time that it has acted. False if no driver
        leads by its last lease: then the next leader reads the directive first."""
        deadline = time.monotonic() + wait_s
        while not self.has_acted(written, DirectiveKind.END):
            if self.driver is None or not self.reads_on_until(deadline):
                return False
        return True

    def _take_lead(self, topic_id: str) -> None:
        """Takes the lead from a driver that has not said that it acted, or if no driver leads.
        Records the id of the directives topic: a next leader that may not read that topic must not
        mirror."""
        if not self._progress.exists():
            return  # no driver has led, so nothing was mirrored
        newest = self.contents.leases[-1] if self.contents.leases else None
        in_order = newest is not None and newest.released
        leadership = Leadership(
            self._connect(self.link.target), self.target, self.link, self._lease_s
        )
        self.say("taking the lead, as no driver says that its lanes have ended")
        stop = threading.Event()
        longest = max((lease.lease_s for lease in self.contents.leases), default=self._lease_s)
        timer = threading.Timer(_LEASES * longest, stop.set)
        timer.daemon = True
        timer.start()
        holders: list[LeaseRecord] = []
        try:
            contents = leadership.acquire(stop, holders.append)
        finally:
            timer.cancel()
        if contents is None:
            acted = self.contents.directives
            why = f": {acted.reason}" if acted is not None and acted.reason else ""
            holder = holders[-1].owner if holders else "a driver"
            cause = f"{holder} leads, renews its lease and has not acted{why}"
            raise self._goes_on(cause, "that driver")
        self.contents = contents
        acted = contents.directives
        if acted is None or acted.topic_id != topic_id:
            leadership.write([DirectivesRecord(link=self.link.name, topic_id=topic_id, applied=-1)])
        if not in_order:
            self._await_stillness(leadership)
        leadership.release()

    def _goes_on(self, cause: str, what: str) -> NobodyLeadsError:
        remedy = f"stop {what}, and call this again: it goes on"
        return NobodyLeadsError("end the mirror of", self.subject, cause, remedy=remedy)

    def _await_stillness(self, leadership: Leadership) -> None:
        """Waits until no lane of an earlier leader has a lease. Raises NobodyLeadsError if a lane
        has sent without one."""
        while (left := leadership.alone_in_s) > 0:
            self.say(f"the leases of its lanes end in {left:.0f} s")
            time.sleep(min(left, 1.0))
            if leadership.renewal_due:
                leadership.renew()
        before = self._sequences()
        time.sleep(_STILL_S)
        after = self._sequences()
        moving = sorted(at for at in after if at in before and after[at] != before[at])
        if moving:
            leadership.lose()  # not released: otherwise the next call would see an orderly end
            cause = f"lanes of an unreachable driver still write to {moving[0]}"
            raise self._goes_on(cause, "that driver and its lanes")

    def _sequences(self) -> dict[TopicPartition, dict[int, int]]:
        """Returns the last sequence of each of the link's producers, by target partition, if the
        partition's leader knows it. Not only of the scope, because the lead is that of the link."""
        ours = {
            (outlet.at, outlet.producer_id)
            for outlet in _outlets(self.contents.partitions.values())
            if outlet.producer_id >= 0
        }
        found = self.target.last_sequences(sorted({at for at, _ in ours}))
        return {
            at: {producer: last for producer, last in each.items() if (at, producer) in ours}
            for at, each in found.items()
            if not isinstance(each, CausewayError)
        }

    # -- cuts -------------------------------------------------------------------------------------

    def cuts(self, without: Collection[str] = ()) -> dict[str, Cut]:
        """See cuts_at_end. Leaves out the topics `without`."""
        progress = [each for at, each in self.progress().items() if at.topic not in without]
        return cuts_at_end(self.target, progress, self.say)


def has_begun(progress: PartitionProgress) -> bool:
    return bool(progress.outlets) and progress.gone_at < 0


def cuts_at_end(
    target: Cluster, progress: Collection[PartitionProgress], say: Say
) -> dict[str, Cut]:
    """Returns the places at which the mirrors of `progress` have ended, by topic. The progress may
    be a second old, so the target's log decides. Raises CausewayError if a target partition does
    not answer: a cut without it would be wrong."""
    outlets = list(_outlets(progress))
    ends = offsets_at(target, {outlet.at for outlet in outlets}, LATEST)
    mine: dict[TopicPartition, int] = {}  # several source partitions may feed one target partition
    exact: set[Outlet] = set()
    preserved = {outlet.at for outlet in _outlets(each for each in progress if each.preserves)}
    for outlet in outlets:
        end, surely = _end_of(
            target, outlet, value_of(ends[outlet.at]), say, preserves=outlet.at in preserved
        )
        mine[outlet.at] = max(end, mine.get(outlet.at, 0))
        if surely:
            exact.add(outlet)
    points: dict[str, list[CutPoint]] = {}
    for each in progress:
        points.setdefault(each.topic, []).append(
            CutPoint(
                partition=each.partition,
                source=mine[each.outlets[0].at] if each.preserves else each.position,
                targets=tuple((outlet.at, mine[outlet.at]) for outlet in each.outlets),
                exact=exact.issuperset(each.outlets),
            )
        )
    firsts = {each.topic: each for each in reversed(list(progress))}
    return {
        topic: Cut(
            target=firsts[topic].outlets[0].topic,
            source_id=firsts[topic].topic_id,
            target_id=firsts[topic].outlets[0].topic_id,
            points=tuple(found),
            preserves=firsts[topic].preserves,
        )
        for topic, found in points.items()
    }


def _end_of(
    target: Cluster, outlet: Outlet, end: int, say: Say, *, preserves: bool
) -> tuple[int, bool]:
    """Returns the offset behind the last mirrored record in a target partition that ends at `end`.
    Also returns whether its source offset is known: the progress knows that record, or it
    `preserves` offsets. Later records of others do not belong to the mirror."""
    known = outlet.pair.target
    if end <= known:
        return end, end == known or preserves
    if outlet.producer_id < 0:
        return end, False  # no field shows who wrote a record
    say(f"reading the last records of {outlet.at}")
    mine = known
    try:
        for raw in log_reader.raw_batches(target, outlet.at, known, end):
            fields = HEADER.unpack_from(raw)
            if fields[9] == outlet.producer_id:
                mine = fields[0] + fields[6] + 1
    except AuthorizationError:
        return end, False
    return mine, mine == known or preserves


def _outlets(progress: Iterable[PartitionProgress]) -> Iterator[Outlet]:
    return (outlet for each in progress for outlet in each.outlets)


def _hold_until() -> int:
    return int((time.time() + PROMOTION_HOLD_S) * 1000)


def wish(how: State, scope: Scope, who: str, why: str | None) -> EndDirective:
    """Returns the directive that ends the mirror of `scope` in this way."""
    at = int(time.time() * 1000)
    return EndDirective(scope=scope, who=who, why=why, at=at, how=how)
