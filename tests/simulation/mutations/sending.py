"""Breaks of the rules by which lanes fetch and send. Lanes alone find them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from causeway.model import Pair
from causeway.relay.lane import outlet, responses, target, transforming, watches
from causeway.relay.lane.flow import Flow
from causeway.relay.lane.outlet import OutletState, Sent
from causeway.relay.lane.recovery_queue import RecoveryQueue
from causeway.relay.lane.relay import Relay
from causeway.relay.lane.watches import Leaders
from causeway.wire import FetchSession, Produced, fetch
from tests.simulation.mutations.mutation import Apply, Mutation, during, replaced, wrapped

_ALWAYS_YOUNG: Final = lambda _: True  # noqa: E731


class _EqualToAll:
    """In place of the offset that a fetch asked for."""

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class _OfOneOutlet(tuple[bytes, int]):
    """The place of an outlet that differs from the same place of another outlet."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other if isinstance(other, _OfOneOutlet) else tuple.__eq__(self, other)

    __hash__ = tuple.__hash__


def _twice_in_a_request(original: Callable[..., None], state: OutletState) -> None:
    original(state)
    state.by_name = _OfOneOutlet(state.by_name)


def _ahead(original: Callable[..., Sent], state: OutletState, batch: Any) -> Sent:
    sent = original(state, batch)
    state.pair = Pair(sent.next, state.end, state.sequence)
    return sent


def _passed_over(
    original: Callable[..., None], flow: Flow, state: Any, sent: Sent, found: Produced, now: int
) -> None:
    if not found.error:
        original(flow, state, sent, found, now)


def _without_doubt(
    original: Callable[..., None], queue: RecoveryQueue, flow: Flow, why: Any
) -> None:
    why.unsettled = False
    unsettled = flow.unsettled
    original(queue, flow, why)
    flow.unsettled = unsettled


def _still_known(
    original: Callable[..., None], queue: RecoveryQueue, flow: Flow, places: Any
) -> None:
    before = [each.remembered_until for each in flow.outlets]
    original(queue, flow, places)
    for each, until in zip(flow.outlets, before, strict=True):
        each.remembered_until = until


def _settled_at_once(original: Callable[..., Any], flow: Flow, *, final: bool = False) -> Any:
    return original(flow, final=final).replace(settled=final)


def _any_leader(original: Callable[..., Any], *given: Any) -> Any:
    return original(*given)._replace(leader_epoch=-1)


def _cut_anywhere(batch: Any, count: int) -> list[int]:
    return sorted({batch.records * number // count for number in range(1, count)} - {0})


def _move_up_all(flow: Flow) -> list[OutletState]:
    return [each for each in flow.outlets if not each.exclusive and not each.unanswered]


def _unanswered_too(original: Callable[..., None], *given: Any) -> None:
    before = Flow.__dict__["unanswered"]
    setattr(Flow, "unanswered", property(lambda _: 0))  # noqa: B010 - a property is not assigned to
    try:
        original(*given)
    finally:
        setattr(Flow, "unanswered", before)  # noqa: B010


def _at_the_furthest(original: Callable[..., None], queue: Any, flow: Flow, found: Any) -> None:
    original(queue, flow, found)
    flow.position = flow.through = max(each.start for each in flow.outlets)


def _lanes(guard: str, kind: str, runs: int, apply: Apply, survives: str = "") -> Mutation:
    guard = f"relay/lane/{guard}"
    return Mutation(guard=guard, kind=kind, runs=runs, apply=apply, survives=survives)


SENDING: dict[str, Mutation] = {
    "several batches are in flight before the broker knows the producer": _lanes(
        "outlet.py, OutletState.may_send",
        "bounded, by key",
        20,
        replaced(OutletState, "may_send", lambda *_: True),
    ),
    "a batch of old records leaves with unanswered ones behind it": _lanes(
        "outlet.py, OutletState.sent",
        "old and young, shared outlets",
        60,
        replaced(outlet, "is_young", _ALWAYS_YOUNG),
    ),
    "an acknowledged batch of old records counts as knowledge of the producer": _lanes(
        "target.py, TargetConnection.receive",
        "old and young, shared outlets",
        60,
        replaced(target, "is_young", _ALWAYS_YOUNG),
    ),
    "old records do not wait until no earlier request can arrive": _lanes(
        "responses.py, must_wait",
        "old, soon forgotten",
        150,
        replaced(responses, "must_wait", lambda *_: False),
    ),
    "after a recovery the broker counts as one that knows the producer": _lanes(
        "recovery_queue.py, RecoveryQueue._put",
        "old, many refusals",
        150,
        wrapped(RecoveryQueue, "_put", _still_known),
        survives="a second line: brokers forget only producers of old records",
    ),
    "a batch that was refused is passed over": _lanes(
        "responses.py, account",
        "bounded, by key",
        5,
        wrapped(responses, "account", _passed_over),
    ),
    "lost requests leave nothing in doubt": _lanes(
        "recovery_queue.py, RecoveryQueue.start_recovery",
        "one outlet",
        20,
        wrapped(RecoveryQueue, "start_recovery", _without_doubt),
    ),
    "a lane calls a partition settled while its requests may arrive": _lanes(
        "flow.py, Flow.report",
        "one outlet",
        60,
        wrapped(Flow, "report", _settled_at_once),
    ),
    "a pair is reported ahead of the acknowledged record": _lanes(
        "outlet.py, OutletState.sent",
        "one outlet",
        5,
        wrapped(OutletState, "sent", _ahead),
    ),
    "a fetch response counts though recovery has changed the position": _lanes(
        "reader.py, SourceConnection.receive",
        "one outlet",
        20,
        replaced(FetchSession, "asked", lambda *_: _EqualToAll()),
    ),
    "a request has a target partition twice": _lanes(
        "target.py, TargetConnection._queue_one",
        "shared outlets",
        5,
        wrapped(OutletState, "__post_init__", _twice_in_a_request),
    ),
    "records that an outlet has already are sent again": _lanes(
        "responses.py, route",
        "several outlets, by key",
        20,
        replaced(responses, "clip", lambda batch, _: batch),
    ),
    "what one record became is cut apart": _lanes(
        "outlet.py, _cuts",
        "targets that take less, transformed",
        60,
        replaced(outlet, "_cuts", _cut_anywhere),
    ),
    "the pair of a lane that leaves moves over batches that it dropped": _lanes(
        "flow.py, Flow.settle",
        "one outlet",
        60,
        during(Flow, "settle", lambda _: {"leaving": False}),
    ),
    "the pair moves on though requests were given up": _lanes(
        "flow.py, Flow.settle",
        "transformed",
        150,
        during(Flow, "settle", lambda _: {"unsettled": False}),
    ),
    "the pair of an outlet with waiting batches follows the target's end": _lanes(
        "watches.py, _idle_outlets",
        "shared outlets, often looked at",
        60,
        replaced(watches, "_idle_outlets", _move_up_all),
    ),
    "no other broker confirms that the source's leader leads": _lanes(
        "watches.py, Leaders.look",
        "one outlet",
        60,
        replaced(Leaders, "look", lambda *_: None),
    ),
    "fetches do not name the leader's epoch": _lanes(
        "reader.py, SourceConnection._look",
        "one outlet",
        60,
        wrapped(fetch, "position", _any_leader),
        survives="a second line: no simulated leader of an old epoch has other records",
    ),
    "a recovery begins before each request has its answer": _lanes(
        "recovery_queue.py, RecoveryQueue.find",
        "one outlet",
        60,
        wrapped(RecoveryQueue, "find", _unanswered_too),
    ),
    "batches that waited before a recovery are sent after it": _lanes(
        "recovery_queue.py, RecoveryQueue.pause",
        "one outlet",
        20,
        replaced(OutletState, "drop_pending", lambda _: None),
    ),
    "a flow goes on where its furthest outlet is": _lanes(
        "recovery_queue.py, RecoveryQueue._resume",
        "several outlets, by key",
        20,
        wrapped(RecoveryQueue, "_resume", _at_the_furthest),
    ),
    "a batch that is too large is sent again as it is": _lanes(
        "outlet.py, send_smaller",
        "targets that take less than was known",
        20,
        replaced(responses, "send_smaller", lambda *_: False),
    ),
    "a partition that a lane gives up is sent further": _lanes(
        "relay.py, Relay.let_go",
        "one outlet",
        60,
        replaced(Relay, "let_go", lambda *_: None),
    ),
    "records behind one that a transform refuses are relayed": _lanes(
        "transforming.py, Transforming._routed",
        "a transform refuses records",
        20,
        replaced(transforming, "usable", lambda piece, *, stops: piece.outcome.outputs),
    ),
    "transformed records that an outlet has already are sent again": _lanes(
        "transforming.py, Transforming._routed",
        "transformed",
        20,
        replaced(transforming, "clip", lambda batch, _: batch),
    ),
    "a batch passes unread behind old records": _lanes(
        "responses.py, _unread",
        "old, damaged on the way",
        150,
        replaced(responses, "young_since_ms", lambda: -1),
    ),
    "nothing checks the CRC of a batch that is read": Mutation(
        guard="records/keep.py, _keep_all",
        kind="damaged on the way",
        runs=20,
        apply=replaced(sys.modules["causeway.records.keep"], "checksum", lambda *_: _EqualToAll()),
    ),
}
