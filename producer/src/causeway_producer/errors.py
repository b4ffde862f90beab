"""The errors that this package raises itself. Errors of Kafka are confluent-kafka's.

    DualProducerError
    ├── SettingsError      a setting, a topic or a spool that cannot be used
    └── SpoolInUseError    another process has the spool open

No error text holds a secret.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException


class DualProducerError(Exception):
    """The operation and its object, the cause, and the remedy if there is one."""

    def __init__(self, operation: str, cause: str, remedy: str = "") -> None:
        super().__init__(f"{operation}: {cause}" + (f" ({remedy})" if remedy else ""))


class SettingsError(DualProducerError):
    pass


class SpoolInUseError(DualProducerError):
    pass


REFUSALS: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
}
"""Codes for a record that a broker, or the client, refuses each time it is sent."""

OF_TOPICS: Final = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
}
"""Codes for a topic that takes no records. Other topics of the cluster do."""

NO_ANSWER: Final = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
}
"""Codes for a cluster that gives no answer."""


def code_of(error: BaseException) -> int | None:
    """Returns Kafka's error code, if the error has one."""
    return error.args[0].code() if isinstance(error, KafkaException) else None


def as_kafka_error(error: object) -> KafkaError:
    """Converts an error for callbacks that expect confluent-kafka's errors."""
    if isinstance(error, KafkaException):
        error = error.args[0]
    return error if isinstance(error, KafkaError) else KafkaError(KafkaError._STATE, str(error))


class TopicError(KafkaException):  # type: ignore[misc,unused-ignore]
    """The client did not take a record of this topic, and has to be replaced."""

    def __init__(self, topic: str, error: KafkaError) -> None:
        super().__init__(error)
        self.topic = topic
