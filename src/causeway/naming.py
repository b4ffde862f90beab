"""How a mirrored topic is called, where a topic came from, and which topics are internal.

Follows MirrorMaker 2's `DefaultReplicationPolicy` and `IdentityReplicationPolicy`, since other
programs (`RemoteClusterUtils`, `MirrorClient`) derive the same names from the same settings.

    default    orders on A  ->  A.orders on B  ->  B.A.orders on C      (each hop adds a prefix)
    identity   orders on A  ->  orders on B                             (only heartbeats get one)
    unchanged  orders on A  ->  orders on B                             (MirrorMaker 1: all as is)

Rules of a flow (`renames`) come before its policy, for the topics that they match. Heartbeats and
internal topics keep the names that those programs look for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from causeway.errors import ConfigError
from causeway.renames import KEY, Rename

MAX_TOPIC_LENGTH = 249  # characters; the broker's limit
HEARTBEATS = "heartbeats"
InternalTopics = Literal["kafka-4", "kafka-3"]

_KAFKAS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_OWN = re.compile(r"__causeway\..*\.(progress|directives|dead-letters)")
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_PACKAGE = "org.apache.kafka.connect.mirror."
_CLASSES: dict[str, Literal["default", "identity"]] = {
    "DefaultReplicationPolicy": "default",
    "IdentityReplicationPolicy": "identity",
}


def is_legal_name(text: str) -> bool:
    """Whether `text` has only characters a topic name may have (length is not looked at)."""
    return _LEGAL.fullmatch(text) is not None


class NoNameError(ConfigError):
    """It cannot be told under which name a topic is to be mirrored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """A naming rule for one flow.

    `source_alias` is the flow's source cluster; the identity policy cannot read it from a name, so
    without it no topic has a source there. `unchanged` cannot be had by a class name: it is
    MirrorMaker 1's, which knew neither heartbeats nor internal topics but Kafka's own.
    """

    kind: Literal["default", "identity", "unchanged"] = "default"
    separator: str = "."
    internal_separator_enabled: bool = True  # internal topics use `separator` too, not always "."
    internal_topics: InternalTopics = "kafka-4"  # whose rule tells them
    source_alias: str | None = None
    renames: tuple[Rename, ...] = ()

    @classmethod
    def from_class(
        cls,
        class_name: str,
        *,
        separator: str = ".",
        internal_separator_enabled: bool = True,
        internal_topics: InternalTopics = "kafka-4",
        source_alias: str | None = None,
        renames: tuple[Rename, ...] = (),
    ) -> ReplicationPolicy:
        """The policy for a Java class name, with or without its package.

        Raises ConfigError for a class that is not one of Kafka's two, and for a separator that
        cannot be part of a topic name.
        """
        kind = _CLASSES.get(class_name.removeprefix(_PACKAGE))
        if kind is None:
            raise ConfigError(
                "use replication.policy.class",
                class_name,
                "a policy class of one's own cannot be loaded",
                remedy=f"supported are {' and '.join(_PACKAGE + name for name in _CLASSES)}",
            )
        if not is_legal_name(separator):
            raise ConfigError(
                "use replication.policy.separator",
                repr(separator),
                "topic names can only hold letters, digits, '.', '_' and '-'",
                remedy=f"for unchanged names: replication.policy.class={_PACKAGE}"
                "IdentityReplicationPolicy",
            )
        return cls(
            kind=kind,
            separator=separator,
            internal_separator_enabled=internal_separator_enabled,
            internal_topics=internal_topics,
            source_alias=source_alias,
            renames=renames,
        )

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name that `topic` of cluster `source_alias` gets on the target. Raises
        NoNameError."""
        renamed = self.renamed(topic)
        if renamed is not None:
            return renamed[0]
        if self._keeps(topic):
            return topic
        return f"{source_alias}{self.separator}{topic}"

    @property
    def chooses_names(self) -> bool:
        """Whether two topics may get one name, or one that somebody else's topic has."""
        return bool(self.renames)

    def renamed(self, topic: str) -> tuple[str, Rename] | None:
        """The name that one of the rules gives to `topic` on the target, and that rule. Raises
        NoNameError where a pattern gives no answer in time."""
        if not self.renames or self.is_heartbeats_topic(topic):
            return None
        for rename in self.renames:
            try:
                name = rename.apply(topic)
            except TimeoutError:
                raise NoNameError(
                    "name topic",
                    topic,
                    f"the {KEY} pattern {rename.pattern.pattern} takes too long to match this name",
                    remedy="without look-around, back-references and possessive quantifiers it"
                    " would take no time",
                ) from None
            if name is not None:
                return name, rename
        return None

    def topic_source(self, topic: str) -> str | None:
        """The cluster `topic` was mirrored from, None where its name says nothing.

        The default policy takes the text before the first separator, so a local topic `x.y` counts
        as coming from `x`; that is MirrorMaker 2's reading, and people's names rely on it.
        """
        if self._keeps(topic):
            return self.source_alias
        head, separator, tail = topic.partition(self.separator)
        # "A." and "A.." have no source: nothing but separators follows.
        if not separator or not tail.replace(self.separator, ""):
            return None
        return head

    def upstream_topic(self, topic: str) -> str | None:
        """The name on the cluster one hop up, None where `topic` is not a mirrored one."""
        if self._keeps(topic):
            return topic
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """The name on the cluster where the records were first written, all hops taken off."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def hop(self, topic: str) -> tuple[str, str] | None:
        """The cluster that `topic` came from and its name there, None where its name says nothing:
        the identity policy's do not, but for heartbeats."""
        source, upstream = self.topic_source(topic), self.upstream_topic(topic)
        if source is None or upstream is None or upstream == topic:
            return None
        return source, upstream

    def is_internal_topic(self, topic: str) -> bool:
        """Topics of Kafka, Connect, MirrorMaker and Causeway itself: never mirrored."""
        if self.kind == "unchanged":
            return topic in _KAFKAS_OWN or _OWN.fullmatch(topic) is not None
        if self.internal_topics == "kafka-3":
            return self.is_internal_in_kafka_3(topic)
        return (
            topic.startswith(("__", "."))
            or (topic.startswith("mm2") and topic.endswith(self._internal_suffix))
            or self.is_checkpoints_topic(topic)
        )

    def is_internal_in_kafka_3(self, topic: str) -> bool:
        """MirrorMaker 2's rule before Kafka 4.0, by which many a team's own topic was internal."""
        return topic.startswith(("__", ".")) or topic.endswith(
            (".internal", "-internal", self._internal_suffix)
        )

    def is_heartbeats_topic(self, topic: str) -> bool:
        """`heartbeats` itself or a mirror of it, over any number of hops."""
        return self.kind != "unchanged" and self.original_topic(topic) == HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(f"{self._internal_separator}checkpoints{self._internal_suffix}")

    def heartbeats_topic(self) -> str:
        return HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """`alias` is the cluster at the other end: the target's where the topic is on the source
        (MirrorMaker 2's default), the source's where it is on the target."""
        return f"mm2-offset-syncs{self._internal_separator}{alias}{self._internal_suffix}"

    def checkpoints_topic(self, alias: str) -> str:
        """On the target; `alias` is the source."""
        return f"{alias}{self._internal_separator}checkpoints{self._internal_suffix}"

    def _keeps(self, topic: str) -> bool:
        """Whether `topic` keeps its name. Heartbeats get a prefix even under `identity`, else
        those of several clusters would flow into one topic."""
        return self.kind == "unchanged" or (
            self.kind == "identity" and not topic.endswith(HEARTBEATS)
        )

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.internal_separator_enabled else "."

    @property
    def _internal_suffix(self) -> str:
        return f"{self._internal_separator}internal"
