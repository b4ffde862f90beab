"""Makes brokers refuse late requests of earlier lanes that fill offsets, and detects requests that
arrived."""

from __future__ import annotations

from causeway.cluster import Cluster, Transaction, value_of
from causeway.cluster import transactions as txn
from causeway.errors import BrokerError, CausewayError, DivergedError
from causeway.model import TopicPartition
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.responses import NeedsRecovery
from causeway.wire import codes

TRANSACTION_MS = 60_000  # after this time a broker rolls back the transaction of a dead lane
_UNSETTLED = "UNSETTLED"


def fill_id(flow: Flow) -> str:
    """The transactional id that fills gaps of the flow."""
    preserve = flow.assignment.preserve
    assert preserve is not None
    return f"{preserve.transactional_id}.fill.{flow.outlets[0].spec.at}"


def fence(cluster: Cluster, at: TopicPartition, end: int, transactional_id: str) -> Transaction:
    """Takes over the transactional id, so that no marker of an earlier owner can arrive. A helper's
    thread calls it. Raises CausewayError if the log does not end at `end` after that."""
    transaction = txn.begin(cluster, transactional_id, TRANSACTION_MS)
    expect_end(cluster, at, end)
    return transaction


def expect_end(cluster: Cluster, at: TopicPartition, end: int) -> None:
    """Raises CausewayError if the log of `at` does not end at `end`."""
    found = value_of(cluster.log_ends([at])[at])
    if found != end:
        raise ends_elsewhere(at, found, end)


def ends_elsewhere(at: TopicPartition, found: int, due: int) -> BrokerError:
    return BrokerError(
        "fill the offsets of",
        str(at),
        f"the log ends at {found} instead of {due}",
        code=-1,
        name=_UNSETTLED,
        retriable=True,
    )


def failed(error: CausewayError) -> NeedsRecovery:
    """The recovery that `error` needs. Another lane whose lease still lasts may have written
    markers; such a lane is a rival."""
    rival = isinstance(error, DivergedError)
    if isinstance(error, BrokerError):
        rival = error.code in codes.OF_A_RIVAL or error.name == _UNSETTLED
    return NeedsRecovery(str(error), unsettled=True, rival=rival)
