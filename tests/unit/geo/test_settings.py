"""Origin and destinations as a mirror's settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from causeway.config import Settings
from causeway.errors import ConfigError
from causeway.formats import load, to_properties
from causeway.geo.local_file import ClusterAddress, GeoFile
from causeway.geo.settings import as_properties, client_of, link_to, settings_of

PASSWORD = "hunter2-of-nobody"


@pytest.fixture
def client(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers = elsewhere:1\n"
        "security.protocol = SASL_PLAINTEXT\n"
        "sasl.mechanism = PLAIN\n"
        "sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="anna" password="{PASSWORD}";\n'
        "request.timeout.ms = 5000\n"
    )
    return path


@pytest.fixture
def found(tmp_path: Path, client: Path) -> GeoFile:
    return (
        GeoFile(path=tmp_path / "geo.json")
        .with_origin(ClusterAddress(name="shop", bootstrap="one:9092,two:9092", config=client))
        .with_destination(ClusterAddress(name="dc2", bootstrap="three:9092"))
        .with_destination(ClusterAddress(name="dc3", bootstrap="", config=client))
    )


def test_each_destination_has_a_link_that_mirrors_what_is_chosen_and_nothing_else(
    found: GeoFile,
) -> None:
    wanted = settings_of(found)
    assert [each.name for each in wanted.links] == ["shop->dc2", "shop->dc3"]
    assert wanted.heartbeat_links == ()
    for link in wanted.links:
        assert link.geo
        assert not link.decide_topic("orders").mirrored
        topics = frozenset({"orders", "team.internal", "__consumer_offsets"})
        chosen = replace(link, chosen=topics)
        assert chosen.decide_topic("orders").target_name == "shop.orders"
        assert chosen.decide_topic("team.internal").target_name == "shop.team.internal"
        assert not chosen.decide_topic("__consumer_offsets").mirrored
        assert link.replication_factor == -1
        assert link.control.sync_group_offsets_enabled
        assert not link.control.sync_topic_acls_enabled
        assert not link.control.emit_offset_syncs_enabled  # the origin is only read
    assert wanted.warnings == ()


def test_clients_are_as_their_files_say(found: GeoFile) -> None:
    link = link_to(found, "dc3")
    for client in (link.source, link.source_admin, link.target, link.target_admin):
        assert client.sasl is not None
        assert client.sasl.password.reveal() == PASSWORD
        assert client.request_timeout_ms == 5000
    assert link.source.bootstrap == (("one", 9092), ("two", 9092)), "said on the command line"
    assert link.target.bootstrap == (("elsewhere", 1),)
    assert link_to(found, "dc2").target.sasl is None
    assert client_of(found.known_origin()).bootstrap == link.source.bootstrap


def test_the_same_as_a_file_holds_no_secret_and_says_the_same(
    found: GeoFile, tmp_path: Path
) -> None:
    text = to_properties(as_properties(found))
    assert PASSWORD not in text
    file = tmp_path / "mm2.properties"
    file.write_text(text)
    assert _essence(load(file)) == _essence(settings_of(found))


def test_what_a_client_s_file_refers_to_is_referred_to(
    found: GeoFile, client: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEO_PASSWORD", PASSWORD)
    text = client.read_text()
    client.write_text(text.replace(PASSWORD, "${env:GEO_PASSWORD}"))
    file = tmp_path / "mm2.properties"
    file.write_text(to_properties(as_properties(found)))
    assert _essence(load(file)) == _essence(settings_of(found))
    client.write_text(text + "ssl.key.password = ${env:GEO_PASSWORD}\nclient.id = a-${env:HOME}\n")
    shown = as_properties(found)
    assert PASSWORD not in str([entry.value for entry in shown.values()])
    assert shown["shop.producer.client.id"].value == "a-${env:HOME}"
    for half in ("ssl.key.password = half${env:GEO_PASSWORD}", 'ssl.truststore.password = "x"${a}'):
        client.write_text(text + half + "\n")
        with pytest.raises(
            ConfigError, match="make each secret of the value a reference"
        ) as refused:
            as_properties(found)
        assert "half" not in str(refused.value)
    client.write_text(text.replace('username="anna"', 'username="${env:HOME}"'))
    with pytest.raises(ConfigError, match="make each secret of the value a reference") as refused:
        as_properties(found)
    assert PASSWORD not in str(refused.value)


def _essence(found: Settings) -> object:
    return found.links, found.heartbeat_links, found.run, found.spark


def test_a_run_can_have_keys_of_its_own_but_no_clusters(found: GeoFile, tmp_path: Path) -> None:
    more = tmp_path / "run.properties"
    more.write_text("causeway.http.port = 1234\nspark.master = local[2]\ngroups = team-.*\n")
    wanted = settings_of(found, more=more)
    assert wanted.run.http.port == 1234
    assert wanted.spark["spark.master"] == "local[2]"
    assert [each.pattern for each in wanted.links[0].control.groups] == ["team-.*"]
    more.write_text("clusters = A, B\ndc2.bootstrap.servers = x:1\n")
    with pytest.raises(ConfigError, match="2 problems"):
        settings_of(found, more=more)


def test_what_is_wrong_with_a_client_s_file_names_that_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.properties"
    path.write_text("sasl.jaas.config = ${env:NO_SUCH_VARIABLE_AT_ALL}\n")
    bad = GeoFile(path=tmp_path / "geo.json").with_origin(
        ClusterAddress(name="shop", bootstrap="one:1", config=path)
    )
    with pytest.raises(ConfigError, match=r"bad\.properties.*NO_SUCH_VARIABLE_AT_ALL"):
        settings_of(bad.with_destination(ClusterAddress(name="dc2", bootstrap="two:1")))
    with pytest.raises(ConfigError, match=r"bad\.properties.*NO_SUCH_VARIABLE_AT_ALL"):
        client_of(bad.known_origin())
    with pytest.raises(ConfigError, match="its address is missing"):
        client_of(ClusterAddress(name="shop", bootstrap=""))
