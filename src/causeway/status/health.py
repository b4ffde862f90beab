"""Whether all is well, as scripts and probes ask: `status --check`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from causeway.errors import ConfigError, PartitionsFailedError, UnreachableError
from causeway.link_topics import THE_LINK, LinkDirectives
from causeway.model import ENDED, State
from causeway.status.from_clusters import LinkStatus, PartitionStatus

NOT_RUNNING: Final = 9  # exit code
LAGS: Final = 11  # exit code: more than was asked for


def verdict(links: Collection[LinkStatus], lag_above: int | None = None) -> int:
    """The exit code: 0 where all is well. What nobody runs matters more than what has stopped of
    it, and that more than what lags: a partition by more than `lag_above` records, where that is
    said; a link that cannot be asked, as much as one whose source cannot. Raises ConfigError where
    there is no flow to judge."""
    if not links:
        raise ConfigError("check", cause="no flow is enabled", remedy="set A->B.enabled = true")
    known = [each for each in links if each.error is None]
    if not all(_runs(each) or _has_ended(each) for each in known):
        return NOT_RUNNING
    if (code := unasked(links)) != 0:
        return code
    if any(each.unavailable is not None and not _has_ended(each) for each in links):
        return UnreachableError.exit_code
    if not all(map(_is_well, links)):
        return PartitionsFailedError.exit_code
    return LAGS if lag_above is not None and _lag(links) > lag_above else 0


def unasked(links: Collection[LinkStatus]) -> int:
    """The exit code of the first link of which nothing is known; 0 where there is none."""
    return next((each.error.exit_code for each in links if each.error is not None), 0)


def that_end(link: LinkStatus) -> tuple[PartitionStatus, ...]:
    """Its partitions without heartbeats, which drivers write every second, so that the last ones
    are always yet to come; all, where there is nothing else."""
    is_heartbeats = link.link.policy.is_heartbeats_topic
    return tuple(o for o in link.partitions if not is_heartbeats(o.topic)) or link.partitions


def _lag(links: Collection[LinkStatus]) -> int:
    """Of the partition furthest behind, but for what was deleted, for mirrors that ended, and for
    heartbeats."""
    every = (one for each in links for one in that_end(each))
    lags = (one.lag_records for one in every if not one.gone and one.state not in ENDED)
    return max((lag for lag in lags if lag is not None), default=0)


def _runs(link: LinkStatus) -> bool:
    return link.driver is not None and link.driver.running


def _has_ended(link: LinkStatus) -> bool:
    """All of it, so that it needs no driver."""
    return LinkDirectives({each.key: each for each in link.asked.directives}).has_ended(THE_LINK)


def _is_well(link: LinkStatus) -> bool:
    runs = any(one.state == State.RUNNING for one in link.partitions)
    return not link.problems and all(_goes_on(one, runs) for one in link.partitions)


def _goes_on(one: PartitionStatus, others_run: bool) -> bool:
    if one.state in (State.STOPPED, State.FAILED):
        return one.gone  # it was deleted, and needs nobody to see to it
    if one.state == State.PROMOTING:
        return False  # it mirrors nothing, and the command that holds it may have died
    if one.lost_records and one.state not in ENDED:
        return False  # until a person acknowledges it
    if one.state == State.WAITING and one.lag_records:
        # A lane takes what was claimed within a moment. A topic that is new waits until
        # topics are looked at again; but where nothing runs, that cannot be all.
        return others_run and one.mirrored_to is None
    return True
