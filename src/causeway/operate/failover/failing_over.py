"""Fails over: a mirror ends now, with the records mirrored so far, even if the source is gone.

    known ─► shown ─┬─ without --yes: ends here
                    └─► ended: no lane writes any more ─► cut ─► groups ─► read-only lifted ─► done

Each step is read from the target. If a call was killed, the next call continues it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Unpack

from causeway.cluster import Connect, clusters, silent_clusters_of
from causeway.config import ClientSettings, LinkSettings, Settings
from causeway.errors import CausewayError, ConfigError
from causeway.link_topics import EndDirective, PartitionProgress, Scope
from causeway.model import ENDED, State, TopicPartition
from causeway.operate.directives import Asked, Wanted, choose_answering
from causeway.operate.failover import last_groups, missing
from causeway.operate.failover.ending import Ending, Say, refuse_mingled, wish
from causeway.operate.failover.results import FailedOver, by_group
from causeway.status import lag

SOURCE_S: Final = 4.0  # the time to wait for the source, for an exact figure
TARGET_S: Final = 5.0  # the time to wait for a target, if there are several links
_NOT_YET: Final = "it could not be committed then; call it again with --yes to try it again"
_NOTHING: Final = "nothing has been mirrored yet"


def failover(
    settings: Settings,
    *,
    yes: bool,
    say: Say = lambda _: None,
    **asked: Unpack[Asked],
) -> tuple[FailedOver, ...]:
    """Ends the mirror of a link (all of the file without `link`) or topic now. Without `yes` it
    only shows what is mirrored, what is missing, and from where groups will go on. With `yes`, the
    mirror ends, groups are committed, and read-only mirrors are opened.

    It waits for all clusters at the same time, a few seconds, and for the target of a single link
    ten seconds. A leading driver has `wait_s` to act; if it does not, the lead is taken from it. A
    second call continues from the same place, and changes nothing once all is done. If there are
    several links, a link is left out (`left`) if its target does not answer or if it has mirrored
    nothing, and the others end. A link to a cluster that is gone has nothing to end; if it is not
    the way back, it must be ended later (`late`). If a link fails (`error`), the others end
    nevertheless. If no link ends, it raises NobodyLeadsError if a driver goes on mirroring in spite
    of the directive, ConflictError for a concurrent request; else CausewayError.
    """
    wanted = Wanted(**asked)
    quick = replace(settings, links=tuple(_hurried(each) for each in settings.links))
    with clusters() as connect, _asking(quick, wanted, connect) as silent:
        chosen, unreachable, gone = choose_answering(
            quick, wanted, connect, "fail over", patience_s=TARGET_S
        )
        moves = []
        for each in chosen:
            refuse_mingled(each)
            ending = Ending(each, wanted.scope, connect, settings.run.lease_s, say)
            moves.append(LinkFailover(ending, partial(silent, each.source_admin.alias)))
        begun = [each for each in moves if each.ending.progress()]
        if not begun:
            raise ConfigError(
                "fail over",
                f"{wanted.scope} of {', '.join(each.name for each in chosen)}",
                _NOTHING + "".join(f"; {name}: {why}" for name, why in unreachable.items()),
            )
        directive = wish(State.FAILED_OVER, wanted.scope, wanted.author, wanted.reason)
        found: dict[str, FailedOver] = {}
        errors: list[CausewayError] = []
        for move in begun:
            try:
                done = move.run(directive, wanted.wait_s or 0.0) if yes else move.look()
            except CausewayError as error:
                errors.append(error)
                done = _of(move.ending.link, wanted.scope, left=str(error), error=error)
            found[done.link] = done
        if len(errors) == len(begun):
            raise errors[0]
        ending_links = [each.ending.link for each in begun]
        ways_back = {(each.target.alias, each.source.alias) for each in ending_links}
        for link in quick.links:
            if (why := unreachable.get(link.name)) is not None:
                late = (link.source.alias, link.target.alias) not in ways_back
                side = "target" if link.target_admin.alias in gone else "source"
                left = f"its {side} does not answer: {why}"
                found[link.name] = _of(link, wanted.scope, left=left, late=late)
            elif link in chosen and link.name not in found:
                found[link.name] = _of(link, wanted.scope, left=_NOTHING)
        return tuple(found[each.name] for each in quick.links if each.name in found)


@contextmanager
def _asking(
    settings: Settings, wanted: Wanted, connect: Connect
) -> Iterator[Callable[[str], CausewayError | None]]:
    """Asks all sources in the background whether they answer. The block gets a function: it waits
    for the result, and returns why the source with an alias does not answer; None if it does."""
    sources = [each.source_admin for each in settings.links if wanted.link in (None, each.name)]
    pool = ThreadPoolExecutor(1)
    try:
        asking = pool.submit(silent_clusters_of, sources, connect, SOURCE_S)
        yield lambda alias: asking.result().get(alias)
    finally:
        pool.shutdown(wait=False)  # it ends when the clusters are closed


def _of(link: LinkSettings, scope: Scope, *, changed: bool = False, **found: Any) -> FailedOver:
    return FailedOver(
        link=link.name,
        target=link.target.alias,
        scope=scope,
        changed=changed,
        at_ms=int(time.time() * 1000),
        **found,
    )


def _hurried(link: LinkSettings) -> LinkSettings:
    """Returns `link` with short time-outs for the source."""

    def hurried(client: ClientSettings) -> ClientSettings:
        most_ms = round(SOURCE_S * 1000)
        return replace(
            client,
            connect_timeout_ms=min(client.connect_timeout_ms, most_ms),
            request_timeout_ms=min(client.request_timeout_ms, most_ms),
        )

    return replace(link, source=hurried(link.source), source_admin=hurried(link.source_admin))


@dataclass(slots=True)
class LinkFailover:
    """The failover of one link. `silent` returns why the source does not answer, None if it does;
    it may wait for the answer."""

    ending: Ending
    silent: Callable[[], CausewayError | None] = lambda: None

    def look(self) -> FailedOver:
        """Returns the known facts. Changes nothing."""
        end = self.ending.end
        if end is not None and end.how in ENDED and end.done:
            return self._ended(end)
        known = self._known(self._ask(self.ending.contents.partitions))
        lifted = self.ending.read_only_rules()
        return self._found(groups=self._remembered().places, lifted=lifted, **known)

    def run(self, asked: EndDirective, wait_s: float) -> FailedOver:
        ending = self.ending
        end = ending.end
        if end is not None and end.how in ENDED:
            if end.done:
                return self._again(end)
            if end.how is not State.FAILED_OVER:
                cause = f"its mirror was {end.how} {end.by}, with nothing left to copy"
                remedy = "`causeway promote` finishes that"
                raise ConfigError("fail over", ending.subject, cause, remedy=remedy)
        # In the background: a source that is gone must not delay this.
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(self._ask, dict(ending.contents.partitions))
            done = self._act(asked, wait_s)
            seen = asking.result()
        if seen.reason is None:
            # The source answers and has gone on, so ask for its state after the mirror's end.
            seen = self._ask(ending.contents.partitions)
        return self._found(changed=True, **self._known(seen), **done)

    def _act(self, asked: EndDirective, wait_s: float) -> dict[str, Any]:
        """Ends the mirror. Returns the results as fields of FailedOver."""
        ending = self.ending
        ending.begin(asked, wait_s)
        ending.finish(State.FAILED_OVER, ending.cuts(without=ending.known_cuts), done=False)
        ending.say("committing consumer groups")
        known = self._remembered()
        failures = last_groups.commit(ending.target, known.plan)
        lifted = ending.lift_read_only()
        ending.finish(State.FAILED_OVER, {}, done=True, groups=known.left(failures))
        cuts = ending.known_cuts
        return {"groups": known.places, "failures": failures, "cuts": cuts, "lifted": lifted}

    def _again(self, end: EndDirective) -> FailedOver:
        """Commits the groups that an ended failover could not commit. It looks at no other group:
        since then, others may have been at work, or a person may have reset them."""
        before = self._left_by(end)
        if before is None:
            return self._ended(end)
        self.ending.say("committing consumer groups that could not be before")
        known = self._remembered(before.groups)
        failures = last_groups.commit(self.ending.target, known.plan)
        left = known.left(failures)
        if before.scope != self.ending.scope:
            # Of the groups that `before` has left: those that still need a commit elsewhere.
            everywhere = self._remembered(before.groups, before.scope)
            left |= everywhere.left(dict.fromkeys(everywhere.plan.commits, _NOT_YET))
        if left != set(before.groups):
            self.ending.note_left(before.scope, left)
        return self._ended(end, groups=known.places, failures=failures)

    def _ended(self, end: EndDirective, **found: Any) -> FailedOver:
        before = self._left_by(end)
        if before is not None and not found:
            places = self._remembered(before.groups).places
            left = before.groups if before.scope == self.ending.scope else by_group(places)
            found = {"groups": places, "failures": dict.fromkeys(left, _NOT_YET)}
        return self._found(before=end, cuts=self.ending.known_cuts, **found)

    def _left_by(self, end: EndDirective) -> EndDirective | None:
        """Returns the failover that could not commit some groups; None if there is none. If the
        whole link was failed over, that failover counts, because it handled all topics."""
        whole = self.ending.directives.get(EndDirective)
        for each in (whole, end):
            if each is not None and each.how is State.FAILED_OVER:
                ours = each.scope.covers(self.ending.scope)
                return each if ours and each.done and each.groups else None
        return None

    def _remembered(
        self, only: Collection[str] | None = None, scope: Scope | None = None
    ) -> last_groups.RememberedGroups:
        ending = self.ending
        begun = ending.progress(scope).values()
        return last_groups.remembered(ending.link, ending.target, begun, only)

    def _found(self, **found: Any) -> FailedOver:
        leases = self.ending.contents.leases
        seen_ms = leases[-1].written_at if leases else None
        return _of(self.ending.link, self.ending.scope, seen_ms=seen_ms, **found)

    def _ask(self, progress: Mapping[TopicPartition, PartitionProgress]) -> missing.SourceAnswer:
        ending = self.ending
        ending.say(f"asking the source, for at most {SOURCE_S:g} s")
        return missing.look(ending, progress, SOURCE_S, self.silent())

    def _known(self, seen: missing.SourceAnswer) -> dict[str, Any]:
        """Returns the answers of `seen` as fields of FailedOver. Heartbeats are no loss: one is
        always on its way."""
        ending = self.ending
        answered_ms = lag.answered_at(ending.contents.tasks.values())
        topics = missing.topics_known(ending.progress().values(), seen, answered_ms)
        is_heartbeats = ending.link.policy.is_heartbeats_topic
        data = tuple(each for each in topics if not is_heartbeats(each.topic))
        return {"source": seen.reason, "topics": data or topics}
