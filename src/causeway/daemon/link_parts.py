"""The parts of a link that depend on its settings. If the settings change while the link is led,
new parts replace all of them at once. Other modules keep the state that must outlive this: the rows
of the partitions (registry), the lead, and the fleet's assignments."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from causeway.config import LinkSettings, Secret, Settings, rows_of
from causeway.control import Sharer, Transforms
from causeway.daemon.clients import Sides
from causeway.daemon.directive_executor import DirectiveExecutor
from causeway.daemon.lanes import Fleet
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions import Reconciler, Registry, RunOptions, TransformTally
from causeway.daemon.startup import BrokerApis
from causeway.daemon.tasks import ControlPlane, ScheduledTask, Tasks
from causeway.link_topics import DirectivesRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkWork:
    """`also`: more tasks that run while this process leads the link. `sharers`: the other links of
    its source."""

    link: LinkSettings
    run: RunOptions
    transforms: Transforms
    also: tuple[ScheduledTask, ...] = ()
    sharers: tuple[Sharer, ...] = ()

    @property
    def fingerprint(self) -> str:
        """A hash of all that the file says about the flow, without its clients and secrets: the
        drivers of one flow may have different logins."""
        rows = rows_of(Settings(links=(self.link,), run=self.run.settings, spark={}))
        says = [
            (section.part, key, row.value)
            for section, keys in rows.items()
            if section.scope == "flow" and not section.flow
            for key, row in keys.items()
            if not isinstance(row.value, Secret)
        ]
        return sha256(json.dumps(sorted(says, key=str)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkParts:
    work: LinkWork
    apis: BrokerApis
    control: ControlPlane
    tasks: Tasks
    intake: Reconciler
    tally: TransformTally
    new_directing: Callable[[DirectivesRecord | DirectiveExecutor | None], DirectiveExecutor]

    @classmethod
    def of(
        cls,
        work: LinkWork,
        sides: Sides,
        fleet: Fleet,
        registry: Registry,
        leadership: Leadership,
        term: Callable[[], int | None],
    ) -> LinkParts:
        """`term`: as Leadership.term, but None once other parts are installed. So a task of these
        parts that still runs writes nothing."""
        link = work.link
        control = ControlPlane(link, sides, registry, term, fleet.lookups)
        intake = Reconciler(
            link,
            work.run,
            sides,
            fleet,
            registry,
            leadership,
            work.transforms,
            on_created=control.protect,
        )
        limits = partial(fleet.limit, link.name)
        return cls(
            work=work,
            apis=BrokerApis(link, sides),
            control=control,
            tasks=Tasks(link.name, [*control.tasks, *work.also], lambda: term() is not None),
            intake=intake,
            tally=TransformTally(work.transforms),
            new_directing=partial(
                DirectiveExecutor, link, sides, registry, intake, limits, sharers=work.sharers
            ),
        )

    def follow(self, before: LinkParts) -> None:
        """Takes over from `before`, whose threads have ended."""
        self.intake.follow(before.intake)
        self.tasks.follow(before.tasks)
        self.tally.follow(before.tally)
