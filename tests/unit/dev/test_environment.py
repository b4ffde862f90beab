"""What `causeway dev` refuses before it starts anything."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from causeway.dev import DEFAULT_VERSION, BrokerPorts, Environment, LocalCluster, kafka_version
from causeway.errors import CausewayError, ConfigError
from causeway.formats import load_mm2
from tests.harness.kafka.mirror_maker import write_properties


def write_example(environment: Environment, file: Path, port: int = 1000) -> None:
    cluster = SimpleNamespace(bootstrap=f"127.0.0.1:{port},127.0.0.1:{port + 1}", brokers={1: None})
    clusters = dict.fromkeys("AB", cast(LocalCluster, cluster))
    environment._write_example(clusters, file)


def test_nothing_there(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "none")

    assert environment.status() == []
    assert environment.down() == []


@pytest.mark.parametrize(("clusters", "brokers"), [(0, 1), (27, 1), (2, 2)])
def test_numbers_that_cannot_be(tmp_path: Path, clusters: int, brokers: int) -> None:
    with pytest.raises(ConfigError):
        Environment(tmp_path).up(clusters, brokers)


def test_a_cluster_is_found_again_with_its_version(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    port = BrokerPorts(client=1, internal=2, controller=3)
    old = environment._cluster("A", 1, kafka_version("2.8"), {1: port})
    environment._save(
        {"A": old, "B": environment._cluster("B", 1, kafka_version("4.3"), {1: port})}
    )

    assert [each.kafka for each in environment.status()] == ["2.8.2", "4.3.0"]
    with pytest.raises(ConfigError, match=r"cluster A with Kafka 3\.3\.2: .* with 2\.8\.2"):
        environment.up(1, version=kafka_version("3.3"))


def test_a_cluster_of_before_there_was_a_choice(tmp_path: Path) -> None:
    ports = {"client": 1, "internal": 2, "controller": 3}
    state = {"clusters-1": {"A": {"1": ports}}}
    (tmp_path / "environment.json").write_text(json.dumps(state))

    assert [each.kafka for each in Environment(tmp_path).status()] == [DEFAULT_VERSION]


@pytest.mark.parametrize("edited", [False, True])
def test_a_file_that_a_person_wrote_or_edited_is_not_written_over(
    tmp_path: Path, edited: bool
) -> None:
    file = tmp_path / "mm2.properties"
    text = "clusters = X, Y\n"
    if edited:
        write_example(Environment(tmp_path), file)
        text = file.read_text().replace("A->B.topics = .*", "A->B.topics = orders")
    file.write_text(text)

    with pytest.raises(ConfigError, match=r"mm2\.properties: it is there already"):
        Environment(tmp_path / "state").up(example=file)

    assert file.read_text() == text
    assert not (tmp_path / "state").exists(), "nothing was started"


def test_the_example_is_ours_until_a_person_edits_it(tmp_path: Path) -> None:
    environment, file = Environment(tmp_path), Environment(tmp_path).example_file
    write_example(environment, file, port=1000)
    write_example(environment, file, port=2000)
    ours = file.read_text()
    assert "127.0.0.1:2000" in ours

    mine = ours.replace("A->B.topics = .*", "A->B.topics = orders")
    for text in (mine, ours.replace("127.0.0.1", "kafka.example"), ours + "tasks.max = 4\n"):
        file.write_text(text)
        write_example(environment, file, port=3000)
        assert file.read_text() == text


@pytest.mark.parametrize("name", ["", "none/mm2.properties", "file/mm2.properties"])
def test_a_place_that_cannot_be_written_to_is_refused_before_anything_starts(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=r"irectory"):
        Environment(tmp_path / "state").up(example=tmp_path / name)

    assert not (tmp_path / "state").exists(), "nothing was started"


@pytest.mark.parametrize("state", ["", "{}", "[]", '{"clusters-1": {"A": {"one": {}}}}'])
def test_unreadable_state(tmp_path: Path, state: str) -> None:
    (tmp_path / "environment.json").write_text(state)

    with pytest.raises(CausewayError, match=r"environment\.json.*by hand, and remove"):
        Environment(tmp_path).status()


def test_the_example_file_has_nothing_to_warn_of(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    write_example(Environment(tmp_path), file)

    assert load_mm2(file).warnings == ()


def test_property_file_keeps_backslashes_and_is_private(tmp_path: Path) -> None:
    write_properties(tmp_path / "file", {"topics": r"a\.b", "c": ""})

    assert (tmp_path / "file").read_text() == "topics = a\\\\.b\nc = \n"
    assert (tmp_path / "file").stat().st_mode & 0o077 == 0
