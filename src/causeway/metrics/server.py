"""GET /metrics, from the start of a run to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from causeway.daemon.status import Look
from causeway.errors import ConfigError
from causeway.metrics.collector import SnapshotCollector

Take = Callable[[Look], None]


@contextmanager
def served(host: str, port: int) -> Iterator[Take]:
    """Serves a snapshot at http://host:port/metrics to whoever asks while the block lasts, beside
    figures of this process (`process_*`); yields what to call with how to look.

    Each scrape has a thread of its own, and what goes wrong there is the scrape's affair. Raises
    ConfigError where the address can't be had.
    """
    collector = SnapshotCollector()
    registry = registry_of(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigError(
            "serve metrics",
            f"at {host}:{port}",
            error.strerror or str(error),
            remedy="choose another causeway.metrics.port or causeway.metrics.host",
        ) from error
    try:
        yield collector.take
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def registry_of(collector: SnapshotCollector) -> CollectorRegistry:
    """All that a scrape shows."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    return registry
