"""Creates the tasks of one link's control plane from its settings.

offset syncs            every second        offsets of records on both sides, for other tools
groups                  as configured       checkpoints, and offsets of idle groups
topic configs, ACLs     as configured       differences only
schemas                 as configured       copies to the target's registry
MirrorMaker 2 offsets   every ten seconds   so that MirrorMaker 2 can take over again
open transactions       twice a minute      the owner of one that holds a partition back
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
from causeway.daemon.tasks.schedule import DONE, Outcome, ScheduledTask
from causeway.errors import CausewayError
from causeway.link_topics import TopicLog
from causeway.model import Dated
from causeway.status import lag
from causeway.translation import OffsetTranslator

_log = logging.getLogger("causeway.control")
_ACLS = "ACLs"
_SYNCS_S = 1.0
_MIRROR_MAKER_S = 10.0
_TRANSACTIONS_S = 30.0
_SOURCE_S = 10.0
_DATES_S = 5.0
_MOST_DATES = 500  # partitions at a time


class ControlPlane:
    """Everything that one link mirrors besides records. `tasks`: those that the settings want."""

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
        )
        self._syncs = self._offset_syncs()
        self.groups = Groups(link, sides, self.translator, term, registry)
        self._mirror_maker = mm2_offsets.positions_of(link, sides.target, sides.target_admin)
        self.tasks = tuple(self._wanted())

    def _wanted(self) -> Iterator[ScheduledTask]:
        control = self._link.control
        if control.emit_offset_syncs_enabled:
            yield ScheduledTask(
                name="offset syncs",
                interval_s=_SYNCS_S,
                work=self._sync_offsets,
                begin=self._syncs.forget,
                at_end=True,
            )
        if interval_s := self.groups.interval_s:
            yield ScheduledTask(
                name="groups",
                interval_s=interval_s,
                work=self.groups.work,
                begin=self.groups.forget,
                # Partitions whose lanes still recover get no checkpoints.
                ready=self._registry.are_placed,
                at_end=True,
            )
        if self._link.sync_topic_configs_enabled:
            interval_s = self._link.sync_topic_configs_interval_s
            yield ScheduledTask(
                name="topic configs", interval_s=interval_s, work=self._sync_configs
            )
        if control.sync_topic_acls_enabled or control.read_only_mirrors:
            interval_s = control.sync_topic_acls_interval_s
            yield ScheduledTask(name=_ACLS, interval_s=interval_s, work=self._sync_acls)
        if self._link.schemas is not None:
            yield schemas_task(self._link.schemas, self._topics)
        if control.mm2_offsets:
            yield ScheduledTask(
                name="MirrorMaker 2 offsets",
                interval_s=_MIRROR_MAKER_S,
                work=self._write_mirror_maker,
                begin=self._mirror_maker.forget,
                at_end=True,
            )

        yield ScheduledTask(
            name=lag.SOURCE_TASK,
            interval_s=_SOURCE_S,
            work=self._look_at_source,
            record_s=_SOURCE_S / 2,  # after a disaster it shows since when records may be missing
        )
        yield ScheduledTask(name="lag in time", interval_s=_DATES_S, work=self._date)
        if self._link.fetch.read_committed:
            yield ScheduledTask(
                name="open transactions",
                interval_s=_TRANSACTIONS_S,
                work=self._explain_transactions,
            )

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
        """Brings up to date what other tools continue from, after the last record, while this
        process leads. Never raises."""
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

    def _offset_syncs(self) -> OffsetSyncs:
        link, sides = self._link, self._sides
        if link.control.offset_syncs_topic_location == "source":
            name = link.policy.offset_syncs_topic(link.target.alias)
            topic = TopicLog(sides.source, name, admin=sides.source_admin)
        else:
            name = link.policy.offset_syncs_topic(link.source.alias)
            topic = TopicLog(sides.target, name, admin=sides.target_admin)
        return OffsetSyncs(
            topic,
            replication_factor=link.control.offset_syncs_replication_factor,
            lag_max=link.control.offset_lag_max,
        )

    def _sync_offsets(self) -> Outcome:
        flush = self._syncs.wants_all
        self._syncs.write(self._registry.newest(moved=not flush), flush=flush)
        return DONE

    def _sync_configs(self) -> Outcome:
        topics = self._topics()
        observed = configs.observe(self._sides.source_admin, self._sides.target_admin, topics)
        planned = configs.plan(observed, topics, self._link)
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
        # Its mirror may have ended since. Then other clients may write to it.
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
        """The topics of which at least one partition is mirrored now."""
        return [*self._registry.topics().values(), *led_topics(self._registry)]

    def _look_at_source(self) -> Outcome:
        self._sides.source_admin.bootstrap_check(_SOURCE_S)
        return Outcome(dated=self._registry.is_watched)

    def _date(self) -> Outcome:
        """Asks for the time of each first record once. Asks for the ends of partitions that have
        stopped or failed."""
        self._ask_ends()
        wanted = list(self._registry.undated().items())
        random.shuffle(wanted)  # so that partitions that fail do not hold up the others
        positions = dict(wanted[:_MOST_DATES])
        found = lag.timestamps_at(self._sides.source, positions)
        self._registry.date({at: Dated(positions[at], stamp) for at, stamp in found.items()})
        return DONE

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

    def _explain_transactions(self) -> Outcome:
        long = self._registry.held()
        self._registry.explain(long, open_transactions.explain(self._sides.source, long))
        return DONE

    def _write_mirror_maker(self) -> Outcome:
        # Not for stopped partitions: MirrorMaker 2 may be further there.
        if self._mirror_maker.is_there():
            self._mirror_maker.write(self._registry.positions())
        return DONE


def _outcome(errors: Iterable[tuple[str, CausewayError]]) -> Outcome:
    items = {item: str(error) for item, error in errors}
    return Outcome(items=items, unfinished=bool(items))


def schemas_task(
    settings: SchemaSettings, topics: Callable[[], Iterable[MirroredTopic]]
) -> ScheduledTask:
    """Copies the schemas of `topics` from the source's registry to the target's."""
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

    return ScheduledTask(
        name=TASK,
        interval_s=settings.interval_s,
        work=work,
        begin=schemas.forget,
        ready=lambda: any(topics()),  # else a new link's schemas would wait for the next round
    )


def heartbeat_task(settings: HeartbeatSettings, target: Cluster) -> ScheduledTask:
    """Sends heartbeats for a pair of clusters, also if no link mirrors between them."""
    heartbeats = Heartbeats(
        TopicLog(target, settings.topic),
        source=settings.source,
        target=settings.target.alias,
        replication_factor=settings.replication_factor,
    )

    def beat() -> Outcome:
        heartbeats.beat()
        return DONE

    return ScheduledTask(name="heartbeats", interval_s=settings.interval_s, work=beat)
