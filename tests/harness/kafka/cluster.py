"""A local cluster for one test: it can be secured, put behind proxies, killed and frozen.

with LocalCluster("A") as cluster:
    produce_to(cluster.bootstrap)
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from causeway import dev
from causeway.dev import LOOPBACK, START_TIMEOUT_S, Broker, KafkaVersion, start_all
from tests.harness.kafka.security import PLAINTEXT, Security

__all__ = ["LocalCluster", "start_all"]

Advertised = Callable[[int, int], tuple[str, int]]
"""From a node id and its client port to the host and port that it tells clients to use."""


class LocalCluster(dev.LocalCluster):
    """`properties` are added to (and win over) every broker's; `advertised` lets a broker name a
    proxy's address instead of its own. Without `directory` the data lies in a temporary one, which
    `destroy` (and the end of a `with` block) removes."""

    def __init__(
        self,
        name: str,
        *,
        brokers: int = 1,
        version: KafkaVersion | None = None,
        directory: Path | None = None,
        security: Security = PLAINTEXT,
        properties: Mapping[str, str] | None = None,
        advertised: Advertised | None = None,
    ) -> None:
        self._temporary = directory is None
        directory = directory or Path(tempfile.mkdtemp(prefix=f"causeway-{name}-"))
        super().__init__(name, directory, brokers=brokers, version=version)
        self.security = security
        self.jvm_options = tuple(security.jvm_options())
        self.format_options = tuple(security.format_options(self.version))
        self._properties = dict(properties or {})
        for node, (_, port) in self.advertised.items():
            self.advertised[node] = advertised(node, port) if advertised else (security.host, port)

    @property
    def internal_bootstrap(self) -> str:
        """The same cluster in plain text and past any proxy, for tools that look after it."""
        return ",".join(f"{LOOPBACK}:{broker.ports.internal}" for broker in self.brokers.values())

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        start_all([self], timeout_s)

    def stop(self) -> None:
        """End every broker in good order; the data stays."""
        for node in self.brokers:
            self.resume(node)
        for process in self._processes():
            process.stop()

    def destroy(self) -> None:
        super().destroy()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self, node: int = 1) -> None:
        """SIGKILL one broker: no flush, no handing over."""
        self.brokers[node].kill()

    def pause(self, node: int = 1) -> None:
        """Hold one broker with SIGSTOP until `resume`: connections stay open, nothing answers."""
        self._send(node, signal.SIGSTOP)

    def resume(self, node: int = 1) -> None:
        self._send(node, signal.SIGCONT)

    def restart(self, node: int = 1, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start one broker again on its ports and data; it is stopped first if it runs. Returns
        once it serves."""
        broker = self.brokers[node]
        broker.stop()
        self.launch(broker, timeout_s)
        running = [each for each in self.brokers.values() if each.pid is not None]
        self.wait_for(lambda: broker.ready(len(running)), timeout_s)

    def broker_properties(self, broker: Broker) -> dict[str, str]:
        found = super().broker_properties(broker)
        protocols = found["listener.security.protocol.map"]
        found["listener.security.protocol.map"] = protocols.replace(
            "CLIENT:PLAINTEXT", f"CLIENT:{self.security.protocol}"
        )
        return found | self.security.broker_properties(self.version) | self._properties

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def _send(self, node: int, number: signal.Signals) -> None:
        if (process := self.brokers[node].process) is not None:
            process.send(number)
