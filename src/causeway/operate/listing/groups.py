"""Consumer groups of the file's links, each with why it is synced or not."""

from __future__ import annotations

from collections.abc import Collection

from causeway.config.settings import LinkSettings, Settings
from causeway.operate.clusters import Connect, clusters
from causeway.operate.explain.groups import CODES
from causeway.operate.explain.known import Known
from causeway.operate.explain.values import Explanation
from causeway.operate.listing.chosen import fits, links_of, refuse_unknown


def groups(
    settings: Settings,
    *,
    link: str | None = None,
    match: str = "",
    codes: Collection[str] = (),
) -> tuple[Explanation, ...]:
    """All groups that a source lists, by link and name, from the clusters alone. `match`: part of
    the name, in any case; `codes`: of these explanations' codes. Raises as `topics` does, and
    ConfigError for a code that there is not."""
    refuse_unknown("list groups", "code", codes, CODES)
    chosen = links_of(settings, link, "list groups")
    with clusters() as connect:
        found = [each for one in chosen for each in _of_link(one, settings, connect, match)]
    return tuple(each for each in found if not codes or each.code in codes)


def _of_link(
    link: LinkSettings, settings: Settings, connect: Connect, match: str
) -> tuple[Explanation, ...]:
    # Without the source's list there is nothing to show: that is an error here.
    listed = connect(link.source_admin).list_groups()
    known = Known(link, settings, connect)
    return known.groups([name for name in sorted(listed) if fits(name, match)], listed)
