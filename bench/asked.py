"""Repeats measurements during 200 HTTP requests/s at the run's server, which must cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from bench import latency, throughput
from bench.asker import Asker
from bench.source import Shape
from bench.stage import Run, Stage
from causeway.dev import Ports

PER_S = 200
Say = Callable[[str], None]
Keys = Callable[[Run], Mapping[str, str]]


def measure_latency(
    stage: Stage, name: str, say: Say, *, warm_up_s: float, measured_s: float
) -> latency.Latency:
    with _asked(say) as keys:
        return latency.measure(
            stage, name, say, warm_up_s=warm_up_s, measured_s=measured_s, keys=keys
        )


def measure_throughput(
    stage: Stage, name: str, shape: Shape, say: Say, *, settle_s: float
) -> throughput.Throughput:
    with _asked(say) as keys:
        return throughput.measure(stage, name, shape, say, settle_s=settle_s, keys=keys)


@contextmanager
def _asked(say: Say) -> Iterator[Keys]:
    """From the run's start to its end."""
    ports = Ports()
    port = ports.take()
    asker = Asker(f"http://127.0.0.1:{port}", PER_S)
    try:
        with asker:
            yield lambda _: {"causeway.http.port": str(port)}
    finally:
        ports.release()
    say(f"over HTTP: {asker.asked}")
