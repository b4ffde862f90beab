"""Breaks that only a run of the whole mirror finds: recovery, drivers, groups."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from causeway.cluster import pool
from causeway.control import claim_checks, required_apis
from causeway.daemon.leadership import Leadership
from causeway.daemon.partitions.claiming import Claimer
from causeway.daemon.tasks import groups
from causeway.link_topics import ProgressContents, ProgressTopic
from causeway.link_topics.offset_map import Span
from causeway.relay.lane import responses
from causeway.relay.lane.outlet import UNKNOWN
from causeway.relay.recovery import resume
from causeway.translation import UnreadRecords
from causeway.wire import fetch
from tests.simulation.mirror import LeaseAlarm
from tests.simulation.mutations import scripts
from tests.simulation.mutations.mutation import Apply, Mutation, during, replaced, wrapped
from tests.simulation.scenario import CONFIGS, Content, Scenario, TopicPlan

if TYPE_CHECKING:
    from tests.simulation.run import Run


def _small(
    content: Content, script: Callable[[Run], None] | None = None, **changes: Any
) -> Callable[[Scenario], Scenario]:
    """One partition, two brokers in each cluster, one driver, one lane, and the script; without one
    half a minute of faults."""
    shared = content is Content.SHARED
    configs = dict(CONFIGS.get(content, {}))
    topic = TopicPlan(name="t0", content=content, partitions=1, configs=configs, identity=shared)
    less: dict[str, Any] = {
        "nodes": 2,
        "replication": 2,
        "drivers": 1,
        "lanes": 1,
        "faults_s": 30.0,
        "identity": shared,
        "sole_writer": False if shared else None,
        "back": (),
    }
    if script is not None:
        less |= {"script": script, "catch_up_s": 150.0}
    return lambda scenario: replace(scenario, topics=(topic,), **{**less, **changes})


def _with_aborted(
    original: Callable[..., Any], data: Any, position: int, _: Any, *given: Any
) -> Any:
    return original(data, position, (), *given)


def _same_number(original: Callable[..., Any], *given: Any) -> Any:
    return {
        group: {
            at: structs.replace(place, downstream=place.upstream) for at, place in places.items()
        }
        for group, places in original(*given).items()
    }


def _believe_pair(_: Any, source: Any, target: Any) -> Any:
    return target.resumed(target.outlet.pair, source.assignment.leader_epoch)


def _believe_kept_pair(_: Any, source: Any, target: Any, __: Any) -> Any:
    outlet = target.outlet
    resumed = target.resumed(outlet.pair, source.assignment.leader_epoch)
    return replace(resumed, end=outlet.pair.target, producer_epoch=outlet.producer_epoch)


def _believe_end(source: Any, target: Any) -> Any:
    return target.resumed(target.outlet.pair, source.assignment.leader_epoch)


def _any_topic(patch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("causeway.") and hasattr(module, "same_topic"):
            patch.setattr(module, "same_topic", lambda *_: True)


def _ignore_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseAlarm, "lasts", lambda _: True)
    patch.setattr(LeaseAlarm, "send", lambda _, act: act())


def _any_epoch(original: Callable[..., Any], *given: Any) -> Any:
    return original(*given)._replace(last_epoch=-1)


def _acknowledged(
    original: Callable[..., None], flow: Any, state: Any, sent: Any, found: Any, now: int
) -> None:
    original(flow, state, sent, found._replace(append_time=-1), now)


def _at_any_offset(
    original: Callable[..., None], flow: Any, state: Any, sent: Any, found: Any, now: int
) -> None:
    base = max(found.base_offset, state.pair.target)
    original(flow, state, sent._replace(expected=UNKNOWN), found._replace(base_offset=base), now)


def _without_epoch(leadership: Leadership) -> dict[str, Any]:
    return {"_link": replace(leadership._link, delivery="at-least-once")}


def _unread_after(original: Callable[..., None], leadership: Leadership) -> None:
    original(leadership)
    topic = leadership._topic

    def nothing(start: int | None = None) -> ProgressContents:
        del topic.read
        return ProgressContents(end=start or 0)

    topic.read = nothing  # type: ignore[method-assign, assignment]


def _claimed_later(original: Callable[..., Any], *given: Any) -> Any:
    return replace(original(*given), claims=())


def _no_loss(original: Callable[..., None], topic: ProgressTopic, batch: bytes) -> None:
    losses = topic.losses
    original(topic, batch)
    topic.losses = losses


def _never_wraps(patch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("causeway.") and hasattr(module, "distance"):
            patch.setattr(module, "distance", lambda start, end: end - start)


def _mirror(
    guard: str,
    runs: int,
    focus: Callable[[Scenario], Scenario],
    apply: Apply,
    survives: str = "",
) -> Mutation:
    return Mutation(guard=guard, runs=runs, focus=focus, apply=apply, survives=survives)


MIRROR: dict[str, Mutation] = {
    "records of aborted transactions are relayed": _mirror(
        "relay/lane/responses.py, take",
        3,
        _small(Content.TRANSACTIONS),
        wrapped(responses, "keep", _with_aborted),
    ),
    "a group is committed at its offset of the source": _mirror(
        "translation/course.py, group_offsets",
        10,
        _small(Content.TRANSACTIONS, group_sync=True),
        wrapped(groups, "group_offsets", _same_number),
    ),
    "a stretch of the offset map with gaps counts as straight": _mirror(
        "link_topics/offset_map.py, Span.straight",
        5,
        _small(Content.TRANSACTIONS, group_sync=True),
        replaced(Span, "straight", property(lambda _: True)),
    ),
    "recovery believes the pair instead of the target's log": _mirror(
        "relay/recovery/resume.py, _count_on",
        10,
        _small(Content.PLAIN, scripts.crashes),
        replaced(resume, "_count_on", _believe_pair),
    ),
    "recovery of a partition that keeps its offsets believes the pair": _mirror(
        "relay/recovery/preserved.py, end_of_copy",
        10,
        _small(Content.PRESERVED, scripts.crashes),
        replaced(resume, "end_of_copy", _believe_kept_pair),
    ),
    "recovery does not count back after the target lost records": _mirror(
        "relay/recovery/retrace.py, count_back",
        10,
        _small(Content.PLAIN, scripts.lost_tail),
        replaced(resume, "count_back", _believe_end),
    ),
    "a topic that was recreated counts as the same": _mirror(
        "model.py, same_topic",
        10,
        _small(Content.PLAIN, scripts.recreated_source),
        _any_topic,
    ),
    "an address may lead to another target": _mirror(
        "cluster/pool.py, Identity.check",
        10,
        _small(Content.PLAIN, scripts.another_target),
        replaced(pool.Identity, "check", lambda *_: None),
    ),
    "an address may lead to another source": _mirror(
        "cluster/pool.py, Identity.check",
        10,
        _small(Content.PLAIN, scripts.another_source),
        replaced(pool.Identity, "check", lambda *_: None),
    ),
    "fetches do not name the epoch of the last record": _mirror(
        "relay/lane/reader.py, SourceConnection._look",
        10,
        _small(Content.PLAIN, scripts.truncated_source),
        wrapped(fetch, "position", _any_epoch),
    ),
    "records that the source deleted are passed over": _mirror(
        "control/claim_checks.py, passes",
        10,
        _small(Content.PLAIN, scripts.deleted_source, loss="stop"),
        replaced(claim_checks, "passes", lambda *_: True),
    ),
    "brokers without a required API are accepted": _mirror(
        "control/required_apis.py, lacking",
        5,
        _small(Content.PLAIN, scripts.without_an_api),
        replaced(required_apis, "lacking", lambda *_: ()),
    ),
    "sequences do not wrap": _mirror(
        "records/batches.py, distance",
        10,
        _small(Content.PLAIN, scripts.last_sequence),
        _never_wraps,
    ),
    "a commit passes records of others": _mirror(
        "translation/unread.py, UnreadRecords.look",
        10,
        _small(Content.SHARED, scripts.long_life, group_sync=True),
        replaced(UnreadRecords, "look", lambda *_: {}),
    ),
    "a driver does not raise the epoch of its transactional id": _mirror(
        "daemon/leadership.py, Leadership._take",
        10,
        _small(Content.PLAIN, scripts.frozen_before_a_claim, drivers=2),
        during(Leadership, "_take", _without_epoch),
    ),
    "a driver does not read the progress topic after it fenced the others": _mirror(
        "daemon/leadership.py, Leadership.acquire",
        10,
        _small(Content.PLAIN, scripts.thawed_before_the_fence, drivers=2),
        wrapped(Leadership, "_take", _unread_after),
    ),
    "lanes relay before the claim is durable": _mirror(
        "daemon/partitions/reconcile.py, Reconciler.look",
        10,
        _small(Content.SHARED, scripts.crash_at_the_first_record),
        wrapped(Claimer, "take_up", _claimed_later),
    ),
    "a lost progress topic counts as a first start": _mirror(
        "daemon/leadership.py, Leadership.progress_lost",
        10,
        _small(Content.SHARED, scripts.lost_progress),
        replaced(Leadership, "progress_lost", property(lambda _: False)),
    ),
    "a leader does not notice that progress is lost": _mirror(
        "link_topics/progress.py, ProgressTopic.append",
        10,
        _small(Content.SHARED, scripts.lost_progress_of_a_leader),
        wrapped(ProgressTopic, "append", _no_loss),
    ),
    "a duplicate response counts as an acknowledgement": _mirror(
        "relay/lane/responses.py, account",
        10,
        _small(Content.COMPACTED, scripts.compacted_behind_a_request),
        wrapped(responses, "account", _acknowledged),
    ),
    "offsets of responses are not checked": _mirror(
        "relay/lane/responses.py, account",
        10,
        _small(Content.PLAIN, scripts.hole, ends_with_script=True),
        wrapped(responses, "account", _at_any_offset),
    ),
    "a standby leads before the lease of the leader has ended": _mirror(
        "daemon/leadership.py, Leadership._wait_for_lease",
        5,
        _small(Content.PLAIN, scripts.long_life, drivers=2),
        replaced(Leadership, "_wait_for_lease", lambda *_: True),
    ),
    "lanes ignore their lease": _mirror(
        "relay/lane/lease.py, LeaseGuard",
        10,
        _small(Content.PRESERVED, lanes=2),
        _ignore_lease,
        survives="a second line: sequences refuse a second lane; old records alone need it",
    ),
}
