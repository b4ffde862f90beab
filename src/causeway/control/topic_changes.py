"""The changes of a topic plan: checks which the target would refuse, and carries them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from causeway.cluster.admin import NewTopic
from causeway.cluster.cluster import Cluster
from causeway.control import refused_configs
from causeway.control.topics import (
    AlterTopicConfigs,
    Change,
    CreateTopic,
    GrowTopic,
    Problem,
    TopicPlan,
)
from causeway.errors import BrokerError, CausewayError
from causeway.wire.codes import TOPIC_ALREADY_EXISTS


def fitted(planned: TopicPlan, target: Cluster, alias: str) -> TopicPlan:
    """`planned` as the target, cluster `alias`, would carry it out; creates nothing.

    A topic that the target would not create is a problem. A config that it refuses is left out,
    with a note. Only the target knows: its policies, our permissions, names that collide, bounds.
    """
    creates = [change for change in planned.changes if isinstance(change, CreateTopic)]
    answers, reduced = _create(creates, target, validate_only=True)
    notes = {
        change.topic: tuple(
            refused_configs.left_out(name, value, alias)
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
    """The plan, with a problem for each change that cannot be carried out."""
    failed = {change.topic: error for change, error in errors.items()}
    return TopicPlan(
        mirrored=tuple(topic for topic in planned.mirrored if topic.target not in failed),
        left_out=planned.left_out,
        changes=tuple(change for change in planned.changes if change not in errors),
        problems=(
            *planned.problems,
            *(
                Problem(topic=topic.source, error=failed[topic.target])
                for topic in planned.mirrored
                if topic.target in failed
            ),
        ),
    )


def apply(changes: Iterable[Change], target: Cluster) -> dict[Change, CausewayError | None]:
    """Carry out `changes` in bulk; the result names each with its error, or None if it is done.

    Idempotent: a topic that another driver created meanwhile counts as done. Leaves out the
    configs of a new topic that the target refuses. One item's error never keeps the others from
    being tried, also if a whole request fails.
    """
    changes = list(changes)
    creates = [change for change in changes if isinstance(change, CreateTopic)]
    alters = [change for change in changes if isinstance(change, AlterTopicConfigs)]
    grows = [change for change in changes if isinstance(change, GrowTopic)]
    results: dict[Change, CausewayError | None] = {}
    results |= _create(creates, target)[0]
    results |= _each(alters, lambda batch: _alter(batch, target))
    results |= _each(
        grows, lambda batch: target.create_partitions({c.topic: c.partitions for c in batch})
    )
    return results


def _create(
    changes: list[CreateTopic], target: Cluster, *, validate_only: bool = False
) -> tuple[dict[Change, CausewayError | None], dict[CreateTopic, CreateTopic]]:
    """The answer to each change, and those changes that were carried out with fewer configs."""

    def create(batch: list[CreateTopic]) -> Mapping[str, CausewayError | None]:
        new = [_new(change) for change in batch]
        return (
            target.create_topics(new, validate_only=True)
            if validate_only
            else target.create_topics(new)
        )

    answers = _each(changes, create)
    refused = [each for each in changes if refused_configs.is_refusal(answers[each])]
    if not refused:
        return answers, {}
    try:
        fits = refused_configs.accepted({each.topic: _new(each) for each in refused}, target)
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


def _alter(changes: list[AlterTopicConfigs], target: Cluster) -> dict[str, CausewayError | None]:
    errors = refused_configs.alter({each.topic: dict(each.configs) for each in changes}, target)
    return {topic: next(iter(found.values()), None) for topic, found in errors.items()}


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
    if isinstance(error, BrokerError) and error.code == TOPIC_ALREADY_EXISTS:
        return None
    return error
