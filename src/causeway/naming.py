"""Names of mirrored topics, the clusters that topics came from, and internal topics.

Follows MirrorMaker 2's `DefaultReplicationPolicy` and `IdentityReplicationPolicy`, because other
programs (`RemoteClusterUtils`, `MirrorClient`) derive the same names from the same settings.

    default    orders on A  ->  A.orders on B  ->  B.A.orders on C      (each hop adds a prefix)
    identity   orders on A  ->  orders on B                             (only heartbeats get it)
    unchanged  orders on A  ->  orders on B                             (MirrorMaker 1: all names)
    custom     by a class of the user                                   (config/reading/policies.py)

Rules of a flow (`renames`) come before its policy, for the topics that they match. Heartbeats and
internal topics keep the names that the other programs look for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from causeway.errors import ConfigError
from causeway.renames import KEY, Rename

MAX_TOPIC_LENGTH = 249  # characters; the broker's limit
HEARTBEATS = "heartbeats"
T = TypeVar("T")
InternalTopics = Literal["kafka-4", "kafka-3"]

_KAFKAS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_OWN = re.compile(r"__causeway\..*\.(progress|directives|dead-letters)")
PROGRESS = re.compile(r"__causeway\.(.+)\.progress")  # of any link; the group is its slug
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
PACKAGE = "org.apache.kafka.connect.mirror."
KAFKAS: dict[str, Literal["default", "identity"]] = {
    "DefaultReplicationPolicy": "default",
    "IdentityReplicationPolicy": "identity",
}


_SAMPLES = ("orders", "orders.eu_1-x")


def progress_topic(source: str, target: str) -> str:
    """Returns the progress topic on `target` of the link between these aliases."""
    return f"__causeway.{source}.{target}.progress"


def directives_topic(source: str, target: str) -> str:
    """Returns the topic on `target` with the requests to the link between these aliases."""
    return f"__causeway.{source}.{target}.directives"


def is_legal_name(text: str) -> bool:
    """Returns whether `text` has only characters that topic names may have. Does not check the
    length."""
    return _LEGAL.fullmatch(text) is not None


def is_topic_name(text: str) -> bool:
    """Returns whether brokers accept `text` as the name of a topic."""
    return is_legal_name(text) and text not in (".", "..") and len(text) <= MAX_TOPIC_LENGTH


class NoNameError(ConfigError):
    """The name under which a topic is to be mirrored is not known."""


class PolicyFailedError(NoNameError):
    """A custom policy raised an exception, or returned a wrong type."""


class CustomPolicy(Protocol):
    """A custom replication policy: the part of MirrorMaker 2's `ReplicationPolicy` about the names
    of mirrored topics. Created once for each flow, without arguments; called by several threads at
    once. It must always give the same answers.

    Optional: `configure(config: dict[str, str])`, called once with `source.cluster.alias`,
    `target.cluster.alias` and `replication.policy.separator`; `is_internal_topic(topic: str) ->
    bool`, true for topics never to be mirrored, besides those of Kafka and of mirrors.
    """

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Returns the name that `topic` of cluster `source_alias` gets on the target."""

    def topic_source(self, topic: str) -> str | None:
        """Returns the alias of the cluster that `topic` was mirrored from, None if it was not
        mirrored. Loops are detected by this method only."""

    def upstream_topic(self, topic: str) -> str | None:
        """Returns the name of `topic` on that cluster, None if it was not mirrored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """A naming rule for one flow.

    `source_alias`: the flow's source cluster. With the identity policy, names do not show it, so
    without it no topic has a source. No class name means `unchanged`: it is MirrorMaker 1's policy,
    which had no heartbeats, and no internal topics except Kafka's. Raises ConfigError for a
    separator that cannot be part of a topic name.
    """

    kind: Literal["default", "identity", "unchanged", "custom"] = "default"
    separator: str = "."
    internal_separator_enabled: bool = True  # internal topics have `separator`, not "."
    internal_topics: InternalTopics = "kafka-4"  # the Kafka whose rule decides
    source_alias: str | None = None
    renames: tuple[Rename, ...] = ()
    custom: CustomPolicy | None = field(default=None, compare=False, repr=False)
    class_name: str = ""  # of the custom policy

    def __post_init__(self) -> None:
        if not is_legal_name(self.separator):
            raise ConfigError(
                "use replication.policy.separator",
                repr(self.separator),
                "topic names can only hold letters, digits, '.', '_' and '-'",
                remedy=f"for unchanged names: replication.policy.class={PACKAGE}"
                "IdentityReplicationPolicy",
            )

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Returns the name that `topic` of cluster `source_alias` gets on the target. Raises
        NoNameError."""
        renamed = self.renamed(topic)
        return self._by_policy(source_alias, topic) if renamed is None else renamed[0]

    @property
    def chooses_names(self) -> bool:
        """Whether two topics may get the same name, or the name of an unrelated topic."""
        return bool(self.renames) or self.custom is not None

    def renamed(self, topic: str) -> tuple[str, Rename] | None:
        """Returns the name that a rule gives to `topic` on the target, and the rule; None if no
        rule matches. Raises NoNameError if a pattern gives no answer in time."""
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
        """Returns the cluster from which `topic` was mirrored, None if its name does not show it.

        The default policy takes the text before the first separator, so a local topic `x.y` counts
        as mirrored from `x`. MirrorMaker 2 does the same, and people's names rely on it. Raises
        PolicyFailedError, like all methods that call a custom policy.
        """
        if self.custom is not None:
            return self._asked_or_none("topic_source", topic)
        if self._keeps(topic):
            return self.source_alias
        head, separator, tail = topic.partition(self.separator)
        # "A." and "A.." have no source, because only separators follow.
        if not separator or not tail.replace(self.separator, ""):
            return None
        return head

    def upstream_topic(self, topic: str) -> str | None:
        """Returns the name on the previous cluster, None if `topic` is not a mirrored topic."""
        if self.custom is not None:
            return self._asked_or_none("upstream_topic", topic)
        if self._keeps(topic):
            return topic
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Returns the name on the cluster on which the records were first written."""
        seen = {topic}  # a custom policy may go in a circle
        while (upstream := self.upstream_topic(topic)) is not None and upstream not in seen:
            seen.add(topic := upstream)
        return topic

    def hop(self, topic: str) -> tuple[str, str] | None:
        """Returns the cluster that `topic` came from and its name there, None if its name does not
        show it. With the identity policy, only the names of heartbeats show it."""
        source, upstream = self.topic_source(topic), self.upstream_topic(topic)
        if source is None or upstream is None or upstream == topic:
            return None
        return source, upstream

    def tells_source(self, source_alias: str) -> bool:
        """Returns whether the names that the policy gives show where topics came from."""
        if self.custom is None:
            return self.kind == "default"
        named = {self._by_policy(source_alias, sample): sample for sample in _SAMPLES}
        return all(self.hop(name) == (source_alias, sample) for name, sample in named.items())

    def leaves_out(self, topic: str) -> bool:
        """Returns whether a custom policy calls `topic` internal."""
        if not callable(getattr(self.custom, "is_internal_topic", None)):
            return False
        return self._asked(bool, "is_internal_topic", topic, topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Returns whether the topic belongs to Kafka, Connect, MirrorMaker or Causeway: such topics
        are never mirrored."""
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
        """Returns whether it is internal by MirrorMaker 2's rule before Kafka 4.0, by which topics
        of teams could be internal."""
        return topic.startswith(("__", ".")) or topic.endswith(
            (".internal", "-internal", self._internal_suffix)
        )

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Returns whether it is `heartbeats` itself or its mirror, over any number of hops."""
        return self.kind != "unchanged" and self.original_topic(topic) == HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(f"{self._internal_separator}checkpoints{self._internal_suffix}")

    def offset_syncs_topic(self, alias: str) -> str:
        """`alias`: the cluster at the other end of the link. This is the target if the topic is on
        the source (MirrorMaker 2's default), and the source if the topic is on the target."""
        return f"mm2-offset-syncs{self._internal_separator}{alias}{self._internal_suffix}"

    def checkpoints_topic(self, alias: str) -> str:
        """Returns the topic on the target. `alias`: the source."""
        return f"{alias}{self._internal_separator}checkpoints{self._internal_suffix}"

    def _by_policy(self, source_alias: str, topic: str) -> str:
        if self.custom is not None:
            return self._asked(str, "format_remote_topic", topic, source_alias, topic)
        if self._keeps(topic):
            return topic
        return f"{source_alias}{self.separator}{topic}"

    def _asked(self, kind: type[T], method: str, about: str, *given: str) -> T:
        """Returns the answer of the custom policy."""
        answer = self._answer(method, about, *given)
        if isinstance(answer, kind):
            return answer
        raise self._failed(f"{method} returned {type(answer).__name__}, not {kind.__name__}", about)

    def _asked_or_none(self, method: str, topic: str) -> str | None:
        answer = self._answer(method, topic, topic)
        if answer is None or isinstance(answer, str):
            return answer
        raise self._failed(f"{method} returned {type(answer).__name__}, not str or None", topic)

    def _answer(self, method: str, about: str, *given: str) -> object:
        try:
            return getattr(self.custom, method)(*given)
        except Exception as error:  # it is the user's code
            raise self._failed(f"{method} raised {type(error).__name__}: {error}", about) from None

    def _failed(self, what: str, topic: str) -> PolicyFailedError:
        cause = f"{self.class_name}.{what}"
        return PolicyFailedError("name topic", topic, cause, remedy="correct the class")

    def _keeps(self, topic: str) -> bool:
        """Returns whether `topic` keeps its name. Heartbeats get a prefix even with `identity`;
        otherwise those of several clusters would be in one topic."""
        return self.kind == "unchanged" or (
            self.kind == "identity" and not topic.endswith(HEARTBEATS)
        )

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.internal_separator_enabled else "."

    @property
    def _internal_suffix(self) -> str:
        return f"{self._internal_separator}internal"
