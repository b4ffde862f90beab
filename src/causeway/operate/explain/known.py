"""Explains a name from the clusters alone. No driver has to run. If a cluster does not answer, the
explanation names the missing parts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final, NamedTuple, TypeVar

from causeway.cluster import (
    Cluster,
    Connect,
    GroupListing,
    TopicMetadata,
    clusters,
    silent_clusters,
)
from causeway.config import LinkSettings, Settings, links_of
from causeway.control import Commits
from causeway.control import topics as mirrored_topics
from causeway.errors import CausewayError, ConfigError
from causeway.link_topics import (
    LinkDirectives,
    ProgressContents,
    active_directives,
    read_progress,
)
from causeway.model import ENDED
from causeway.naming import MAX_TOPIC_LENGTH, is_topic_name
from causeway.operate import ahead
from causeway.operate.explain import groups, topics
from causeway.operate.explain.groups import GroupFacts
from causeway.operate.explain.rules import Explanation, SubjectKind
from causeway.operate.explain.topics import TopicFacts, stamp
from causeway.status import (
    DriverStatus,
    LinkStatus,
    by_progress,
    driver_of,
    status_of,
)

_GROUPS = "groups"  # the driver's task
_PARTITION: Final = re.compile(r"(.+)-(\d{1,9})")
_NEAR: Final = 3  # similar names in a message
_IMPOSSIBLE: Final = (
    f"no topic can have that name: Kafka takes 1 to {MAX_TOPIC_LENGTH} letters, digits and . _ -"
)

T = TypeVar("T")


class _Subject(NamedTuple):
    kind: SubjectKind
    name: str  # of the topic or group
    partition: int | None = None


def explain(
    settings: Settings, name: str, *, kind: SubjectKind | None = None, link: str | None = None
) -> tuple[Explanation, ...]:
    """Explains why `name` is mirrored or synced, or not, on each link of the file, or on `link`.
    `name` is a topic (name on the source), a partition (`orders-3`) or a group. Without `kind`,
    every kind that has this name is explained.

    Raises ConfigError if no cluster knows the name (with similar names), or if no topic or group
    can have it. If a cluster does not answer, `Explanation.unknown` has the reason.
    """
    links = links_of(settings, link, "explain")
    kinds = [kind] if kind is not None else list(SubjectKind)
    possible = _possible(name, kinds)
    with clusters() as connect:
        away = silent_clusters(links, connect)
        found = [Known(each, settings, connect, away) for each in links]
        # Asks every link, because this also shows which links cannot answer.
        has = {one: [each.has(*one) for each in found] for one in _subjects(name, possible)}
        subjects = [one for one in has if any(has[one])]
        if not subjects:
            if all(each.complete for each in found):
                raise _unknown(name, kinds, possible, found)
            subjects = list(has)  # the file alone decides on each kind
        return tuple(known.explain(*each) for each in subjects for known in found)


def _possible(name: str, kinds: Sequence[SubjectKind]) -> list[SubjectKind]:
    """Returns the kinds that may have the name. Raises ConfigError if there is none."""
    if not name:
        raise ConfigError("explain", "a name", "it is empty")
    parts = _PARTITION.fullmatch(name)
    topics = {SubjectKind.TOPIC: name, SubjectKind.PARTITION: name if parts is None else parts[1]}
    found = [each for each in kinds if each not in topics or is_topic_name(topics[each])]
    if not found:
        raise ConfigError("explain", f"{_listed(kinds)} {name}", _IMPOSSIBLE)
    return found


def _subjects(name: str, kinds: Iterable[SubjectKind]) -> Iterator[_Subject]:
    parts = _PARTITION.fullmatch(name)
    for kind in kinds:
        if kind is not SubjectKind.PARTITION:
            yield _Subject(kind, name)
        elif parts is not None:
            yield _Subject(kind, parts[1], int(parts[2]))


def _listed(kinds: Sequence[SubjectKind]) -> str:
    return kinds[0].value if len(kinds) == 1 else "topic, partition or group"


def _unknown(
    name: str,
    kinds: Sequence[SubjectKind],
    possible: Sequence[SubjectKind],
    links: Collection[Known],
) -> ConfigError:
    topics = {
        topic for each in links for topic in each.all_topics() if kinds != [SubjectKind.GROUP]
    }
    groups = {group for each in links for group in each.all_groups() if SubjectKind.GROUP in kinds}
    upstream = {each.upstream(name) for each in links} & topics
    what = f"{_listed(kinds)} {name}"
    if upstream:
        there = ", ".join(sorted(str(each) for each in upstream))
        cause = f"topics are named as on the source, where it is {there}"
        return ConfigError("explain", what, cause)
    parts = _PARTITION.fullmatch(name)
    if SubjectKind.TOPIC not in kinds and parts is not None and parts[1] in topics:
        cause = f"{parts[1]} has fewer partitions; they are numbered from 0"
        return ConfigError("explain", what, cause)
    cause = f"there is no {_listed(possible)} with that name"
    if possible != kinds:
        cause += f", and {_IMPOSSIBLE}"
    if near := get_close_matches(name, sorted(topics | groups), _NEAR):
        cause += f"; like it: {', '.join(near)}"
    group = possible == [SubjectKind.GROUP]
    decisions = "; ".join(
        f"on {each.link.name} it {_would(each.link, name, group=group)}" for each in links
    )
    return ConfigError("explain", what, cause, remedy=f"if it existed: {decisions}")


def _would(link: LinkSettings, name: str, *, group: bool) -> str:
    if group:
        return f"is {groups.decide(link, name)[1]}"
    decision = link.decide_topic(name)
    if decision.target_name is None:
        return f"would be left out, {decision.reason}"
    return f"would go to {decision.target_name}, {decision.reason}"


class Known:
    """The facts of one link, as long as its clusters answer. `unknown`: failed requests with their
    reasons. `silent`: the aliases of clusters that do not answer and are not asked. If another
    cluster does not answer, it is waited for only once."""

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
        """Returns the answer of `alias`; None if the request failed, with the reason in
        `unknown`."""
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

    def has(self, kind: SubjectKind, name: str, partition: int | None) -> bool:
        """Returns whether the source has the group, topic or partition, or had it."""
        if kind is SubjectKind.GROUP:
            return name in self.all_groups()
        metadata, known = self._on_source(name), self.contents.partitions
        if partition is None:
            return metadata is not None or any(at.topic == name for at in known)
        there = metadata is not None and partition in metadata.partitions
        return there or (name, partition) in known

    def all_topics(self) -> Collection[str]:
        found = self._try(self._source, "topics", lambda source: source.metadata(None).topics)
        return {*(found or ()), *(at.topic for at in self.contents.partitions)}

    def all_groups(self) -> Collection[str]:
        if not self._asked_groups:
            self._asked_groups = True
            self._groups = self._try(self._source, "groups", Cluster.list_groups)
        return self._groups or ()

    def upstream(self, name: str) -> str | None:
        """Returns the source topic whose mirror is `name`; None if there is none."""
        claimed = (
            at.topic
            for at, progress in self.contents.partitions.items()
            if any(outlet.topic == name and outlet.routed is None for outlet in progress.outlets)
        )
        found = next(claimed, None) or self.link.upstream(name)
        # If there is one, the explanation says that the topic is left out.
        return found or self.link.upstream_by_policy(name)

    @property
    def contents(self) -> ProgressContents:
        if self._contents is None:
            read = lambda _: read_progress(self.link, self._connect)  # noqa: E731
            self._contents = self._try(self._target, "progress", read) or ProgressContents()
        return self._contents

    def _on_source(self, topic: str) -> TopicMetadata | None:
        if topic not in self._metadata:
            ask: Callable[[Cluster], Mapping[str, TopicMetadata]]
            ask = lambda source: mirrored_topics.topics_named(source, [topic])  # noqa: E731
            found = self._try(self._source, f"topic {topic}", ask)
            if found is not None:
                self._metadata[topic] = found.get(topic)
        return self._metadata.get(topic)

    # -- what becomes of them ---------------------------------------------------------------------

    def explain(self, kind: SubjectKind, name: str, partition: int | None) -> Explanation:
        if kind is not SubjectKind.GROUP:
            return self._topic(name, partition)
        self.all_groups()
        return self.groups([name], self._groups)[0]

    def _topic(self, topic: str, partition: int | None) -> Explanation:
        metadata = self._on_source(topic)
        hidden = metadata is not None and metadata.error is not None
        facts = TopicFacts(
            there=metadata is not None if topic in self._metadata else None,
            hidden=str(metadata.error) if metadata is not None and hidden else None,
            # The state that the last driver recorded.
            partitions=tuple(
                by_progress(self.link, one)
                for at, one in sorted(self.contents.partitions.items())
                if at.topic == topic
            ),
            driver=_driver(self._newest()),
        )
        status = self._status(topic) if self.complete else None
        if status is not None:
            facts = _with_status(facts, status, topic, self.link.decide_topic(topic).target_name)
        else:
            facts = replace(facts, directives=self._directives())
        facts = replace(facts, unknown=tuple(dict.fromkeys(self.unknown)))
        return topics.explain_topic(
            self.link, topic, facts, partition=partition, links=self._settings.links
        )

    def _directives(self) -> LinkDirectives:
        found = self._try(
            self._target,
            "directives",
            lambda target: active_directives(target, self.link, self.contents).directives,
        )
        return found or LinkDirectives()

    def _status(self, topic: str) -> LinkStatus | None:
        if self.link.decide_topic(topic).target_name is None:
            return None
        retention_s = self._settings.run.deleted_topics_retention_s
        try:
            return status_of(self.link, self._connect, retention_s, {topic})
        except CausewayError as error:
            self.unknown.append(f"its state: {error}")
            return None

    def groups(
        self, names: Sequence[str], listed: Mapping[str, GroupListing] | None
    ) -> tuple[Explanation, ...]:
        """Explains all `names`, with one request for all. `listed`: the source's groups; None if
        they are not known."""

        def commits(cluster: Cluster) -> Mapping[str, Commits | CausewayError]:
            return cluster.committed_offsets_of(names)

        own = self._try(self._source, "offsets", commits)
        there_listed = self._try(self._target, "groups", Cluster.list_groups)
        there = self._try(self._target, "offsets", commits)
        contents, newest = self.contents, self._newest()
        directives = self._directives()
        ended = frozenset(
            at
            for at, each in contents.partitions.items()
            if each.state in ENDED or directives.has_ended(at)
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
        directives=seen.directives,
    )


def _driver(driver: DriverStatus | None) -> str | None:
    if driver is None:
        return None
    if driver.running:
        return f"{driver.owner} leads"
    return f"none runs; the last one, {driver.owner}, was seen at {stamp(driver.last_seen_ms)}"
