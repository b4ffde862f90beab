"""Finds topics whose mirror in the reverse direction has ended."""

from __future__ import annotations

from collections.abc import Collection

from causeway.config import LinkSettings
from causeway.daemon.clients import Sides
from causeway.daemon.partitions.pauses import Pauses
from causeway.errors import AuthorizationError
from causeway.link_topics import DirectiveLog, EndDirective
from causeway.naming import directives_topic


def reverse_ended(
    topics: Collection[str], link: LinkSettings, sides: Sides, pauses: Pauses
) -> frozenset[str]:
    """Returns those of `topics` whose reverse mirror, from the target of `link` to its source, has
    ended by the source's directives. At least a part of their records came from the target. Raises
    CausewayError."""
    if not topics or link.group_id is not None:
        return frozenset()
    log = DirectiveLog(sides.source, directives_topic(link.target.alias, link.source.alias))
    try:
        log.look()
    except AuthorizationError:
        return frozenset()  # a user who has failed over with Causeway has this right
    return frozenset(
        each.cut.target
        for each in log.directives.all(EndDirective)
        if each.cut is not None
        and each.cut.target in topics
        # If there is a directive, partitions that it does not name were created later.
        and not pauses.was_begun(each.cut.target)
    )
