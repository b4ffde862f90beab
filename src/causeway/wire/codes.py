"""Kafka's error codes: their names, whether they may be retried, and the errors that we raise.

Numbers, names and the retriable set are from `org.apache.kafka.common.protocol.Errors` in
Kafka 4.3 (retriable: the exception class extends `RetriableException`).
"""

from __future__ import annotations

from typing import Any, Final

from kafka.errors import kafka_errors

from causeway.errors import AuthenticationError, AuthorizationError, BrokerError, CausewayError

OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
REQUEST_TIMED_OUT = 7
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
INVALID_REPLICATION_FACTOR = 38
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_VERSION = 35
TRANSACTIONAL_ID_NOT_FOUND = 105
TOPIC_ALREADY_EXISTS = 36
INVALID_CONFIG = 40
POLICY_VIOLATION = 44
CONCURRENT_TRANSACTIONS = 51
UNKNOWN_LEADER_EPOCH = 75
OFFSET_NOT_AVAILABLE = 78
INVALID_RECORD = 87
THROTTLING_QUOTA_EXCEEDED = 89

# kafka-python's table, with Kafka's names if kafka-python's differ, and with missing codes.
NAMES: Final[dict[int, str]] = {
    **{code: kind.message for code, kind in kafka_errors.items() if code is not None},
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
    128: "INVALID_REGULAR_EXPRESSION",
    129: "REBOOTSTRAP_REQUIRED",
    130: "STREAMS_INVALID_TOPOLOGY",
    131: "STREAMS_INVALID_TOPOLOGY_EPOCH",
    132: "STREAMS_TOPOLOGY_FENCED",
    133: "SHARE_SESSION_LIMIT_REACHED",
}

# fmt: off
RETRIABLE = frozenset((
    2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88,
    89, 100, 103, 106, 122, 123, 133,
))
# fmt: on

# Another producer with the same id has written, or has a higher epoch.
OF_A_RIVAL = frozenset((45, 46, 47, 90))
TOO_LARGE = frozenset((10, 18))  # a batch is larger than its topic accepts, or than a segment
# After these codes, another broker may be the leader, coordinator or controller.
STALE_METADATA = frozenset((3, 5, 6, 9, 15, 16, 41, 56, 72, 74, 75, 100, 103))

_RESOURCES = {
    29: "the topic",
    30: "the group",
    31: "the cluster",
    53: "the transactional id",
    65: "the delegation token",
}
_AUTHENTICATION = frozenset((UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, 58))

_REMEDIES = {
    -1: "look at the broker's log",
    10: "raise max.message.bytes of the topic",
    17: "topic names have at most 249 of a-z, A-Z, 0-9, '.', '_' and '-'",
    19: "fewer replicas are in sync than min.insync.replicas: look at the cluster's brokers",
    20: "fewer replicas are in sync than min.insync.replicas: look at the cluster's brokers",
    32: "correct the clock that is wrong, or raise message.timestamp.(after|before).max.ms",
    38: "the cluster has too few brokers: set replication.factor no higher than their number",
    44: "the cluster refuses the request by a limit or a topic policy: see its own text",
    56: "look at the broker's disk and log",
}


def name(code: int) -> str:
    """Returns the name of the constant, or "error code N" for a code that is newer than this
    table."""
    return NAMES.get(code, f"error code {code}")


def broker_error(
    code: int,
    operation: str,
    subject: str,
    message: str | None = None,
    *,
    needs: str = "",
) -> CausewayError:
    """Returns the error for a response's `code`; `message` is the broker's own text.

    `needs` names the ACL that the request needs ("WRITE on topic A.orders"). It is in the remedy if
    the broker says that the ACL is missing.
    """
    cause = f"{name(code)}: {message.rstrip('.')}" if message else name(code)
    resource = _RESOURCES.get(code)
    if resource is not None:
        wanted = needs or f"for this operation on {resource}"
        return AuthorizationError(
            operation, subject, f"not allowed, {cause}", remedy=f"grant our user the ACL {wanted}"
        )
    if code in _AUTHENTICATION:
        return AuthenticationError(operation, subject, cause)
    return BrokerError(
        operation,
        subject,
        cause,
        code=code,
        name=name(code),
        remedy=_REMEDIES.get(code, ""),
        retriable=code in RETRIABLE,
    )


def error_in(answer: Any, operation: str, subject: str, needs: str = "") -> CausewayError | None:
    """Returns the error in an answer of a broker, or in one item of an answer; None if there is
    none."""
    if not answer.error_code:
        return None
    message = getattr(answer, "error_message", None)
    return broker_error(answer.error_code, operation, subject, message, needs=needs)


def raise_error(answer: Any, operation: str, subject: str, needs: str = "") -> None:
    """Raises the error in an answer, if there is one."""
    if (error := error_in(answer, operation, subject, needs)) is not None:
        raise error
