"""Finds the changes if a running mirror took a file over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from causeway.cluster import Cluster, clusters
from causeway.config import (
    ControlSettings,
    Entry,
    LinkSettings,
    Problems,
    SettingChange,
    SettingRows,
    Settings,
    SettingSection,
    changed_rows,
    read,
    rows_of,
)
from causeway.control import groups
from causeway.errors import CausewayError
from causeway.operate.plan import LinkPlan, Plan
from causeway.operate.plan import as_json as plan_json
from causeway.operate.running.driver import RunningDriver, RunningLink, RunningTopic

OnStep = Callable[[str], None]


class TopicStep(StrEnum):
    """The change of a topic."""

    BEGINS = "begins"
    ENDS = "ends"
    MOVES = "is mirrored as another topic"
    TRANSFORMED = "has another transform"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDifference:
    """`before`, `after`: the topic on the target. `transforms`: the names before and after."""

    topic: str
    step: TopicStep
    before: str | None = None
    after: str | None = None
    transforms: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDifference:
    """`runs`, `planned`: whether the running mirror has the flow, and whether the file has it.
    `notes`: parts that could not be compared, each with the reason."""

    name: str
    runs: bool
    planned: bool
    topics: tuple[TopicDifference, ...] = ()
    groups_begin: tuple[str, ...] = ()
    groups_end: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDifference:
    """`changes`: of settings. `plan`: the dry run of the file. Its changes on the clusters are the
    changes that still have to be made."""

    url: str
    changes: tuple[SettingChange, ...]
    flows: tuple[FlowDifference, ...]
    plan: Plan

    @property
    def restarts(self) -> tuple[SettingChange, ...]:
        """The changes that only a restart applies."""
        return tuple(each for each in self.changes if each.applies.restart)


def compare(
    settings: Settings,
    driver: RunningDriver,
    make_plan: Callable[[], Plan],
    on_step: OnStep = lambda _: None,
) -> RunningDifference:
    """Asks the running driver first, then plans `settings`. Writes nothing. Raises CausewayError
    if the driver does not answer, or as `make_plan` does."""
    on_step(f"asking the running mirror at {driver.url}")
    wanted = rows_of(settings)
    running = driver.settings(wanted)
    links = driver.links()
    topics = {name: driver.topics(name) for name, one in links.items() if not _unknown(one)}
    whole = make_plan()
    planned = {each.link.name: each for each in whole.links}
    flows = []
    for name in dict.fromkeys((*links, *planned)):
        flow = _flow(name, links.get(name), topics.get(name, {}), planned.get(name))
        if (plan := planned.get(name)) is not None and plan.error is None:
            on_step(f"asking for the groups of {name}")
            flow = _with_groups(flow, plan.link, running)
        flows.append(flow)
    return RunningDifference(
        url=driver.url,
        changes=changed_rows(running, wanted),
        flows=tuple(flows),
        plan=whole,
    )


def _unknown(link: RunningLink) -> str:
    if link.role != "leading":
        return f"the running mirror does not lead it: {link.reason or link.role}"
    return "" if link.planned else "the running mirror still reads its topics"


def _flow(
    name: str,
    link: RunningLink | None,
    running: Mapping[str, RunningTopic],
    plan: LinkPlan | None,
) -> FlowDifference:
    unknown = "" if link is None else _unknown(link)
    if plan is not None and plan.error is not None:
        unknown = str(plan.error)
    flow = FlowDifference(name=name, runs=link is not None, planned=plan is not None)
    if unknown:
        return replace(flow, notes=(f"its topics are not compared: {unknown}",))
    if plan is None:
        ends = (
            TopicDifference(topic=each.topic, step=TopicStep.ENDS, before=each.target_topic)
            for each in running.values()
        )
        return replace(flow, topics=tuple(ends))
    return replace(flow, topics=_topics(running, plan))


def _topics(running: Mapping[str, RunningTopic], plan: LinkPlan) -> tuple[TopicDifference, ...]:
    transforms = {topic: one.settings.name for one in plan.transforms for topic in one.topics}
    found = []
    for planned in plan.mirrored:
        name, before = planned.source, running.get(planned.source)
        ways = (None if before is None else before.transform), transforms.get(name)
        if before is None:
            step = TopicStep.BEGINS
        elif ways[0] != ways[1]:
            step = TopicStep.TRANSFORMED
        elif before.target_topic != planned.target:
            step = TopicStep.MOVES
        else:
            continue
        found.append(
            TopicDifference(
                topic=name,
                step=step,
                before=None if before is None else before.target_topic,
                after=planned.target,
                transforms=ways,
            )
        )
    # If the file names a topic that the source has lost, the file does not end it.
    found += [
        TopicDifference(topic=name, step=TopicStep.ENDS, before=before.target_topic)
        for name, before in running.items()
        if not plan.link.decide_topic(name).mirrored
    ]
    return tuple(found)


def _with_groups(flow: FlowDifference, link: LinkSettings, running: SettingRows) -> FlowDifference:
    """Returns `flow` with the groups of the source that the file begins or ends to follow. Asks the
    source only if the settings for groups differ."""
    before = _running_control(running, link.name)
    after = link.control
    keys = ("groups", "groups_exclude", "emit_checkpoints_enabled", "sync_group_offsets_enabled")
    if before and all(getattr(before, key) == getattr(after, key) for key in keys):
        return flow
    try:
        with clusters() as connect:
            listing = Cluster.list_groups(connect(link.source_admin))
    except CausewayError as error:
        return replace(flow, notes=(*flow.notes, f"its groups are not compared: {error}"))

    def followed(control: ControlSettings | None) -> set[str]:
        if control is None:
            return set()
        if not (control.emit_checkpoints_enabled or control.sync_group_offsets_enabled):
            return set()
        return set(groups.choose(listing, replace(link, control=control)).groups)

    one, other = followed(before), followed(after)
    return replace(
        flow, groups_begin=tuple(sorted(other - one)), groups_end=tuple(sorted(one - other))
    )


def _running_control(running: SettingRows, link: str) -> ControlSettings | None:
    """Returns the settings for groups of a running flow; None if it does not run."""
    own = running.get(SettingSection("flow", link, switch="enabled"))
    if own is None:
        return None
    entries = {
        key: Entry(key=key, value=row.value, line=0)
        for key, row in own.items()
        if isinstance(row.value, str)
    }
    return read(ControlSettings, entries, Problems(""))


def as_json(found: RunningDifference) -> dict[str, Any]:
    """JSON for `--json`: stable keys, no secrets."""
    return {
        "running": found.url,
        "needs_restart": bool(found.restarts),
        "settings": [
            {
                "scope": each.scope,
                "name": each.name,
                "key": each.key,
                "before": each.before,
                "after": each.after,
                "applies": applies(each),
                "reason": each.applies.restart or None,
            }
            for each in found.changes
        ],
        "links": [
            {
                "link": each.name,
                "runs": each.runs,
                "planned": each.planned,
                "topics": [
                    {
                        "topic": one.topic,
                        "change": one.step.name.lower(),
                        "target_topic_before": one.before,
                        "target_topic": one.after,
                        "transform_before": one.transforms[0],
                        "transform": one.transforms[1],
                    }
                    for one in each.topics
                ],
                "groups_begin": list(each.groups_begin),
                "groups_end": list(each.groups_end),
                "notes": list(each.notes),
            }
            for each in found.flows
        ],
        "plan": plan_json(found.plan),
    }


def applies(change: SettingChange) -> str:
    """Returns when the running mirror applies it: `restart`, `live`, or `as-at-start` (live, and
    the flow compares it with its claims)."""
    if change.applies.restart:
        return "restart"
    return "as-at-start" if change.applies.as_start else "live"
