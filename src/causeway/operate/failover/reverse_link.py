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


def is_begun(standing: LinkDirectives, end: EndDirective, cuts: Mapping[str, Cut]) -> bool:
    """Whether it was told to begin where `end`, of the link, was."""
    return all(
        (found := standing.get(BeginDirective, Scope(cut.target))) is not None
        and found.at == end.at
        for cut in cuts.values()
    )


def check(link: LinkSettings, reverse: LinkSettings, cuts: Mapping[str, Cut]) -> None:
    """That it brings back all topics under their names: of one that it left out, the link would go
    on beside what the other side has written since. That each topic was mirrored to the one of its
    name alone: a topic elsewhere, to which a transform led records, may be fed by several, so it
    has no one place to go back to. Raises ConfigError."""
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
                "mirror what you want back by a link of its own, with --from; the other "
                "topics go back one by one, with --topic, where only topics have ended",
            )


def check_keep(link: LinkSettings, topics: Collection[str], keeper: str) -> None:
    """That records of `topics` may be written to `keeper`, on the target, as they are. Raises
    ConfigError where that comes back, or where the link changes them on the way, or leaves some
    out: these must not appear there."""
    if keeper in topics:
        raise refusal(
            f"--save-topic {keeper}",
            f"it is mirrored back to {link.source.alias}, which would have these records twice",
            "say another topic",
        )
    changed = sorted(name for name in topics if link.transform_of(name) or link.treatments_of(name))
    if changed:
        raise refusal(
            f"--save-topic for {changed[0]} of {link.name}",
            f"{link.target.alias} would get records as they are, and the link changes them on the "
            "way, or leaves some out",
            "--save PATH keeps them here",
        )


def check_end(link: LinkSettings, reverse: LinkSettings, end: EndDirective | None) -> None:
    """`end`: of `reverse`, which had begun. Raises ConfigError where that ended with records that
    it had not brought back."""
    if end is not None and end.how is State.FAILED_OVER:
        raise refusal(
            link.name,
            f"the way back, {reverse.name}, was failed over {end.by}: what it had not brought back "
            f"by then is on {reverse.source.alias} only",
            f'`causeway failback --link "{reverse.name}"` tells what that is',
        )


def check_whole(
    link: LinkSettings, reverse: LinkSettings, standing: LinkDirectives, scope: Scope
) -> None:
    """`standing`: of `reverse`. Raises ConfigError if one of its topics is to begin and the whole
    link has ended, as it has since the link was turned round: no part goes on."""
    end = None if scope.wider is None else standing.end_of(scope.wider)
    if end is not None:
        raise refusal(
            f"{scope} of {link.name}",
            f"the reverse link {reverse.name} was {end.how} as a whole {end.by}, and none of its "
            "topics goes on alone",
            f"end all of {link.name}, by `causeway promote` or `failover` without --topic, "
            "and fail back that",
        )


def lines_for(link: LinkSettings, topics: Collection[str]) -> tuple[str, ...]:
    """The lines that a file lacks for a reverse link."""
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
    """Has `link` begin at `starts`, whatever ended it before. `wish`: a begin of the scope, with
    the end the other way in its `at`; `looked`: see Directive, by partition of the target; `ids` of
    the topics of its source; `translated`: topics that do not keep their offsets. Raises
    ConflictError, also if a concurrent request started the link; CausewayError."""
    starts_of, looked_at = _by_topic(starts), _by_topic(looked)

    def decide(standing: LinkDirectives) -> DirectivePlan:
        begins: list[DirectiveChange] = []
        for topic, places in sorted(starts_of.items()):
            known = standing.get(BeginDirective, Scope(topic))
            if known is not None and known.at == wish.at:
                # What it has written by now is not what we have looked at.
                cause = f"{known.who} had it begin meanwhile"
                remedy = "nothing was changed; call this again: it goes on"
                raise ConflictError("begin", topic, cause, remedy=remedy)
            # A way back keeps names, so they are those of the other side as well.
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
        taken_back = plan_failback(standing, wish.scope).changes
        return DirectivePlan(changes=(*begins, *taken_back, (again.key, again)))

    write_directives(target, link, decide)


class Looked(NamedTuple):
    """Up to which offset of what it writes to was looked through before a link began, and later;
    -1 where nothing was found later."""

    first: int
    kept: int


def looked_of(standing: LinkDirectives, end: EndDirective) -> dict[TopicPartition, Looked]:
    """Of the link that was told to begin at `end`."""
    return {
        TopicPartition(str(each.scope.topic), number): Looked(offset, each.kept.get(number, -1))
        for each in standing.all(BeginDirective)
        if each.at == end.at
        for number, offset in each.looked.items()
    }


def note_kept(back: Ending, end: EndDirective, kept: Places) -> None:
    """That what others wrote was seen to, up to there. Raises as `begin`."""

    def decide(standing: LinkDirectives) -> DirectivePlan:
        changes: list[DirectiveChange] = []
        for topic, places in sorted(_by_topic(kept).items()):
            known = standing.get(BeginDirective, Scope(topic))
            if known is not None and known.at == end.at:
                after = known.replace(kept={**known.kept, **places})
                changes.append((after.key, after))
        return DirectivePlan(changes=tuple(changes))

    back.change(decide)


def await_begun(
    back: Ending, end: EndDirective, wanted: set[TopicPartition], wait_s: float
) -> int | None:
    """Until the link of `back`, told to begin at `end`, has begun with `wanted` partitions of its
    source, or so long; how far it lags then."""
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
