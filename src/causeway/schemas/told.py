"""A registry's silence, as people are told of it."""

from __future__ import annotations

from causeway.errors import AuthenticationError, CausewayError, UnreachableError
from causeway.schemas.client import UnansweredError


def unanswered(operation: str, error: UnansweredError) -> CausewayError:
    kind = AuthenticationError if error.denied else UnreachableError
    remedy = "see causeway.registry.username, .password and .token" if error.denied else ""
    subject = f"by the registry {error.url}"
    return kind(operation, subject, error.reason, remedy=remedy, retriable=not error.denied)
