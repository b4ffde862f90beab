"""How a lane fills the gaps of a partition that keeps its offsets, one thing after the other.

A marker cannot be taken back, and has no sequence: each test has an instant at which one too many,
or one too few, would give the next record an offset that is not its own.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest, WriteTxnMarkersResponse

from causeway.cluster import Transaction
from causeway.cluster import filling as cluster_filling
from causeway.cluster import transactions as txn
from causeway.errors import CausewayError
from causeway.model import Pair, State, TopicPartition
from causeway.records import Batch, Gap, keep
from causeway.relay import Preserve
from causeway.relay.lane import filling
from causeway.relay.lane.connections import Connections
from causeway.relay.lane.filling import GapFiller
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.gaps import Gaps
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.lease import LeaseGuard
from causeway.relay.lane.marker_connection import MarkerConnection
from causeway.relay.lane.recovery_queue import RecoveryQueue
from causeway.relay.lane.responses import NeedsRecovery, account, must_wait
from causeway.relay.recovery import PartitionLeader, ResumedOutlet, Resumption
from causeway.wire import Connection, Produced, markers
from tests.builders import relay as builders
from tests.harness.raw_batches import Rec, raw_batch

YOUNG_MS = int(time.time() * 1000)


class Wire:
    """A connection to a broker that answers when it is told to."""

    client_id_bytes, wants_write = b"c", False

    def __init__(self) -> None:
        self._socket = socket.socket()
        self.session_expires_at: float | None = None
        self.requests: list[Any] = []
        self._frames: list[memoryview] = []
        self._ids = iter(range(1, 1000))

    def fileno(self) -> int:
        return self._socket.fileno()

    def next_correlation_id(self) -> int:
        return next(self._ids)

    def queue(self, buffers: list[bytes], _: int) -> None:
        frame = b"".join(buffers)
        version = markers.HIGHEST_VERSION
        self.requests.append(
            WriteTxnMarkersRequest.decode(frame, version=version, header=True, framed=True)
        )

    def flush(self) -> None: ...

    def close(self) -> None:
        self._socket.close()

    def receive(self) -> list[memoryview]:
        frames, self._frames = self._frames, []
        return frames

    @property
    def epochs(self) -> list[list[int]]:
        """Of the markers of each request."""
        return [[marker.producer_epoch for marker in request.markers] for request in self.requests]

    def answer(self, error: int = 0) -> None:
        request = self.requests[-1]
        first = request.markers[0]
        kind = WriteTxnMarkersResponse.WritableTxnMarkerResult
        topic_kind = kind.WritableTxnMarkerTopicResult
        part_kind = topic_kind.WritableTxnMarkerPartitionResult
        (topic,) = first.topics
        part = part_kind(partition_index=topic.partition_indexes[0], error_code=error)
        response = WriteTxnMarkersResponse(
            version=markers.HIGHEST_VERSION,
            markers=[
                kind(
                    producer_id=first.producer_id,
                    topics=[topic_kind(name=topic.name, partitions=[part])],
                )
            ],
        )
        response.with_header(correlation_id=request.header.correlation_id)
        self._frames.append(memoryview(bytes(response.encode(header=True))))


class Target:
    """The target cluster. `end`: of its only log."""

    timeout_s = 10.0

    def __init__(self, end: int) -> None:
        self.end = end
        self.closed = threading.Event()
        self.begun: list[str] = []  # transactional ids that were taken

    def log_ends(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self.end)

    def begin(self, _: object, name: str, __: int) -> Transaction:
        self.begun.append(name)
        return Transaction(id=name, producer_id=9, epoch=len(self.begun))


class Lane:
    """A filler with one flow, whose helper threads work when they are told to."""

    def __init__(self, end: int, *, sequence: int = 7, **keeps: Any) -> None:
        self.target, self.wire = Target(end), Wire()
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        own: dict[str, Any] = {"begin": 0, "gaps": "markers", "transactional_id": "c"}
        self.flow = builders.flow(preserve=Preserve(**{**own, **keeps}), settled=True)
        self.recovery = RecoveryQueue(
            cast(Connections, self), cast(Helpers, self), {}, lambda: None
        )
        self.selector = selectors.DefaultSelector()
        self.filler = GapFiller(
            cast(Connections, self),
            cast(Helpers, self),
            self.selector,
            cast(LeaseGuard, self),
            self.recovery,
            {},
        )
        self.resume(Pair(end, end, sequence))

    # -- as connections, helpers, and lease -------------------------------------------------------

    def cluster(self, _: str) -> Target:
        return self.target

    def detach(self, _: Flow) -> None: ...

    def attach(self, _: Flow) -> None: ...

    def offer(self, *_: object) -> None: ...

    def lasts(self) -> bool:
        return True

    def send(self, act: Callable[[], object]) -> None:
        act()

    def submit(self, work: Any, then: Any, *, staged: bool = False) -> None:
        self.jobs.append((work, then))

    def post(self, act: Callable[[], None]) -> None:
        self.jobs.append((lambda: None, lambda _: act()))

    # -- what a test does -------------------------------------------------------------------------

    @property
    def gaps(self) -> Gaps:
        assert self.flow.gaps is not None
        return self.flow.gaps

    def resume(self, pair: Pair, *, epoch: int = 0) -> None:
        """A recovery has found this."""
        outlet = ResumedOutlet(
            pair=pair, end=pair.target, exclusive=True, node=1, producer_epoch=epoch
        )
        self.recovery._resume(
            self.flow,
            Resumption(
                outlets=(outlet,),
                leader_epoch=0,
                source_leader=PartitionLeader(1, 0),
                source_end=1000,
            ),
        )

    def doubt(self, pair: Pair, *, epoch: int = 0) -> None:
        """As `resume`, after requests without a response, none of which can arrive any more."""
        self.flow.unsettled = True
        self.resume(pair, epoch=epoch)

    def fetched(self, stop: int, *batches: Batch) -> None:
        """Its source has these batches, and nothing else below `stop`."""
        self.flow.put_runs(batches, stop)
        self.flow.position = self.flow.through = stop
        self.filler.look(self.flow)

    def work(self) -> None:
        while self.jobs:
            work, then = self.jobs.popleft()
            try:
                answer = work()
            except CausewayError as error:
                answer = error
            then(answer)

    def turn(self) -> None:
        self.work()
        self.filler.turn(0.0)
        self.work()

    def hear(self, *, error: int = 0, appended: int | None = None) -> None:
        """The answer to the last markers, of which so many were `appended`: all if None."""
        count = len(self.wire.requests[-1].markers)
        self.target.end += count if appended is None else appended
        self.wire.answer(error)
        for key in list(self.selector.get_map().values()):
            key.data(selectors.EVENT_READ)
        self.turn()


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Lane]]:
    made: list[Lane] = []

    def make(*given: Any, **named: Any) -> Lane:
        lane = Lane(*given, **named)
        made.append(lane)
        opened = MarkerConnection(cast(Connection, lane.wire), markers.HIGHEST_VERSION)
        monkeypatch.setattr(filling, "open_markers", lambda *_: opened)
        monkeypatch.setattr(txn, "begin", lane.target.begin)
        return lane

    yield make
    for lane in made:
        lane.wire.close()
        lane.selector.close()


def batch(start: int, stop: int) -> Batch:
    raw = raw_batch([Rec(offset=at, value=b"%d" % at) for at in range(start, stop)])
    (kept,) = keep(memoryview(raw), start, (), "t").batches
    return kept


def test_one_marker_needs_no_other_proof_than_its_answer(patched: Callable[..., Lane]) -> None:
    lane = patched(10)
    lane.fetched(13, batch(11, 13))
    lane.turn()

    lane.hear()

    outlet = lane.flow.outlets[0]
    assert (outlet.end, outlet.unanswered, len(outlet.pending)) == (11, 0, 1)
    assert lane.flow.state is State.RUNNING


def test_several_markers_are_believed_once_the_log_ends_behind_them(
    patched: Callable[..., Lane],
) -> None:
    lane = patched(10)
    lane.fetched(15, batch(13, 15))
    lane.turn()

    lane.hear()

    assert lane.wire.epochs == [[0, 0, 0]]
    outlet = lane.flow.outlets[0]
    assert (outlet.end, outlet.unanswered, len(outlet.pending)) == (13, 0, 1)


def test_markers_that_were_not_all_appended_are_noticed_before_the_next_record(
    patched: Callable[..., Lane],
) -> None:
    """Too few followers were there for two of them; the broker answers for the last one alone."""
    lane = patched(10)
    lane.fetched(15, batch(13, 15))
    lane.turn()

    lane.hear(appended=1)

    assert lane.flow.state is State.RECOVERING
    assert lane.flow.unsettled
    assert "ends at 11 instead of 13" in str(lane.flow.reason)
    assert not lane.flow.outlets[0].pending


def test_the_first_marker_after_a_fence_is_proved_as_well(patched: Callable[..., Lane]) -> None:
    """A marker of the lane before came between the look at the log's end and ours."""
    lane = patched(10)
    lane.doubt(Pair(10, 10, 7))
    lane.fetched(13, batch(11, 13))
    lane.turn()
    assert lane.wire.epochs == [[1]]

    lane.hear(appended=2)

    assert lane.flow.state is State.RECOVERING
    assert not lane.flow.outlets[0].pending


def test_a_doubt_outlives_a_recovery_for_another_reason(patched: Callable[..., Lane]) -> None:
    """The source's connection is lost before anything is sent that refuses earlier requests."""
    lane = patched(10)
    lane.doubt(Pair(10, 10, 7))

    lane.recovery.start_recovery(lane.flow, NeedsRecovery("its source is gone"))

    assert lane.flow.unsettled
    lane.resume(Pair(10, 10, 7))
    lane.fetched(13, batch(11, 13))
    lane.turn()
    assert lane.target.begun
    assert lane.wire.epochs == [[1]]


def test_a_doubt_ends_with_an_acknowledged_batch(patched: Callable[..., Lane]) -> None:
    lane = patched(10)
    lane.doubt(Pair(10, 10, 7))
    lane.fetched(13, batch(10, 12))
    outlet = lane.flow.outlets[0]
    assert lane.gaps.doubtful
    sent = outlet.sent(outlet.take())
    assert not lane.flow.report(final=True).settled
    outlet.unanswered -= 1

    account(lane.flow, outlet, sent, Produced(0, 10, -1, ""), 0)

    assert not lane.gaps.doubtful
    lane.filler.look(lane.flow)
    lane.turn()
    assert not lane.target.begun
    assert lane.wire.epochs == [[0]]


def test_a_flow_that_leaves_amid_its_fence_is_not_settled(patched: Callable[..., Lane]) -> None:
    lane = patched(10)
    lane.doubt(Pair(10, 10, 7))
    lane.fetched(13, batch(11, 13))
    lane.flow.leave()
    lane.recovery.pause(lane.flow)
    lane.target.end += 1  # the fence shows a marker of the lane before

    lane.work()

    report = lane.flow.report(final=True)
    assert not lane.flow.unanswered
    assert not report.settled


@pytest.mark.parametrize("gaps", ["markers", "transactions"])
def test_only_markers_take_a_new_epoch(
    patched: Callable[..., Lane], monkeypatch: pytest.MonkeyPatch, gaps: str
) -> None:
    """With transactions the new epoch would come into the log with a batch. If that one arrives
    after a successor's, which has the old epoch, nothing refuses it."""
    lane = patched(10, gaps=gaps)
    lane.doubt(Pair(10, 10, 7))

    def fill(_: Any, __: Any, ___: Any, count: int) -> None:
        lane.target.end += count

    monkeypatch.setattr(cluster_filling, "fill_with_markers", fill)
    lane.fetched(13, batch(11, 13))
    lane.turn()
    if gaps == "markers":
        lane.hear()

    outlet = lane.flow.outlets[0]
    assert outlet.end == 11
    assert (outlet.producer, outlet.sequence) == (((1, 1), 0) if gaps == "markers" else ((1, 0), 7))


def test_a_thread_that_was_stopped_before_its_transaction_looks_at_the_end_again(
    patched: Callable[..., Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was frozen. Another lane has filled the gap, and sent the records behind it."""
    lane = patched(10, gaps="transactions")
    filled: list[int] = []
    monkeypatch.setattr(
        cluster_filling, "fill_with_markers", lambda *given: filled.append(given[3])
    )
    lane.fetched(13, batch(11, 13))
    lane.target.end = 13

    lane.work()

    assert not filled
    assert lane.flow.unsettled


def test_a_marker_that_a_coordinator_wrote_twice_is_noticed_before_the_next_record(
    patched: Callable[..., Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = patched(10, gaps="transactions")

    def fill(_: Any, __: Any, ___: Any, count: int) -> None:
        lane.target.end += count + 1

    monkeypatch.setattr(cluster_filling, "fill_with_markers", fill)
    lane.fetched(13, batch(11, 13))

    lane.work()

    assert lane.flow.state is State.RECOVERING
    assert lane.flow.unsettled
    assert not lane.flow.outlets[0].pending


def test_an_epoch_is_not_taken_twice_by_one_lane(patched: Callable[..., Lane]) -> None:
    """Its first marker got no answer, and is not there yet."""
    lane = patched(10)
    lane.doubt(Pair(10, 10, 7))
    lane.fetched(13, batch(11, 13))
    lane.turn()
    assert lane.wire.epochs == [[1]]
    lane.filler.abandon("the connection is lost")
    assert lane.flow.outlets[0].report().producer_epoch == 1
    lane.flow.late_by = 0.0
    lane.resume(Pair(10, 10, 0), epoch=1)  # as preserved.py has it, with what was reported
    again = Wire()
    lane.filler._open["B/1", 1] = MarkerConnection(cast(Connection, again), markers.HIGHEST_VERSION)
    lane.selector.register(again, selectors.EVENT_READ, lambda _: None)
    lane.fetched(13, batch(11, 13))
    lane.turn()
    again.close()
    assert again.epochs == [[2]]


def test_a_connection_whose_session_ends_is_opened_again(
    patched: Callable[..., Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = patched(10)
    lane.fetched(12, batch(11, 12))
    lane.turn()
    lane.hear()
    again = Wire()
    opened = MarkerConnection(cast(Connection, again), markers.HIGHEST_VERSION)
    monkeypatch.setattr(filling, "open_markers", lambda *_: opened)
    lane.wire.session_expires_at = -1.0
    outlet = lane.flow.outlets[0]
    outlet.drop_pending()
    outlet.end = lane.target.end = 12

    lane.fetched(13)
    lane.turn()
    lane.turn()
    again.close()

    assert lane.flow.state is State.RUNNING
    assert len(again.requests) == 1


def test_the_beginning_does_not_grow_by_the_gap_behind_it() -> None:
    """Else a billion offsets would be filled by markers, as one gap."""
    gaps = Gaps(Preserve(begin=1_000_000_000, gaps="markers", transactional_id="c"))
    gaps.put(Gap(5, 1_000_000_000))
    gaps.put(Gap(1_000_000_000, 1_000_000_001))
    gaps.put(Gap(1_000_000_001, 1_000_000_003))
    first = gaps.first
    assert first == Gap(5, 1_000_000_000)
    assert gaps.way(first) == "beginning"
    gaps.filled_to(1_000_000_000)
    second = gaps.first
    assert second == Gap(1_000_000_000, 1_000_000_003)
    assert gaps.way(second) == "markers"


def test_a_gap_from_the_beginning_on_is_two() -> None:
    gaps = Gaps(Preserve(begin=100, gaps="markers", transactional_id="c"))
    gaps.put(Gap(5, 130))
    assert list(gaps.queue) == [Gap(5, 100), Gap(100, 130)]


def test_no_pair_lies_behind_a_marker_of_a_later_epoch(patched: Callable[..., Lane]) -> None:
    """The source would answer to the epoch of the last record with an end before the marker."""
    lane = patched(10)
    lane.flow.leader_epoch = 5
    lane.fetched(11)
    lane.turn()

    lane.hear()

    report = lane.flow.report()
    assert (report.position, report.leader_epoch) == (11, 5)


def test_the_epoch_of_a_gap_is_that_of_the_batch_behind_it_at_the_most(
    patched: Callable[..., Lane],
) -> None:
    """The lane has read on, into an epoch whose records the source may lose yet."""
    lane = patched(10)
    lane.flow.leader_epoch = 5
    lane.fetched(13, batch(11, 13)._replace(leader_epoch=4))
    lane.turn()

    lane.hear()

    assert lane.flow.report().leader_epoch == 4


def test_a_new_claim_behind_records_waits_for_what_an_earlier_one_sent(
    patched: Callable[..., Lane],
) -> None:
    """Its requests have another producer id: they would be accepted behind our first batch."""
    lane = patched(10)
    flow = lane.flow
    flow.late_by, flow.sought_at = 1005.0, 1000.0
    outlet = flow.outlets[0]
    young = batch(10, 12)._replace(base_timestamp=YOUNG_MS, max_timestamp=YOUNG_MS)
    lane.doubt(Pair(10, 10, 0))
    assert not must_wait(flow, [young])
    outlet.spec = outlet.spec.replace(earlier=(5,))
    assert must_wait(flow, [young])
    flow.sought_at = 1006.0
    assert not must_wait(flow, [young])
    flow.sought_at = 1000.0
    lane.doubt(Pair(10, 10, 7))  # a sequence of ours refuses what was sent before
    assert not must_wait(flow, [young])
    lane.gaps.doubtful = False
    outlet.sequence = 0
    assert not must_wait(flow, [young])


@pytest.mark.parametrize(
    "why",
    [
        Produced(0, 10, 1_700_000_000_000, ""),  # a duplicate
        Produced(45, -1, -1, ""),
        Produced(47, -1, -1, ""),
    ],
)
def test_a_lane_that_meets_another_one_waits_before_it_fills(
    patched: Callable[..., Lane], why: Produced
) -> None:
    """Both would look at the log's end, and both write a marker there. One of them has no lease
    any more when it has waited."""
    lane = patched(10)
    lane.fetched(13, batch(10, 12))
    outlet = lane.flow.outlets[0]
    sent = outlet.sent(outlet.take())
    outlet.unanswered -= 1
    with pytest.raises(NeedsRecovery) as needed:
        account(lane.flow, outlet, sent, why, 0)
    lane.recovery.start_recovery(lane.flow, needed.value)
    lane.flow.sought_at = time.monotonic()
    lane.resume(Pair(12, 12, 9))

    lane.fetched(13)

    assert lane.flow.state is State.RECOVERING
    assert lane.flow.retry_at > time.monotonic() + lane.target.timeout_s / 2
    lane.flow.sought_at = lane.flow.retry_at
    lane.target.end = 12
    lane.resume(Pair(12, 12, 9))
    lane.fetched(13)
    lane.turn()
    assert lane.wire.epochs == [[1]]


def test_a_fence_that_finds_another_end_waits_before_the_next_one(
    patched: Callable[..., Lane],
) -> None:
    lane = patched(10)
    lane.doubt(Pair(10, 10, 7))
    lane.fetched(13, batch(12, 13))
    lane.target.end = 11
    lane.turn()
    assert lane.flow.rival_by > time.monotonic()
    assert not lane.wire.requests


def test_what_waits_behind_gaps_counts_as_held(patched: Callable[..., Lane]) -> None:
    lane = patched(10)
    one = batch(11, 13)
    lane.fetched(13, one)
    assert lane.filler.size == one.size
    lane.turn()
    lane.hear()
    assert lane.filler.size == 0
