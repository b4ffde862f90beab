"""Applies a look at both clusters to one link's partitions, from claims to lanes.

look ─► stop partitions whose topics have changed ─► let go of topics that are no longer chosen, and
     of partitions that go by key from now on
     ─► claim new partitions (durably) ─► assign them to lanes ─► handle deleted topics
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from causeway.config import LinkSettings
from causeway.control import Transforms, Way, preserving
from causeway.daemon.clients import Sides, settle_clusters
from causeway.daemon.lanes import Fleet
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions import claims, discovery, reloads, restarts, routing
from causeway.daemon.partitions.claiming import Claimer
from causeway.daemon.partitions.decisions import RunOptions
from causeway.daemon.partitions.deleted import Deleted, changed, to_turn
from causeway.daemon.partitions.discovery import Found
from causeway.daemon.partitions.outlets import Outlets, why_without_target
from causeway.daemon.partitions.pauses import Pauses, by_file
from causeway.daemon.partitions.registry import Registry
from causeway.daemon.partitions.restarts import covered, troubled
from causeway.daemon.partitions.reverse import reverse_ended
from causeway.daemon.partitions.rows import Row
from causeway.filters import Verdict
from causeway.link_topics import Scope, offset_maps_of
from causeway.model import ENDED, State, TopicPartition

_log = logging.getLogger("causeway.link")


class Reconciler:
    """Carries out the changes that follow from looks, from people's requests and from transforms.
    Not thread-safe except for `revoke` and `pauses`."""

    def __init__(
        self,
        link: LinkSettings,
        run: RunOptions,
        sides: Sides,
        fleet: Fleet,
        registry: Registry,
        leadership: Leadership,
        transforms: Transforms,
        on_created: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_created`: called after a transform has created topics."""
        self._link = link
        self._run = run
        self._lease_s = run.settings.lease_s
        self._sides = sides
        self._fleet = fleet
        self._registry = registry
        self._leadership = leadership
        self._writing = registry.writing
        self.pauses = Pauses(link.name, registry, self._recall, by_file(link))
        self._claimer = Claimer(sides, link, run.wish, leadership, transforms, self.pauses.start_of)
        self._deleted = Deleted(
            sides,
            registry,
            leadership,
            self._claimer,
            revoke=self.revoke,
            retention_s=run.settings.deleted_topics_retention_s,
        )
        self._outlets = Outlets(
            link,
            sides,
            registry,
            leadership,
            recall=self._recall,
            revoke=self.revoke,
            assign=self._assign,
            on_created=on_created,
        )
        self._ends: dict[TopicPartition, int] = {}
        self._freeing: set[TopicPartition] = set()  # see _free
        self._concerned: set[TopicPartition] = set()  # a change of the settings concerns them
        self._way: Way = "transactions"  # how gaps are filled in this term
        self._begun = False

    def follow(self, before: Reconciler) -> None:
        """Continues with changed settings, within a term or before a term. The next look lets go of
        the partitions that the change concerns, and takes them up as at a start. `before` must do
        nothing any more."""
        self._way, self._ends, self._freeing = before._way, before._ends, before._freeing
        self.pauses.held = before.pauses.held
        self._outlets.follow(before._outlets)
        link, earlier = map(self._registry.with_chosen, (self._link, before._link))
        self._claimer.follow(before._claimer, lambda name: earlier.decide_topic(name).mirrored)
        other = reloads.compared(
            (earlier, before._claimer.transforms), (link, self._claimer.transforms)
        )
        rows = self._registry.rows(
            lambda row: row.progress.state is State.STOPPED or other(row.progress.topic)
        )
        self._concerned = before._concerned | {row.progress.source for row in rows}

    def revoke(self, places: Iterable[TopicPartition], timeout_s: float | None = None) -> bool:
        """Like Fleet.remove. `timeout_s` defaults to the lease of lanes."""
        keys = [(self._link.name, at.topic, at.partition) for at in places]
        return self._fleet.remove(keys, self._lease_s if timeout_s is None else timeout_s)

    def settle(self) -> None:
        """Checks that both clusters are the ones that the link knows. Raises CausewayError."""
        known = self._leadership.clusters
        self._leadership.clusters = settle_clusters(self._sides, self._link, known)

    def look(self) -> Found:
        """Looks at both clusters and applies the changes. Raises CausewayError; LeadershipLostError
        if another driver leads."""
        (self.settle if self._begun else self._begin)()
        self._let_go_of_concerned()
        found = discovery.look(
            self._sides,
            self._registry.with_chosen(self._link),
            self._registry.known(),
            self._claimer.wish_of,
            self.pauses.has_ended,
        )
        gone = self._check_known(found)
        self._leave(found)
        self._stop_lost(found)
        self._show_ended(found)
        self._reroute(found)
        wanted = [
            (topic, partition)
            for topic in found.mirrored.values()
            for partition in range(topic.partitions)
            if self._registry.lacks(TopicPartition(topic.source, partition))
        ]
        if self._fleet.on_lanes([(self._link.name, topic.source, n) for topic, n in wanted]):
            # They have it from a term that ended at once: they may still send.
            self._leadership.alone_at = max(self._leadership.alone_at, time.monotonic() + 1.0)
        led = routing.led_to(self._registry.known().values())
        left = self._registry.left()
        for at, progress in left.partitions.items():
            if (reason := why_without_target(progress, found.lost_led)) is not None:
                left.partitions[at] = progress.replace(state=State.STOPPED, reason=reason)
        topics = {topic.source for topic, _ in wanted}
        ended = reverse_ended(topics, self._link, self._sides, self.pauses)
        taken = self._claimer.take_up(wanted, found, left, led, ended)
        if self._run.bounded and not self._run.finish:
            for row in taken.rows:
                at = row.progress.source
                row.stop_at = self._ends.setdefault(at, taken.ends[at])
        # In one step: older progress must not be written after the claims.
        with self._writing:
            if taken.claims:
                self._leadership.write(taken.claims)
            self._registry.add(taken.rows)
        self._claimer.settle(taken)
        self._assign([row for row in taken.rows if row.progress.state is State.WAITING])
        self._deleted.look(gone, found)
        return found

    def supply(self) -> bool:
        """See Outlets.supply."""
        return self._outlets.supply()

    def resume(self) -> None:
        """Resumes partitions that are no longer paused, except if the link no longer chooses their
        topic."""
        over = self.pauses.over()
        left = self._left({at.topic for at in over})
        rows = self._registry.resume(at for at in over if at.topic not in left)
        if rows:
            places = [row.progress.source for row in rows]
            _log.info("resume", extra={"link": self._link.name, "partitions": len(rows)})
            self._assign(rows, self._recall(places))

    def renew(self) -> bool | None:
        """Lets go of partitions whose end was withdrawn. The next look takes them up as at a start.
        Returns None if there are no such partitions, False if a lane still holds one of them."""
        places = self.pauses.renewed()
        if not places:
            return None
        if not self.revoke(places):
            return False
        with self._writing:
            self._registry.let_go(self._registry.get(places), restart=True)
        _log.info("renew", extra={"link": self._link.name, "partitions": len(places)})
        return True

    def begin(self) -> None:
        """Begins a term of leading. Raises CausewayError."""
        self._claimer.begin()
        self._begin()

    def _begin(self) -> None:
        self.settle()
        self._begun = True
        if self._link.may_preserve:
            filling = preserving.filling(self._link, self._sides.target)
            self._way = filling.way
            about = {"link": self._link.name, "way": filling.way}
            if filling.lacks is not None:
                about["reason"] = filling.lacks
            _log.info("fill gaps of offsets", extra=about)

    def restart(
        self,
        scopes: Collection[Scope],
        adopt: Collection[Scope] = (),
        translate: Collection[Scope] = (),
    ) -> bool:
        """Lets go of stopped and failed partitions in `scopes`. The next look takes them up as at a
        start. Returns False if a lane still holds one of them. In the scopes of `adopt`, stopped
        partitions are taken up as with --adopt, and losses are acknowledged. In the scopes of
        `translate`, stopped partitions no longer keep their offsets."""
        rows = troubled(self._registry, scopes)
        if not self._free(rows):
            return False
        stopped = [row for row in rows if row.progress.state is State.STOPPED]
        translated = [row for row in stopped if covered(row.progress.source, translate)]
        adopted = [row for row in stopped if covered(row.progress.source, adopt)]
        self._claimer.adopt([row.progress.source for row in adopted])
        self._claimer.translate([row.progress.source for row in translated])
        adopted += translated
        self._registry.acknowledge(lambda row: covered(row.progress.source, adopt))
        with self._writing:
            self._let_go(adopted)  # these rows keep their state and reason
            self._let_go([row for row in rows if row not in adopted], restart=True)
        if rows:
            _log.info("restart", extra={"link": self._link.name, "partitions": len(rows)})
        return True

    def refill(self, topics: Mapping[str, str]) -> bool:
        """See restarts.refill."""
        return restarts.refill(
            topics, self._sides, self._registry, self._leadership, self._claimer, self.revoke
        )

    def pass_over(self) -> bool | None:
        """Lets go of partitions that may pass over a loss. The next look takes them up behind the
        loss. Returns None if there are no such partitions, False if a lane still holds one."""
        rows = self._registry.rows(lambda row: row.passing)
        if not rows:
            return None
        places = [row.progress.source for row in rows]
        free = self._recall(places)
        with self._writing:
            self._registry.let_go(self._registry.get(free))
        return len(free) == len(places)

    def _let_go_of_concerned(self) -> None:
        """Lets go of the partitions that a change of the settings concerns. Raises CausewayError if
        a lane still has one of them."""
        rows = self._registry.get(self._concerned)
        if rows:
            places = {row.progress.source for row in rows}
            if not all(self._recall(places).values()):
                # A request of a lane that is gone may still arrive.
                self._leadership.alone_at = max(self._leadership.alone_at, time.monotonic())
            if not self.revoke(places):
                raise reloads.still_held(self._link.name)
            self._write_and_let_go(rows)
            _log.info("take up again", extra={"link": self._link.name, "partitions": len(rows)})
        self._concerned.clear()

    def _free(self, rows: Sequence[Row]) -> bool:
        """Takes `rows` from their lanes. Returns False if a lane still holds one of them. After
        that lane has released it, the next look lets go of it in any state (see `_leave`)."""
        places = {row.progress.source for row in rows}
        self._freeing |= places
        return self.revoke(places)

    def _let_go(self, rows: Sequence[Row], *, restart: bool = False) -> None:
        """Lets go of rows that `_free` has taken from their lanes; see Registry.let_go."""
        self._registry.let_go(rows, restart=restart)
        self._freeing.difference_update(row.progress.source for row in rows)

    def _write_and_let_go(self, rows: Sequence[Row]) -> None:
        maps = (record for row in rows for record in row.map_records())
        with self._writing:
            self._leadership.write([*(row.progress for row in rows), *maps])
            self._let_go(rows)

    def _recall(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, bool]:
        keys = [(self._link.name, at.topic, at.partition) for at in places]
        settled = self._fleet.recall(keys, self._lease_s) if keys else {}
        return {
            TopicPartition(topic, partition): had_none
            for (_, topic, partition), had_none in settled.items()
        }

    def _assign(
        self, rows: Sequence[Row], settled: Mapping[TopicPartition, bool] = MappingProxyType({})
    ) -> None:
        """Assigns `rows` to lanes. The fleet holds those that are paused."""
        clusters = self._leadership.clusters
        assignments = {}
        for row in rows:
            at, stage = row.progress.source, None if row.transform is None else row.transform.key
            assignments[at] = claims.assignment(
                row.topic, row.progress, self._link, stage, self._way
            ).replace(
                source=self._sides.source_key,
                target=self._sides.target_key,
                stop_at=row.stop_at,
                finish=self._run.finish,
                settled=settled.get(at, row.begun),
                # Lanes of an earlier leader may still fill offsets.
                throttled_s=self._leadership.alone_in_s if row.progress.preserves else 0.0,
                source_cluster=clusters.source,
                target_cluster=clusters.target,
            )
        with self.pauses.deciding:
            held = self.pauses.hold(assignments)
            if held:
                self._fleet.add((assignments[at] for at in held), held=True)
            self._fleet.add(each for at, each in assignments.items() if at not in held)

    def _check_known(self, found: Found) -> frozenset[str]:
        """Stops the partitions whose topic has changed. Returns the topics that the source has
        lost."""
        live = self._registry.live()
        missing = {row.progress.topic for row in live} - found.counts.keys()
        gone = discovery.absent(self._sides.source_admin, missing, found, again=True)
        reasons = changed(live, found, gone)
        known = {row.progress.source for row, _ in reasons}
        reasons += [
            (row, reason)
            for row in live
            if row.progress.source not in known
            and (reason := why_without_target(row.progress, found.lost_led)) is not None
        ]
        self.revoke(row.progress.source for row, _ in reasons)
        self._registry.stop(
            {row.progress.source: why.format(row.progress.position) for row, why in reasons}
        )
        return gone

    def _leave(self, found: Found) -> None:
        """Lets go of topics that are no longer chosen, and of partitions that a lane released late.
        Their progress stays: if the topics are chosen again, they continue from there."""
        left = self._left({row.progress.topic for row in self._registry.rows(lambda _: True)})
        rows = self._registry.rows(
            lambda row: row.progress.topic in left or row.progress.source in self._freeing
        )
        if not rows:
            return
        if not self._free(rows):
            found.unfinished = found.held = True
            return
        self._write_and_let_go(rows)
        if left:
            _log.info("leave", extra={"link": self._link.name, "topics": ", ".join(sorted(left))})

    def _left(self, topics: Collection[str]) -> set[str]:
        """Returns those of `topics` that are no longer chosen."""
        if not self._link.geo:
            return set()
        out = (Verdict.NOT_INCLUDED, Verdict.EXCLUDED)
        link = self._registry.with_chosen(self._link)
        return {topic for topic in topics if link.decide_topic(topic).verdict in out}

    def _stop_lost(self, found: Found) -> None:
        """Stops partitions of an earlier leader whose target topics are gone."""
        with self._writing:
            rows = []
            for at, progress in self._registry.left().partitions.items():
                if (topic := found.lost_targets.get(at.topic)) is not None:
                    known = progress.reason if progress.state is State.STOPPED else None
                    reason = known or claims.target_deleted(progress, topic)
                    rows.append(Row.stopped(topic, progress, reason))
            self._registry.add(rows)

    def _show_ended(self, found: Found) -> None:
        """Shows partitions of an earlier leader whose mirror has ended."""
        with self._writing:
            left = self._registry.left()
            rows = []
            for at, before in left.partitions.items():
                topic, hold = found.ended.get(at.topic), self.pauses.hold_of(at)
                if topic is None or hold is None:
                    continue
                row = Row(topic=topic, progress=before, first=before.position)
                row.maps = offset_maps_of(before, left.maps.get(at, {}))
                if before.state not in ENDED:
                    row.put_on_hold(*hold)
                rows.append(row)
            self._registry.add(rows)
        self.pauses.held |= bool(rows)

    def _reroute(self, found: Found) -> None:
        """Lets go of the partitions that go by key from now on, so that they are claimed again.
        Their older progress must not be written after the new claim."""
        rows = to_turn(self._registry.live(), found)
        if not self._free(rows):
            found.unfinished = True
            return
        with self._writing:
            self._let_go(rows)
