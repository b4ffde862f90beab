"""Asks the clusters of one link for the facts of a name, as long as they answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from causeway.cluster import Cluster, Connect, GroupListing, TopicMetadata
from causeway.config import LinkSettings, Settings
from causeway.control import Commits
from causeway.control import topics as mirrored_topics
from causeway.errors import CausewayError
from causeway.link_topics import (
    ActiveDirectives,
    Directive,
    LinkDirectives,
    ProgressContents,
    ProgressTopic,
    active_directives,
    recognise,
)
from causeway.model import ENDED
from causeway.operate import ahead
from causeway.operate.explain import groups, topics
from causeway.operate.explain.groups import GroupFacts
from causeway.operate.explain.topics import TopicFacts, stamp
from causeway.operate.explain.values import Explanation
from causeway.status import (
    DriverStatus,
    LinkStatus,
    PartitionStatus,
    by_progress,
    driver_of,
    status_of,
)

_GROUPS = "groups"  # the driver's task

T = TypeVar("T")


class Known:
    """`unknown`: requests that failed, and why. `silent`: clusters, by alias, that do not answer
    and are not asked. If another cluster does not answer, it is waited for once."""

    def __init__(
        self,
        link: LinkSettings,
        settings: Settings,
        connect: Connect,
        silent: Mapping[str, CausewayError],
    ) -> None:
        self.link = link
        self.unknown: list[str] = []
        self._settings = settings
        self._connect = connect
        self._source, self._target = link.source.alias, link.target.alias
        self._silent: set[str] = set()  # aliases
        for alias in (self._source, self._target):
            if alias in silent:
                self._silent.add(alias)
                self.unknown.append(f"all of {alias}: {silent[alias]}")
        self._metadata: dict[str, TopicMetadata | None] = {}
        self._contents: ProgressContents | None = None
        self._groups: Mapping[str, GroupListing] | None = None
        self._asked_groups = False

    @property
    def complete(self) -> bool:
        """Whether all requests succeeded."""
        return not self.unknown

    def _try(self, alias: str, what: str, ask: Callable[[Cluster], T]) -> T | None:
        """The answer of `alias`; None if the request failed, with the reason in `unknown`."""
        if alias in self._silent:
            return None
        link = self.link
        client = link.source_admin if alias == self._source else link.target_admin
        try:
            return ask(self._connect(client))
        except CausewayError as error:
            if error.retriable:
                self._silent.add(alias)
            self.unknown.append(f"{what} of {alias}: {error}")
            return None

    # -- which names there are --------------------------------------------------------------------

    def has_topic(self, topic: str) -> bool:
        """Whether the source has the topic, or had it."""
        if self._on_source(topic) is not None:
            return True
        return any(at.topic == topic for at in self.contents.partitions)

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether the source has the partition, or had it."""
        metadata = self._on_source(topic)
        if metadata is not None and partition in metadata.partitions:
            return True
        return (topic, partition) in self.contents.partitions

    def has_group(self, group: str) -> bool:
        """Whether the source has the group."""
        return group in self.all_groups()

    def all_topics(self) -> Collection[str]:
        found = self._try(self._source, "topics", lambda source: source.metadata(None).topics)
        return {*(found or ()), *(at.topic for at in self.contents.partitions)}

    def all_groups(self) -> Collection[str]:
        if not self._asked_groups:
            self._asked_groups = True
            self._groups = self._try(self._source, "groups", Cluster.list_groups)
        return self._groups or ()

    def upstream(self, name: str) -> str | None:
        """The source topic whose mirror is `name`; None if there is none."""
        claimed = (
            at.topic
            for at, progress in self.contents.partitions.items()
            if any(outlet.topic == name and outlet.routed is None for outlet in progress.outlets)
        )
        found = next(claimed, None) or self.link.upstream(name)
        # The explanation will say that the topic is left out.
        return found or self.link.upstream_by_policy(name)

    @property
    def contents(self) -> ProgressContents:
        if self._contents is None:
            self._contents = self._try(self._target, "progress", self._read) or ProgressContents()
        return self._contents

    def _read(self, target: Cluster) -> ProgressContents:
        progress = ProgressTopic(target, self.link.progress_topic)
        contents = progress.read() if progress.exists() else ProgressContents()
        return recognise(self.link, self._connect, contents)

    def _on_source(self, topic: str) -> TopicMetadata | None:
        if topic not in self._metadata:
            ask: Callable[[Cluster], Mapping[str, TopicMetadata]]
            ask = lambda source: mirrored_topics.topics_named(source, [topic])  # noqa: E731
            found = self._try(self._source, f"topic {topic}", ask)
            if found is not None:
                self._metadata[topic] = found.get(topic)
        return self._metadata.get(topic)

    # -- what becomes of them ---------------------------------------------------------------------

    def topic(self, topic: str, partition: int | None = None) -> Explanation:
        """Explains a topic, or one partition."""
        metadata = self._on_source(topic)
        hidden = metadata is not None and metadata.error is not None
        facts = TopicFacts(
            there=metadata is not None if topic in self._metadata else None,
            hidden=str(metadata.error) if metadata is not None and hidden else None,
            partitions=_by_progress(self.link, self.contents, topic),
            driver=_driver(self._newest()),
        )
        status = self._status(topic) if self.complete else None
        if status is not None:
            facts = _with_status(facts, status, topic, self.link.decide_topic(topic).target_name)
        else:
            found = self._try(self._target, "directives", self._asked)
            facts = replace(facts, standing=_standing(found.directives if found else ()))
        facts = replace(facts, unknown=tuple(dict.fromkeys(self.unknown)))
        return topics.explain_topic(
            self.link, topic, facts, partition=partition, links=self._settings.links
        )

    def _asked(self, target: Cluster) -> ActiveDirectives:
        return active_directives(target, self.link, self.contents)

    def _status(self, topic: str) -> LinkStatus | None:
        if self.link.decide_topic(topic).target_name is None:
            return None
        retention_s = self._settings.run.deleted_topics_retention_s
        try:
            return status_of(self.link, self._connect, retention_s, {topic})
        except CausewayError as error:
            self.unknown.append(f"its state: {error}")
            return None

    def group(self, group: str) -> Explanation:
        """Explains a group, also if the source does not list it."""
        self.all_groups()
        return self.groups([group], self._groups)[0]

    def groups(
        self, names: Sequence[str], listed: Mapping[str, GroupListing] | None
    ) -> tuple[Explanation, ...]:
        """Explains all `names`, with one request for all. `listed`: the source's groups, None: not
        known."""

        def commits(cluster: Cluster) -> Mapping[str, Commits | CausewayError]:
            return cluster.committed_offsets_of(names)

        own = self._try(self._source, "offsets", commits)
        there_listed = self._try(self._target, "groups", Cluster.list_groups)
        there = self._try(self._target, "offsets", commits)
        contents, newest = self.contents, self._newest()
        asked = self._try(self._target, "directives", self._asked)
        standing = _standing(asked.directives if asked else ())
        ended = frozenset(
            at
            for at, each in contents.partitions.items()
            if each.state in ENDED or standing.has_ended(at)
        )
        unknown = tuple(dict.fromkeys(self.unknown))
        further = ahead.of_all(contents, own or {}, there or {}, ended)
        return tuple(
            groups.explain_group(
                self.link,
                name,
                GroupFacts(
                    source=None if listed is None else listed.get(name),
                    asked_source=listed is not None,
                    commits=None if own is None else own.get(name),
                    target=None if there_listed is None else there_listed.get(name),
                    asked_target=there_listed is not None,
                    there=None if there is None else there.get(name),
                    ahead=further.get(name, 0),
                    progress=contents.partitions,
                    ended=ended,
                    task=contents.tasks.get(_GROUPS),
                    driver=_driver(newest),
                    runs=newest is not None and newest.running,
                    unknown=unknown,
                ),
            )
            for name in names
        )

    def _newest(self) -> DriverStatus | None:
        return driver_of(self.contents.leases, int(time.time() * 1000))


def _by_progress(
    link: LinkSettings, contents: ProgressContents, topic: str
) -> tuple[PartitionStatus, ...]:
    """The partitions of the topic, as the last driver recorded them."""
    return tuple(
        by_progress(link, one)
        for at, one in sorted(contents.partitions.items(), key=lambda item: item[0])
        if at.topic == topic
    )


def _with_status(facts: TopicFacts, seen: LinkStatus, topic: str, target: str | None) -> TopicFacts:
    return replace(
        facts,
        partitions=tuple(one for one in seen.partitions if one.topic == topic),
        problems=tuple(
            problem.reason
            for problem in seen.problems
            if problem.topic == topic and facts.hidden is None
        ),
        notes=tuple(note for name, note in seen.notes if name == target),
        standing=seen.standing,
    )


def _standing(directives: Iterable[Directive]) -> LinkDirectives:
    return LinkDirectives({each.key: each for each in directives})


def _driver(driver: DriverStatus | None) -> str | None:
    if driver is None:
        return None
    if driver.running:
        return f"{driver.owner} leads"
    return f"none runs; the last one, {driver.owner}, was seen at {stamp(driver.last_seen_ms)}"
