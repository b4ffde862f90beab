"""Sends WriteTxnMarkers requests to a target broker, one at a time.

Each marker takes one offset, and no consumer sees it. A marker has no sequence, so a lane must know
whether each marker was written. So it sends one request at a time to a broker, with markers for
the gaps of all partitions that the broker leads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from causeway.cluster import Cluster, OffsetAt
from causeway.errors import BrokerError, CausewayError, ProtocolError
from causeway.model import TopicPartition
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.lease import LeaseGuard
from causeway.relay.lane.outlet import OutletState
from causeway.wire import Connection, Marker, codes, markers

MOST_MARKERS = 500  # in a request: a broker takes some 100 ms for them
SLOW_S = 3.0  # after this time a lane looks up why there is no response


class SentMarkers(NamedTuple):
    flow: Flow
    outlet: OutletState
    markers: int


@dataclass(slots=True, eq=False)
class MarkerConnection:
    """Not thread-safe; belongs to one lane's loop. `ready`: outlets whose first gap is due.
    `sent_at` (monotonic): when the request without a response was sent. `asked_at`: when the ends
    of its logs were last looked up; at first the same as `sent_at`."""

    connection: Connection
    version: int
    ready: dict[OutletState, Flow] = field(default_factory=dict)
    sent_at: float = 0.0
    asked_at: float = 0.0
    _sent: dict[markers.Marked, SentMarkers] = field(default_factory=dict)
    _correlation_id: int = 0

    @property
    def waiting(self) -> bool:
        return bool(self._sent)

    @property
    def several(self) -> bool:
        """Whether the request without a response has several partitions."""
        return len(self._sent) > 1

    @property
    def sent(self) -> list[SentMarkers]:
        """The markers without a response."""
        return list(self._sent.values())

    def settle(self, written: Collection[SentMarkers]) -> None:
        """Needs no response for the markers `written`, which are known to be in the log."""
        for key, sent in list(self._sent.items()):
            if sent in written:
                del self._sent[key]
                sent.outlet.unanswered -= 1

    def expired(self, now: float) -> bool:
        """Whether its SASL session has ended: the broker closes the connection at the next
        request."""
        expires_at = self.connection.session_expires_at
        return expires_at is not None and now >= expires_at

    def send(self, lease: LeaseGuard, now: float) -> None:
        """Sends the markers for all gaps that are due, unless a request has no response yet. Raises
        OSError."""
        if self._sent or not self.ready or not lease.lasts():
            return
        most = max(1, MOST_MARKERS // len(self.ready))
        written: list[Marker] = []
        for outlet, flow in self.ready.items():
            gap = outlet.gaps.first if outlet.gaps is not None else None
            if gap is None or outlet.unanswered:
                continue  # its flow was paused meanwhile
            count = min(gap.stop - gap.start, most)
            topic, partition = outlet.by_name
            producer_id, epoch = outlet.producer
            written.append(Marker(producer_id, epoch, topic, partition, count))
            self._sent[producer_id, topic, partition] = SentMarkers(flow, outlet, count)
            outlet.unanswered += 1
        self.ready.clear()
        if not written:
            return
        connection = self.connection
        self._correlation_id = connection.next_correlation_id()
        buffers, size = markers.build(
            self._correlation_id, self.version, connection.client_id_bytes, written
        )
        self.sent_at = self.asked_at = now
        connection.queue(buffers, size)
        self.flush(lease)

    def flush(self, lease: LeaseGuard) -> None:
        lease.send(self.connection.flush)

    def receive(self) -> Iterator[tuple[SentMarkers, int]]:
        """Yields the markers that got a response, with the error code. Raises ConnectionError or
        ProtocolError. Then the connection is dead, and `abandon` returns the flows of the markers
        without a response."""
        for frame in self.connection.receive():
            number, errors = markers.parse(frame)
            if not self._sent or number != self._correlation_id:
                cause = "an answer to a request that was never sent"
                raise ProtocolError("write markers", "", cause)
            for key, sent in self._sent.items():
                if key not in errors:
                    cause = "the answer leaves it out"
                    raise ProtocolError("write markers", sent.flow.subject, cause)
            answered, self._sent = self._sent, {}
            for key, sent in answered.items():
                sent.outlet.unanswered -= 1
                yield sent, errors[key]

    def abandon(self) -> set[Flow]:
        """Closes the connection. Returns the flows whose markers may or may not have been
        written."""
        self.connection.close()
        for sent in self._sent.values():
            sent.outlet.unanswered -= 1
        lost = {sent.flow for sent in self._sent.values()}
        self._sent = {}
        return lost


def open_markers(cluster: Cluster, node: int) -> MarkerConnection:
    """Opens a connection. It blocks, so a helper's thread calls it. Raises CausewayError."""
    connection = cluster.open_connection(node)
    try:
        version = connection.api_version(
            markers.API_KEY, markers.HIGHEST_VERSION, markers.LOWEST_VERSION
        )
    except BaseException:
        connection.close()
        raise
    return MarkerConnection(connection, version)


def unknown_and_written(
    sent: Collection[SentMarkers], ends: Mapping[TopicPartition, OffsetAt | CausewayError]
) -> tuple[TopicPartition | None, list[SentMarkers]]:
    """Returns a partition of the request that does not exist, if there is one, and the markers of
    the request that all replicas have.

    A broker works on all partitions of a request before it reads another request. So if the log has
    grown by the number of markers, none of them can arrive later. That is not true for the first
    markers of an epoch: a marker of an earlier epoch may have arrived instead.
    """
    unknown: TopicPartition | None = None
    written: list[SentMarkers] = []
    for each in sent:
        at, outlet = each.outlet.spec.at, each.outlet
        end = ends[at]
        if isinstance(end, OffsetAt):
            if outlet.sequence and end.offset == outlet.end + each.markers:
                written.append(each)
        elif isinstance(end, BrokerError) and end.code == codes.UNKNOWN_TOPIC_OR_PARTITION:
            unknown = at
    return unknown, written
