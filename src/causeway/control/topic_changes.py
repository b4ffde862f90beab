"""The changes of a topic plan: finds those that the target would refuse, and applies the others.

A broker refuses a whole topic for one config (INVALID_CONFIG): a name that it does not know, a
value outside its bounds, or `remote.storage.enable` if the cluster has no tiered storage. Then the
mirror is kept without the refused configs, and a note names them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from causeway.cluster import Cluster, NewTopic
from causeway.config import LinkSettings
from causeway.control import topic_configs
from causeway.control.topics import (
    AlterTopicConfigs,
    Change,
    CreateTopic,
    GrowTopic,
    LeftOut,
    TopicPlan,
    TopicProblem,
    without_id,
)
from causeway.errors import BrokerError, CausewayError
from causeway.model import NO_TOPIC_ID
from causeway.wire import codes

_READY_S: Final = 30.0  # the longest wait until all brokers know a new topic and its leaders


def as_target_takes(planned: TopicPlan, target: Cluster, alias: str) -> TopicPlan:
    """Returns `planned` as the target, cluster `alias`, would apply it. Creates nothing.

    A topic that the target would not create is a problem. A config that it refuses is left out,
    with a note. Only the target knows this: its policies, our rights, colliding names, its bounds.
    """
    creates = [change for change in planned.changes if isinstance(change, CreateTopic)]
    answers, reduced = _create(creates, target, validate_only=True)
    notes = {
        change.topic: tuple(
            topic_configs.refused_config_note(name, value, alias)
            for name, value in change.configs
            if name not in dict(fit.configs)
        )
        for change, fit in reduced.items()
    }
    planned = replace(
        planned,
        mirrored=tuple(
            replace(topic, notes=(*topic.notes, *notes[topic.target]))
            if topic.target in notes
            else topic
            for topic in planned.mirrored
        ),
        changes=tuple(
            reduced.get(change, change) if isinstance(change, CreateTopic) else change
            for change in planned.changes
        ),
    )
    return without(planned, {each: error for each, error in answers.items() if error is not None})


def without(planned: TopicPlan, errors: Mapping[Change, CausewayError]) -> TopicPlan:
    """Returns the plan, with a problem for each change that cannot be applied."""
    failed = {change.topic: error for change, error in errors.items()}
    return TopicPlan(
        mirrored=tuple(topic for topic in planned.mirrored if topic.target not in failed),
        left_out=planned.left_out,
        changes=tuple(change for change in planned.changes if change not in errors),
        problems=(
            *planned.problems,
            *(
                TopicProblem(topic=topic.source, error=failed[topic.target])
                for topic in planned.mirrored
                if topic.target in failed
            ),
        ),
    )


def apply(changes: Iterable[Change], target: Cluster) -> dict[Change, CausewayError | None]:
    """Applies `changes` in bulk. The result has the error of each, or None if it is done.

    Idempotent: a topic that another driver created meanwhile counts as done. If the target refuses
    configs of a new topic, they are left out. All changes are tried, even if one of them or a whole
    request fails.
    """
    changes = list(changes)
    creates = [change for change in changes if isinstance(change, CreateTopic)]
    alters = [change for change in changes if isinstance(change, AlterTopicConfigs)]
    grows = [change for change in changes if isinstance(change, GrowTopic)]
    results: dict[Change, CausewayError | None] = {}
    results |= _create(creates, target)[0]
    results |= _each(
        alters,
        lambda batch: {
            topic: next(iter(errors.values()), None)
            for topic, errors in alter_configs(
                {each.topic: dict(each.configs) for each in batch}, target
            ).items()
        },
    )
    results |= _each(
        grows, lambda batch: target.create_partitions({c.topic: c.partitions for c in batch})
    )
    return results


def _create(
    changes: list[CreateTopic], target: Cluster, *, validate_only: bool = False
) -> tuple[dict[Change, CausewayError | None], dict[CreateTopic, CreateTopic]]:
    """Returns the answer to each change, and the changes that were applied with fewer configs."""

    def create(batch: list[CreateTopic]) -> Mapping[str, CausewayError | None]:
        return target.create_topics([_new(each) for each in batch], validate_only=validate_only)

    answers = _each(changes, create)
    refused = [each for each in changes if topic_configs.is_config_refusal(answers[each])]
    if not refused:
        return answers, {}
    try:
        fits = accepted_configs({each.topic: _new(each) for each in refused}, target)
    except CausewayError:
        return answers, {}
    reduced = {
        each: replace(each, configs=tuple(sorted(fits[each.topic].configs.items())))
        for each in refused
        if each.topic in fits
    }
    again = _each(list(reduced.values()), create)
    answers |= {each: again[fit] for each, fit in reduced.items()}
    return answers, {each: fit for each, fit in reduced.items() if answers[each] is None}


def _new(change: CreateTopic) -> NewTopic:
    return NewTopic(
        name=change.topic,
        partitions=change.partitions,
        replication_factor=change.replication_factor,
        configs=dict(change.configs),
    )


C = TypeVar("C", CreateTopic, GrowTopic, AlterTopicConfigs)


def _each(
    changes: list[C], call: Callable[[list[C]], Mapping[str, CausewayError | None]]
) -> dict[Change, CausewayError | None]:
    if not changes:
        return {}
    try:
        answers = call(changes)
    except CausewayError as error:
        return dict.fromkeys(changes, error)
    return {change: _settled(answers.get(change.topic)) for change in changes}


def _settled(error: CausewayError | None) -> CausewayError | None:
    if isinstance(error, BrokerError) and error.code == codes.TOPIC_ALREADY_EXISTS:
        return None
    return error


def await_leaders(
    wanted: Mapping[str, int], target: Cluster, operation: str
) -> dict[str, str | CausewayError]:
    """Returns the ids of topics, once this number of partitions of each has leaders. Raises
    CausewayError."""
    found: dict[str, str | CausewayError] = {}
    deadline = time.monotonic() + _READY_S
    while left := wanted.keys() - found.keys():
        for name, topic in target.metadata(sorted(left)).topics.items():
            partitions = [topic.partitions.get(number) for number in range(wanted[name])]
            if all(one is not None and one.leader >= 0 for one in partitions):
                without = topic.topic_id == NO_TOPIC_ID
                found[name] = without_id(name, str(target)) if without else topic.topic_id
        if (left := left - found.keys()) and time.monotonic() > deadline:
            cause = "it has no leaders yet"
            return found | {
                name: CausewayError(operation, f"{name} on {target}", cause, retriable=True)
                for name in left
            }
        if left:
            time.sleep(0.05)
    return found


PAUSED: Final = "paused"


def without_changes_if_paused(plan: TopicPlan, link: LinkSettings) -> TopicPlan:
    """Returns `plan` without its changes if the file pauses the link, as MirrorMaker 2 does:
    existing mirrors keep their partitions, and topics without a mirror are left out."""
    if not link.records_paused:
        return plan
    before = {each.topic: each.before for each in plan.changes if isinstance(each, GrowTopic)}
    there = [topic for topic in plan.mirrored if topic.target_id is not None]
    absent = [topic for topic in plan.mirrored if topic.target_id is None]
    return replace(
        plan,
        mirrored=tuple(
            replace(
                topic,
                target_partitions=before[topic.target],
                partitions=min(topic.partitions, before[topic.target]),
            )
            if topic.target in before
            else topic
            for topic in there
        ),
        left_out=(
            *plan.left_out,
            *(
                LeftOut(topic=topic.source, reason=why_paused(link), code=PAUSED)
                for topic in absent
            ),
        ),
        changes=(),
    )


def why_paused(link: LinkSettings) -> str:
    return f"paused by the file: {link.places.get('causeway.paused', 'its key')}"


# These decide which records the mirror accepts and keeps. No topic is created without them.
_ESSENTIAL: Final = frozenset(
    (*topic_configs.LIMIT_NAMES, "cleanup.policy", "retention.ms", "retention.bytes")
)


def accepted_configs(refused: Mapping[str, NewTopic], target: Cluster) -> dict[str, NewTopic]:
    """Returns the `refused` topics, by name, each with all configs that the target accepts. Leaves
    out a topic that the target refuses even with only its essential configs.

    Creates nothing: asks by `validate_only`, at most once per config name. Raises CausewayError.
    """
    plain = {
        name: _with(topic, topic.configs.keys() - topic_configs.TIERED)
        for name, topic in refused.items()
        if topic.configs.keys() & topic_configs.TIERED
    }
    found = _taken(plain, target)
    essential = {
        name: _with(topic, topic.configs.keys() & _ESSENTIAL)
        for name, topic in refused.items()
        if name not in found
    }
    growing = _taken(essential, target)
    others = {config for name in growing for config in refused[name].configs}
    for config in sorted(others - _ESSENTIAL - topic_configs.TIERED):
        tried = {
            name: _with(refused[name], {*topic.configs, config})
            for name, topic in growing.items()
            if config in refused[name].configs
        }
        growing |= _taken(tried, target)
    return found | growing


def _with(topic: NewTopic, configs: Collection[str]) -> NewTopic:
    return replace(topic, configs={n: v for n, v in topic.configs.items() if n in configs})


def _taken(topics: Mapping[str, NewTopic], target: Cluster) -> dict[str, NewTopic]:
    if not topics:
        return {}
    answers = target.create_topics(list(topics.values()), validate_only=True)
    # A topic that was created meanwhile counts as accepted: the creation will find it.
    return {name: topic for name, topic in topics.items() if _settled(answers.get(name)) is None}


def alter_configs(
    changes: Mapping[str, Mapping[str, str | None]], target: Cluster
) -> dict[str, dict[str, CausewayError]]:
    """Sets configs of topics; None sets a config back to the default. Returns, for each topic, the
    error of each config that was not set.

    If the target refuses the configs of a topic, they are set one by one, those of tiered storage
    only together with REMOTE_STORAGE. Raises CausewayError if a whole request fails.
    """
    answers = target.alter_configs(changes)
    errors: dict[str, dict[str, CausewayError]] = {
        topic: {} if (error := answers.get(topic)) is None else dict.fromkeys(configs, error)
        for topic, configs in changes.items()
    }
    singly: dict[str, list[dict[str, str | None]]] = {
        topic: [
            {name: value}
            for name, value in changes[topic].items()
            if name not in topic_configs.TIERED
        ]
        for topic, error in answers.items()
        if topic_configs.is_config_refusal(error) and len(changes[topic]) > 1
    }
    for topic, steps in singly.items():
        tiered = {
            name: value for name, value in changes[topic].items() if name in topic_configs.TIERED
        }
        if tiered:
            steps.append(tiered)
    while step := {topic: steps.pop(0) for topic, steps in singly.items() if steps}:
        for topic, error in target.alter_configs(step).items():
            for name in step[topic]:
                if error is None:
                    del errors[topic][name]
                else:
                    errors[topic][name] = error
    return errors
