"""What a failback asks of the link the other way. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from causeway.config import LinkSettings
from causeway.errors import ConfigError
from causeway.link_topics import BeginDirective, Cut, EndDirective, LinkDirectives, Scope
from causeway.model import State


def is_begun(standing: LinkDirectives, end: EndDirective, cuts: Mapping[str, Cut]) -> bool:
    """Whether it was told to begin where `end`, of the link, was."""
    return all(
        (found := standing.get(BeginDirective, Scope(cut.target))) is not None
        and found.at == end.at
        for cut in cuts.values()
    )


def check(link: LinkSettings, reverse: LinkSettings, topics: Collection[str]) -> None:
    """That it brings back all of `topics` under their names: of one that it left out, the link
    would go on beside what the other side has written since. Raises ConfigError."""
    for name in sorted(topics):
        decision = reverse.as_begun(name)
        if decision.target_name != name:
            raise ConfigError(
                "fail back",
                f"{name} of {link.name}",
                f"{reverse.name} does not bring it back under its name: {decision.reason}",
                remedy=f"set {reverse.name}.topics and {reverse.name}.replication.policy.class as "
                f"those of {link.name}",
            )


def check_places(link: LinkSettings, cuts: Mapping[str, Cut]) -> None:
    """That each topic was mirrored to the one of its name alone. Raises ConfigError where a
    transform led records of it elsewhere: a topic there, which may be fed by several, has no one
    place to go back to."""
    for name, cut in sorted(cuts.items()):
        led = {at.topic for point in cut.points for at, _ in point.targets} - {name}
        if led:
            raise ConfigError(
                "fail back",
                f"{name} of {link.name}",
                f"a transform led records of it to {min(led)}, and no link can bring these back to "
                "where they were",
                remedy="mirror what you want back by a link of its own, with --from; the other "
                "topics go back one by one, with --topic, where only topics have ended",
            )


def check_keep(link: LinkSettings, topics: Collection[str], keeper: str) -> None:
    """That records of `topics` may be written to `keeper`, on the target, as they are. Raises
    ConfigError where that comes back, or where the link changes them on the way, or leaves some
    out: that is what nobody may see there."""
    if keeper in topics:
        raise ConfigError(
            "fail back",
            f"--save-topic {keeper}",
            f"it is mirrored back to {link.source.alias}, which would have these records twice",
            remedy="say another topic",
        )
    changed = sorted(name for name in topics if link.transform_of(name) or link.treatments_of(name))
    if changed:
        raise ConfigError(
            "fail back",
            f"--save-topic for {changed[0]} of {link.name}",
            f"{link.target.alias} would get records as they are, and the link changes them on the "
            "way, or leaves some out",
            remedy="--save PATH keeps them here",
        )


def check_end(link: LinkSettings, reverse: LinkSettings, end: EndDirective | None) -> None:
    """`end`: of `reverse`, which had begun. Raises ConfigError where that ended with records that
    it had not brought back."""
    if end is not None and end.how is State.FAILED_OVER:
        raise ConfigError(
            "fail back",
            link.name,
            f"the way back, {reverse.name}, was failed over {end.by}: what it had not brought back "
            f"by then is on {reverse.source.alias} only",
            remedy=f'`causeway failback --link "{reverse.name}"` tells what that is',
        )


def check_whole(
    link: LinkSettings, reverse: LinkSettings, standing: LinkDirectives, scope: Scope
) -> None:
    """`standing`: of `reverse`. Raises ConfigError where a topic of it is to begin, and the whole
    of it has ended, as it has since the link was turned round: no part of that goes on."""
    end = None if scope.wider is None else standing.end_of(scope.wider)
    if end is not None:
        raise ConfigError(
            "fail back",
            f"{scope} of {link.name}",
            f"the way back, {reverse.name}, was {end.how} as a whole {end.by}, and no topic of it "
            "goes on alone",
            remedy=f"end all of {link.name}, by `causeway promote` or `failover` without --topic, "
            "and fail back that",
        )
