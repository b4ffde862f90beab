"""Transforms of a simulation: the real rules in the real direct worker, without Spark.

A record of a transformed topic is a JSON object: its name, a kind by which the rules drop some
records, and a card that the rules hash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest

from causeway.daemon import spark, staging
from causeway.relay.control import SECRET_VARIABLE
from causeway.relay.lane import direct
from causeway.transform import SealedConnection
from causeway.transform.stage import direct_worker
from tests.simulation import network, threads

KEYS: Final = {
    "causeway.transforms": "rules",
    "causeway.transform.rules.value.format": "json",
    "causeway.transform.rules.rules": (
        "drop record where value.$.kind is in ('dropped'); hash value.$.card with pepper"
    ),
    "causeway.transform.rules.secret.pepper": "0123456789abcdef0123456789abcdef",
}
_CARD: Final = "4000 1234"


def made_of(name: bytes, *, drops: bool) -> bytes:
    """The value of a record on the source."""
    kind = "dropped" if drops else "kept"
    return json.dumps({"name": name.decode(), "kind": kind, "card": _CARD}).encode()


def name_on_source(value: bytes) -> bytes | None:
    """None if the rules drop the record."""
    found = json.loads(value)
    return None if found["kind"] == "dropped" else found["name"].encode()


def name_on_target(value: bytes) -> bytes:
    """Says so if the rules have not treated the record."""
    found = json.loads(value)
    treated = found["kind"] == "kept" and len(found["card"]) > len(_CARD) != found["card"]
    return found["name"].encode() if treated else b"not treated: " + value


class DirectWorkerProcess:
    """In place of subprocess.Popen."""

    def __init__(
        self, command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], **_: Any
    ) -> None:
        del command
        kernel = threads.kernel()
        lane = kernel.here().process
        self._process = kernel.process(f"{lane.name}/direct", lane.host)
        sock: Any = network.inherit(pass_fds[0], self._process)
        connection = SealedConnection(sock, env[SECRET_VARIABLE], lane=False)
        self.pid = self._process.pid
        self._process.start(lambda: self._run(connection))

    def _run(self, connection: SealedConnection) -> None:
        try:
            direct_worker.run(connection)
        except ConnectionError:
            self._process.kill("its lane is gone")

    def kill(self) -> None:
        self._process.kill("its lane ends it")

    def wait(self) -> int:
        return 0


class NoStages:
    """In place of daemon.spark.Stages: the rules need no Spark."""

    def __init__(self, *_: object) -> None: ...

    def launch(self, key: str, *_: object) -> None:
        raise AssertionError(f"stage {key} is to start: a record needs Spark")

    def stop(self, _: str) -> None: ...

    def stop_all(self) -> None: ...


def patch_transforms(patch: pytest.MonkeyPatch) -> None:
    """Replaces the processes of direct workers, and Spark's stages."""
    patch.setattr(direct, "subprocess", SimpleNamespace(Popen=DirectWorkerProcess, DEVNULL=-3))
    patch.setattr(spark, "Stages", NoStages)
    patch.setattr(staging, "_AT_ONCE", 0)  # a stage starts when a record needs it, not before
