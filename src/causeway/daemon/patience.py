"""Errors of a first start that may pass by themselves once restarting brokers are back.

While a broker restarts, a cluster refuses to create a topic with N replicas, just like a cluster
that has fewer than N brokers. Only time tells the two apart.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from causeway.errors import BrokerError, CausewayError, TooFewBrokersError
from causeway.wire import codes

_log = logging.getLogger("causeway.link")
PATIENCE_S = 60.0  # a restart of a broker takes less


class Patience:
    """The waiting of one link. `link`: its name, for logs. Not thread-safe."""

    def __init__(self, link: str) -> None:
        self._link = link
        self._since: float | None = None

    def may_pass(self, error: CausewayError) -> bool:
        """Whether another try after `error` may still help."""
        if error.retriable:
            return True
        refused = isinstance(error, BrokerError) and error.code == codes.INVALID_REPLICATION_FACTOR
        if not refused and not isinstance(error, TooFewBrokersError):
            return False
        if self._since is None:
            self._since = time.monotonic()
            about = {"link": self._link, "for_s": PATIENCE_S, "reason": str(error)}
            _log.warning("waits for brokers that may be restarting", extra=about)
        return time.monotonic() - self._since < PATIENCE_S

    def lasting(self, errors: Sequence[CausewayError]) -> list[CausewayError]:
        """Those of a look's `errors` that cannot pass by themselves."""
        if not errors:
            self._since = None
        return [each for each in errors if not self.may_pass(each)]

    @property
    def waits(self) -> bool:
        """Whether an error has come that may still pass, or that has not passed in time."""
        return self._since is not None
