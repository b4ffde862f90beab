"""Configs that a target refuses: the mirror is kept without them, and a note names them.

A broker refuses a whole topic for one config (INVALID_CONFIG): a name that it does not know, a
value outside its bounds, or `remote.storage.enable` if the cluster has no tiered storage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from causeway.cluster.admin import NewTopic
from causeway.cluster.cluster import Cluster
from causeway.control import topic_limits
from causeway.errors import BrokerError, CausewayError
from causeway.wire.codes import INVALID_CONFIG, TOPIC_ALREADY_EXISTS

REMOTE_STORAGE: Final = "remote.storage.enable"
# Without REMOTE_STORAGE these have no effect.
TIERED: Final = frozenset(
    (
        REMOTE_STORAGE,
        "local.retention.ms",
        "local.retention.bytes",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    )
)
# These decide which records the mirror takes and keeps. No topic is created without them.
_ESSENTIAL: Final = frozenset(
    (*topic_limits.LIMIT_NAMES, "cleanup.policy", "retention.ms", "retention.bytes")
)


def left_out(name: str, value: str, alias: str) -> str:
    """The note about one config of the source that the mirror on cluster `alias` lacks."""
    cause = "keeps the whole log on its brokers" if name in TIERED else "refuses it"
    return f"{name}={value} of the source is left out: {alias} {cause}"


def is_refusal(error: CausewayError | None) -> bool:
    """Whether `error` is about the configs of the topic."""
    return isinstance(error, BrokerError) and error.code == INVALID_CONFIG


def accepted(refused: Mapping[str, NewTopic], target: Cluster) -> dict[str, NewTopic]:
    """The `refused` topics, by name, each with all configs that the target takes. Leaves out a
    topic that the target refuses with its essential configs alone.

    Creates nothing: asks by `validate_only`, at most once per config name. Raises CausewayError.
    """
    plain = {
        name: _with(topic, topic.configs.keys() - TIERED)
        for name, topic in refused.items()
        if topic.configs.keys() & TIERED
    }
    found = _taken(plain, target)
    essential = {
        name: _with(topic, topic.configs.keys() & _ESSENTIAL)
        for name, topic in refused.items()
        if name not in found
    }
    growing = _taken(essential, target)
    others = {config for name in growing for config in refused[name].configs}
    for config in sorted(others - _ESSENTIAL - TIERED):
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
    return {name: topic for name, topic in topics.items() if _is_taken(answers.get(name))}


def _is_taken(error: CausewayError | None) -> bool:
    """Treat a topic that was created meanwhile as accepted: the creation will find it."""
    return error is None or (isinstance(error, BrokerError) and error.code == TOPIC_ALREADY_EXISTS)


def alter(
    changes: Mapping[str, Mapping[str, str | None]], target: Cluster
) -> dict[str, dict[str, CausewayError]]:
    """Sets configs of topics (None: back to the default). Answers for each topic with the error of
    each config that was not set.

    If the target refuses the configs of a topic, sets them one by one, those of tiered storage
    only together with REMOTE_STORAGE. Raises CausewayError if a whole request fails.
    """
    answers = target.alter_configs(changes)
    errors: dict[str, dict[str, CausewayError]] = {
        topic: {} if (error := answers.get(topic)) is None else dict.fromkeys(configs, error)
        for topic, configs in changes.items()
    }
    singly: dict[str, list[dict[str, str | None]]] = {
        topic: [{name: value} for name, value in changes[topic].items() if name not in TIERED]
        for topic, error in answers.items()
        if is_refusal(error) and len(changes[topic]) > 1
    }
    for topic, steps in singly.items():
        tiered = {name: value for name, value in changes[topic].items() if name in TIERED}
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
