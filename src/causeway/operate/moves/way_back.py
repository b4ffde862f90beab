"""What a failback asks of the link the other way. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from causeway.config.settings import LinkSettings
from causeway.control.cuts import Cut
from causeway.control.directives import Directive, Kind, Scope, Standing
from causeway.errors import ConfigError
from causeway.model import State


def is_begun(standing: Standing, end: Directive, cuts: Mapping[str, Cut]) -> bool:
    """Whether it was told to begin where `end`, of the link, was."""
    return all(
        (found := standing.by_key.get((Kind.BEGIN, Scope(cut.target)))) is not None
        and found.at == end.at
        for cut in cuts.values()
    )


def check(link: LinkSettings, reverse: LinkSettings, topics: Collection[str]) -> None:
    """That it brings back all of `topics` under their names: of one that it left out, the link
    would go on beside what the other side has written since. Raises ConfigError."""
    for name in sorted(topics):
        decision = reverse.decide_topic(name)
        if decision.target_name != name:
            raise ConfigError(
                "fail back",
                f"{name} of {link.name}",
                f"{reverse.name} does not bring it back under its name: {decision.reason}",
                remedy=f"set {reverse.name}.topics and {reverse.name}.replication.policy.class as "
                f"those of {link.name}",
            )


def check_end(link: LinkSettings, reverse: LinkSettings, end: Directive | None) -> None:
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
