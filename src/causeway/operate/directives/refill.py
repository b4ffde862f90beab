"""Deletes the mirror of a topic that keeps its offsets, and has it mirrored again from the start.

The driver does this (daemon/partitions/restarts.py). This module finds the cost and requests it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

from causeway.cluster import EARLIEST, LATEST, Cluster, bytes_an_offset, clusters, offsets_at
from causeway.config import LinkSettings, Settings
from causeway.control import preserving
from causeway.errors import ConfigError, RefusedError
from causeway.link_topics import RestartDirective, plan_directive
from causeway.model import NO_TOPIC_ID, TopicPartition
from causeway.operate.directives.act import DirectiveOutcome, DirectiveRequest, outcome_json
from causeway.operate.directives.scopes import Asked, Wanted, choose
from causeway.status import picked

_REFILL: Final = "refill"
_SAMPLED: Final = 8  # partitions whose records are sampled for their size
COPIED_PER_S: Final = 100_000_000  # bytes, for an estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Refill:
    """The cost of filling a topic again, and the outcome. `offsets`: of the source's logs, at most
    one record each. `size`: bytes, an estimate. `fills`: offsets below the source's logs, which are
    filled first. `seconds`: an estimate. `outcome`: None if the cost was only shown."""

    link: str
    topic: str
    target: str
    partitions: int
    offsets: int
    size: int
    fills: int
    seconds: float
    outcome: DirectiveOutcome | None = None


def refill(settings: Settings, *, dry_run: bool = False, **asked: Unpack[Asked]) -> Refill:
    """Shows what it costs to fill a topic again, and requests it unless `dry_run`.

    Raises ConfigError for a topic that does not keep its offsets, or that several links mirror;
    CausewayError."""
    wanted = Wanted(**asked)
    if wanted.topic is None:
        raise ConfigError(_REFILL, cause="a topic is needed", remedy="--refill TOPIC")
    with clusters() as connect:
        links = choose(settings, wanted, connect, _REFILL)
        if len(links) > 1:
            names = ", ".join(each.name for each in links)
            cause = "several flows mirror it"
            raise ConfigError(_REFILL, names, cause, remedy="--link 'A->B'")
        (link,) = links
        target = link.decide_topic(wanted.topic).target_name
        if target is None or not link.preserves(wanted.topic):
            raise RefusedError(
                _REFILL,
                wanted.topic,
                f"{link.name} does not keep its offsets",
                remedy="set causeway.offsets = preserve, or name it in "
                "causeway.offsets.preserve.topics",
            )
        request = DirectiveRequest(link, f"restart --{_REFILL}", connect)
        cost = _cost(link, connect(link.source_admin), wanted.topic, target)
        topic_id = _id_of(request, wanted.topic, target)
        if dry_run:
            return cost
        wish = wanted.wish(RestartDirective, refill=topic_id)
        request.write(wish, lambda directives: plan_directive(directives, wish))
        deadline = None if wanted.wait_s is None else time.monotonic() + wanted.wait_s
        return replace(cost, outcome=request.outcome(deadline))


def _id_of(request: DirectiveRequest, topic: str, target: str) -> str:
    """Returns the id of the target topic. If it does not exist, the id of the former topic."""
    there = request.target.metadata([target]).topics.get(target)
    if there is not None and there.error is None and there.topic_id != NO_TOPIC_ID:
        return there.topic_id
    for at, progress in request.contents.partitions.items():
        for outlet in progress.outlets if at.topic == topic else ():
            return outlet.topic_id
    cause = f"{target} on {request.link.target.alias} does not exist"
    raise RefusedError(_REFILL, topic, cause, remedy="a driver that runs creates it and fills it")


def _cost(link: LinkSettings, source: Cluster, topic: str, target: str) -> Refill:
    found = source.metadata([topic]).topics[topic]
    if found.error is not None:
        raise found.error
    places = [TopicPartition(topic, number) for number in found.partitions]
    starts, ends = (offsets_at(source, places, when) for when in (EARLIEST, LATEST))
    logs = {
        at: (start, end)
        for at in places
        if isinstance(start := starts[at], int) and isinstance(end := ends[at], int)
    }
    offsets = sum(end - start for start, end in logs.values())
    filled = [at for at, (start, end) in logs.items() if end > start][:_SAMPLED]
    sizes = [bytes_an_offset(source, at, logs[at][0]) for at in filled]
    size = round(offsets * sum(sizes) / len(sizes)) if sizes else 0
    most = max((start for start, _ in logs.values()), default=0)
    return Refill(
        link=link.name,
        topic=topic,
        target=target,
        partitions=len(places),
        offsets=offsets,
        size=size,
        fills=sum(start for start, _ in logs.values()),
        seconds=size / COPIED_PER_S + most / preserving.FILLED_PER_S,
    )


def refill_json(found: Refill) -> dict[str, Any]:
    """Returns JSON for `--json`: stable keys."""
    outcome = found.outcome
    return picked(
        found,
        "link topic target partitions offsets size fills",
        seconds=round(found.seconds, 1),
        outcome=outcome and outcome_json(outcome),
    )
