"""The topics and partitions of the target to which a transform may route records.

Such a name comes from a record, so no message quotes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from causeway.config.settings import LinkSettings
from causeway.errors import ConfigError
from causeway.filters import TopicRules
from causeway.naming import MAX_TOPIC_LENGTH, NoNameError, is_legal_name, is_topic_name

MOST_PARTITIONS = 1000  # a number from records must not create too many partitions
NOT_A_NAME = "its topic is no legal name"
INTERNAL = "its topic is an internal topic of Kafka, Connect or a mirror"
CIRCLE = "its topic came from the target, so it would go in a circle"
TOO_LONG = f"its topic's name on the target is longer than {MAX_TOPIC_LENGTH} characters"
UNFIT = "its topic's name on the target is no legal name"
NO_NAME = "the replication policy gives its topic no name on the target"
NOT_A_PARTITION = "its partition is negative, or too large"


class RouteError(ConfigError):
    """Records may never be routed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Of one link. Can be pickled, unless `rules` have `renaming` or a custom policy; see
    `portable`."""

    rules: TopicRules
    asks_policy: bool = True

    @classmethod
    def of(cls, link: LinkSettings) -> Routes:
        return cls(rules=link.rules)

    def portable(self) -> Routes:
        """Returns the routes for workers, without the parts that only the driver can check."""
        policy = self.rules.policy
        rules = TopicRules(
            source=self.rules.source,
            target=self.rules.target,
            policy=replace(policy, custom=None),
        )
        return Routes(rules=rules, asks_policy=policy.custom is None)

    def target_of(self, name: str) -> str:
        """Returns the name on the target of the topic `name` of the source. Raises RouteError."""
        policy = self.rules.policy
        if not is_topic_name(name):
            raise _refused(NOT_A_NAME)
        if not self.asks_policy:
            if policy.is_internal_topic(name):
                raise _refused(INTERNAL)
            return name
        try:
            found = policy.format_remote_topic(self.rules.source, name)
            original = self.rules.cycle_source(name)
            mirrors_own = any(map(policy.is_heartbeats_topic, (name, found)))
        except NoNameError:
            raise _refused(NO_NAME) from None
        if not is_legal_name(found) or found in (".", ".."):
            raise _refused(UNFIT)
        if len(found) > MAX_TOPIC_LENGTH:
            raise _refused(TOO_LONG)
        if mirrors_own or any(map(policy.is_internal_topic, (name, found))):
            raise _refused(INTERNAL)
        if original is not None:
            raise _refused(CIRCLE)
        return found

    def why_not(self, name: str) -> str | None:
        """Returns why no record may be routed to topic `name`. None if it may."""
        try:
            self.target_of(name)
        except RouteError as error:
            return error.cause
        return None


def most_partitions(own: int) -> int:
    """Returns the number of partitions to which a record of partition `own` may be routed:
    MOST_PARTITIONS, or more if the source topic has more."""
    return max(MOST_PARTITIONS, own + 1)


def _refused(cause: str) -> RouteError:
    return RouteError("lead a record on", "", cause, remedy="correct the transform")
