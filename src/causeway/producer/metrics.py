"""A producer's figures for Prometheus.

from prometheus_client import REGISTRY
from causeway.producer.metrics import Collector
REGISTRY.register(Collector(producer))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as _Collector

_PREFIX = "causeway_producer_"
_GAUGES = {
    "unreported": "records that wait for what the policy asks for",
    "spool_bytes": "what the spool takes on the disk",
    "spool_max_bytes": "what it may take",
}
_OF_SIDES = {
    "in_flight": "records that its client has and the side has not answered",
    "behind_bytes": "of the spool, not given to its client yet",
    "silent_seconds": "since it owes an answer",
}
_COUNTED = {
    "acknowledged": "records that the side has acknowledged",
    "refused": "records that the side will not have",
}


class Watched(Protocol):
    def stats(self) -> dict[str, Any]: ...


class Collector(_Collector):
    """Of one `DualProducer` or `AsyncDualProducer`; its name is the label `producer`."""

    def __init__(self, producer: Watched) -> None:
        self._producer = producer

    def describe(self) -> Iterator[Metric]:
        """Nothing is asked when it is registered."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        stats = self._producer.stats()
        name = stats["name"]
        for key, text in _GAUGES.items():
            gauge = GaugeMetricFamily(_PREFIX + key, text, labels=["producer"])
            gauge.add_metric([name], stats[key])
            yield gauge
        damaged = GaugeMetricFamily(
            _PREFIX + "spool_damaged",
            "places of the spool that cannot be read",
            labels=["producer"],
        )
        damaged.add_metric([name], len(stats["damage"]))
        yield damaged
        failovers = CounterMetricFamily(
            _PREFIX + "failovers", "how often the primary side changed", labels=["producer"]
        )
        failovers.add_metric([name], stats["failovers"])
        yield failovers
        sides = stats["sides"]
        for key, text in _OF_SIDES.items():
            gauge = GaugeMetricFamily(_PREFIX + key, text, labels=["producer", "side"])
            for side, figures in sides.items():
                gauge.add_metric([name, side], figures[key])
            yield gauge
        for key, text in _COUNTED.items():
            counter = CounterMetricFamily(_PREFIX + key, text, labels=["producer", "side"])
            for side, figures in sides.items():
                counter.add_metric([name, side], figures[key])
            yield counter
        up = GaugeMetricFamily(
            _PREFIX + "side_direct", "1 where it keeps up", labels=["producer", "side"]
        )
        for side, figures in sides.items():
            up.add_metric([name, side], figures["state"] == "direct")
        yield up
