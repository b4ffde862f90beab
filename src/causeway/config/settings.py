"""The settings of a run, with types, and the links that a command means. `repr` never shows a
secret.

The names in brackets are the keys of a MirrorMaker 2 property file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

from causeway.config.clients import ClientSettings, FetchSettings, SchemaKeys
from causeway.config.entries import Rereading
from causeway.config.keys import ControlSettings, FlowKeys, HeartbeatKeys
from causeway.config.process import RunSettings
from causeway.config.transform_keys import TransformKeys
from causeway.config.values import FrozenMap, Secret, TransformFormat, freeze
from causeway.errors import ConfigError
from causeway.filters import (
    TopicDecision,
    TopicRules,
    decide_topic,
    excludes,
    not_begun,
)
from causeway.naming import (
    HEARTBEATS,
    PolicyFailedError,
    ReplicationPolicy,
    directives_topic,
    progress_topic,
)


@dataclass(frozen=True, kw_only=True)
class HeartbeatSettings(HeartbeatKeys):
    """Heartbeats of one pair of clusters. MirrorMaker 2 emits them also if no flow runs."""

    source: str  # alias
    target: ClientSettings  # holds `topic` ([<target>.admin.*])
    topic: str = HEARTBEATS

    @property
    def name(self) -> str:
        """`A->B`, as in the file."""
        return f"{self.source}->{self.target.alias}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """A schema registry [A.causeway.registry.*, causeway.transform.NAME.registry.*]; `url` is http
    or https. `place`: its key and line, for errors."""

    url: str
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None  # in place of both
    ca_pem: str | None = None  # None: the system's
    timeout_ms: int = 10_000
    place: str = ""

    def as_json(self) -> dict[str, Any]:
        """Returns JSON's types for workers, with the password and without the place."""
        return {
            "url": self.url,
            "username": self.username,
            "password": self.password.reveal() if self.password else None,
            "token": self.token.reveal() if self.token else None,
            "ca_pem": self.ca_pem,
            "timeout_ms": self.timeout_ms,
        }


@dataclass(frozen=True, kw_only=True)
class SchemaSettings(SchemaKeys):
    """How a link treats the schemas of its records: `copy` keeps the ids, `translate` writes the
    ids of the target's registry into the records."""

    source: RegistrySettings
    target: RegistrySettings


@dataclass(frozen=True, kw_only=True)
class TransformSettings(TransformKeys):
    """[A->B.causeway.transform.NAME.*] How the records of some topics are transformed.

    One of `sql`, `python`, `rules` is set, also if the text is in a file. `secrets` are the values
    of `${...}`: they reach a transform as fields of the column `secrets`, never as text of a query.
    `dead_letters`: topic on the source cluster; None: a refused record stops its partition. `place`
    is the key and line of the text, for errors."""

    name: str
    place: str = ""
    value_format: TransformFormat = "binary"
    registry: RegistrySettings | None = None
    secrets: Mapping[str, Secret] = field(default_factory=FrozenMap)
    dead_letters: str | None = None

    def __post_init__(self) -> None:
        freeze(self, "secrets")

    @property
    def kind(self) -> Literal["sql", "python", "rules"]:
        return "sql" if self.sql is not None else "rules" if self.rules is not None else "python"

    @property
    def formats(self) -> dict[str, TransformFormat]:
        """By part."""
        return {"key": self.key_format, "value": self.value_format}

    @property
    def schemas(self) -> dict[str, str | None]:
        """By part, in Spark DDL."""
        return {"key": self.key_schema, "value": self.value_schema}


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentSettings:
    """A step that each record of a link goes through, see causeway.relay.treatment. `decides`: all
    that decides the result, in JSON's types; claims store it. `needs`: more data that lanes need
    for the step. `text`: a text for people, such as `a header names its source`."""

    kind: str
    decides: Mapping[str, Any]
    text: str
    needs: Mapping[str, Any] = field(default_factory=FrozenMap, repr=False)

    def __post_init__(self) -> None:
        freeze(self, "decides", "needs")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseFlow:
    """The flow back between the same clusters, under the same names. `treatments`: those of its
    records. `read_committed`: how it reads its source. `assumed`: the flow is in another file."""

    treatments: tuple[TreatmentSettings, ...]
    read_committed: bool = True
    assumed: bool = False


@dataclass(frozen=True, kw_only=True)
class LinkSettings(FlowKeys):
    """One flow `source->target`. Defaults are MirrorMaker 2's unless a comment differs."""

    source: ClientSettings  # reads the data and plans ([<source>.*, <source>.consumer.*])
    target: ClientSettings  # writes the data ([<target>.*, <target>.producer.*])
    source_admin: ClientSettings
    target_admin: ClientSettings
    policy: ReplicationPolicy
    fetch: FetchSettings = FetchSettings()
    # How source partitions map to target partitions. "by-key" (MirrorMaker 1): if the target topic
    # has another partition count, the key decides, as with Java's default partitioner.
    partitioning: Literal["same", "by-key"] = "same"
    # False if others may write to the target topics too (the names are not ours alone).
    sole_writer: bool = True
    group_id: str | None = None  # MirrorMaker 1 only: names the source in `source.alias`
    # The file pauses the records of this flow; directives cannot resume them.
    records_paused: bool = False
    control: ControlSettings = ControlSettings()
    transforms: tuple[TransformSettings, ...] = ()
    treatments: tuple[TreatmentSettings, ...] = ()  # in this order, before the transform
    schemas: SchemaSettings | None = None
    # The topics of `geo` or `way_back`, by their names on the source. No file has them:
    # control/geo_topics.py reads them from the link's directives.
    chosen: frozenset[str] = frozenset()
    # Dead-letter topics on the source, of all flows of the file. They are never mirrored.
    dead_letters: frozenset[str] = frozenset()
    # All flows of the file with `causeway.rename`. Their topics' names do not show their source.
    renaming: tuple[TopicRules, ...] = field(default=(), repr=False)
    # A renamed topic may go to an existing topic with records [causeway.sole.writer = false].
    joins: bool = False
    # Others may write to the target topics, but the file does not say so: records that are there
    # before the mirror starts may be a copy by another tool.
    stops_on_data: bool = False
    # Set if programs write the topics on both clusters, and groups are followed nevertheless.
    reverse: ReverseFlow | None = None
    # The place of each key of this flow in the file, by its plain name: `A->B.topics (line 4)`.
    places: Mapping[str, str] = field(default_factory=FrozenMap, compare=False, repr=False)

    def __post_init__(self) -> None:
        freeze(self, "places")

    def transform_of(self, topic: str) -> TransformSettings | None:
        """Returns the transform of `topic` (a name on the source): the first with a matching
        pattern. None if it has none. A pattern without an answer in time counts as a match, so that
        no record that may need protection passes unchanged."""
        for transform in self.transforms:
            if excludes(transform.topics, topic):
                return transform
        return None

    def preserves(self, topic: str) -> bool:
        """Returns whether the records of `topic` (a name on the source) keep their offsets.
        Heartbeats never do: nothing stores their offsets. A pattern without an answer in time
        counts as a match."""
        if self.policy.is_heartbeats_topic(topic):
            return False
        return self.offsets == "preserve" or excludes(self.preserve_topics, topic)

    def is_sole_writer(self, topic: str) -> bool:
        """Returns whether only this link writes to the mirror of `topic` (a name on the source). A
        topic that keeps its offsets needs that. If the file says otherwise, the topic is
        refused."""
        return self.sole_writer or self.preserves(topic)

    @property
    def may_preserve(self) -> bool:
        """Whether offsets of some topics are to be kept."""
        return self.offsets == "preserve" or bool(self.preserve_topics)

    @property
    def has_provenance(self) -> bool:
        """Whether record headers show where records came from [causeway.provenance]."""
        return any(each.kind == "provenance" for each in self.treatments)

    @property
    def mingles(self) -> bool:
        """Whether the topics of both clusters hold records of both clusters. Then offsets have no
        single counterpart in the other log: see translation/both_ways.py."""
        return self.has_provenance and not self.policy.tells_source(self.source.alias)

    def treatments_of(self, topic: str) -> tuple[TreatmentSettings, ...]:
        """Returns the treatments of `topic` (a name on the source), before its transform.
        Heartbeats have none: their content names their source."""
        if not self.treatments or self.policy.is_heartbeats_topic(topic):
            return ()
        return self.treatments

    @property
    def name(self) -> str:
        """`A->B`, as in the file."""
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def slug(self) -> str:
        """`A.B`: the name in topic names and ids, where `>` is not allowed."""
        return f"{self.source.alias}.{self.target.alias}"

    @property
    def transactional_id(self) -> str:
        """The transactional id whose epoch fences all drivers of the link but the newest."""
        return f"causeway.{self.slug}"

    @property
    def offsets_id(self) -> str:
        """The prefix of the transactional ids that fill gaps if offsets are preserved."""
        return f"causeway.{self.slug}.offsets"

    @property
    def directives_id(self) -> str:
        """The transactional id for writing directives; it allows one writer at a time."""
        return f"causeway.{self.slug}.directives"

    @property
    def progress_topic(self) -> str:
        return progress_topic(self.source.alias, self.target.alias)

    @property
    def directives_topic(self) -> str:
        """On the target: requests to the running link, see link_topics/directives.py."""
        return directives_topic(self.source.alias, self.target.alias)

    @property
    def offset_syncs_topic(self) -> str:
        """On the cluster that `control.offset_syncs_topic_location` names."""
        on_source = self.control.offset_syncs_topic_location == "source"
        return self.policy.offset_syncs_topic((self.target if on_source else self.source).alias)

    @property
    def checkpoints_topic(self) -> str:
        """On the target."""
        return self.policy.checkpoints_topic(self.source.alias)

    def decide_topic(self, topic: str) -> TopicDecision:
        """Returns whether this link mirrors `topic` of its source, under which name, or why not."""
        found = self.as_begun(topic)
        waits = self.way_back and found.mirrored and topic not in self.chosen
        return not_begun(self.name) if waits else found

    def as_chosen(self, topic: str) -> TopicDecision:
        """Returns the decision about `topic` if it is chosen."""
        return self._decide(topic, {topic})

    def as_begun(self, topic: str) -> TopicDecision:
        """Returns the decision about `topic` if a reverse link was started for it."""
        return self._decide(topic, () if self.way_back else self.chosen)

    def _decide(self, topic: str, chosen: Collection[str]) -> TopicDecision:
        return decide_topic(topic, self.rules, chosen)

    @property
    def rules(self) -> TopicRules:
        return TopicRules(
            source=self.source.alias,
            target=self.target.alias,
            policy=self.policy,
            topics=self.topics,
            topics_exclude=self.topics_exclude,
            geo=self.geo,
            heartbeats_replication_enabled=self.heartbeats_replication_enabled,
            dead_letters=self.dead_letters,
            renaming=self.renaming,
        )

    def upstream(self, name: str) -> str | None:
        """Returns the source topic that this link mirrors to `name` of the target. None if names do
        not show it."""
        by_rules = [
            flow.renamed_from(name)
            for flow in self.renaming
            if (flow.source, flow.target) == (self.source.alias, self.target.alias)
        ]
        for found in (*by_rules, self.upstream_by_policy(name)):
            if found is not None and self.decide_topic(found).target_name == name:
                return found
        return None

    def upstream_by_policy(self, name: str) -> str | None:
        """Returns the source topic of `name` of the target by the replication policy, also if this
        link does not mirror the topic."""
        try:
            if self.policy.topic_source(name) != self.source.alias:
                return None
            return self.policy.upstream_topic(name)
        except PolicyFailedError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    links: tuple[LinkSettings, ...]
    heartbeat_links: tuple[HeartbeatSettings, ...] = ()
    run: RunSettings
    spark: Mapping[str, str | Secret]
    warnings: tuple[str, ...] = ()
    rereading: Rereading | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        freeze(self, "spark")


_NEAR = 3  # similar names that are offered
_LISTED = 10  # names that are listed if none is similar
_FIXED = 30  # of words that Causeway defines, all are listed


def links_of(settings: Settings, link: str | None, action: str) -> tuple[LinkSettings, ...]:
    """Returns the link with this name, or all if it is None. Raises ConfigError, with the names of
    the file's links."""
    if not settings.links:
        raise ConfigError(action, cause="no flow is enabled", remedy="set A->B.enabled = true")
    found = tuple(each for each in settings.links if link in (None, each.name))
    if not found:
        names = [each.name for each in settings.links]
        # If a shell took the `>` of a link's name for a redirection, it left `A-`.
        meant = next((each for each in names if link and each.startswith(f"{link}>")), None)
        remedy = meant and (
            f"quote it: --link '{meant}'; without quotes the shell takes > for a redirection, and"
            f" has written to the file {meant.removeprefix(f'{link}>')}"
        )
        raise unknown(action, "flow", str(link), names, remedy or "")
    return found


def reverse_of(settings: Settings, link: LinkSettings) -> LinkSettings | None:
    """Returns the link of the file that mirrors in the other direction; None if there is none."""
    ends = link.target.alias, link.source.alias
    found = (each for each in settings.links if (each.source.alias, each.target.alias) == ends)
    return next(found, None)


def unknown(
    action: str,
    kind: str,
    name: str,
    names: Collection[str],
    more: str = "",
    *,
    fixed: bool = False,
) -> ConfigError:
    """Returns the error that there is no `kind` with this `name`. It lists similar `names`, or else
    the first of all names; if the names are `fixed` words, all of them."""
    known = sorted(names)
    near = get_close_matches(name, known, _NEAR)
    cause = f"there is no {kind} of that name"
    if near:
        cause += f"; like it: {', '.join(near)}"
    else:
        listed = known[: _FIXED if fixed else _LISTED]
        rest = f" and {len(known) - len(listed):,} more" if len(known) > len(listed) else ""
        cause += f"; there is {', '.join(listed) or 'none'}{rest}"
    return ConfigError(action, f"{kind} {name}", cause, remedy=more)
