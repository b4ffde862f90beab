"""Starts a reverse link at the cut, and checks that its settings bring back all topics."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

from causeway.cluster import LATEST, Cluster, OffsetAt
from causeway.config import LinkSettings
from causeway.errors import ConfigError, ConflictError
from causeway.link_topics import (
    BeginDirective,
    Cut,
    DirectiveChange,
    DirectivePlan,
    EndDirective,
    LinkDirectives,
    RestartDirective,
    Scope,
    plan_failback,
    write_directives,
)
from causeway.model import NO_TOPIC_ID, State, TopicPartition
from causeway.operate.failover.ending import Ending

_POLL_S = 0.25
Places = Mapping[TopicPartition, int]


def refusal(subject: str, cause: str, remedy: str) -> ConfigError:
    return ConfigError("fail back", subject, cause, remedy=remedy)


def is_begun(directives: LinkDirectives, end: EndDirective, cuts: Mapping[str, Cut]) -> bool:
    """Returns whether the reverse link has the directive to begin at `end`, the end of the link."""
    return all(
        (found := directives.get(BeginDirective, Scope(cut.target))) is not None
        and found.at == end.at
        for cut in cuts.values()
    )


def check(link: LinkSettings, reverse: LinkSettings, cuts: Mapping[str, Cut]) -> None:
    """Checks that the reverse link brings back all topics under their names: otherwise the link
    would go on without the records that the other side has written since. Checks that each topic
    was mirrored only to the topic of its name: several topics may feed a topic to which a transform
    led records, so its records have no single place to go back to. Raises ConfigError."""
    for name, cut in sorted(cuts.items()):
        decision = reverse.as_begun(name)
        if decision.target_name != name:
            raise refusal(
                f"{name} of {link.name}",
                f"{reverse.name} does not bring it back under its name: {decision.reason}",
                f"set {reverse.name}.topics and {reverse.name}.replication.policy.class as "
                f"those of {link.name}",
            )
        led = {at.topic for point in cut.points for at, _ in point.targets} - {name}
        if led:
            raise refusal(
                f"{name} of {link.name}",
                f"a transform routed its records to {min(led)}, and no link can bring these back",
                "mirror the records that you want by a link of their own, with --from; the other "
                "topics go back one by one, with --topic, if only topics have ended",
            )


def check_keep(link: LinkSettings, topics: Collection[str], keeper: str) -> None:
    """Checks that records of `topics` may be written to `keeper`, on the target, as they are.
    Raises ConfigError if `keeper` itself is mirrored back, or if the link changes or leaves out
    some of the records: these must not appear there."""
    if keeper in topics:
        raise refusal(
            f"--save-topic {keeper}",
            f"it is mirrored back to {link.source.alias}, which would have these records twice",
            "give another topic",
        )
    changed = sorted(name for name in topics if link.transform_of(name) or link.treatments_of(name))
    if changed:
        raise refusal(
            f"--save-topic for {changed[0]} of {link.name}",
            f"{link.target.alias} would get the records unchanged, and the link changes them on "
            "the way, or leaves some out",
            "--save PATH keeps them here",
        )


def check_end(link: LinkSettings, reverse: LinkSettings, end: EndDirective | None) -> None:
    """Raises ConfigError if `end`, of `reverse`, left records that `reverse` had not brought
    back."""
    if end is not None and end.how is State.FAILED_OVER:
        raise refusal(
            link.name,
            f"the way back, {reverse.name}, was failed over {end.by}: the records that it had not "
            f"brought back by then are only on {reverse.source.alias}",
            f'`causeway failback --link "{reverse.name}"` shows these records',
        )


def check_whole(
    link: LinkSettings, reverse: LinkSettings, directives: LinkDirectives, scope: Scope
) -> None:
    """Raises ConfigError if a topic of `reverse` must begin although `reverse` has ended as a
    whole: no part of such a link goes on. `directives`: the directives of `reverse`."""
    end = None if scope.wider is None else directives.end_of(scope.wider)
    if end is not None:
        raise refusal(
            f"{scope} of {link.name}",
            f"the reverse link {reverse.name} was {end.how} as a whole {end.by}, and none of its "
            "topics goes on alone",
            f"end all of {link.name}, by `causeway promote` or `failover` without --topic, "
            "and fail back that",
        )


def lines_for(link: LinkSettings, topics: Collection[str]) -> tuple[str, ...]:
    """Returns the lines that a file lacks for a reverse link."""
    name = f"{link.target.alias}->{link.source.alias}"
    kept = sorted(topic for topic in topics if link.preserves(topic))
    keep = (f"{name}.causeway.offsets.preserve.topics = {', '.join(kept)}",) if kept else ()
    return (
        f"{name}.enabled = true",
        f"{name}.causeway.way.back = true",
        f"{name}.topics = {', '.join(sorted(topics))}",
        f"{name}.replication.policy.class = org.apache.kafka.connect.mirror."
        "IdentityReplicationPolicy",
        f"{name}.sync.group.offsets.enabled = "
        f"{str(link.control.sync_group_offsets_enabled).lower()}",
        *keep,
    )


def begin(
    target: Cluster,
    link: LinkSettings,
    wish: BeginDirective,
    starts: Places,
    looked: Places,
    ids: Mapping[str, str],
    translated: Collection[str] = (),
) -> None:
    """Has `link` begin at `starts`, even if it has ended. `wish`: a begin directive for the scope,
    whose `at` is that of the end in the other direction. `looked`: see Directive, by partition of
    the target. `ids`: the ids of the topics of its source. `translated`: topics that do not keep
    their offsets. Raises ConflictError, also if a concurrent request started the link;
    CausewayError."""
    starts_of, looked_at = _by_topic(starts), _by_topic(looked)

    def decide(directives: LinkDirectives) -> DirectivePlan:
        begins: list[DirectiveChange] = []
        for topic, places in sorted(starts_of.items()):
            known = directives.get(BeginDirective, Scope(topic))
            if known is not None and known.at == wish.at:
                # It may have written records since we looked at the logs.
                cause = f"{known.who} had it begin meanwhile"
                remedy = "nothing was changed; call this again: it continues"
                raise ConflictError("begin", topic, cause, remedy=remedy)
            # The way back keeps names, so these are also the names on the other side.
            each = wish.replace(
                scope=Scope(topic),
                starts=places,
                source_id=ids.get(topic, NO_TOPIC_ID),
                looked=looked_at.get(topic, {}),
                translated=topic in translated,
            )
            begins.append((each.key, each))
        now = int(time.time() * 1000)
        again = RestartDirective(scope=wish.scope, who=wish.who, why=wish.why, at=now)
        taken_back = plan_failback(directives, wish.scope).changes
        return DirectivePlan(changes=(*begins, *taken_back, (again.key, again)))

    write_directives(target, link, decide)


class Looked(NamedTuple):
    """The offsets up to which a partition was looked at: `first` before the link began, `kept`
    later; -1 if no records of others were found later."""

    first: int
    kept: int


def looked_of(directives: LinkDirectives, end: EndDirective) -> dict[TopicPartition, Looked]:
    """Returns the offsets for the link that began at `end`."""
    return {
        TopicPartition(str(each.scope.topic), number): Looked(offset, each.kept.get(number, -1))
        for each in directives.all(BeginDirective)
        if each.at == end.at
        for number, offset in each.looked.items()
    }


def note_kept(back: Ending, end: EndDirective, kept: Places) -> None:
    """Notes that the records of others are decided on, up to the offsets `kept`. Raises like
    `begin`."""

    def decide(directives: LinkDirectives) -> DirectivePlan:
        changes: list[DirectiveChange] = []
        for topic, places in sorted(_by_topic(kept).items()):
            known = directives.get(BeginDirective, Scope(topic))
            if known is not None and known.at == end.at:
                after = known.replace(kept={**known.kept, **places})
                changes.append((after.key, after))
        return DirectivePlan(changes=tuple(changes))

    back.change(decide)


def await_begun(
    back: Ending, end: EndDirective, wanted: set[TopicPartition], wait_s: float
) -> int | None:
    """Waits until the link of `back`, which has to begin at `end`, has begun with the `wanted`
    partitions of its source, or until `wait_s` is over. Returns its lag in records; None if it has
    not begun."""
    deadline = time.monotonic() + wait_s
    while True:
        begun = {
            at: each.position
            for at in wanted
            if (each := back.contents.partitions.get(at)) is not None and each.begun == end.at
        }
        if begun.keys() == wanted:
            break
        if time.monotonic() > deadline or (back.driver is None and wait_s <= 0):
            return None
        back.say("waiting for a driver to begin at the cut")
        time.sleep(_POLL_S)
        back.read_on()
    ends = back.sides.source_admin.list_offsets(sorted(begun), LATEST)
    return sum(
        max(0, found.offset - position)
        for at, position in begun.items()
        if isinstance(found := ends[at], OffsetAt)
    )


def _by_topic(places: Places) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for at, offset in places.items():
        found.setdefault(at.topic, {})[at.partition] = offset
    return found
