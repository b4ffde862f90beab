"""What people have asked of a link, and what of it stands."""

from __future__ import annotations

from typing import Final, NamedTuple

from causeway.cluster.cluster import Cluster
from causeway.config.settings import LinkSettings
from causeway.errors import AuthorizationError
from causeway.link_topics.directive_log import DirectiveLog
from causeway.link_topics.directives import Directive
from causeway.link_topics.progress import Contents


class Asked(NamedTuple):
    """`reason`: why it is not known, or why the driver comes no further with it."""

    standing: tuple[Directive, ...] = ()
    reason: str | None = None


NOTHING: Final = Asked()


def asked(target: Cluster, link: LinkSettings, contents: Contents) -> Asked:
    """Raises CausewayError where the target cannot be asked at all."""
    log = DirectiveLog(target, link.directives_topic)
    try:
        log.look()
    except AuthorizationError as error:
        return Asked(reason=str(error))
    told = contents.directives
    return Asked(tuple(log.standing), None if told is None else told.reason)
