"""Topic configs: a mirror's configs follow its source's, by MirrorMaker 2's rules.

    set on the source           ->  the same on the mirror
    a default on the source     ->  none on the mirror (with use.defaults.from=source: its value)
    excluded, read-only, sensitive, of a broker's file  ->  unchanged
    those that let a beginning be deleted (WITH_DELETION)  ->  unchanged until it is filled

A mirror's limits (`topic_configs.LIMIT_NAMES`) are not copied. They must fit the log of the source,
so only topics.py decides them. Only differences are written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from causeway.cluster import Cluster, ConfigEntry
from causeway.config import LinkSettings
from causeway.control import topic_changes, topic_configs
from causeway.control.topics import MirroredTopic, TopicProblem
from causeway.errors import CausewayError, ConfigError
from causeway.filters import excludes

Described = Mapping[str, Mapping[str, ConfigEntry] | CausewayError]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedConfigs:
    """The whole configuration of each topic, or why it could not be read, by its name there."""

    source: Described
    target: Described


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncConfigs:
    """The configs to set on the mirror `topic`. None sets a config back to its default."""

    topic: str
    configs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPlan:
    changes: tuple[SyncConfigs, ...]
    problems: tuple[TopicProblem, ...]


def observe(source: Cluster, target: Cluster, mirrored: Iterable[MirroredTopic]) -> ObservedConfigs:
    """Asks both clusters about topics that exist on both, in bulk.

    Raises CausewayError only if a cluster does not answer at all.
    """
    topics = list(mirrored)
    return ObservedConfigs(
        source=source.describe_configs(list({topic.source: None for topic in topics})),
        target=target.describe_configs([topic.target for topic in topics]),
    )


def plan(
    observed: ObservedConfigs,
    mirrored: Iterable[MirroredTopic],
    link: LinkSettings,
    filling: Collection[str] = (),
) -> ConfigPlan:
    """Decides purely: the same answer for the same observation, sorted by topic. `filling`: source
    topics whose beginnings are being filled on the target, and deleted again there."""
    changes: list[SyncConfigs] = []
    problems: list[TopicProblem] = []
    for topic in sorted(mirrored, key=lambda each: (each.source, each.target)):
        sides = (observed.source.get(topic.source), observed.target.get(topic.target))
        source, target = sides
        if isinstance(source, Mapping) and isinstance(target, Mapping):
            wanted = _wanted(source, target, link)
            stay = topic_configs.WITH_DELETION if topic.source in filling else {}
            known = {n: value for n, value in wanted.items() if n in target and n not in stay}
            if known:
                changes.append(
                    SyncConfigs(topic=topic.target, configs=tuple(sorted(known.items())))
                )
            alias = link.target.alias
            errors: list[CausewayError] = [
                ConfigError(
                    "copy config",
                    f"{name} of {topic.source} to {topic.target} on {alias}",
                    f"{alias} has no such config",
                    remedy="name it in config.properties.exclude",
                )
                for name in sorted(wanted)
                if name not in target and not source[name].default
            ]
        else:
            errors = [side for side in sides if isinstance(side, CausewayError)]
        problems += [TopicProblem(topic=topic.source, error=error) for error in errors]
    return ConfigPlan(changes=tuple(changes), problems=tuple(problems))


def _wanted(
    source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry], link: LinkSettings
) -> dict[str, str | None]:
    """Returns the configs of the mirror to change."""
    copied = topic_configs.copied(source, link.config_properties_exclude, link.use_defaults_from)
    in_force = topic_configs.effective(target)
    wanted: dict[str, str | None] = {
        name: value for name, value in copied.items() if in_force.get(name) != value
    }
    for name, entry in target.items():
        upstream = source.get(name)
        if (
            entry.source == "DYNAMIC_TOPIC_CONFIG"
            and upstream is not None
            and upstream.default
            and name not in copied
            and not (upstream.read_only or upstream.sensitive)
            and not excludes(link.config_properties_exclude, name)
        ):
            wanted[name] = None
    return {name: value for name, value in wanted.items() if name not in topic_configs.LIMIT_NAMES}


def apply(
    changes: Iterable[SyncConfigs], target: Cluster
) -> dict[SyncConfigs, Mapping[str, CausewayError]]:
    """Applies `changes` in bulk. The result has the error of each config that was not set. If the
    target refuses a config, the others are set nevertheless."""
    changes = list(changes)
    try:
        errors = topic_changes.alter_configs(
            {change.topic: dict(change.configs) for change in changes}, target
        )
    except CausewayError as error:
        return {change: dict.fromkeys(dict(change.configs), error) for change in changes}
    return {change: errors[change.topic] for change in changes}


def undone(
    answers: Mapping[SyncConfigs, Mapping[str, CausewayError]], alias: str
) -> tuple[dict[str, str], bool]:
    """Returns, by topic, a text about the configs that `apply` did not set on cluster `alias`, and
    whether another try may help. It does not help if the target refuses tiered storage.
    """
    items: dict[str, str] = {}
    again = False
    for change, errors in answers.items():
        texts: dict[str, None] = {}
        for name, value in change.configs:
            if (error := errors.get(name)) is None:
                continue
            if name in topic_configs.TIERED and topic_configs.is_config_refusal(error):
                texts[topic_configs.refused_config_note(name, str(value), alias)] = None
            else:
                texts[str(error)], again = None, True
        if texts:
            items[change.topic] = "; ".join(texts)
    return items, again
