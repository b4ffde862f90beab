"""Errors of a record that are for its own sake, or its topic's."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from causeway.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    CausewayError,
    UnreachableError,
)

# What a broker, or the client itself, says of a record: it will say so again.
REFUSALS: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
}

# What holds up a topic, and no other one.
OF_TOPICS: Final = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
}


def kafka_error(error: CausewayError) -> KafkaError:
    """In confluent-kafka's words."""
    code = KafkaError._FAIL
    if isinstance(error, BrokerError):
        code = error.code
    elif isinstance(error, AuthorizationError):
        code = KafkaError.TOPIC_AUTHORIZATION_FAILED
    elif isinstance(error, AuthenticationError):
        code = KafkaError._AUTHENTICATION
    elif isinstance(error, UnreachableError):
        code = KafkaError._TRANSPORT
    return KafkaError(code, str(error))
