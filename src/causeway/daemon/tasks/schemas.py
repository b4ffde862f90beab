"""Schemas of one link, as a task: the registry of its target follows that of its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from causeway.config import SchemaSettings
from causeway.control import MirroredTopic
from causeway.daemon.tasks.schedule import Outcome, Task
from causeway.schemas import TASK, LinkSchemas


def task(settings: SchemaSettings, topics: Callable[[], Iterable[MirroredTopic]]) -> Task:
    """`topics`: those of which something is mirrored now."""
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

    return Task(
        name=TASK,
        interval_s=settings.interval_s,
        work=work,
        begin=schemas.forget,
        ready=lambda: any(topics()),  # else a new link's schemas would wait for the next round
    )
