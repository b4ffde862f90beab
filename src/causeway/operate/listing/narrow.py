"""The status of one link, or of one topic, instead of all that the file mirrors."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from causeway.config import Settings, TransformSettings, links_of, unknown
from causeway.link_topics import TaskRecord
from causeway.status import LinkStatus, status

_ACTION = "show the status of"


def narrowed(settings: Settings, link: str | None, topic: str | None) -> tuple[LinkStatus, ...]:
    """The status of `link`, or of all; of `topic` (its name on the source), or of all topics. Of
    the links, those that have the topic are left, and those that could not be asked. Raises
    ConfigError for a name that is unknown, with the names that there are; else as `status`."""
    chosen = settings
    if link is not None:
        chosen = replace(settings, links=links_of(settings, link, _ACTION))
    if topic is None:
        return status(chosen)
    looked = status(chosen, {topic})
    found = [each for each in looked if each.error is not None or _has(each, topic)]
    if not found:
        known = {name for each in status(chosen) for name in _topics(each)}
        more = "topics are named as on the source"
        raise unknown(_ACTION, "topic", topic, known, more)
    transforms = {each.name: each.transform_of(topic) for each in chosen.links}
    return tuple(_of_topic(each, topic, transforms[each.name]) for each in found)


def _topics(each: LinkStatus) -> Collection[str]:
    return {one.topic for one in each.partitions} | {one.topic for one in each.problems}


def _has(each: LinkStatus, topic: str) -> bool:
    return topic in _topics(each)


def _of_topic(each: LinkStatus, topic: str, transform: TransformSettings | None) -> LinkStatus:
    """`each` with the partitions, problems and notes of `topic` only."""
    names = {topic, *(one.target_topic for one in each.partitions)} - {""}
    return replace(
        each,
        tasks=tuple(_of_names(task, names) for task in each.tasks),
        transforms=tuple(
            one for one in each.transforms if transform is not None and one.name == transform.name
        ),
        directives=tuple(one for one in each.directives if one.scope.topic in (None, topic)),
    )


def _of_names(task: TaskRecord, names: Collection[str]) -> TaskRecord:
    """`task` without reasons that name other topics or groups; its figures are of the link."""
    told = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?:-\d+)?(?![\w.-])")
    items = {item: why for item, why in task.items.items() if told.search(item)}
    return task.replace(items=items, figures={})
