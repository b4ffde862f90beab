"""Clusters that keep running after the command that started them: `causeway dev`.

    <state>/causeway/dev/environment.json    the clusters, their ports and versions
    <state>/causeway/dev/<name>/             their data, logs and process ids
    <state>/causeway/dev/A-to-B.properties   a MirrorMaker 2 file to try

`<state>` is XDG_STATE_HOME or ~/.local/state. Whether a broker runs is asked of the system each
time, and not stored in the file, so the file cannot be wrong about it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import string
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from causeway.dev.artifacts import locked
from causeway.dev.broker import LOOPBACK, BrokerPorts, brokers_known
from causeway.dev.cluster import LocalCluster, start_all
from causeway.dev.versions import KafkaVersion, kafka_version
from causeway.errors import CausewayError, ConfigError

NAMES = string.ascii_uppercase
_FORMAT = "clusters-1"  # the number grows when the file's format changes
_VERSIONS = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """`pid`: None if it does not run. `serving`: it answers and knows its whole cluster."""

    node: int
    pid: int | None
    serving: bool
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    name: str
    kafka: str
    bootstrap: str
    brokers: tuple[BrokerStatus, ...]


def state_directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "causeway" / "dev"


class Environment:
    """The clusters of one state directory. `up` and `down` of several processes take turns."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or state_directory()

    @property
    def example_file(self) -> Path:
        return self.directory / "A-to-B.properties"

    def up(
        self,
        clusters: int = 2,
        brokers: int | None = None,
        example: Path | None = None,
        version: KafkaVersion | None = None,
    ) -> list[ClusterStatus]:
        """Starts at least `clusters` clusters (A, B, C…), new ones with `brokers` nodes (default 1)
        of Kafka `version` (default kafka_version()). Does not change running brokers. Starts dead
        ones again with their data. Writes a file that mirrors A to B to `example`, or to
        `example_file`, unless a person has edited that file.

        Raises ConfigError if a cluster exists with another number of brokers or another version, or
        if `example` cannot be written, or was written or edited by a person."""
        if not 1 <= clusters <= len(NAMES):
            raise ConfigError("start", f"{clusters} clusters", f"between 1 and {len(NAMES)}")
        if brokers not in (None, 1, 3):
            raise ConfigError("start", f"{brokers} brokers a cluster", "1 or 3 are possible")
        if example is not None and not _is_ours(example):
            raise ConfigError(
                "write",
                str(example),
                "it is there already, and is not as we would write it",
                remedy="remove it, or name another",
            )
        wished = NAMES[:clusters]
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.directory / ".lock"):
            found = self._load()
            for name, cluster in found.items():
                if brokers is not None and len(cluster.brokers) != brokers:
                    wanted, there = f"{brokers} brokers", str(len(cluster.brokers))
                elif version is not None and cluster.version != version and name in wished:
                    wanted, there = f"Kafka {version}", str(cluster.version)
                else:
                    continue
                raise ConfigError(
                    "start",
                    f"cluster {name} with {wanted}",
                    f"it is there already, with {there}",
                    remedy="causeway dev down removes it",
                )
            for name in wished:
                if name not in found:
                    found[name] = self._cluster(name, brokers or 1, version or kafka_version())
            self._save(found)
            start_all(list(found.values()))
            self._write_example(found, example or self.example_file)
        return self.status()

    def down(self) -> list[str]:
        """Stops all clusters and removes their data. Returns their names."""
        if not self.directory.exists():
            return []
        with locked(self.directory / ".lock"):
            found = self._load()
            for cluster in found.values():
                cluster.destroy()
            for name in found:
                shutil.rmtree(self.directory / name, ignore_errors=True)
            self.example_file.unlink(missing_ok=True)
            self._state_file.unlink(missing_ok=True)
        return list(found)

    def status(self) -> list[ClusterStatus]:
        return [
            ClusterStatus(
                name=cluster.name,
                kafka=str(cluster.version),
                bootstrap=cluster.bootstrap,
                brokers=tuple(
                    BrokerStatus(
                        node=broker.node_id,
                        pid=(pid := broker.pid),
                        serving=pid is not None
                        and brokers_known(broker.ports.internal) >= len(cluster.brokers),
                        log=str(broker.log_file),
                    )
                    for broker in cluster.brokers.values()
                ),
            )
            for cluster in self._load().values()
        ]

    @property
    def _state_file(self) -> Path:
        return self.directory / "environment.json"

    def _cluster(
        self,
        name: str,
        brokers: int,
        version: KafkaVersion,
        ports: Mapping[int, BrokerPorts] | None = None,
    ) -> LocalCluster:
        directory = self.directory / name
        return LocalCluster(
            name, directory, brokers=brokers, version=version, detached=ports or True
        )

    def _load(self) -> dict[str, LocalCluster]:
        try:
            state = json.loads(self._state_file.read_text())
            versions = state.get(_VERSIONS, {})  # older files have none
            return {
                name: self._cluster(
                    name,
                    len(nodes),
                    kafka_version(versions.get(name)),
                    {int(node): BrokerPorts(**ports) for node, ports in nodes.items()},
                )
                for name, nodes in state[_FORMAT].items()
            }
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CausewayError(
                "read",
                str(self._state_file),
                f"{type(error).__name__}: {error}",
                remedy=f"stop the brokers by hand, and remove {self.directory}",
            ) from error

    def _save(self, clusters: Mapping[str, LocalCluster]) -> None:
        """Writes the file before anything starts, so that all processes are found again, even if
        this one dies."""
        nodes = {
            name: {node: asdict(broker.ports) for node, broker in cluster.brokers.items()}
            for name, cluster in clusters.items()
        }
        versions = {name: str(cluster.version) for name, cluster in clusters.items()}
        whole = self._state_file.with_suffix(".new")
        whole.write_text(json.dumps({_FORMAT: nodes, _VERSIONS: versions}, indent=2) + "\n")
        whole.replace(self._state_file)

    def _write_example(self, clusters: Mapping[str, LocalCluster], file: Path) -> None:
        if len(clusters) < 2 or not _is_ours(file):
            return
        source, target = (clusters[name] for name in "AB")
        copies = min(len(cluster.brokers) for cluster in (source, target))
        file.write_text(_EXAMPLE.format(a=source, b=target, copies=copies))


def _is_ours(file: Path) -> bool:
    """Returns whether the example may be written, because no person has edited it. Raises
    ConfigError if the file cannot be read."""
    try:
        text = file.read_text("latin-1")
    except FileNotFoundError:
        if not os.access(file.parent, os.W_OK):
            why = f"{file.parent} is no directory that may be written to"
            raise ConfigError("write", str(file), why) from None
        return True
    except OSError as error:
        raise ConfigError("write", str(file), error.strerror or str(error)) from None
    return re.fullmatch(_example_pattern(), text) is not None


def _example_pattern() -> str:
    """Returns a pattern for each text that _EXAMPLE gives, with any addresses and numbers."""
    address = rf"{re.escape(LOOPBACK)}:\d+"
    values = {"copies": "[13]", None: ""}
    return "".join(
        re.escape(text) + values.get(field, f"{address}(?:,{address})*")
        for text, field, _, _ in string.Formatter().parse(_EXAMPLE)
    )


_EXAMPLE = """\
# By `causeway dev up`: mirrors every topic of A to B, where `orders` is called `A.orders`.
# MirrorMaker 2's own format: connect-mirror-maker takes this file as well.
clusters = A, B
A.bootstrap.servers = {a.bootstrap}
B.bootstrap.servers = {b.bootstrap}

A->B.enabled = true
A->B.topics = .*

# Look for new topics every 5 s (the default is 10 minutes).
refresh.topics.interval.seconds = 5

# As many copies as the target has brokers.
replication.factor = {copies}
checkpoints.topic.replication.factor = {copies}
heartbeats.topic.replication.factor = {copies}
offset-syncs.topic.replication.factor = {copies}
offset.storage.replication.factor = {copies}
config.storage.replication.factor = {copies}
status.storage.replication.factor = {copies}
"""
