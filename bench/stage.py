"""Two clusters of one broker each, for all measurements of a run.

Every run of a system gets a source alias and topics of its own, so that nothing an earlier one has
left on the target (positions, connector settings, progress) is found by a later one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from confluent_kafka.admin import AdminClient, NewTopic

from bench.target import Target
from causeway.errors import CausewayError
from tests.harness.kafka.certificates import create_certificates
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka.security import Security

TIMEOUT_S = 60.0
_USER = "bench"
_AT_ONCE = 100  # topics that a broker is asked to create or delete
_NONE: Mapping[str, str] = {}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one system: `alias` names the source in its file, `topic` is what it mirrors."""

    alias: str
    topic: str
    partitions: int

    @property
    def mirrored(self) -> str:
        return f"{self.alias}.{self.topic}"


class Stage:
    """Loads and readers go by the clusters' internal listeners, in plain text and past any proxy;
    the measured systems go by the others. `user`: as whom, where those ask."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, directory: Path, *, user: str = ""
    ) -> None:
        self.source = source
        self.target = target
        self.directory = directory
        self.user = user
        self._runs = 0

    @property
    def broker_pids(self) -> list[int]:
        brokers = [*self.source.brokers.values(), *self.target.brokers.values()]
        return [broker.pid for broker in brokers if broker.pid is not None]

    @contextmanager
    def run(
        self, workload: str, partitions: int, config: Mapping[str, str] | None = None
    ) -> Iterator[Run]:
        """A new source topic; it and its mirror are deleted in the end, to give the disk back."""
        self._runs += 1
        run = Run(alias=f"source{self._runs}", topic=workload, partitions=partitions)
        # Topics can't be told apart by their alias on the source, hence the number in the name.
        run = Run(alias=run.alias, topic=f"{workload}-{self._runs}", partitions=partitions)
        settings = {"file.delete.delay.ms": "1000", **(config or {})}
        create_topic(self.source.internal_bootstrap, run.topic, partitions, settings)
        try:
            yield run
        finally:
            delete_topic(self.source.internal_bootstrap, run.topic)
            delete_topic(self.target.internal_bootstrap, run.mirrored)

    def log_bytes(self, run: Run) -> int:
        """What the source's log holds of the topic."""
        return _log_bytes(self.source, run.topic)

    def stored_bytes(self, run: Run) -> int:
        """What the target's log holds of the mirror."""
        return _log_bytes(self.target, run.mirrored)

    def watch(self, run: Run) -> Target:
        return Target(self.target.internal_bootstrap, run.mirrored, run.partitions)


def _log_bytes(cluster: LocalCluster, topic: str) -> int:
    data = cluster.brokers[1].directory / "data"
    return sum(file.stat().st_size for file in data.glob(f"{topic}-*/*.log"))


@contextmanager
def staged() -> Iterator[Stage]:
    with (
        tempfile.TemporaryDirectory(prefix="causeway-bench-") as folder,
        started(LocalCluster("source"), LocalCluster("target")) as (source, target),
    ):
        yield Stage(source, target, Path(folder))


@contextmanager
def staged_secured() -> Iterator[Stage]:
    """With TLS 1.3 and SCRAM on both sides."""
    with tempfile.TemporaryDirectory(prefix="causeway-bench-") as folder:
        security = Security(
            protocol="SASL_SSL",
            mechanisms=("SCRAM-SHA-512",),
            users={_USER: "bench"},
            certificates=create_certificates(Path(folder) / "certificates"),
        )
        source = LocalCluster("source", security=security)
        with started(source, LocalCluster("target", security=security)) as (source, target):
            yield Stage(source, target, Path(folder), user=_USER)


@contextmanager
def started(*clusters: LocalCluster) -> Iterator[tuple[LocalCluster, ...]]:
    """They run until the end, and leave nothing behind."""
    try:
        start_all(list(clusters))
        yield clusters
    finally:
        for cluster in clusters:
            cluster.destroy()


def create_topic(bootstrap: str, topic: str, partitions: int, config: Mapping[str, str]) -> None:
    create_topics(bootstrap, [topic], partitions, config)


def create_topics(
    bootstrap: str, topics: Sequence[str], partitions: int = 1, config: Mapping[str, str] = _NONE
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    new = [
        NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config))
        for topic in topics
    ]
    for some in _batched(new, _AT_ONCE):
        for future in admin.create_topics(some, operation_timeout=TIMEOUT_S).values():
            future.result(TIMEOUT_S)
    # The controller has them; with thousands, the broker learns of the last ones seconds later.
    until = time.monotonic() + TIMEOUT_S
    while set(topics) - admin.list_topics(timeout=TIMEOUT_S).topics.keys():
        if time.monotonic() > until:
            raise CausewayError("create", f"{len(topics):,} topics", "the broker lacks some still")
        time.sleep(0.2)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Nothing happens if it is not there."""
    delete_topics(bootstrap, [topic])


def delete_topics(bootstrap: str, topics: Sequence[str]) -> None:
    """Those that are there."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    there = admin.list_topics(timeout=TIMEOUT_S).topics
    for some in _batched([topic for topic in topics if topic in there], _AT_ONCE):
        for future in admin.delete_topics(some, operation_timeout=TIMEOUT_S).values():
            future.result(TIMEOUT_S)


def _batched(of: Sequence[_T], size: int) -> Iterator[list[_T]]:
    for start in range(0, len(of), size):
        yield list(of[start : start + size])
