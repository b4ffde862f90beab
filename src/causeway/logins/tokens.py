"""Tokens of a process, cached and renewed. Connections with the same credentials share them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from causeway.errors import UnreachableError

# A token is replaced when this share of its life is over.
REFRESH_AT = 0.8
# The pause after a request for a new token without an answer, while the old token is valid.
RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """`lifetime_s`: seconds from the request on. 0: the token is used once."""

    value: str = field(repr=False)
    lifetime_s: float


class Tokens:
    """One client's tokens. Thread-safe: only one request runs at a time.

    `fetch`: gets a new token. Its argument is the longest time, in seconds."""

    def __init__(self, fetch: Callable[[float], Token]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._value = ""
        self._refresh_at = self._expires_at = 0.0  # monotonic

    def token(self, timeout_s: float) -> str:
        """Returns a token with at least a fifth of its life left, or less if its issuer does not
        answer at the moment. Raises the errors of `fetch`."""
        return self.current(timeout_s).value

    def current(self, timeout_s: float) -> Token:
        """Returns the same with the remaining lifetime."""
        with self._lock:
            asked_at = time.monotonic()
            if asked_at >= self._refresh_at:
                try:
                    token = self._fetch(timeout_s)
                except UnreachableError:
                    if (now := time.monotonic()) >= self._expires_at:
                        raise
                    self._refresh_at = now + RETRY_AFTER_S
                else:
                    self._value = token.value
                    self._refresh_at = asked_at + token.lifetime_s * REFRESH_AT
                    self._expires_at = asked_at + token.lifetime_s
            left_s = max(0.0, self._expires_at - time.monotonic())
            return Token(value=self._value, lifetime_s=left_s)


# Each renewed file with an assertion makes another key.
_MOST_SHARED = 256
_shared: dict[Hashable, Tokens] = {}  # in the order of their last use
_shared_lock = threading.Lock()


def shared_tokens(key: Hashable, fetch: Callable[[], Callable[[float], Token]]) -> Tokens:
    """Returns the only Tokens of this process for `key`. `key`: all that decides which token a
    client gets. `fetch`: makes the function that gets a token, at the first call for `key`."""
    with _shared_lock:
        tokens = _shared.pop(key, None) or Tokens(fetch())
        _shared[key] = tokens
        if len(_shared) > _MOST_SHARED:
            del _shared[next(iter(_shared))]
        return tokens
