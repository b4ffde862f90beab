"""Whether all is well, as scripts and probes ask: `status --check`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from causeway.errors import ConfigError, PartitionsFailedError, UnreachableError
from causeway.link_topics import THE_LINK
from causeway.model import ENDED, State
from causeway.status.values import LinkStatus, PartitionStatus

NOT_RUNNING: Final = 9  # exit code
LAGS: Final = 11  # exit code: the lag is greater than the given limit


def verdict(links: Collection[LinkStatus], lag_above: int | None = None) -> int:
    """Returns the exit code, 0 if all is well. In this order of importance: no driver runs;
    partitions have stopped; a partition lags by more than `lag_above` records, if given. If a link
    cannot be asked, its code is that of a source that does not answer. Raises ConfigError if there
    is no flow to check."""
    if not links:
        raise ConfigError("check", cause="no flow is enabled", remedy="set A->B.enabled = true")
    known = [each for each in links if each.error is None]
    if not all(each.runs or _has_ended(each) for each in known):
        return NOT_RUNNING
    if (code := unasked(links)) != 0:
        return code
    if any(each.unavailable is not None and not _has_ended(each) for each in links):
        return UnreachableError.exit_code
    if not all(map(_is_well, links)):
        return PartitionsFailedError.exit_code
    return LAGS if lag_above is not None and _lag(links) > lag_above else 0


def unasked(links: Collection[LinkStatus]) -> int:
    """Returns the exit code of the first link that could not be asked; 0 if all could."""
    return next((each.error.exit_code for each in links if each.error is not None), 0)


def that_end(link: LinkStatus) -> tuple[PartitionStatus, ...]:
    """Returns the partitions except heartbeats: drivers write heartbeats every second, so their
    last records are never mirrored yet. Returns all partitions if there are no others."""
    return tuple(one for one in link.partitions if not one.heartbeats) or link.partitions


def _lag(links: Collection[LinkStatus]) -> int:
    """Returns the lag of the partition that lags most, without deleted topics, mirrors that have
    ended, and heartbeats."""
    every = (one for each in links for one in that_end(each))
    lags = (one.lag_records for one in every if one.gone_ms is None and one.state not in ENDED)
    return max((lag for lag in lags if lag is not None), default=0)


def _has_ended(link: LinkStatus) -> bool:
    """Returns whether the whole mirror has ended. Then it needs no driver."""
    return link.directives.has_ended(THE_LINK)


def _is_well(link: LinkStatus) -> bool:
    runs = any(one.state == State.RUNNING for one in link.partitions)
    return not link.problems and all(_goes_on(one, runs) for one in link.partitions)


def _goes_on(one: PartitionStatus, others_run: bool) -> bool:
    if one.state in (State.STOPPED, State.FAILED):
        return one.gone_ms is not None  # a deleted topic needs no person
    if one.state == State.PROMOTING:
        return False  # it mirrors nothing, and the command that holds it may have died
    if one.unacknowledged and one.state not in ENDED:
        return False  # until a person acknowledges the loss
    if one.state == State.WAITING and one.lag_records:
        # A lane gets a claimed partition within a moment. A new topic waits until a driver looks
        # for topics again. But if no partition runs, there must be another reason.
        return others_run and one.mirrored_to is None
    return True
