"""Creates the tasks of one link's control plane from its settings.

offset syncs            every second        offsets of records on both sides, for other tools
groups                  as configured       checkpoints, and offsets of idle groups
topic configs, ACLs     as configured       differences only
schemas                 as configured       copies to the target's registry
MirrorMaker 2 offsets   every ten seconds   so that MirrorMaker 2 can take over again
open transactions       twice a minute      the owner of a transaction that holds a partition back
source                  every ten seconds   whether it answers
lag in time             every five seconds  times of first records that no lane has fetched, and
                                            ends of partitions that have stopped or failed
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from causeway.cluster import Cluster
from causeway.config import HeartbeatSettings, LinkSettings, SchemaSettings
from causeway.control import (
    Heartbeats,
    MirroredTopic,
    OffsetSyncs,
    acls,
    configs,
    mm2_offsets,
    open_transactions,
)
from causeway.daemon.clients import Sides
from causeway.daemon.lanes import LaneLookups
from causeway.daemon.partitions import Registry, led_topics
from causeway.daemon.tasks.groups import Groups
from causeway.daemon.tasks.schedule import Outcome, ScheduledTask
from causeway.errors import CausewayError
from causeway.link_topics import TopicLog
from causeway.model import Dated
from causeway.status import lag
from causeway.translation import BeforeFailback, OffsetTranslator

_log = logging.getLogger("causeway.control")
_ACLS = "ACLs"
_SYNCS_S = 1.0
_MIRROR_MAKER_S = 10.0
_TRANSACTIONS_S = 30.0
_SOURCE_S = 10.0
_DATES_S = 5.0
_MOST_DATES = 500  # partitions at a time


class ControlPlane:
    """Everything that one link mirrors besides records. `tasks`: the tasks that the settings
    want."""

    def __init__(
        self,
        link: LinkSettings,
        sides: Sides,
        registry: Registry,
        term: Callable[[], int | None],
        lookups: LaneLookups,
    ) -> None:
        """`term`: see Leadership.term."""
        self._link = link
        self._term = term
        self._sides = sides
        self._registry = registry
        self.translator = OffsetTranslator(
            sides.source,
            sides.target,
            registry,
            read_committed=link.fetch.read_committed,
            term=term,
            lane=lambda sought: lookups.find((link.name, *sought.source), sought),
            # If programs write to both clusters, no link begins where a failback put it.
            before=None
            if link.reverse is not None
            else BeforeFailback(sides.source, sides.target_admin, link),
            others_write=link.reverse is not None,
        )
        at_source = link.control.offset_syncs_topic_location == "source"
        self._syncs = OffsetSyncs(
            TopicLog(
                sides.source if at_source else sides.target,
                link.policy.offset_syncs_topic((link.target if at_source else link.source).alias),
                admin=sides.source_admin if at_source else sides.target_admin,
            ),
            replication_factor=link.control.offset_syncs_replication_factor,
            lag_max=link.control.offset_lag_max,
        )
        self.groups = Groups(link, sides, self.translator, term, registry)
        self._mirror_maker = mm2_offsets.positions_of(link, sides.target, sides.target_admin)
        self.tasks = tuple(self._wanted())

    def _wanted(self) -> Iterator[ScheduledTask]:
        link, control, groups = self._link, self._link.control, self.groups
        if control.emit_offset_syncs_enabled:
            yield ScheduledTask(
                "offset syncs", _SYNCS_S, self._sync_offsets, self._syncs.forget, at_end=True
            )
        if interval_s := groups.interval_s:
            # The task waits, because partitions whose lanes still recover get no checkpoints.
            ready = self._registry.are_placed
            yield ScheduledTask(
                "groups", interval_s, groups.work, groups.forget, ready, at_end=True
            )
        if link.sync_topic_configs_enabled:
            interval_s = link.sync_topic_configs_interval_s
            yield ScheduledTask("topic configs", interval_s, self._sync_configs)
        if control.sync_topic_acls_enabled or control.read_only_mirrors:
            yield ScheduledTask(_ACLS, control.sync_topic_acls_interval_s, self._sync_acls)
        if link.schemas is not None:
            yield schemas_task(link.schemas, self._topics)
        if control.mm2_offsets:
            positions = self._mirror_maker
            yield ScheduledTask(
                "MirrorMaker 2 offsets",
                _MIRROR_MAKER_S,
                # Not for stopped partitions: MirrorMaker 2 may have come further there.
                lambda: (
                    positions.write(self._registry.positions()) if positions.is_there() else None
                ),
                positions.forget,
                at_end=True,
            )
        # After a disaster the task's record shows since when records may be missing.
        record_s = _SOURCE_S / 2
        yield ScheduledTask(lag.SOURCE_TASK, _SOURCE_S, self._look_at_source, record_s=record_s)
        yield ScheduledTask("lag in time", _DATES_S, self._date)
        if link.fetch.read_committed:
            yield ScheduledTask("open transactions", _TRANSACTIONS_S, self._explain_transactions)

    def protect(self) -> None:
        """Gives ACLs to topics that were just created. The next run of the task retries a failure
        and reports it."""
        for task in self.tasks:
            if task.name == _ACLS:
                try:
                    task.run()
                except CausewayError as error:
                    _log.debug("ACLs of %s: %s", self._link.name, error)

    def finish(self) -> None:
        """Brings up to date all that other tools continue from. Called after the last record, while
        this process leads. Never raises."""
        self._syncs.flush()
        self.groups.hurry()
        for task in filter(lambda each: each.at_end, self.tasks):
            if self._term() is None:
                return
            try:
                task.run()
            except CausewayError as error:
                extra = {"link": self._link.name, "task": task.name, "reason": str(error)}
                _log.warning("not up to date at the end", extra=extra)

    def _sync_offsets(self) -> None:
        flush = self._syncs.wants_all
        self._syncs.write(self._registry.newest(moved=not flush), flush=flush)

    def _sync_configs(self) -> Outcome:
        topics = self._topics()
        observed = configs.observe(self._sides.source_admin, self._sides.target_admin, topics)
        planned = configs.plan(observed, topics, self._link, self._registry.filling())
        answers = configs.apply(planned.changes, self._sides.target_admin)
        undone, again = configs.undone(answers, self._link.target.alias)
        outcome = _outcome((problem.topic, problem.error) for problem in planned.problems)
        return replace(
            outcome, items={**outcome.items, **undone}, unfinished=outcome.unfinished or again
        )

    def _sync_acls(self) -> Outcome:
        observed = acls.observe(self._sides.source_admin, self._sides.target_admin, self._link)
        topics = self._topics()
        planned = acls.plan(observed, topics, self._link)
        # The mirror of a topic may have ended since. Then other clients may write to the topic.
        mirrors = {topic.target for topic in topics} - {topic.target for topic in self._topics()}
        creates = [acl for acl in planned.creates if acl.name not in mirrors]
        answers = acls.apply(creates, self._sides.target_admin)
        outcome = _outcome(
            [
                *((error.subject, error) for error in planned.problems),
                *((str(acl), error) for acl, error in answers.items() if error is not None),
            ]
        )
        missed = {str(each.acl): each.reason for each in planned.left_out if each.is_missed}
        return replace(outcome, items={**outcome.items, **missed})

    def _topics(self) -> list[MirroredTopic]:
        """Returns the topics of which at least one partition is mirrored now."""
        return [*self._registry.topics().values(), *led_topics(self._registry)]

    def _look_at_source(self) -> Outcome:
        self._sides.source_admin.bootstrap_check(_SOURCE_S)
        return Outcome(dated=self._registry.is_watched)

    def _date(self) -> None:
        """Asks once for the time of each first unmirrored record that no lane knows. Also asks for
        the ends of partitions that have stopped or failed."""
        self._ask_ends()
        wanted = list(self._registry.undated().items())
        random.shuffle(wanted)  # partitions that fail must not hold up the others
        positions = dict(wanted[:_MOST_DATES])
        found = lag.timestamps_at(self._sides.source, positions)
        self._registry.date({at: Dated(positions[at], stamp) for at, stamp in found.items()})

    def _ask_ends(self) -> None:
        rows = self._registry.rows(lambda row: row.is_unwatched)
        if not rows:
            return
        random.shuffle(rows)
        committed = self._link.fetch.read_committed
        try:
            ends = open_transactions.known_ends(
                self._sides.source,
                [row.progress.source for row in rows[:_MOST_DATES]],
                read_committed=committed,
                patience_s=_SOURCE_S,
            )
        except CausewayError:
            return  # the task `source` reports it
        self._registry.note_ends(ends)

    def _explain_transactions(self) -> None:
        long = self._registry.held()
        self._registry.explain(long, open_transactions.explain(self._sides.source, long))


def _outcome(errors: Iterable[tuple[str, CausewayError]]) -> Outcome:
    items = {item: str(error) for item, error in errors}
    return Outcome(items=items, unfinished=bool(items))


def schemas_task(
    settings: SchemaSettings, topics: Callable[[], Iterable[MirroredTopic]]
) -> ScheduledTask:
    """Returns a task that copies the schemas of `topics` from the source's registry to the
    target's."""
    from causeway.schemas import TASK, LinkSchemas

    schemas = LinkSchemas(settings)

    def work() -> Outcome:
        done = schemas.run([(topic.source, topic.target) for topic in topics()])
        return Outcome(
            items=done.items,
            figures={
                "copied": done.copied,
                "waiting": len(done.waiting),
                "clashing": len(done.clashing),
            },
            unfinished=bool(done.waiting),
        )

    # Waits for the first topic. Otherwise a new link's schemas would wait for the next round.
    ready = lambda: any(topics())  # noqa: E731
    return ScheduledTask(TASK, settings.interval_s, work, schemas.forget, ready)


def heartbeat_task(settings: HeartbeatSettings, target: Cluster) -> ScheduledTask:
    """Returns a task that sends heartbeats for a pair of clusters, even if no link mirrors between
    them."""
    heartbeats = Heartbeats(
        TopicLog(target, settings.topic),
        source=settings.source,
        target=settings.target.alias,
        replication_factor=settings.replication_factor,
    )

    return ScheduledTask("heartbeats", settings.interval_s, heartbeats.beat)
