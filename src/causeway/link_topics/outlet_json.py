"""An outlet as part of a progress record's JSON, see entries.py."""

from __future__ import annotations

from typing import Any

from causeway.model import Pair
from causeway.relay.messages import Outlet


def outlet_json(outlet: Outlet) -> dict[str, Any]:
    return {
        "topic": outlet.topic,
        "partition": outlet.partition,
        "topic_id": outlet.topic_id,
        "producer_id": outlet.producer_id,
        "producer_epoch": outlet.producer_epoch,
        "source": outlet.pair.source,
        "target": outlet.pair.target,
        "sequence": outlet.pair.sequence,
        "exclusive": outlet.exclusive,
        "routed": outlet.routed,
        "claimed_at": outlet.claimed_at,
        "copied_to": outlet.copied_to,
        "earlier": outlet.earlier,
    }


def outlet_of(item: dict[str, Any]) -> Outlet:
    pair = Pair(source=item["source"], target=item["target"], sequence=item["sequence"])
    return Outlet(
        topic=item["topic"],
        partition=item["partition"],
        topic_id=item["topic_id"],
        producer_id=item["producer_id"],
        producer_epoch=item["producer_epoch"],
        pair=pair,
        exclusive=item["exclusive"],
        routed=item.get("routed"),
        claimed_at=item.get("claimed_at", -1),  # older ones lack these
        copied_to=item.get("copied_to", 0),
        earlier=tuple(item.get("earlier", ())),
    )
