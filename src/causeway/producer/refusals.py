"""Errors of a record that are for its own sake."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

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
