"""Renewed certificates and passwords reach the clients of the driver and the lanes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from causeway.cluster import Cluster
from causeway.config import ClientSettings
from causeway.config.reading import clients_of
from causeway.daemon.clients import Clients
from causeway.daemon.reloading import FileDifference, Reloader
from causeway.formats import load
from tests.harness.config_files import mirror, write
from tests.harness.pems import make_pem


class WatchedCluster:
    """A client whose settings are looked at while another thread closes clients."""

    def __init__(self, cluster: Cluster, meanwhile: Callable[[], object]) -> None:
        self._cluster, self._meanwhile = cluster, meanwhile

    @property
    def settings(self) -> ClientSettings:
        other = threading.Thread(target=self._meanwhile, daemon=True)
        other.start()
        other.join(0.2)
        return self._cluster.settings


class Run:
    """A run's clients, and what it hears of them."""

    def __init__(self, file: Path) -> None:
        settings = load(file)
        self.clients = Clients()
        for role, each in clients_of(settings).items():
            self.clients.open(role, each)
        sides = self.clients.sides(settings.links[0])
        self.cluster, self.key = sides.source, sides.source_key
        self.heard: list[Mapping[str, ClientSettings]] = []
        self._reloader = Reloader(
            settings,
            self.clients,
            compare=lambda *_: FileDifference(),
            check=lambda _: None,
            apply=lambda _: (),
            on_renewed=lambda changed, _: self.heard.append(changed),
        )

    def look(self) -> None:
        """Twice: a file that has just changed may be half written."""
        self._reloader.turn()
        self._reloader.turn()

    @property
    def password(self) -> str:
        assert self.cluster.settings.sasl is not None
        return self.cluster.settings.sasl.password.reveal()


def test_a_new_password_reaches_all_clients_of_its_cluster(tmp_path: Path) -> None:
    run = Run(mirror(tmp_path))
    run.look()
    assert run.heard == []
    for number, word in enumerate(("second", "third"), 1):
        write(tmp_path / "password", word)
        run.look()
        assert run.password == word
        assert len(run.heard) == number
        assert run.heard[-1][run.key] == run.cluster.settings
        assert {each.alias for each in run.heard[-1].values()} == {"A"}
    assert run.clients.by_key[run.key] == run.cluster.settings


def test_what_cannot_be_used_yet_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A certificate comes before its key, and one file before the other."""
    run = Run(mirror(tmp_path))
    key, certificate = make_pem()
    other, _ = make_pem()
    before = run.cluster.settings
    write(tmp_path / "password", "second")
    for text in ("half of it", other + certificate):
        write(tmp_path / "own.pem", text)
        run.look()
        run.look()
        assert run.cluster.settings == before
    assert [record.message for record in caplog.records] == ["credentials not renewed"] * 2
    write(tmp_path / "own.pem", key + certificate)
    run.look()
    assert run.password == "second"
    assert run.cluster.settings.tls is not None
    assert run.cluster.settings.tls.cert_pem == certificate


def test_another_address_waits_for_a_new_start(tmp_path: Path) -> None:
    file = mirror(tmp_path)
    run = Run(file)
    write(tmp_path / "password", "second")
    write(file, file.read_text().replace("a:9092", "elsewhere:9092"))
    run.look()
    assert (run.password, run.heard) == ("first", [])
    assert run.cluster.settings.bootstrap == (("a", 9092),)


def test_clients_are_closed_while_another_thread_reads_their_settings(tmp_path: Path) -> None:
    clients = Clients()
    settings = load(mirror(tmp_path))
    for role, each in clients_of(settings).items():
        clients.open(role, each)
    opened: dict[str, Any] = vars(clients)["_open"]
    for key, cluster in opened.items():
        opened[key] = WatchedCluster(cluster, clients.close_unused)
    opened["unused"] = Cluster(settings.links[0].source)
    assert "unused" in clients.by_key
