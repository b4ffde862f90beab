from __future__ import annotations

import pytest
from kafka.errors import RetriableError, kafka_errors

from causeway.errors import AuthenticationError, AuthorizationError, BrokerError
from causeway.wire import broker_error, codes


def test_a_retriable_code() -> None:
    error = broker_error(6, "write to", "t-0 on B")
    assert isinstance(error, BrokerError)
    assert error.retriable
    assert (error.code, error.name) == (6, "NOT_LEADER_OR_FOLLOWER")
    assert str(error) == "write to t-0 on B: NOT_LEADER_OR_FOLLOWER"


def test_the_brokers_own_words_are_kept() -> None:
    error = broker_error(44, "create topic", "t on B", "At most 10 partitions.")
    assert str(error).startswith("create topic t on B: POLICY_VIOLATION: At most 10 partitions (")
    assert not error.retriable


def test_a_record_that_is_ahead_of_the_brokers_clock() -> None:
    assert "correct the clock" in str(broker_error(32, "write to", "t-0 on B"))


def test_a_missing_acl_names_resource_and_operation() -> None:
    error = broker_error(29, "write to", "t-0 on B", needs="WRITE on topic t")
    assert isinstance(error, AuthorizationError)
    assert "grant our user the ACL WRITE on topic t" in str(error)
    assert "the group" in str(broker_error(30, "read", "g"))


@pytest.mark.parametrize("code", [33, 34, 58])
def test_sasl_codes(code: int) -> None:
    assert isinstance(broker_error(code, "connect to", "B"), AuthenticationError)


def test_a_code_newer_than_the_table() -> None:
    error = broker_error(9_999, "read", "t-0")
    assert isinstance(error, BrokerError)
    assert error.name == "error code 9999"
    assert not error.retriable


def test_the_retriable_set_is_kafkas() -> None:
    theirs = {code for code, kind in kafka_errors.items() if issubclass(kind, RetriableError)}
    # Java retries CORRUPT_MESSAGE, kafka-python does not; 133 is too new for it.
    assert theirs | {2, 133} == codes.RETRIABLE


def test_sequence_errors_are_never_retried_blindly() -> None:
    names = {codes.name(code) for code in codes.RETRIABLE}
    assert not names & {
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
        "UNKNOWN_PRODUCER_ID",
        "OFFSET_OUT_OF_RANGE",
    }
