"""A producer's figures for Prometheus. Needs the extra `metrics`.

from prometheus_client import REGISTRY
from causeway_producer.metrics import Collector
REGISTRY.register(Collector(producer))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as _Collector

_PREFIX = "causeway_producer_"


class HasStats(Protocol):
    def stats(self) -> dict[str, Any]: ...


class Collector(_Collector):
    """Figures of one `DualProducer` or `AsyncDualProducer`. The label `producer` has its name."""

    def __init__(self, producer: HasStats) -> None:
        self._producer = producer

    def describe(self) -> Iterator[Metric]:
        """Returns nothing, so that registering asks the producer nothing."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        stats = self._producer.stats()
        name, sides = stats["name"], stats["sides"]

        def metric(kind: Any, key: str, text: str, value: Any) -> Any:
            found = kind(_PREFIX + key, text, labels=["producer"])
            found.add_metric([name], value)
            return found

        def by_side(kind: Any, key: str, text: str, figure: str) -> Any:
            found = kind(_PREFIX + key, text, labels=["producer", "side"])
            for side, figures in sides.items():
                found.add_metric([name, side], figures[figure])
            return found

        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        for side in sides.values():
            side["direct"] = side["state"] == "direct"
        waiting = "records that wait for the policy's condition"
        yield metric(gauge, "unreported", waiting, stats["unreported"])
        yield metric(gauge, "spool_bytes", "the spool's size on disk", stats["spool_bytes"])
        yield metric(gauge, "spool_max_bytes", "its largest size", stats["spool_max_bytes"])
        damaged = "places of the spool that cannot be read"
        yield metric(gauge, "spool_damaged", damaged, len(stats["damage"]))
        changed = "how often the primary side changed"
        yield metric(counter, "failovers", changed, stats["failovers"])
        given = "records that its client has and the side has not answered"
        yield by_side(gauge, "in_flight", given, "in_flight")
        behind = "bytes of the spool that its client was not given yet"
        yield by_side(gauge, "behind_bytes", behind, "behind_bytes")
        yield by_side(gauge, "silent_seconds", "since it owes an answer", "silent_seconds")
        yield by_side(counter, "acknowledged", "records that it acknowledged", "acknowledged")
        yield by_side(counter, "refused", "records that it refused", "refused")
        yield by_side(gauge, "side_direct", "1 if it keeps up", "direct")
