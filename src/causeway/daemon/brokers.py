"""Whether the brokers of a link have the APIs that it needs, asked before its driver leads."""

from __future__ import annotations

import logging

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import required_apis
from causeway.daemon.partitions.discovery import Sides
from causeway.errors import UnreachableError

_log = logging.getLogger("causeway.link")
_PATIENCE_S = 5.0  # a cluster that does not answer holds up the start no longer


class Brokers:
    """The check of one link's brokers. Not thread-safe."""

    def __init__(self, link: LinkSettings, sides: Sides) -> None:
        self._link = link
        self._left: list[tuple[required_apis.Side, Cluster]] = [
            ("target", sides.target),
            ("source", sides.source),
        ]

    def ask(self) -> None:
        """Warns once of each API that a cluster lacks. Raises BrokerError for an API that the link
        needs. A cluster that does not answer is asked again at the next call."""
        for side, cluster in tuple(self._left):
            try:
                lacks = required_apis.lacking(self._link, side, cluster, _PATIENCE_S)
            except UnreachableError:
                continue
            for lack in lacks:
                if lack.need.required:
                    raise lack.error
            for lack in lacks:
                about = {"link": self._link.name, "reason": str(lack)}
                _log.warning("brokers lack an API", extra=about)
            self._left.remove((side, cluster))
