"""What a failover has found and done, as values and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from causeway.cluster import AclBinding
from causeway.errors import CausewayError
from causeway.link_topics import Cut, EndDirective, Scope, directive_as_json
from causeway.model import State, age_ms
from causeway.operate.failover.last_groups import GroupPlace
from causeway.operate.failover.missing import Known
from causeway.operate.failover.promote import cuts_json


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedOver:
    """Of one link. `changed`: false where nothing was done: it was only looked (`before` None), or
    it had ended already, as `before` says; then `groups` are those that were yet to be committed.
    `left`: why there was nothing to look at, nor to end; `late` where that has to be done once its
    target answers; `error`: that it was begun, or tried, and is not done. `seen_ms`: when a driver
    last led the link; `source`: why the source did not answer, None where it did."""

    link: str
    target: str
    scope: Scope
    changed: bool
    at_ms: int
    before: EndDirective | None = None
    left: str | None = None
    late: bool = False
    error: CausewayError | None = None
    seen_ms: int | None = None
    source: str | None = None
    topics: tuple[Known, ...] = ()
    groups: tuple[GroupPlace, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)  # groups that were not committed
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    lifted: tuple[AclBinding, ...] = ()

    @property
    def rpo_ms(self) -> int | None:
        """The greatest age that the first missing record can have, see control.lag; 0 if nothing is
        missing, None if that is unknown for a topic."""
        return None if self.rpo_unknown else self.rpo_known_ms

    @property
    def rpo_known_ms(self) -> int | None:
        """The same without the topics of `rpo_unknown`; None if there are no others."""
        ages = [self._age(each) for each in self.topics]
        return max((age for age in ages if age is not None), default=0 if not ages else None)

    @property
    def rpo_unknown(self) -> tuple[str, ...]:
        """The topics for which the age of the first missing record is unknown."""
        return tuple(each.topic for each in self.topics if self._age(each) is None)

    def _age(self, topic: Known) -> int | None:
        if topic.first_ms is None:
            return 0
        age = age_ms(topic.first_ms, self.at_ms)
        # By a clock that is ahead of ours it would be none, as if nothing were missing.
        return None if age is None else max(1, age)


def as_json(each: FailedOver) -> dict[str, Any]:
    """For `--json`: stable keys."""
    return {
        "link": each.link,
        "target": each.target,
        "topic": each.scope.topic,
        "state": None if not each.changed and each.before is None else _state(each),
        "left": each.left,
        "failed": each.error is not None,
        "changed": each.changed,
        "before": None if each.before is None else directive_as_json(each.before),
        "driver_seen_ms": each.seen_ms,
        "source_reason": each.source,
        "rpo_ms": each.rpo_ms if each.before is None and each.left is None else None,
        "rpo_known_ms": each.rpo_known_ms if each.before is None and each.left is None else None,
        "rpo_unknown": list(each.rpo_unknown),
        "topics": [
            {
                "topic": one.topic,
                "target_topic": one.target,
                "partitions": one.partitions,
                "not_begun": one.unbegun,
                "newest_ms": None if one.newest_ms < 0 else one.newest_ms,
                "missing_records": one.missing,
                "first_missing_ms": None
                if one.first_ms is None or one.first_ms < 0
                else one.first_ms,
                "exact": one.exact,
            }
            for one in each.topics
        ],
        "groups": [
            {
                "group": one.group,
                "target_topic": one.partition.topic,
                "partition": one.partition.partition,
                "offset": one.offset,
                "committed": one.there,
                "behind_end": one.behind,
                "reason": each.failures.get(one.group, one.reason),
            }
            for one in each.groups
        ],
        "cuts": cuts_json(each.cuts),
        "lifted": [str(one) for one in each.lifted],
    }


def _state(each: FailedOver) -> str:
    return str(State.FAILED_OVER if each.before is None else each.before.how)


def by_group(places: Collection[GroupPlace]) -> dict[str, list[GroupPlace]]:
    """In the order of their names."""
    found: defaultdict[str, list[GroupPlace]] = defaultdict(list)
    for each in places:
        found[each.group].append(each)
    return dict(found)
