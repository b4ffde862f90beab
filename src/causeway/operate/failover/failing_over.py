"""Fail over: a mirror ends now, with what has been mirrored so far. The source need not be there.

    known ─► shown ─┬─ without a yes: that is all
                    └─► ended: no lane writes any more ─► cut ─► groups ─► read-only lifted ─► done

Each step is read off the target: a call that was killed is gone on with by the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from causeway.cluster import AclBinding, Cluster, Connect, clusters, silent_clusters_of
from causeway.config import ClientSettings, LinkSettings, Settings
from causeway.control import acls
from causeway.errors import CausewayError, ConfigError
from causeway.link_topics import Cut, EndDirective, PartitionProgress, Scope, cuts_of
from causeway.model import ENDED, State, TopicPartition
from causeway.operate.directives import MOST_TEXT, WAIT_S, Wanted, choose_answering, current_user
from causeway.operate.failover import last_groups, missing
from causeway.operate.failover.ending import Ending, Say, refuse_mingled, wish
from causeway.operate.failover.results import FailedOver, by_group
from causeway.status import lag

SOURCE_S: Final = 4.0  # so long the source is waited for, for an exact figure
TARGET_S: Final = 5.0  # so long a target is waited for, if there are several links
_NOT_YET: Final = "it could not be committed then; call it again with --yes to try it again"
_NOTHING: Final = "nothing has been mirrored yet"


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
    now. Without `yes` it only shows what is mirrored, what is missing, and from where groups will
    go on; with it, the mirror ends, groups are committed and read-only mirrors are opened.

    All clusters are waited for at the same time, a few seconds, and the target of a single link for
    ten. A leading driver has `wait_s` to act; if it does not, the lead is taken from it. A second
    call goes on from the same place, and changes nothing once all is done. If there are several
    links, a link is left (`left`) if its target does not answer or it has mirrored nothing, and the
    others end. A link to a cluster that is gone has nothing to end; if it is not the way back, it
    must be ended later (`late`). If a link fails, the others end all the same (`error`). If no link
    ends, it raises NobodyLeadsError if a driver goes on mirroring in spite of the directive,
    ConflictError for a concurrent request; else CausewayError.
    """
    quick = replace(settings, links=tuple(_hurried(each) for each in settings.links))
    wanted = Wanted(link, topic, None, ahead=False)
    with clusters() as connect, _asking(quick, wanted, connect) as silent:
        chosen, unreachable, gone = choose_answering(
            quick, wanted, connect, "fail over", patience_s=TARGET_S
        )
        who, scope = (who or current_user())[:MOST_TEXT], Scope(topic)
        moves = [
            LinkFailover.open(
                each,
                scope,
                connect,
                settings.run.lease_s,
                say,
                partial(silent, each.source_admin.alias),
            )
            for each in chosen
        ]
        begun = [each for each in moves if each.has_begun]
        if not begun:
            raise ConfigError(
                "fail over",
                f"{scope} of {', '.join(each.name for each in chosen)}",
                _NOTHING + "".join(f"; {name}: {why}" for name, why in unreachable.items()),
            )
        asked = wish(State.FAILED_OVER, scope, who, reason)
        found: dict[str, FailedOver] = {}
        errors: list[CausewayError] = []
        for move in begun:
            try:
                done = move.run(asked, wait_s) if yes else move.look()
            except CausewayError as error:
                errors.append(error)
                left = _left(move.link, scope, str(error), late=False)
                done = replace(left, error=error)
            found[move.link.name] = done
        if len(errors) == len(begun):
            raise errors[0]
        ways_back = {(each.link.target.alias, each.link.source.alias) for each in begun}
        for each in quick.links:
            if (why := unreachable.get(each.name)) is not None:
                late = (each.source.alias, each.target.alias) not in ways_back
                side = "target" if each.target_admin.alias in gone else "source"
                found[each.name] = _left(each, scope, f"its {side} does not answer: {why}", late)
            elif each in chosen and each.name not in found:
                found[each.name] = _left(each, scope, _NOTHING, late=False)
        return tuple(found[each.name] for each in quick.links if each.name in found)


@contextmanager
def _asking(
    settings: Settings, wanted: Wanted, connect: Connect
) -> Iterator[Callable[[str], CausewayError | None]]:
    """Asks all sources at the same time, beside the rest, whether they answer. Gives why the one
    with an alias does not, and waits until that is known."""
    sources = [each.source_admin for each in settings.links if wanted.link in (None, each.name)]
    pool = ThreadPoolExecutor(1)
    try:
        asking = pool.submit(silent_clusters_of, sources, connect, SOURCE_S)
        yield lambda alias: asking.result().get(alias)
    finally:
        pool.shutdown(wait=False)  # it ends as the clusters are closed


def _left(link: LinkSettings, scope: Scope, why: str, late: bool) -> FailedOver:
    return FailedOver(
        link=link.name,
        target=link.target.alias,
        scope=scope,
        changed=False,
        at_ms=int(time.time() * 1000),
        left=why,
        late=late,
    )


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


class LinkFailover:
    """The failover of one link."""

    def __init__(
        self,
        ending: Ending,
        source: Cluster,
        silent: Callable[[], CausewayError | None] = lambda: None,
    ) -> None:
        """`silent`: why the source does not answer, None if it does; may wait for the answer."""
        self.link = ending.link
        self._scope = ending.scope
        self._say = ending.say
        self._silent = silent
        self._source = source
        self._target = ending.target
        self._ending = ending

    @classmethod
    def open(
        cls,
        link: LinkSettings,
        scope: Scope,
        connect: Connect,
        lease_s: float,
        say: Say,
        silent: Callable[[], CausewayError | None] = lambda: None,
    ) -> LinkFailover:
        """Raises CausewayError; ConfigError if both clusters write the link's topics."""
        refuse_mingled(link)
        ending = Ending(link, scope, connect, lease_s, say)
        return cls(ending, connect(link.source_admin), silent)

    @property
    def has_begun(self) -> bool:
        """Whether any record of the topic was mirrored."""
        return bool(self._ending.progress())

    def look(self) -> FailedOver:
        """What is known; changes nothing."""
        end = self._ending.end
        if end is not None and end.how in ENDED and end.done:
            return self._ended(end)
        seen = self._ask(self._ending.contents.partitions)
        known = self._remembered()
        return self._found(
            changed=False,
            groups=known.places,
            lifted=self._lifts(),
            **self._known(seen),
        )

    def run(self, asked: EndDirective, wait_s: float) -> FailedOver:
        ending = self._ending
        end = ending.end
        if end is not None and end.how in ENDED:
            if end.done:
                return self._again(end)
            if end.how is not State.FAILED_OVER:
                raise ConfigError(
                    "fail over",
                    f"{self._scope} of {self.link.name}",
                    f"its mirror was {end.how} {end.by}, with nothing left to copy",
                    remedy="`causeway promote` does what is left of that",
                )
        # Beside the rest: a source that is gone is no reason to wait.
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(self._ask, dict(ending.contents.partitions))
            done = self._act(asked, wait_s)
            seen = asking.result()
        if seen.reason is None:
            # It is there, and has gone on: what counts is what it has now that the mirror ended.
            seen = self._ask(dict(ending.contents.partitions))
        return self._found(changed=True, **self._known(seen), **done)

    def _act(self, asked: EndDirective, wait_s: float) -> dict[str, Any]:
        """What it has done, for a FailedOver."""
        ending = self._ending
        ending.begin(asked, wait_s)
        ending.finish(State.FAILED_OVER, ending.cuts(without=self._cuts()), done=False)
        self._say(f"{self.link.name}: committing consumer groups")
        known = self._remembered()
        failures = last_groups.commit(self._target, known.plan)
        lifted = self._lifts()
        acls.remove_denials(lifted, self._target)
        left = known.left(failures)
        ending.finish(State.FAILED_OVER, {}, done=True, groups=left)
        return {
            "groups": known.places,
            "failures": failures,
            "cuts": self._cuts(),
            "lifted": lifted,
        }

    def _again(self, end: EndDirective) -> FailedOver:
        """It has ended: what is left are the groups that could not be committed then. No other is
        looked at, as they may have been at work since, or been reset by a person."""
        before = self._left_by(end)
        if before is None:
            return self._ended(end)
        self._say(f"{self.link.name}: committing consumer groups that could not be before")
        known = self._remembered(before.groups)
        failures = last_groups.commit(self._target, known.plan)
        left = known.left(failures)
        if before.scope != self._scope:
            left |= self._left_elsewhere(before)
        if left != set(before.groups):
            self._ending.note_left(before.scope, left)
        return self._found(
            changed=False, before=end, groups=known.places, failures=failures, cuts=self._cuts()
        )

    def _ended(self, end: EndDirective) -> FailedOver:
        before = self._left_by(end)
        places = () if before is None else self._remembered(before.groups).places
        left = () if before is None else before.groups
        if before is not None and before.scope != self._scope:
            left = tuple(by_group(places))
        failures = dict.fromkeys(left, _NOT_YET)
        cuts = self._cuts()
        return self._found(changed=False, before=end, groups=places, failures=failures, cuts=cuts)

    def _left_by(self, end: EndDirective) -> EndDirective | None:
        """The failover that has left groups to be committed: that of the whole link where there is
        one, which has seen to all of its topics; None where nothing is left."""
        whole = self._ending.standing.get(EndDirective)
        over = next(
            (each for each in (whole, end) if each is not None and each.how is State.FAILED_OVER),
            None,
        )
        ours = over is not None and over.scope.covers(self._scope)
        return over if over is not None and ours and over.done and over.groups else None

    def _left_elsewhere(self, before: EndDirective) -> set[str]:
        """Of the groups that `before` has left, those with something left to commit."""
        everywhere = self._remembered(before.groups, before.scope)
        return everywhere.left(dict.fromkeys(everywhere.plan.commits, _NOT_YET))

    def _remembered(
        self, only: Collection[str] | None = None, scope: Scope | None = None
    ) -> last_groups.RememberedGroups:
        progress = self._ending.progress(scope) if scope is not None else self._ending.progress()
        return last_groups.remembered(self.link, self._target, progress.values(), only)

    def _found(self, **found: Any) -> FailedOver:
        leases = self._ending.contents.leases
        return FailedOver(
            link=self.link.name,
            target=self.link.target.alias,
            scope=self._scope,
            at_ms=int(time.time() * 1000),
            seen_ms=leases[-1].written_at if leases else None,
            **found,
        )

    def _cuts(self) -> dict[str, Cut]:
        known = cuts_of(self._ending.standing, self._scope)
        return {name: each.cut for name, each in known.items() if each.cut is not None}

    def _ask(self, progress: Mapping[TopicPartition, PartitionProgress]) -> missing.SourceAnswer:
        self._say(f"{self.link.name}: asking the source, {SOURCE_S:g} s at the most")
        return missing.look(
            self.link,
            self._scope,
            self._source,
            self._target,
            progress,
            SOURCE_S,
            self._silent(),
        )

    def _known(self, seen: missing.SourceAnswer) -> dict[str, Any]:
        """What it has shown, for a FailedOver. Heartbeats, of which one is always on its way, are
        no loss."""
        progress = self._ending.progress().values()
        answered_ms = lag.answered_at(self._ending.contents.tasks.values())
        topics = missing.topics_known(progress, seen, answered_ms)
        is_heartbeats = self.link.policy.is_heartbeats_topic
        data = tuple(each for each in topics if not is_heartbeats(each.topic))
        return {"source": seen.reason, "topics": data or topics}

    def _lifts(self) -> tuple[AclBinding, ...]:
        if not self.link.control.read_only_mirrors:
            return ()
        mirrors = {
            outlet.topic for each in self._ending.progress().values() for outlet in each.outlets
        }
        return acls.read_only_denials(self._target.describe_acls(), mirrors, self.link)
