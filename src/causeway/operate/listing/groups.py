"""Consumer groups of the file's links, each with why it is synced or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from causeway.cluster import Connect, clusters, silent_clusters
from causeway.config import LinkSettings, Settings, links_of
from causeway.errors import CausewayError
from causeway.operate.explain.groups import CODES
from causeway.operate.explain.known import Known
from causeway.operate.explain.values import Explanation
from causeway.operate.listing.list_filter import Listed, fits, listed, refuse_unknown


def groups(
    settings: Settings,
    *,
    link: str | None = None,
    match: str = "",
    codes: Collection[str] = (),
) -> Listed[Explanation]:
    """All groups that a source lists, by link and name, from the clusters alone. `match`: part of
    the name, in any case; `codes`: of these explanations' codes. Raises as `topics` does, and
    ConfigError for a code that there is not."""
    refuse_unknown("list groups", "code", codes, CODES)
    chosen = links_of(settings, link, "list groups")
    with clusters() as connect:
        away = silent_clusters(chosen, connect)
        return listed(
            chosen,
            lambda link: (
                each
                for each in _of_link(link, settings, connect, match, away)
                if not codes or each.code in codes
            ),
        )


def _of_link(
    link: LinkSettings,
    settings: Settings,
    connect: Connect,
    match: str,
    away: Mapping[str, CausewayError],
) -> tuple[Explanation, ...]:
    # Without the source's list there is nothing to show: that is an error here.
    if link.source.alias in away:
        raise away[link.source.alias]
    there = connect(link.source_admin).list_groups()
    known = Known(link, settings, connect, away)
    return known.groups([name for name in sorted(there) if fits(name, match)], there)
